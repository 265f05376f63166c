"""A publisher's numbers: a duplicate is what was stored, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from log.memory_log import MemoryLog
from tamis.errors import LogError, MessageError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker import intake
from tamis.pubsub.broker import stored_numbers as module
from tamis.pubsub.broker.intake import Admission, Draft
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.machine import Broker
from tamis.pubsub.broker.stored_numbers import Numbers
from tamis.schema import Schema


@given(st.lists(st.integers(1, 60), max_size=80))
def test_ranges_agree_with_a_set(sent):
    numbers, stored = Numbers(), set()
    for number in sent:
        assert numbers.add(number) == (number not in stored)
        stored.add(number)
        assert Numbers(*numbers.packed()) == numbers
    runs = [n for n in stored if n - 1 not in stored]
    assert sorted(runs) == numbers.packed()[1::2]


def test_numbers_reach_to_the_last_of_64_bits():
    numbers = Numbers()
    assert numbers.add(2**63 - 1)
    assert not numbers.add(2**63 - 1)
    assert numbers.add(2**63 - 2)
    assert numbers.packed() == [0, 2**63 - 2, 2**63 - 1]


def test_beyond_the_limit_what_is_not_known_is_refused_and_never_called_stored(monkeypatch):
    monkeypatch.setattr(module, "MAX_RANGES", 3)
    numbers = Numbers()
    for number in (2, 4, 6, 8):
        assert numbers.add(number)
    for forgotten in (1, 2):  # one was stored, the other was not
        with pytest.raises(MessageError, match="too old"):
            numbers.add(forgotten)
    assert not numbers.add(4)
    assert numbers.add(3)
    assert numbers.packed() == [2, 3, 4, 6, 6, 8, 8]


class Publishing(RuleBasedStateMachine):
    """The broker against a set of (publisher, number) and a dict of ids, with disks that fail and
    crashes at any moment."""

    PUBLISHERS, IDS = ("p", "q"), ("", "", "A", "B", "C")

    @initialize()
    def begin(self):
        self.log, self.count = MemoryLog(), 0
        self.start()

    def start(self):
        known = self.log.remembered(1)
        self.broker = Broker()
        admission = Admission.of(known.numbers, known.ids)
        self.broker.open(1, Language(Schema(())), self.log.bounds(1)[1], admission=admission)
        self.sent, self.commit = {}, None

    def records(self):
        return self.log.read(1, 1, 10**9)

    @rule(
        publisher=st.sampled_from(PUBLISHERS),
        drafts=st.lists(st.tuples(st.integers(0, 12), st.sampled_from(IDS)), max_size=4),
    )
    def publish(self, publisher, drafts):
        self.count += 1
        self.sent[self.count] = publisher, drafts
        made = [Draft("a", msgspec.json.encode({"n": self.count}), n, id) for n, id in drafts]
        self.broker.publish(self.count, 1, publisher, made)
        self.take()

    @rule()
    def tick(self):
        self.broker.tick(self.count)
        self.take()

    @rule(good=st.booleans())
    def disk(self, good):
        if self.commit is None:
            return
        commit, self.commit = self.commit, None
        if good:
            self.log.append(commit.blocks)
            self.broker.committed()
        else:
            self.broker.not_committed(LogError("full"))
        self.take()

    @rule(stored=st.booleans())
    def crash(self, stored):
        if stored and self.commit is not None:
            self.log.append(self.commit.blocks)
        self.start()

    def take(self):
        for action in self.broker.actions():
            if isinstance(action, act.Commit):
                self.commit = action
            elif isinstance(action, act.Refused):
                del self.sent[action.request]
            elif isinstance(action, act.Acknowledged):
                for request, sequences in action.answers:
                    self.check(*self.sent.pop(request), sequences)

    def check(self, publisher, drafts, sequences):
        """Acknowledged is stored: under that sequence, or (0) under some other one."""
        by_sequence = {r.sequence: r for r in self.records()}
        numbers = {(r.publisher, r.number) for r in by_sequence.values()}
        ids = {r.id for r in by_sequence.values()}
        for (number, id), sequence in zip(drafts, sequences, strict=True):
            if sequence:
                one = by_sequence[sequence]
                assert (id and one.id == id) or (one.publisher, one.number) == (publisher, number)
            else:
                assert (number and (publisher, number) in numbers) or (id and id in ids)

    @invariant()
    def stored_once(self):
        numbered = [(r.publisher, r.number) for r in self.records() if r.number]
        assert len(numbered) == len(set(numbered))
        ids = [r.id for r in self.records() if r.id]
        assert len(ids) == len(set(ids))


TestPublishing = Publishing.TestCase


@pytest.fixture
def broker():
    found = Broker()
    found.open(1, Language(Schema(())))
    return found


def publish(broker, *drafts, publisher="p"):
    """The sequences that one request is answered."""
    broker.publish(1, 1, publisher, [Draft("a", b"{}", number, id) for number, id in drafts])
    broker.tick(0)
    if any(isinstance(action, act.Commit) for action in broker.actions()):
        broker.committed()
    answers = [a for a in broker.actions() if isinstance(a, act.Acknowledged)]
    return answers[0].answers[0][1] if answers else None


def test_a_number_below_the_highest_that_was_never_stored_is_stored(broker):
    assert publish(broker, (2, "")) == [1]
    assert publish(broker, (1, "")) == [2]
    assert [list(one.packed()) for one in broker.channels[1].admission.numbers.values()] == [
        [0, 1, 2]
    ]


def test_a_message_refused_for_its_number_leaves_its_id_free(broker):
    publish(broker, (3, "A"))
    broker.publish(1, 1, "p", [Draft("a", b"{}", 3, "B")])
    broker.tick(0)
    broker.actions()
    assert publish(broker, (0, "B"), publisher="q") == [2]


def test_a_duplicate_by_id_is_answered_its_sequence(broker):
    assert publish(broker, (0, "A"), (0, "B"), (0, "A")) == [1, 2, 1]
    broker.publish(1, 1, "p", [Draft("a", b"{}", 0, "B")])
    broker.tick(0)
    (answered,) = [a for a in broker.actions() if isinstance(a, act.Acknowledged)]
    assert answered.answers == [(1, [2])]


def test_what_was_refused_is_stored_after_its_successor(broker):
    """The first request meets a full disk, the second does not, then the first is sent again."""
    broker.publish(1, 1, "p", [Draft("a", b"{}", 1)])
    broker.tick(0)
    broker.not_committed(LogError("full"))
    broker.actions()
    assert publish(broker, (2, "")) == [1]
    assert publish(broker, (1, "")) == [2]


def test_a_request_with_a_number_that_is_too_old_stores_nothing(broker, monkeypatch):
    monkeypatch.setattr(module, "MAX_RANGES", 1)
    publish(broker, (2, ""))
    publish(broker, (4, ""))
    with pytest.raises(MessageError, match="sequence 1 is too old"):
        broker.publish(9, 1, "p", [Draft("a", b"{}", 5, "X"), Draft("a", b"{}", 1)])
    assert publish(broker, (5, "X")) == [3]


def test_publishers_that_stored_nothing_for_longest_are_forgotten(broker, monkeypatch):
    """Then a number that is sent again counts as new."""
    monkeypatch.setattr(intake, "MAX_PUBLISHERS", 2)
    for name in ("p", "q", "p", "r"):
        publish(broker, (broker.published + 1, ""), publisher=name)
    assert list(broker.channels[1].admission.numbers) == ["p", "r"]
    assert publish(broker, (3, ""), publisher="p") is None  # nothing to commit
    assert publish(broker, (2, ""), publisher="q") == [5]
    assert list(broker.channels[1].admission.numbers) == ["r", "q"]
