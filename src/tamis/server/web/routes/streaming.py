"""Live messages as server-sent events, of a channel or of a derived space.

The id of an event says how far the stream has come; a client that comes back sends it as
`Last-Event-ID`, and the stream goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tamis.errors import TamisError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.frames import arrived, encode, piece
from tamis.server.numbers import LARGEST, sequence_or_text, whole
from tamis.server.subscribing import Wish

_SILENCE = 15.0  # seconds after which an event stream shows that it lives
Begin = Callable[[int], Awaitable[dict[str, Subscription]]]


async def live(parts: Parts, caller: Caller, request: Request) -> Response:
    """`Last-Event-ID` goes on behind the message that it names."""
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
    wish = _wish(request)
    last = request.headers.get("last-event-id", "")
    if last:
        wish.start = _following("last-event-id", last)
    parts.subscribing.check(caller, channel, wish)
    await parts.subscribing.start(channel, wish)  # an error must come before the stream

    async def begin(session: int) -> dict[str, Subscription]:
        return {"": await parts.subscribing.live(caller, channel, session, "live", wish)}

    return _stream(parts, caller, begin)


async def live_space(parts: Parts, caller: Caller, request: Request) -> Response:
    """`Last-Event-ID` has a place in each source channel."""
    place = f"{request.path_params['f']}/{request.path_params['x']}"
    wish = _wish(request)
    last = (part.rpartition(":") for part in request.headers.get("last-event-id", "").split())
    starts = {channel: _following("last-event-id", sequence) for channel, _, sequence in last}
    parts.spaces.check(caller, place, wish, starts)

    async def begin(session: int) -> dict[str, Subscription]:
        return await parts.spaces.subscribe(caller, place, session, "live", wish, starts, False)

    return _stream(parts, caller, begin)


def _wish(request: Request) -> Wish:
    query = request.query_params
    start = sequence_or_text(query.get("start", "now"))
    return Wish(query.get("selector", ""), query.get("subjects", ">"), start)


def _following(name: str, text: str) -> int:
    return min(whole(name, text) + 1, LARGEST)


def _stream(parts: Parts, caller: Caller, begin: Begin) -> Response:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    events = _events(parts, caller, begin)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(parts: Parts, caller: Caller, begin: Begin) -> AsyncIterator[bytes]:
    waiting: deque[act.ToSession | TamisError] = deque()
    more = asyncio.Event()

    def sink(action: act.ToSession | TamisError) -> None:
        waiting.append(action)
        more.set()

    session = parts.hub.connect(sink)
    visit = parts.visits.enter(caller, sink, session)
    try:
        made = await begin(session)
        places = {channel: one.cursor for channel, one in made.items()}
        yield b": connected\n\n"
        while True:
            while waiting:
                action = waiting.popleft()
                if isinstance(action, TamisError | act.Ended):
                    yield _error(action if isinstance(action, TamisError) else action.error)
                    return
                yield _event(action, places)
                if isinstance(action, act.Deliver):
                    parts.hub.written(session, len(action.messages))
            more.clear()
            try:
                await asyncio.wait_for(more.wait(), _SILENCE)
            except TimeoutError:
                yield b": still here\n\n"
    except TamisError as error:  # rights went while it began
        yield _error(error)
    finally:
        parts.visits.leave(visit)
        parts.hub.disconnect(session)


def _error(error: TamisError) -> bytes:
    return b"event: ended\ndata: %b\n\n" % encode({"error": str(error), "status": error.status})


def _event(action: act.Deliver | act.Lost | act.Taken, places: dict[str, int]) -> bytes:
    if isinstance(action, act.Lost):
        told = {"first": action.first, "last": action.last, "reason": action.reason}
        return b"event: lost\ndata: %b\n\n" % encode(told)
    if isinstance(action, act.Taken):
        return b""
    return b"".join(_message(one, record, places) for one, record in action.messages)


def _message(one: Subscription, record: Record, places: dict[str, int]) -> bytes:
    """Several messages come of one by several paths: the last of them has the id."""
    if one.shape is None:
        return b"id: %d\n%b" % (record.sequence, _data(piece(record)))
    shape = one.shape
    found = [_data(arrived(shape.channel, path, made)) for path, made in shape.made(record)]
    places[shape.channel] = record.sequence
    if found:
        told = " ".join(f"{channel}:{sequence}" for channel, sequence in places.items())
        found[-1] = b"id: %b\n%b" % (told.encode(), found[-1])
    return b"".join(found)


def _data(piece: bytes) -> bytes:
    return b"data: {%b\n\n" % piece.replace(b"\n", b" ").replace(b"\r", b" ")
