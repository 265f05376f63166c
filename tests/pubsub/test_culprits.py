"""Subscriptions on which judges fail are searched for in steps: what happens in between."""

from __future__ import annotations

import pytest

from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker import culprits
from tamis.pubsub.broker.changes import Put
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.machine import Broker
from tamis.pubsub.broker.stored import Stored, Version
from tamis.schema import Schema


@pytest.fixture
def sizes(monkeypatch):
    """Judges fail on selectors with `poison`; the list has how many subscriptions each judged."""
    found, whole = [], Judge.judge

    def judge(self, records):
        found.append(len(self.matcher))
        if any("poison" in text for _, text in self.matcher.items()):
            raise IndexError("planted")
        return whole(self, records)

    monkeypatch.setattr(Judge, "judge", judge)
    return found


@pytest.fixture
def broker(sizes, monkeypatch):
    """Channel 1 has 30 subscriptions, the fifth is bad; channel 2 has one."""
    monkeypatch.setattr(culprits, "GROUP", 4)
    made = Broker()
    for channel in (1, 2):
        made.open(channel, Language(Schema.of(n=int)))
    made.connect(9)
    for i in range(30):
        subscribe(made, 1, f"s{i}", "poison = 1" if i == 5 else "n > 0")
    subscribe(made, 2, "other", "n > 0")
    sizes.clear()
    return made


def subscribe(broker, channel, name, selector):
    return broker.subscribe(9, Stored(channel, name, "p", (Version(1, ">", selector),)))


def publish(broker, channel):
    """What was delivered to whom, of the kinds of actions that sessions see."""
    broker.publish(1, channel, "p", [Draft("a", b'{"n":1}')])
    broker.tick(0)
    broker.actions()
    broker.committed()
    broker.match()
    return seen(broker)


def seen(broker):
    found = {"got": [], "ended": [], "read": []}
    for action in broker.actions():
        if isinstance(action, act.Deliver):
            found["got"] += [(one.name, record.sequence) for one, record in action.messages]
        elif isinstance(action, act.Ended):
            found["ended"].append(action.subscription.name)
        elif isinstance(action, act.Read):
            found["read"].append(action.subscription.name)
    return found


def finish(broker):
    broker.search()
    broker.match()
    return seen(broker)


def test_every_step_looks_at_few_and_the_other_channels_go_on(broker, sizes):
    assert publish(broker, 1) == {"got": [], "ended": [], "read": []}
    del sizes[:]
    steps = 0
    while broker.searching:
        broker.search(1)
        steps += 1
        if steps == 3:
            assert publish(broker, 2)["got"] == [("other", 1)]
    assert steps > 8
    assert max(sizes) <= 4
    broker.match()
    found = seen(broker)
    assert found["ended"] == ["s5"]
    assert sorted(found["got"]) == sorted((f"s{i}", 1) for i in range(30) if i != 5)
    assert not broker.searching


def test_what_is_committed_meanwhile_comes_afterwards_in_order(broker):
    publish(broker, 1)
    broker.search(2)
    publish(broker, 1)
    got = finish(broker)["got"]
    assert [sequence for name, sequence in got if name == "s0"] == [1, 2]


def test_several_bad_ones_are_all_found(broker):
    subscribe(broker, 1, "newest", "poison = 2")
    publish(broker, 1)
    ended = []
    while broker.searching:
        ended += finish(broker)["ended"]
    assert ended == ["newest", "s5"]


def test_one_that_got_another_selector_meanwhile_is_not_set_aside(broker):
    broker.change(Put(7, 1, "kept", "p", ">", "poison = 3", session=9))
    broker.stored()
    publish(broker, 1)
    while not broker.channels[1].search.over:
        broker.search(1)
    broker.change(Put(8, 1, "kept", "p", ">", "n > 0", session=9))
    broker.match()  # not while it is being stored
    broker.stored()
    broker.match()
    assert finish(broker)["ended"] == ["s5"]
    held = broker.channels[1].subscriptions["kept"]
    assert held.live
    assert not held.problem


def test_one_that_is_gone_meanwhile_takes_no_other_with_it(broker):
    publish(broker, 1)
    while not broker.channels[1].search.over:
        broker.search(1)
    broker.unsubscribe(9, (1, "s5"))
    subscribe(broker, 1, "s5", "n > 0")  # its name, and its number
    found = finish(broker)
    assert found["ended"] == []
    assert len(broker.channels[1].subscriptions) == 30
    assert publish(broker, 1)["ended"] == []


def test_a_channel_that_is_gone_is_not_searched_any_more(broker):
    publish(broker, 1)
    broker.close(1)
    broker.search()
    assert not broker.searching
    assert publish(broker, 2)["got"] == [("other", 1)]


def test_without_a_culprit_everybody_reads_from_the_log(broker, monkeypatch):
    def judge(self, records):
        if len(self.matcher) > 1:
            raise IndexError("too many")
        return [0, 0], []

    monkeypatch.setattr(Judge, "judge", judge)
    publish(broker, 1)
    found = finish(broker)
    assert found["ended"] == []
    assert sorted(found["read"]) == sorted(f"s{i}" for i in range(30))


def test_a_channel_whose_judge_cannot_be_prepared_opens_and_says_so(sizes):
    broker = Broker()
    bad = Stored(1, "bad", "p", (Version(1, ">", "poison = 1"),), number=1)
    broker.open(1, Language(Schema.of(n=int)), stored=[(bad, "")])
    (fault,) = broker.actions()
    assert (fault.where, str(fault.error)) == ("preparing channel 1", "planted")
    assert "bad" in broker.channels[1].subscriptions
