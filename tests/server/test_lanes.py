"""Logs with more than one lane: a channel that is slow to store stops no other."""

from __future__ import annotations

import asyncio
import threading

import pytest

from log.memory_log import MemoryLog
from tamis.errors import LogError
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import Language
from tamis.registry import SqliteRegistry
from tamis.schema import Schema
from tamis.server.hub import Hub, settle


class SlowLog(MemoryLog):
    """Each channel is a lane; appends to channel 1 wait, and may be lost on their way back."""

    def __init__(self):
        super().__init__()
        self.going, self.lost, self.unreadable = threading.Event(), False, 0

    def lane(self, channel):
        return channel

    def append(self, blocks):
        assert len({block.channel for block in blocks}) == 1
        if blocks[0].channel == 1:
            assert self.going.wait(20)
        super().append(blocks)
        if self.lost:
            raise TimeoutError("no answer")

    def bounds(self, channel):
        if self.unreadable:
            self.unreadable -= 1
            raise LogError("cannot be read now")
        return super().bounds(channel)


@pytest.fixture
def story(tmp_path):
    def run(work):
        async def main():
            log = SlowLog()
            hub = Hub(log, SqliteRegistry(tmp_path / "registry.db"))
            hub.start()
            for number in (1, 2):
                hub.broker.open(number, Language(Schema.of(price=float)))
            try:
                await work(hub, log)
            finally:
                log.going.set()
                await hub.stop()

        asyncio.run(main())

    return run


def publish(hub, channel, count=1):
    future = hub.loop.create_future()
    drafts = [Draft("q", b"{}") for _ in range(count)]
    hub.publish(channel, "p", drafts, lambda found: settle(future, found))
    return future


def test_a_slow_channel_stops_no_other(story):
    async def work(hub, log):
        slow = publish(hub, 1)
        for expected in range(1, 6):
            assert await asyncio.wait_for(publish(hub, 2), 5) == [expected]
        assert not slow.done()
        later = publish(hub, 1)
        log.going.set()
        assert await asyncio.wait_for(asyncio.gather(slow, later), 5) == [[1], [2]]

    story(work)


def test_an_answer_that_was_lost_is_looked_for_in_the_log(story):
    """What is stored is acknowledged, and nothing is refused before that is known."""

    async def work(hub, log):
        log.going.set()
        log.lost, log.unreadable = True, 2
        assert await asyncio.wait_for(publish(hub, 1), 10) == [1]
        assert await asyncio.wait_for(publish(hub, 2), 10) == [1]
        assert (hub.problem, log.bounds(1)) == ("", (1, 2))

    story(work)
