"""Which channel of which broker, and how to reach it: told by options of Spark."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from tamis.client.rest import call, lines
from tamis.errors import InputError

_HERE = "http://127.0.0.1:8216"
KNOWN = {
    *("path", "server", "channel", "token", "user", "password", "selector", "subjects", "start"),
    *("partition_rows", "max_rows", "lost", "subject", "subject_column", "checkpointlocation"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A channel, with what its broker wants to know of the caller."""

    server: str
    channel: str
    headers: tuple[tuple[str, str], ...]

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
        headers = {}
        if token := options.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        elif user := options.get("user"):
            secret = f"{user}:{options.get('password') or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(secret).decode()}"
        server = (options.get("server") or _HERE).rstrip("/")
        return cls(server, channel, tuple(headers.items()))

    def about(self) -> dict[str, Any]:
        """The channel: its attributes, `first` and `readable` (one behind the last sequence)."""
        found: dict[str, Any] = call(self.server, dict(self.headers), "GET", self._path(""), None)
        return found

    def messages(self, first: int, before: int, **more: str) -> Iterator[dict[str, Any]]:
        """Those with a sequence in the range, in order."""
        query = {"first": str(first), "before": str(before), **{k: v for k, v in more.items() if v}}
        path = self._path(f"/messages?{urlencode(query)}")
        return map(json.loads, lines(self.server, dict(self.headers), path))

    def publish(self, publisher: str, messages: list[bytes]) -> None:
        """Store messages (lines of JSON) that were not stored before; returns after the commit."""
        path = self._path(f"/messages?{urlencode({'publisher': publisher})}")
        call(self.server, dict(self.headers), "POST", path, b"\n".join(messages))

    def _path(self, rest: str) -> str:
        return f"/api/channels/{quote(self.channel, safe='')}{rest}"
