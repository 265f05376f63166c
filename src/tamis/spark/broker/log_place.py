"""Which channel of which broker, and how to reach it: told by options of Spark."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from tamis.client.remote import HERE, TIMEOUT, Remote
from tamis.client.rest import call, lines
from tamis.errors import InputError, UnreachableError

KNOWN = {
    *("path", "server", "channel", "token", "user", "password", "selector", "subjects", "start"),
    *("partition_rows", "max_rows", "lost", "subject", "subject_column", "checkpointlocation"),
    *("timeout", "ca"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A channel, with what its broker wants to know of the caller."""

    remotes: tuple[Remote, ...]  # routers of one network: if one cannot be reached, the next
    channel: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Place:
        """Raises InputError for options that are not known."""
        for name in options:
            if name.lower() not in KNOWN:
                shown = ", ".join(sorted(KNOWN - {"path", "checkpointlocation"}))
                raise InputError(f"format tamis has no option {name}; it has {shown}")
        channel = options.get("channel") or options.get("path")
        if not channel:
            raise InputError("format tamis needs a channel: .option('channel', NAME)")
        user, token = options.get("user"), options.get("token") or ""
        remotes = tuple(
            Remote.of(
                server,
                token=token,
                login=(user, options.get("password") or "") if user else None,
                timeout=_seconds(options.get("timeout")),
                ca=options.get("ca") or "",
            )
            for server in (options.get("server") or HERE).split(",")
        )
        return cls(remotes, channel)

    def about(self, epoch: str = "", upto: int = 0) -> dict[str, Any]:
        """The channel: its attributes, `first` and `readable` (one behind the last sequence), and
        the `epoch` of its log. With an epoch: up to where (`agreed`) it has what was read then."""
        asked = f"?{urlencode({'epoch': epoch, 'upto': upto})}" if epoch else ""
        found: dict[str, Any] = self._call("GET", self._path(asked))
        return found

    def messages(self, first: int, before: int, **more: str) -> Iterator[dict[str, Any]]:
        """Those with a sequence in the range, in order; {"lost": ...} stands for a hole."""
        query = {"first": str(first), "before": str(before), **{k: v for k, v in more.items() if v}}
        path = self._path(f"/messages?{urlencode(query)}")
        return map(json.loads, self._lines(path))

    def publish(self, publisher: str, messages: list[bytes]) -> None:
        """Store messages (lines of JSON) that were not stored before; returns after the commit."""
        path = self._path(f"/messages?{urlencode({'publisher': publisher})}")
        self._call("POST", path, b"\n".join(messages))

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        for remote in self.remotes[:-1]:
            with contextlib.suppress(UnreachableError):
                return call(remote, method, path, content)
        return call(self.remotes[-1], method, path, content)

    def _lines(self, path: str) -> Iterator[bytes]:
        """An answer that has begun is not begun again elsewhere: Spark does the task once more."""
        for remote in self.remotes:
            found = lines(remote, path)
            try:
                first = next(found, None)
            except UnreachableError:
                if remote is self.remotes[-1]:
                    raise
                continue
            if first is not None:
                yield first
                yield from found
            return

    def _path(self, rest: str) -> str:
        return f"/api/channels/{quote(self.channel, safe='')}{rest}"


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text else TIMEOUT
    except ValueError:
        raise InputError(f"timeout must be a number of seconds, not {text}") from None
