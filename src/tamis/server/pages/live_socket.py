"""The one WebSocket of a tab: figures once a second, and the messages that the page watches.

However fast messages come, a page gets at most four frames a second, with the newest of them and
the count of all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

import msgspec

from tamis.errors import AccessError, InputError, TamisError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.judge import Judge
from tamis.pubsub.broker.records import Record
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open
from tamis.server.frames import encode
from tamis.server.numbers import Whole
from tamis.server.subscribing import Wish
from tamis.server.web.frame_reader import POLICY
from tamis.server.web.raw_socket import RawSocket
from tamis.server.web.routes.overview import totals

FRAME = 0.25  # seconds between two frames
ROWS = 50  # messages of one frame
LARGE = 4_000  # bytes of a message that is not sent along
MAX_REQUEST = 1 << 17  # bytes
_BEHIND = 2_000  # messages that a page may have missed, and still gets
_MANY = 500  # channels whose figures are added up once a second; more of them less often


class Watch(msgspec.Struct, forbid_unknown_fields=True):
    """What the page shows: messages of a channel. `misses`: also those that do not match; `after`:
    the last sequence that the page knows of, so that nothing is missing in between."""

    channel: str = ""
    selector: str = ""
    subjects: str = ">"
    misses: bool = False
    after: Whole = 0
    number: int = 0  # comes back with each row of it


class LiveSocket:
    def __init__(self, parts: Parts, caller: Caller, raw: RawSocket) -> None:
        self.parts, self._raw = parts, raw
        self._visit = parts.visits.enter(caller, self._send_away)
        self._view: _Watching | None = None
        self._wanted: Watch | None = None
        self._asked = asyncio.Event()
        tasks = (self._tell_figures(), self._follow())
        self._tasks = [parts.hub.keep(task) for task in tasks]
        raw.attach(self._take, lambda: None)

    def leave(self) -> None:
        """Whoever was here has logged out."""
        self._raw.end(POLICY)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._look_away()
        self.parts.visits.leave(self._visit)

    def send(self, content: dict[str, Any]) -> None:
        if self._raw.ready:  # a tab that does not keep up misses frames, not the broker its memory
            self._raw.send_text(encode(content))

    def _send_away(self, error: AccessError) -> None:
        self.send({"type": "error", "error": str(error), "number": 0})
        self._raw.end(POLICY)

    def _take(self, data: bytes) -> None:
        try:
            if len(data) > MAX_REQUEST:
                raise InputError("the request is too long")
            self._wanted = msgspec.json.decode(data, type=Watch)
            self._asked.set()
        except (msgspec.MsgspecError, UnicodeDecodeError, InputError) as error:
            self.send({"type": "error", "error": str(error), "number": 0})

    async def _follow(self) -> None:
        """Only what was asked for last is begun."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            wanted = self._wanted
            assert wanted is not None
            self._look_away()
            if wanted.channel:
                try:
                    self._view = _Watching(self, self._visit.caller, wanted)
                    await self._view.begin()
                except TamisError as error:
                    self._look_away()
                    self.send({"type": "error", "error": str(error), "number": wanted.number})

    def _look_away(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            view.close()

    async def _tell_figures(self) -> None:
        while self._visit.error is None:
            caller = self._visit.caller
            channels = self.parts.channels.visible(caller)
            state = "refusing" if self.parts.hub.problem else "ok"
            self.send({"type": "state", "state": state, **totals(caller, channels)})
            await asyncio.sleep(max(1.0, len(channels) / _MANY))


class _Watching:
    """A session of the broker for as long as a page looks at something."""

    def __init__(self, socket: LiveSocket, caller: Caller, watch: Watch) -> None:
        self._socket, self._caller, self._watch = socket, caller, watch
        self._channel: Open = socket.parts.channels.get(caller, watch.channel)
        self._rows: deque[Record] = deque(maxlen=ROWS)
        self._count = 0
        self._judge: Judge | None = None
        self._more = asyncio.Event()
        self._session = socket.parts.hub.connect(self._sink)
        self._visit = socket.parts.visits.enter(caller, lambda _: None, self._session)
        self._task: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        parts, watch = self._socket.parts, self._watch
        near = 0 < watch.after >= self._channel.live.next - _BEHIND
        wish = Wish(watch.selector, watch.subjects, watch.after + 1 if near else "now")
        parts.subscribing.check(self._caller, self._channel, wish)
        if watch.misses:
            self._judge = Judge(self._channel.live.language)
            self._judge.add(0, watch.subjects, watch.selector, self._caller.selector)
            wish.selector = ""
        await parts.subscribing.live(self._caller, self._channel, self._session, "live", wish)
        self._task = parts.hub.keep(self._tell())
        self._socket.send({"type": "watching", "number": watch.number})

    def close(self) -> None:
        parts = self._socket.parts
        if self._task is not None:
            self._task.cancel()
        parts.visits.leave(self._visit)
        parts.hub.disconnect(self._session)

    def _sink(self, action: act.ToSession) -> None:
        if isinstance(action, act.Deliver):
            self._rows.extend(record for _, record in action.messages[-ROWS:])
            self._count += len(action.messages)
            self._socket.parts.hub.written(self._session, len(action.messages))
            self._more.set()
        elif isinstance(action, act.Ended):
            error = {"type": "error", "error": str(action.error), "number": self._watch.number}
            self._socket.send(error)

    async def _tell(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            rows, count = list(self._rows), self._count
            self._rows.clear()
            self._count = 0
            hits = await self._hits(rows)
            self._socket.send({"type": "rows", "number": self._watch.number, "count": count,
                               "rows": [_row(record, hits) for record in rows]})  # fmt: skip
            await asyncio.sleep(FRAME)

    async def _hits(self, rows: list[Record]) -> set[int] | None:
        """The sequences of those that match; None: all do."""
        if self._judge is None:
            return None
        with contextlib.suppress(TamisError):
            found = await self._socket.parts.questions.run(
                self._caller.name, self._judge.hits, rows
            )
            return {record.sequence for record in found}
        return set()


def _row(record: Record, hits: set[int] | None) -> dict[str, Any]:
    large = len(record.body) > LARGE
    return {
        "sequence": record.sequence,
        "time": record.time,
        "subject": record.subject,
        "attributes": None if large else msgspec.Raw(record.body),
        "hit": hits is None or record.sequence in hits,
    }
