"""The implication graph answers like the oracle and the diagram, at every moment of its growth."""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

import pytest

import oracle
import strategies as st
from tamis import Matcher, MessageError
from tamis.engine.implications import Implications
from tamis.engine.values.mappings import Mappings
from tamis.engine.values.message_batch import from_table
from tamis.engine.values.single_message import Single
from tamis.errors import SnapshotError, TamisError
from tamis.language import canonical
from tamis.logic import SEMANTICS, Semantics
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import Schema

sys.path.insert(0, str(Path(__file__).parents[3]))

from bench.workloads import icse, stock

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "4"))
XYZ = Schema.of(x=int, y=int, z=int)


def implication(schema=None, semantics="sql", lookups=None, **options) -> Matcher:
    """A matcher with some option of its graph set."""
    matcher = Matcher(schema, semantics=semantics, lookups=lookups, engine="implication")
    intake = matcher._contents.intake
    graph = Implications(intake.vocabulary, intake.templates, **options)
    matcher._contents.merging = graph
    return matcher


def random_case(rng: random.Random, semantics: Semantics, typed: bool, count: int, messages: int):
    """Conditions, messages that fit the semantics, and who matches what by the oracle."""
    schema = st.random_schema(rng) if typed or semantics == "total" else None
    lookups = tuple(st.LOOKUPS)
    conditions = [st.random_condition(rng, schema, lookups=lookups) for _ in range(count)]
    good, wanted = [], []
    while len(good) < messages:
        message = st.random_message(rng, schema, total=semantics == "total")
        try:
            found = [oracle.matches(c, message, semantics, schema, st.LOOKUPS) for c in conditions]
        except MessageError:
            continue
        good.append(message)
        wanted.append([i for i, matches in enumerate(found) if matches])
    return schema, conditions, good, wanted


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"signposts": False}, {"tree_budget": 3}], ids=["", "edges", "small"]
)
def test_agrees_with_the_oracle(semantics: Semantics, typed: bool, options: dict) -> None:
    rng = random.Random(f"{semantics}{typed}{options}")
    for _ in range(ROUNDS):
        schema, conditions, messages, wanted = random_case(rng, semantics, typed, 40, 20)
        matcher = implication(schema, semantics, st.LOOKUPS, **options)
        matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
        assert matcher.match_many(messages).to_pylist() == wanted
        matcher.settle()
        assert matcher.match_many(messages).to_pylist() == wanted
        assert [matcher.match(m) for m in messages[:5]] == wanted[:5]
        if schema is not None:
            batch, _ = to_batch(messages, schema, list(schema), from_value)
            assert matcher.match_batch(batch).to_pylist() == wanted
            assert matcher.count_batch(batch, threads=2).tolist() == [len(w) for w in wanted]
            ids, bits = matcher.bitmap_batch(batch)
            assert ids == list(range(40))
            found = [[i for i in ids if int(bits[i, 0]) >> m & 1] for m in range(len(messages))]
            assert found == wanted


@pytest.mark.parametrize("semantics", ["sql", "strict"])
@pytest.mark.parametrize("density", [1.0, 0.3])
def test_agrees_with_the_diagram_on_the_icse_workload(semantics: Semantics, density: float) -> None:
    diagram = Matcher(icse.SCHEMA, semantics=semantics)
    graph = Matcher(icse.SCHEMA, semantics=semantics, engine="implication")
    for matcher in (diagram, graph):
        matcher.add_many(enumerate(icse.queries(1500)))
        matcher.settle()
    assert len(graph.implications.state.graphs[0].edges.target) > 1500
    table = icse.messages(100, density)
    assert graph.match_batch(table).to_pylist() == diagram.match_batch(table).to_pylist()


def test_answers_do_not_depend_on_how_far_the_background_got() -> None:
    """The thread stands still after every step while all messages are matched."""
    rng = random.Random(11)
    schema, conditions, messages, wanted = random_case(rng, "sql", True, 300, 12)
    steps: list[str] = []

    def on_step(step: str) -> None:
        steps.append(step)
        # whoever was added so far is asked; the last 40 may still be missing
        known = [[i for i in w if i in matcher] for w in wanted]
        assert matcher.match_many(messages).to_pylist() == known
        edges.append(sum(len(g.edges.target) for g in matcher.implications.state.graphs))

    edges: list[int] = []
    matcher = implication(schema, lookups=st.LOOKUPS, on_step=on_step)
    errors: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("threading.excepthook", errors.append)
        matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions[:260]))
        matcher.settle()
        matcher.add_many((i + 260, canonical(c)) for i, c in enumerate(conditions[260:]))
        matcher.settle()
    assert errors == []
    assert steps[0] == "planted 260"
    assert steps[-1] == "linked 300 of 300"
    assert len(steps) >= 10
    assert edges[0] == 0
    assert edges[-1] > edges[1] > 0


def test_removing_takes_the_edges_along() -> None:
    matcher = implication(Schema.of(x=int), "total")
    matcher.add_many((n, f"x > {n}") for n in range(50))
    matcher.settle()
    before = matcher.implications.state.graphs[0]
    for n in range(0, 50, 2):
        matcher.remove(n)
    assert matcher.match({"x": 7}) == [1, 3, 5]
    matcher.settle()
    after = matcher.implications.state.graphs[0]
    assert matcher.match({"x": 7}) == [1, 3, 5]
    assert len(before.edges.target) == 2 * 49
    assert len(after.edges.target) == 2 * 24
    for n in range(1, 50, 2):
        matcher.remove(n)
    matcher.settle()
    assert matcher.implications.state.graphs == ()
    assert matcher.match({"x": 7}) == []


