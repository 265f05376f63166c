"""What waits for the disk is bounded over all lanes, and leaves the count however it ends."""

from __future__ import annotations

import pytest

from tamis.errors import BusyError, LogError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.machine import Broker, BrokerLimits
from tamis.schema import Schema

CHANNELS = 3


@pytest.fixture(params=["count", "bytes"])
def broker(request):
    """It holds four messages of one byte; each channel is a lane."""
    limits = BrokerLimits(pending=4) if request.param == "count" else BrokerLimits(pending_bytes=4)
    broker = Broker(limits, lambda number: number)
    for number in range(1, CHANNELS + 1):
        broker.open(number, Language(Schema.of(n=int)))
    return broker


def fill(broker, *channels):
    for request, channel in enumerate(channels):
        broker.publish(request, channel, "p", [Draft("a", b"x")])


def free(broker, channel):
    """How many more it takes, judged by trying."""
    for count in range(10):
        try:
            broker.publish(100 + count, channel, "p", [Draft("a", b"x")])
        except BusyError:
            return count
    raise AssertionError("it takes any number")


def test_all_lanes_have_one_bound(broker):
    fill(broker, 1, 2, 2)
    broker.tick(1)
    assert free(broker, 3) == 1


def test_stored_messages_leave_the_count_once_they_are_judged(broker):
    fill(broker, 1, 2, 2)
    broker.tick(1)
    broker.committed(2)
    broker.match()
    assert free(broker, 3) == 3


def test_refused_messages_leave_the_count_with_those_behind_them(broker):
    fill(broker, 1)
    broker.tick(1)
    fill(broker, 1, 2)
    broker.not_committed(LogError("full"), 1)
    assert free(broker, 3) == 3


def test_a_lane_goes_on_after_a_commit_that_failed(broker):
    fill(broker, 1)
    broker.tick(1)
    broker.not_committed(LogError("full"), 1)
    broker.actions()
    fill(broker, 1)
    broker.tick(2)
    (commit,) = broker.actions()
    assert isinstance(commit, act.Commit)
    assert (commit.lane, [block.first for block in commit.blocks]) == (1, [1])


def test_messages_of_a_closed_channel_leave_the_count(broker):
    fill(broker, 1, 1, 2)
    broker.close(1)
    assert free(broker, 3) == 3


def test_duplicates_do_not_count(broker):
    for request in range(8):
        broker.publish(request, 1, "p", [Draft("a", b"x", 1)])
    assert free(broker, 3) == 3
