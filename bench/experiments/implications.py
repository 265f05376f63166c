"""The implication graph beside brute force and the shared diagram: predicates and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bench import progress
from bench.measure import cpu_seconds, timed
from bench.report import Cell, Goal, Result, Table, verdicts
from bench.workloads import icse, stock
from tamis import Matcher, Schema
from tamis.engine.values.message_batch import Messages, from_table

ABOUT = (
    "US 7,136,899 on stock alerts and on the queries of ICSE 2001. Brute force evaluates every "
    "subscription's tree on its own. The implication graph is measured with the patent's edges "
    "alone, and with signposts, as the engine runs. Predicates are counted per message; rates are "
    "messages per CPU-second on one core. Subscriptions that are too large for a tree are matched "
    "by a diagram beside the graph; they count in its rate, not in its predicates."
)


@dataclass(frozen=True, slots=True)
class Scale:
    sizes: tuple[int, ...]
    messages: int  # for the smallest size; larger ones get fewer
    batch: int  # messages for the diagram


SCALES = {
    "full": Scale((100, 1_000, 10_000, 100_000), 4_096, 16_384),
    "quick": Scale((100, 1_000, 10_000), 1_024, 4_096),
    "tiny": Scale((50,), 16, 64),
}
_COUNTED = (
    *("subscriptions", "set", "brute force", "edges alone", "with signposts", "saved"),
    *("nodes visited", "shortcuts"),
)
_TIMED = (
    *("subscriptions", "set", "brute force", "implication graph", "diagram, one by one"),
    *("diagram, batch", "nodes", "edges", "build s"),
)
Row = list[Cell]


def run(scale: str) -> Result:
    s = SCALES[scale]
    _build(Matcher(stock.SCHEMA, engine="implication"), list(stock.alerts(50).texts()))  # compiled
    counted: list[Row] = []
    rated: list[Row] = []
    for name, schema, texts, messages in _cases(s):
        progress.say(f"{len(texts):,} {name}")
        table = messages(max(16, s.messages * s.sizes[0] // len(texts)))
        many = messages(s.batch)
        matcher = Matcher(schema, engine="implication")
        seconds = timed(lambda m=matcher, t=texts: _build(m, t))
        counted.append([len(texts), name, *_predicates(matcher, table)])
        rated.append([len(texts), name, *_rates(matcher, texts, table, many), seconds])
    return Result(
        "implications",
        ABOUT,
        [
            verdicts(_goals(counted, rated)),
            Table("Predicates evaluated per message", _COUNTED, counted),
            Table("Messages per CPU-second", _TIMED, rated),
        ],
    )


def _goals(counted: list[list[Any]], rated: list[list[Any]]) -> list[Goal]:
    """At 10,000 subscriptions, or the largest set that is smaller."""
    goals = []
    sizes = [row[0] for row in counted if row[0] <= 10_000]
    for count, rate in zip(counted, rated, strict=True):
        n, name = count[0], count[1]
        if n == max(sizes):
            saved = count[2] / max(count[4], 1e-9)
            goals += [
                Goal(f"{n:,} {name}: brute force's predicates / the graph's", 10, None, saved, "x"),
                Goal(f"{n:,} {name}: build of the graph", 10, None, rate[-1], " s", at_most=True),
            ]
    return goals


def _cases(s: Scale) -> Iterator[tuple[str, Schema, list[str], Callable[[int], pa.Table]]]:
    for n in s.sizes:
        yield "stock", stock.SCHEMA, list(stock.alerts(n).texts()), stock.trades
        yield "icse", icse.SCHEMA, icse.queries(n), icse.messages


def _build(matcher: Matcher, texts: list[str]) -> None:
    matcher.add_many(enumerate(texts))
    matcher.settle()


def _messages(matcher: Matcher, table: pa.Table) -> Messages:
    return from_table(table, matcher.attributes, matcher.semantics, matcher.schema)


def _predicates(matcher: Matcher, table: pa.Table) -> Row:
    assert matcher.implications is not None
    state, messages = matcher.implications.state, _messages(matcher, table)
    alone = state.brute_force(messages, {})
    edges = replace(state, signposts=False).statistics(messages, {})
    both = state.statistics(messages, {})
    numbers = [alone.evaluated, edges.evaluated, both.evaluated]
    each: Row = [n / len(table) for n in numbers]
    ratio = f"{alone.evaluated / max(both.evaluated, 1):,.0f}x"
    return [*each, ratio, both.visited / len(table), both.shortcuts / len(table)]


def _rates(matcher: Matcher, texts: list[str], table: pa.Table, many: pa.Table) -> Row:
    assert matcher.implications is not None
    state = matcher.implications.state
    diagram = Matcher(matcher.schema)
    _build(diagram, texts)
    assert diagram.count_batch(table).tolist() == matcher.count_batch(table).tolist()
    rows = many.slice(0, 200).to_pylist()

    def rate(work: Callable[[], object], messages: int) -> float:
        return messages / max(cpu_seconds(work), 1e-9)

    graph = state.graphs[0]
    return [
        rate(lambda: state.brute_force(_messages(matcher, table), {}), len(table)),
        rate(lambda: matcher.count_batch(table), len(table)),
        rate(lambda: [*map(diagram.match, rows)], len(rows)),
        rate(lambda: diagram.count_batch(many), len(many)),
        len(graph.forest.trees.test),
        len(graph.edges.target),
    ]
