"""Very many subscriptions that leave at once are let go in slices: what happens in between."""

from __future__ import annotations

import pytest

from pubsub.test_seats import World
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import Put
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.stored import Stored, Version


@pytest.fixture(params=[True, False])
def world(request):
    found = World(request.param)
    found.connect(1)
    for n in range(10):
        found.broker.subscribe(1, Stored(1, f"~1~{n}", "p", (Version(1, ">", ""),)), label=str(n))
    return found


def publish(world):
    world.broker.publish(0, 1, "p", [Draft("a.b", b'{"n":1}')])
    world.broker.tick(0)


def durable(world, session):
    """Take up the durable subscription."""
    world.broker.change(Put(9, 1, "mine", "p", ">", "", session=session))
    world.broker.stored()
    return [a for a in world.broker.actions() if isinstance(a, act.Taken)]


def test_a_session_that_is_gone_gets_nothing_more(world):
    channel = world.broker.channels[1]
    world.broker.disconnect(1)
    for left in (10, 7, 4, 1, 0, 0):
        assert len(channel.subscriptions) == left
        publish(world)
        for action in world.broker.actions():
            assert isinstance(action, act.Commit | act.Acknowledged)
            if isinstance(action, act.Commit):
                world.broker.committed()
                world.broker.match()
        world.broker.tidy(3)
    assert not world.got
    assert not world.broker.leaving
    assert not channel.seats.taken


def test_another_session_takes_over_before_the_old_one_is_tidied(world):
    world.connect(2)
    durable(world, 1)
    world.broker.disconnect(1)
    durable(world, 2)
    held = world.broker.channels[1].subscriptions["mine"]
    world.broker.tidy()
    assert held.session is world.broker.sessions[2]
    publish(world)
    world.drain()
    assert world.got == {(2, "mine"): [1]}
    assert list(world.broker.channels[1].subscriptions) == ["mine"]


def test_a_channel_that_is_gone_ends_its_subscriptions_in_slices(world):
    durable(world, 1)
    publish(world)
    world.drain()
    world.broker.close(1)
    world.broker.acknowledge(1, (1, "mine"), 1)
    world.broker.written(1, 5)
    world.broker.unsubscribe(1, (1, "~1~3"))
    world.broker.leave(1, (1, "~1~4"))
    world.broker.tidy(4)
    assert len([a for a in world.broker.actions() if isinstance(a, act.Ended)]) <= 4
    world.broker.disconnect(1)
    world.broker.tidy()
    assert not world.broker.leaving
    assert not world.broker.sessions
