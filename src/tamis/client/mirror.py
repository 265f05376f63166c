"""What a channel's subscribers ask for, as a table of subscriptions that Spark jobs can follow."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

from tamis.client.remote import HERE, TIMEOUT, Remote
from tamis.client.rest import call
from tamis.errors import BusyError, DeadlineError, TamisError, UnreachableError
from tamis.pubsub.subjects.subject import SubjectFilter
from tamis.pubsub.subjects.typecodes import FORMS, named
from tamis.schema import Schema, Type
from tamis.table import Subscriptions

SUBJECT = "_subject"  # the attribute by which a table knows the subject of a message
_PAGE = 1_000
_PASSING = UnreachableError, DeadlineError, BusyError


class Mirror:
    """Follows the subscriptions of a channel; `table` has them.

    The table has the schema, semantics and dialect of the channel, and one attribute more:
    `_subject`, as the Spark source of a channel has it. Subject filters become conditions on it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        channel: str,
        *,
        server: str = HERE,
        token: str = "",
        timeout: float = TIMEOUT,
        ca: str | os.PathLike[str] = "",
    ) -> None:
        self.remote, self.channel = Remote.of(server, token=token, timeout=timeout, ca=ca), channel
        told = self._get("")
        types = {name: FORMS[named(kind)].type for name, kind in told["attributes"].items()}
        schema = Schema.of({**types, SUBJECT: Type.STRING}) if types else None
        self.table = Subscriptions.create(
            folder,
            schema=schema,
            semantics=told["semantics"],
            dialect=told["dialect"],
            ids="string",
        )

    def update(self) -> int:
        """Look once; what is new, changed and gone becomes one version. Returns its number.

        A subscription that the table cannot hold is put aside (`table.problems()` says why), such
        as one that asks for an attribute that the channel does not declare.
        """
        wanted = {one["name"]: (_selector(one), one["principal"]) for one in self._all()}
        held = {str(id): self.table[id] for id in self.table}
        refused = {one["id"]: one["selector"] for one in self.problems()}
        with self.table.change() as change:
            for id in (held.keys() | refused.keys()) - wanted.keys():
                change.remove(id)
            for id, (selector, principal) in wanted.items():
                if held.get(id) == (selector, principal) or refused.get(id) == selector:
                    continue
                if id in held or id in refused:
                    change.remove(id)
                change.add_many([(id, selector, principal)], "report")
        return self.table.version

    def problems(self) -> list[dict[str, str]]:
        """The `id`, `selector` and `reason` of each subscription that the table cannot hold."""
        return list(self.table.problems().to_pylist())

    def follow(
        self,
        every: float = 5.0,
        *,
        stop: threading.Event | None = None,
        tell: Callable[[int], None] = lambda version: None,
        failed: Callable[[TamisError], None] = lambda error: None,
    ) -> None:
        """Look every so many seconds, until `stop` is set; `tell` each new version.

        The first look must succeed. Later ones may meet a broker that is being restarted, is busy
        or fails: then `failed` gets the error, and the next look comes in its time.
        """
        ended, last = stop or threading.Event(), -1
        while True:
            try:
                version = self.update()
            except TamisError as error:
                if last < 0 or not (isinstance(error, _PASSING) or error.status >= 500):
                    raise
                failed(error)
            else:
                if version != last:
                    tell(version)
                    last = version
            if ended.wait(every):
                return

    def _all(self) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            page = self._get(f"/subscriptions?{urlencode({'after': after, 'limit': _PAGE})}")
            yield from page["subscriptions"]
            if not page["more"]:
                return
            after = page["subscriptions"][-1]["name"]

    def _get(self, rest: str) -> Any:
        path = f"/api/channels/{quote(self.channel, safe='')}{rest}"
        return call(self.remote, "GET", path)


def _selector(one: dict[str, Any]) -> str:
    """The selector for the table. Dialect jms has none for wildcards: the table refuses it."""
    subjects, selector = one["subjects"], str(one["selector"])
    if subjects == ">":
        return selector
    filter = SubjectFilter.parse(subjects)
    asked = f"{SUBJECT} = {_text(subjects)}"
    if filter.wild:
        asked = f"{SUBJECT} MATCHES {_text(_pattern(filter))}"
    return f"({selector}) AND {asked}" if selector.strip() else asked


def _pattern(filter: SubjectFilter) -> str:
    """`quotes.*` as ^quotes[.][^.]+$; `>` stands for one field or more."""
    fields = filter.fields[:-1] if filter.open else filter.fields
    inner = "[.]".join("[^.]+" if field == "*" else re.escape(field) for field in fields)
    more = "[.].+" if inner else ".+"
    return f"^{inner}{more if filter.open else ''}$"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
