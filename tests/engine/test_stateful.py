"""After any sequence of changes the matcher agrees with the oracle over a plain dictionary."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import oracle
import strategies
from tamis import Matcher, MessageError, SelectorError, SubscriptionError
from tamis.language import canonical, tree
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import Type

pytestmark = pytest.mark.slow

BAD = ("a =", "(a = 1", "a = 'x", "a = 1 b = 2", "a IN ()", "nowhere(a) = 1", "a MATCHES '('", "\0")
seeds = st.integers(0, 2**32)
numbers = st.integers(0, 30)


class Machine(RuleBasedStateMachine):
    """`model` maps each id to its condition, in the order of adding."""

    typed: bool
    semantics: str

    @initialize(seed=seeds, text=st.booleans())
    def begin(self, seed: int, text: bool) -> None:
        self.rng = random.Random(seed)
        self.schema = strategies.random_schema(self.rng) if self.typed else None
        self.matcher = Matcher(self.schema, semantics=self.semantics, lookups=strategies.LOOKUPS)
        self.name = "s{}".format if text else int
        self.model: dict[str | int, tree.Condition] = {}
        self.messages = self.good_messages(70)

    def good_messages(self, count: int) -> list[dict[str, object]]:
        """Messages that the semantics takes."""
        found: list[dict[str, object]] = []
        while len(found) < count:
            total = self.semantics == "total"
            message = strategies.random_message(self.rng, self.schema, total=total)
            try:
                self.wanted(message, {0: tree.Constant(True)})
                found.append(message)
            except MessageError:
                continue
        return found

    def condition(self, seed: int) -> tree.Condition:
        """A random one, or one of many that ask for one value of the same attribute."""
        rng = random.Random(seed)
        if seed % 3:
            lookups = tuple(strategies.LOOKUPS)
            return strategies.random_condition(rng, self.schema, depth=2, lookups=lookups)
        name, kind = self.hot()
        value = strategies.make_constant(strategies.Rolled(rng), kind)
        point = tree.Compare(tree.Attribute(name), "=", tree.Literal(kind, value))
        return tree.And((point, strategies.random_condition(rng, self.schema, depth=0)))

    def hot(self) -> tuple[str, Type]:
        if self.schema is None:
            return "name", Type.STRING
        first = self.schema.attributes[0]
        return first.name, first.type

    def wanted(self, message: dict[str, object], model: dict) -> list[str | int]:
        lookups = strategies.LOOKUPS
        return [
            id
            for id, condition in model.items()
            if oracle.matches(condition, message, self.semantics, self.schema, lookups)
        ]

    # --- changes -------------------------------------------------------------

    @rule(number=numbers, seed=seeds)
    def add(self, number: int, seed: int) -> None:
        id, condition = self.name(number), self.condition(seed)
        if id in self.model:
            with pytest.raises(SubscriptionError):
                self.matcher.add(id, canonical(condition))
            return
        self.matcher.add(id, canonical(condition))
        self.model[id] = condition

    @rule(chosen=st.sets(numbers, max_size=12), seed=seeds, bad=st.sampled_from(BAD))
    def add_many_and_report_the_bad(self, chosen: set[int], seed: int, bad: str) -> None:
        pairs = [(self.name(n), self.condition(seed + n)) for n in sorted(chosen)]
        rows = [(id, canonical(condition)) for id, condition in pairs]
        at = seed % (len(rows) + 1)
        rows.insert(at, (self.name(99), bad))
        refused: list[str | int] = []
        count = self.matcher.add_many(rows, on_error=lambda id, text, error: refused.append(id))
        fresh = {id: condition for id, condition in pairs if id not in self.model}
        assert count == len(fresh)
        assert refused == [id for id, _ in rows if id not in fresh]
        self.model |= fresh

    @rule(chosen=st.sets(numbers, min_size=1, max_size=5), seed=seeds, bad=st.sampled_from(BAD))
    def add_many_or_none(self, chosen: set[int], seed: int, bad: str) -> None:
        rows = [(self.name(n), canonical(self.condition(seed + n))) for n in sorted(chosen)]
        with pytest.raises((SelectorError, SubscriptionError)):
            self.matcher.add_many([*rows, (self.name(99), bad)])

    @rule(chosen=st.sets(numbers, min_size=1, max_size=5), seed=seeds)
    def add_many_from_a_broken_source(self, chosen: set[int], seed: int) -> None:
        def rows():
            for n in sorted(chosen):
                if self.name(n) not in self.model:
                    yield self.name(n), canonical(self.condition(seed + n))
            raise OSError("the line is dead")

        with pytest.raises(OSError, match="dead"):
            self.matcher.add_many(rows())

    @rule(number=numbers)
    def remove(self, number: int) -> None:
        id = self.name(number)
        if id not in self.model:
            with pytest.raises(SubscriptionError):
                self.matcher.remove(id)
            return
        self.matcher.remove(id)
        del self.model[id]

    @precondition(lambda self: len(self.model) > 3)
    @rule(seed=seeds)
    def remove_most(self, seed: int) -> None:
        for id in random.Random(seed).sample(list(self.model), len(self.model) * 3 // 4):
            self.matcher.remove(id)
            del self.model[id]

    @rule(number=numbers, seed=seeds)
    def replace(self, number: int, seed: int) -> None:
        id, condition = self.name(number), self.condition(seed)
        self.matcher.replace(id, canonical(condition))
        self.model.pop(id, None)
        self.model[id] = condition

    @rule(number=numbers, bad=st.sampled_from(BAD))
    def bad_selectors_change_nothing(self, number: int, bad: str) -> None:
        with pytest.raises(SelectorError):
            self.matcher.replace(self.name(number), bad)
        with pytest.raises((SelectorError, SubscriptionError)):
            self.matcher.add(self.name(number), bad)

    @rule(id=st.sampled_from((None, 1.5, True, 2**63, b"a", ("a",))))
    def bad_ids_change_nothing(self, id: object) -> None:
        for change in (self.matcher.add, self.matcher.replace):
            with pytest.raises(SubscriptionError):
                change(id, "TRUE")

    @rule()
    def settle(self) -> None:
        self.matcher.settle()

    # --- what must hold ------------------------------------------------------

    @invariant()
    def same_ids(self) -> None:
        if hasattr(self, "model"):
            assert list(self.matcher) == list(self.model)
            assert len(self.matcher) == len(self.model)

    @invariant()
    def same_matches(self) -> None:
        if not hasattr(self, "model"):
            return
        messages = self.rng.sample(self.messages, 3)
        wanted = [self.wanted(m, self.model) for m in messages]
        assert [self.matcher.match(m) for m in messages] == wanted
        assert self.matcher.match_many(messages).to_pylist() == wanted

    @precondition(lambda self: self.typed)
    @rule()
    def same_in_batches(self) -> None:
        """More than 64 messages: wide blocks, and a rest."""
        wanted = [self.wanted(m, self.model) for m in self.messages]
        batch, misfits = to_batch(self.messages, self.schema, list(self.schema), from_value)
        assert not misfits
        assert self.matcher.match_batch(batch).to_pylist() == wanted
        assert self.matcher.match_batch(batch, threads=2).to_pylist() == wanted
        assert self.matcher.count_batch(batch).tolist() == [len(w) for w in wanted]
        ids, bits = self.matcher.bitmap_batch(batch)
        found = [[i for i, row in zip(ids, bits, strict=True) if bit(row, m)] for m in range(70)]
        assert found == wanted
        assert ids == list(self.model)


def bit(row, m: int) -> int:
    return int(row[m // 64]) >> m % 64 & 1


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("semantics", strategies.SEMANTICS)
def test_any_sequence_of_changes(
    semantics: str, typed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are small here, few dead are put up with and any value gives access, so that folds,
    renewals and clusters happen."""
    if semantics == "total" and not typed:
        pytest.skip("total semantics needs a schema")
    monkeypatch.setattr("tamis.engine.live.merging.SEALED", 3)
    monkeypatch.setattr("tamis.engine.live.merging._QUIET", 0.001)
    monkeypatch.setattr("tamis.engine.live.generation.SURPLUS", 3)
    monkeypatch.setattr("tamis.engine.choosing.claims.MIN_POINTS", 3)
    machine = type("Machine", (Machine,), {"typed": typed, "semantics": semantics})
    few = settings(max_examples=settings().max_examples // 12, stateful_step_count=25)
    run_state_machine_as_test(machine, settings=few)
