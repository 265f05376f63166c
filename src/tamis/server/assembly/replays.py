"""A range of a channel's log through a selector, for whatever protocol asks (figures 14 and 15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from tamis.errors import HoleError, LogError
from tamis.log import Log
from tamis.pubsub.broker.actions import TRIMMED
from tamis.pubsub.broker.judge import Judge
from tamis.pubsub.broker.machine import failed
from tamis.pubsub.broker.records import Record
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open
from tamis.server.hub import Fetch
from tamis.server.subscribing import Wish
from tamis.server.visits import Visit

_PATIENCE = 10.0  # seconds that a replay waits for another router
_MANY = 1_000  # subjects that are looked up one by one
_AT_ONCE = 16_384  # records that are read at a time
_TOGETHER = 256  # of them that are handed over at a time
_TOGETHER_BYTES = 1 << 18  # and their bytes


async def replayed(
    parts: Parts, visit: Visit, channel: Open, wish: Wish, first: int, end: int
) -> AsyncIterator[list[Record] | HoleError]:
    """From sequence `first` until before `end`, a bounded piece at a time; a hole in the log takes
    the place of what was there. The index of subjects tells which blocks need not be read. Rights
    are looked at before every read: a replay may take long."""
    hub, number = parts.hub, channel.entry.number
    if (fetch := hub.fetching.get(number)) is not None:
        async for found in _fetched(parts, visit, channel, wish, fetch, first, end):
            yield found
        return
    wanted = await hub.in_reader(_wanted, hub.log, number, wish.subjects)
    caller, judge = visit.caller, _judge(visit.caller, channel, wish)
    while first < end:
        if visit.caller != caller:
            caller = visit.caller
            parts.subscribing.check(caller, channel, wish)
            judge = _judge(caller, channel, wish)
        read = partial(hub.log.read, number, first, _AT_ONCE, wanted)
        try:
            last, hits = await hub.in_reader(_hits, read, judge, end)
        except HoleError as hole:
            if hole.first < end:
                yield hole
            first = hole.last + 1
            continue
        except Exception as error:
            hub.watch.fault(f"a replay of channel {number}", error)
            raise failed(error) from None
        if not last:
            return
        first = last + 1
        for piece in _pieces(hits):
            yield piece
            await asyncio.sleep(0)  # a peer that reads fast must not keep others from their turn


async def _fetched(
    parts: Parts, visit: Visit, channel: Open, wish: Wish, fetch: Fetch, first: int, end: int
) -> AsyncIterator[list[Record] | HoleError]:
    """The same at a router whose copy has only what is wanted there: from above."""
    while first < end:
        parts.subscribing.check(visit.caller, channel, wish)
        filters = [(wish.subjects, wish.selector)]
        try:
            async with asyncio.timeout(_PATIENCE):
                got = await fetch(first, end - 1, filters, visit.caller.selector)
        except TimeoutError:
            raise LogError("the home of the channel cannot be reached now", "try again") from None
        if got.lost:
            hole = HoleError("", "", first, got.last)
            hole.reason = TRIMMED
            yield hole
        for piece in _pieces(list(got.records)):
            yield piece
        first = got.last + 1


def _wanted(log: Log, channel: int, subjects: str) -> set[str] | None:
    """The subjects that the filter lets pass; None if there are so many that looking each of them
    up costs more than reading all."""
    if subjects == ">":
        return None
    filter, found = SubjectFilter.parse(subjects), set[str]()
    if not filter.wild:
        return {subjects}
    for text in log.subjects(channel):
        if filter.matches(Subject.parse(text)):
            found.add(text)
            if len(found) > _MANY:
                return None
    return found


def _judge(caller: Caller, channel: Open, wish: Wish) -> Judge:
    judge = Judge(channel.live.language)
    judge.add(0, wish.subjects, wish.selector, caller.selector)
    return judge


def _pieces(records: list[Record]) -> Iterator[list[Record]]:
    """Few enough, and small enough, to be sent in one go."""
    piece, size = list[Record](), 0
    for record in records:
        piece.append(record)
        size += len(record.body)
        if len(piece) == _TOGETHER or size > _TOGETHER_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _hits(read: Callable[[], list[Record]], judge: Judge, end: int) -> tuple[int, list[Record]]:
    """The last sequence that was read (0: there was nothing), and what the judge lets pass."""
    records = read()
    if not records:
        return 0, []
    last = records[-1].sequence
    if last >= end:
        records = [r for r in records if r.sequence < end]
    return last, judge.hits(records)
