"""What was published: a range of the log through a selector."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tamis.errors import HoleError, TamisError
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.assembly.replays import replayed
from tamis.server.channels import Open
from tamis.server.frames import encode, line
from tamis.server.subscribing import Wish, moment
from tamis.server.web.answers import whole_number
from tamis.server.web.json_socket import told

_MOST = 10**17


async def replay(parts: Parts, caller: Caller, request: Request) -> Response:
    """The twin of `#.getCache`: from a sequence or a time, until a time, through a selector."""
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
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
    try:
        with parts.visits.during(caller) as visit:
            async for hits in replayed(parts, visit, channel, wish, first, end):
                if isinstance(hits, HoleError):
                    yield _lost(hits)
                    continue
                yield b"".join(map(line, hits[:limit]))
                limit -= len(hits)
                if limit <= 0:
                    return
    except TamisError as error:  # it began well: the status is told, so the last line says why
        yield encode({**told(error), "status": error.status}) + b"\n"


def _lost(hole: HoleError) -> bytes:
    """A line that stands for messages that cannot be read."""
    told = {"first": hole.first, "last": hole.last, "reason": hole.reason}
    return encode({"lost": told}) + b"\n"
