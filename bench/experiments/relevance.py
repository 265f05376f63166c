"""Ranges, boxes and ORs lead to subscriptions: growth, single messages, and an R-tree beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import progress
from bench.measure import cpu_seconds, in_own_process, timed
from bench.reference import eval_bdd, truths_of
from bench.report import Chart, Goal, Result, Table, shown, verdicts
from bench.workloads import icse, ranges
from tamis import Matcher
from tamis.diagram.conditions import diagram_of
from tamis.language import parse

ABOUT = (
    "Alerts that no equality leads to, by the names of bench/workloads/ranges.py. Rates are "
    "messages per CPU-second on one core, in batches of 65,536; the R-tree is shapely's STRtree, "
    "asked for ids, in a process of its own."
)


@dataclass(frozen=True, slots=True)
class Scale:
    sizes: tuple[int, ...]
    messages: int
    single: int
    queries: int


SCALES = {
    "full": Scale((10_000, 100_000, 1_000_000), 65_536, 2_000, 100_000),
    "quick": Scale((10_000, 30_000), 16_384, 300, 5_000),
    "tiny": Scale((400,), 256, 10, 300),
}
_ASKED = {"between_2d": 200_000, "or3_attrs": 100_000}  # alerts, where not those of the largest set
_MOST = {"20 on each symbol": 100_000, "1,000 on each symbol": 100_000}
_GROWTH = ("boxes", "price_lt_rare", "between_narrow", "between_2d", "or3_attrs")
_COLUMNS = (
    "set",
    "alerts",
    "build s",
    "matches",
    "counts",
    "with ids",
    "one by one",
    "STRtree ids",
)
Row = list[Any]


def run(scale: str) -> Result:
    s = SCALES[scale]
    rows: list[Row] = []
    for name, case in ranges.CASES.items():
        more = {_ASKED[name]} if name in _ASKED and scale == "full" else set()
        for n in sorted({min(n, _MOST.get(name, n)) for n in {*s.sizes, *more}}):
            rows.append([name, f"{n:,}", *_measured(case(n, s.messages), s)])
            progress.say(", ".join(map(shown, rows[-1])))
    single = _one_message(s)
    tables = [
        verdicts(_goals(rows, single)),
        Table("Messages per CPU-second", _COLUMNS, rows),
        Table("One message, conditions without any access (ICSE)", ("", "messages/s"), single),
    ]
    return Result("relevance", ABOUT, tables, [_chart(rows), _growth(rows)])


def _measured(case: ranges.Case, s: Scale) -> Row:
    matcher = Matcher(case.schema)
    seconds = timed(lambda: matcher.add_many(enumerate(case.texts)))
    matcher.settle()
    table, messages = case.messages, case.messages.slice(0, s.single).to_pylist()
    counts = len(table) / cpu_seconds(lambda: matcher.count_batch(table))
    ids = len(table) / cpu_seconds(lambda: matcher.match_batch(table))
    matches = float(matcher.count_batch(table).mean())
    one = len(messages) / cpu_seconds(lambda: [matcher.match(m) for m in messages])
    peer = None
    if case.boxes is not None:
        peer, found = in_own_process(rtree, case.boxes, _points(case))
        assert found == int(matcher.count_batch(table).sum()), "the R-tree found something else"
    return [seconds, matches, counts, ids, one, peer]


def _points(case: ranges.Case) -> np.ndarray:
    return np.stack([case.messages["lon"].to_numpy(), case.messages["lat"].to_numpy()], axis=1)


def rtree(boxes: np.ndarray, points: np.ndarray) -> tuple[float, int]:
    """Points per CPU-second of an R-tree, and how many pairs it found."""
    import shapely

    tree = shapely.STRtree(shapely.box(*boxes.T))
    given = shapely.points(points)
    seconds = cpu_seconds(lambda: tree.query(given, predicate="intersects"))
    return len(points) / seconds, tree.query(given, predicate="intersects").shape[1]


def _one_message(s: Scale) -> list[Row]:
    """The paper's queries, one message at a time, beside the paper's own algorithm, compiled."""
    progress.say(f"{s.queries:,} queries, one message at a time")
    texts = icse.queries(s.queries)
    matcher = Matcher(icse.SCHEMA, semantics="total")
    matcher.add_many(enumerate(texts))
    matcher.settle()
    table = icse.messages(min(s.single, 200))
    messages = table.to_pylist()
    conditions = [parse(text) for text in texts]
    diagram = diagram_of(conditions, icse.SCHEMA, "total")
    truths = [truths_of(diagram, m, "total") for m in messages]
    works = {
        "ids as an array": lambda: [matcher.match_array(m) for m in messages],
        "ids as a list": lambda: [matcher.match(m) for m in messages],
        "EvalBDD, compiled": lambda: [eval_bdd(diagram.shared, truth) for truth in truths],
    }
    return [[name, len(messages) / cpu_seconds(work)] for name, work in works.items()]


def _goals(rows: list[Row], single: list[Row]) -> list[Goal]:
    """What was asked for, of the largest sets unless `_ASKED` has others."""
    largest = {row[0]: row for row in rows}
    asked = {row[0]: row for row in rows if row[1] == f"{_ASKED.get(row[0], 0):,}"}
    last = largest | asked
    box, rare, narrow = last["boxes"], last["price_lt_rare"], last["between_narrow"]
    plane, either = last["between_2d"], last["or3_attrs"]
    few_each, many_each = last["20 on each symbol"], last["1,000 on each symbol"]
    array, listed, paper = (row[1] for row in single)
    goals = [
        Goal("boxes: ids", 1_500_000, 4_000_000, box[5]),
        Goal("boxes: built from text", 15, None, box[2], " s", at_most=True),
        Goal("boxes: one by one", 20_000, 30_000, box[6]),
        *(
            Goal(f"{name}: ids against STRtree", 1, None, last[name][5] / last[name][7], "x")
            for name in last
            if last[name][7] is not None
        ),
        Goal("price_lt_rare: counts", 4_000_000, 8_000_000, rare[4]),
        Goal("price_lt_rare: ids", 500_000, None, rare[5]),
        Goal("price_lt_rare: one by one", 20_000, None, rare[6]),
        Goal("between_narrow: counts", 4_000_000, 8_000_000, narrow[4]),
        Goal("between_narrow: ids", 2_000_000, None, narrow[5]),
        Goal("between_narrow: one by one", 20_000, 30_000, narrow[6]),
        Goal("between_2d: counts", 1_000_000, 4_000_000, plane[4]),
        Goal("between_2d: one by one", 15_000, None, plane[6]),
        Goal("or3_attrs: counts", 1_000_000, 2_500_000, either[4]),
        Goal("or3_attrs: one by one", 10_000, None, either[6]),
        Goal("1,000 against 20 on each symbol, counts", 0.5, 1, many_each[4] / few_each[4], "x"),
        Goal("ICSE, one message: ids as an array", 1_000, 3_000, array),
        Goal("ICSE, one message: ids as a list", 600, None, listed),
        Goal("ICSE, one message: array against EvalBDD", 2, None, array / paper, "x"),
    ]
    for name in _GROWTH:
        first = next(row for row in rows if row[0] == name)
        times = _each(largest[name]) / _each(first)
        what = f"{name}: cost of one message per match, {largest[name][1]} against {first[1]}"
        goals.append(Goal(what, 3, None, times, "x", at_most=True))
    return goals


def _each(row: Row) -> float:
    """Microseconds of one message for each match, or for the message where fewer than one match."""
    return 1e6 / row[6] / max(1.0, row[3])


def _chart(rows: list[Row]) -> Chart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, n, _, _, _, ids, *_ in rows:
        lines.setdefault(name, []).append((float(n.replace(",", "")), ids))
    return Chart("relevance", "Ranges lead to subscriptions", "alerts", "messages/s, ids", lines)


def _growth(rows: list[Row]) -> Chart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row[0] in _GROWTH:
            lines.setdefault(row[0], []).append((float(row[1].replace(",", "")), _each(row)))
    return Chart("relevance_single", "One message", "alerts", "microseconds per match", lines)
