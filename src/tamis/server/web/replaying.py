"""What was published: a range of the log through a selector, and a live stream of events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tamis.pubsub.broker import actions as act
from tamis.server.access import Caller
from tamis.server.channels import Open
from tamis.server.frames import line, piece
from tamis.server.parts import Parts
from tamis.server.replays import replayed
from tamis.server.subscribing import Wish, moment
from tamis.server.web.http import whole_number

_MOST = 10**17
_SILENCE = 15.0  # seconds after which an event stream shows that it lives


async def replay(parts: Parts, caller: Caller, request: Request) -> Response:
    """The twin of `#.getCache`: from a sequence or a time, until a time, through a selector."""
    channel = parts.channels.get(caller, request.path_params["c"])
    query = request.query_params
    wish = Wish(query.get("selector", ""), query.get("subjects", ">"))
    parts.subscribing.check(caller, channel, wish)
    first = whole_number(request, "first", 1, _MOST)
    number, log = channel.entry.number, parts.hub.log
    if "since" in query:
        first = max(first, await parts.hub.in_reader(log.find, number, moment(query["since"])))
    until = await parts.hub.in_reader(log.bounds, number)
    end = min(until[1], channel.live.matched + 1)
    end = min(end, whole_number(request, "before", _MOST, _MOST))
    if "until" in query:
        end = min(end, await parts.hub.in_reader(log.find, number, moment(query["until"])))
    limit = whole_number(request, "limit", _MOST, _MOST)
    lines = _replayed(parts, caller, channel, wish, first, end, limit)
    return StreamingResponse(lines, media_type="application/x-ndjson")


async def _replayed(
    parts: Parts, caller: Caller, channel: Open, wish: Wish, first: int, end: int, limit: int
) -> AsyncIterator[bytes]:
    async for hits in replayed(parts.hub, caller, channel, wish, first, end):
        yield b"".join(map(line, hits[:limit]))
        limit -= len(hits)
        if limit <= 0:
            return


async def live(parts: Parts, caller: Caller, request: Request) -> Response:
    """Server-sent events. `Last-Event-ID` goes on behind the message that it names."""
    channel = parts.channels.get(caller, request.path_params["c"])
    query = request.query_params
    start: str | int = query.get("start", "now")
    start = int(start) if isinstance(start, str) and start.isdigit() and len(start) < 19 else start
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdigit() and len(last) < 19:
        start = int(last) + 1
    wish = Wish(query.get("selector", ""), query.get("subjects", ">"), start)
    parts.subscribing.check(caller, channel, wish)
    await parts.subscribing.start(channel, wish)  # an error must come before the stream
    stream = _events(parts, caller, channel, wish)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _events(parts: Parts, caller: Caller, channel: Open, wish: Wish) -> AsyncIterator[bytes]:
    waiting: deque[act.Deliver | act.Lost | act.Taken] = deque()
    more = asyncio.Event()

    def sink(action: act.Deliver | act.Lost | act.Taken) -> None:
        waiting.append(action)
        more.set()

    session = parts.hub.connect(sink)
    try:
        await parts.subscribing.live(caller, channel, session, "live", wish)
        yield b": connected\n\n"
        while True:
            while waiting:
                action = waiting.popleft()
                yield _event(action)
                if isinstance(action, act.Deliver):
                    parts.hub.written(session, len(action.messages))
            more.clear()
            try:
                await asyncio.wait_for(more.wait(), _SILENCE)
            except TimeoutError:
                yield b": still here\n\n"
    finally:
        parts.hub.disconnect(session)


def _event(action: act.Deliver | act.Lost | act.Taken) -> bytes:
    if isinstance(action, act.Lost):
        return b'event: lost\ndata: {"first":%d,"last":%d}\n\n' % (action.first, action.last)
    if isinstance(action, act.Taken):
        return b""
    return b"".join(
        b"id: %d\ndata: {%b\n\n"
        % (record.sequence, piece(record).replace(b"\n", b" ").replace(b"\r", b" "))
        for _, record in action.messages
    )
