"""A range of a channel's log through a selector, for whatever protocol asks (figures 14 and 15)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

from tamis.pubsub.broker.judge import Judge
from tamis.pubsub.broker.records import Record
from tamis.pubsub.subject import Subject, SubjectFilter
from tamis.server.access import Caller
from tamis.server.channels import Open
from tamis.server.parts import Parts
from tamis.server.subscribing import Wish
from tamis.server.visits import Visit

_AT_ONCE = 16_384  # records that are read at a time


async def replayed(
    parts: Parts, visit: Visit, channel: Open, wish: Wish, first: int, end: int
) -> AsyncIterator[list[Record]]:
    """From sequence `first` until before `end`. The index of subjects tells which blocks need not
    be read. Rights are looked at for every piece: a replay may take long."""
    hub, number = parts.hub, channel.entry.number
    wanted = None
    if wish.subjects != ">":
        filter = SubjectFilter.parse(wish.subjects)
        known = await hub.in_reader(hub.log.subjects, number)
        wanted = {text for text in known if filter.matches(Subject.parse(text))}
    caller, judge = visit.caller, _judge(visit.caller, channel, wish)
    while first < end:
        if visit.caller != caller:
            caller = visit.caller
            parts.subscribing.check(caller, channel, wish)
            judge = _judge(caller, channel, wish)
        read = partial(hub.log.read, number, first, _AT_ONCE, wanted)
        last, hits = await hub.in_reader(_hits, read, judge, end)
        if not last:
            return
        first = last + 1
        yield hits


def _judge(caller: Caller, channel: Open, wish: Wish) -> Judge:
    judge = Judge(channel.live.language)
    judge.add(0, wish.subjects, wish.selector, caller.selector)
    return judge


def _hits(read: Callable[[], list[Record]], judge: Judge, end: int) -> tuple[int, list[Record]]:
    """The last sequence that was read (0: there was nothing), and what the judge lets pass."""
    records = read()
    if not records:
        return 0, []
    last = records[-1].sequence
    if last >= end:
        records = [r for r in records if r.sequence < end]
    return last, judge.hits(records)