def test_any_sequence_of_changes_agrees_with_the_diagram() -> None:
    rng = random.Random(13)
    graph, diagram = Matcher(XYZ, engine="implication"), Matcher(XYZ)
    for round in range(120):
        id = rng.randrange(30)
        text = canonical(st.random_condition(rng, XYZ, depth=2))
        for matcher in (graph, diagram):
            if id in matcher and round % 3 == 0:
                matcher.remove(id)
            else:
                matcher.replace(id, text)
        message = {name: rng.randrange(-2, 12) for name in "xyz" if rng.random() < 0.8}
        assert graph.match(message) == diagram.match(message)
        assert list(graph) == list(diagram)
    graph.settle()
    assert graph.report() == diagram.report()


def test_matches_come_as_they_are_decided() -> None:
    matcher = implication(XYZ)
    matcher.add_many((n, f"x > {n} AND y > {n}") for n in range(200))
    matcher.add("z", "z = 1")
    matcher.settle()
    state = matcher.implications.state
    message = {"x": 150, "y": 100, "z": 1}
    found = state.each(Single(message, "sql", XYZ, {}))
    first = next(found)
    assert sorted([first, *found]) == [*range(100), 200]
    assert sorted(matcher.match_each(message), key=str) == sorted(matcher.match(message), key=str)
    diagram = Matcher(XYZ)
    diagram.add("z", "z = 1")
    assert list(diagram.match_each(message)) == ["z"]


def test_statistics_count_each_predicate_once() -> None:
    """x > 4 AND y > 4 and what follows from it: figure 4 of the patent's first example."""
    matcher = implication(XYZ, "total", signposts=False)
    matcher.add_many([(1, "x > 5 AND y > 3"), (2, "x > 3 AND y > 1")])
    matcher.settle()
    state = matcher.implications.state
    batch = Mappings([{"x": 10, "y": 10, "z": 0}], "total", XYZ)
    alone, shared = state.brute_force(batch, {}), state.statistics(batch, {})
    assert alone.evaluated == 4
    assert shared.evaluated + shared.saved >= 4
    assert shared.evaluated <= 4
    assert matcher.statistics({"x": 10, "y": 10, "z": 0}) == shared
    with pytest.raises(TamisError, match="engine='implication'"):
        Matcher(XYZ).statistics({})
    # the same condition a hundred times costs no predicate more
    same = implication(XYZ, "total", signposts=False)
    same.add_many((i, "x > 5 AND y > 3") for i in range(100))
    same.settle()
    assert same.implications.state.statistics(batch, {}).evaluated == 2
    assert same.implications.state.brute_force(batch, {}).evaluated == 200


def test_stock_alerts_take_a_tenth_of_the_predicates() -> None:
    matcher = Matcher(stock.SCHEMA, engine="implication")
    matcher.add_many(enumerate(stock.alerts(10_000).texts()))
    matcher.settle()
    state = matcher.implications.state
    messages = from_table(stock.trades(50), matcher.attributes, "sql", stock.SCHEMA)
    alone, shared = state.brute_force(messages, {}), state.statistics(messages, {})
    assert alone.evaluated >= 50 * 10_000
    assert 10 * shared.evaluated < alone.evaluated
    # most alerts fail at their symbol: what is known of it passes them over
    assert 100 * shared.visited < alone.visited
    assert max(state.graphs[0].edges.offsets[1:] - state.graphs[0].edges.offsets[:-1]) <= 4


def test_large_conditions_stand_beside_the_graph() -> None:
    wide = " AND ".join(f"(x = {2 * i} OR y = {i} OR z = {i})" for i in range(100))
    matcher = Matcher(XYZ, engine="implication")
    assert matcher.add("wide", f"({wide}) OR x = 77") is None
    matcher.settle()  # a graph without a single tree
    matcher.add("small", "x = 77")
    assert matcher.match({"x": 77}) == ["wide", "small"]
    assert matcher.match({"x": 7}) == []
    matcher.settle()
    assert matcher.match_many([{"x": 77}, {"x": 1}]).to_pylist() == [["wide", "small"], []]
    matcher.remove("wide")
    assert matcher.match({"x": 77}) == ["small"]


def test_a_graph_is_not_saved(tmp_path) -> None:
    matcher = Matcher(XYZ, engine="implication")
    with pytest.raises(SnapshotError, match="engine='diagram'"):
        matcher.save(tmp_path / "graph")


def test_an_unknown_engine_is_an_error() -> None:
    with pytest.raises(TamisError, match="choose one of diagram, implication"):
        Matcher(engine="turbo")


def test_lookups_are_asked_once_per_message() -> None:
    calls: list[object] = []
    matcher = Matcher(engine="implication", lookups={"f": lambda x: calls.append(x) or 1})
    for n in range(100):  # several graphs at first
        matcher.add(n, f"f(a) = {n}")
    calls.clear()
    assert matcher.match({"a": 5}) == [1]
    assert calls == [5]


def test_readers_see_whole_states_while_others_write() -> None:
    """Two readers match without rest while subscriptions come, go and are linked."""
    matcher = Matcher(XYZ, engine="implication")
    matcher.add_many((n, f"x >= {n} AND x < {n + 10}") for n in range(200))
    wrong: list[list[object]] = []
    rounds = [0, 0]
    ready = threading.Event()

    def read(reader: int) -> None:
        while not ready.is_set():
            found = matcher.match({"x": 100})
            rounds[reader] += 1
            if [id for id in found if id < 200] != list(range(91, 101)):
                wrong.append(found)

    readers = [threading.Thread(target=read, args=(r,)) for r in range(2)]
    for thread in readers:
        thread.start()
    for n in range(200, 300):
        matcher.add(n, f"x = {n} OR y = {n}")
        if n % 3 == 0:
            matcher.remove(n - 1)
    matcher.settle()
    ready.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert min(rounds) > 5
