"""Merging what many subscribers want, as a whole and one by one."""

from __future__ import annotations

from bench import progress
from bench.measure import latency, timed
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import packets, stock
from tamis.language import parse
from tamis.logic.dnf import dnf, domains
from tamis.pubsub.filters import Merge

ABOUT = (
    "Stock alerts (symbol = S AND price < P AND volume > V, 5,000 symbols) merged into the filter "
    "that a router forwards: without loss, and down to 1,000 pieces; boxes (ranges of price and "
    "volume, no symbol) have nothing to be found by but their bounds. Whole: CPU seconds for all "
    "at once. One more, one less: median time on the wall of 500 calls each, which also say what "
    "to tell the neighbours."
)
SCALES = {
    "full": [("stock", 10_000), ("stock", 100_000), ("boxes", 10_000)],
    "quick": [("stock", 10_000), ("boxes", 2_000)],
    "tiny": [("stock", 200), ("boxes", 50)],
}
_COLUMNS = (
    *("set", "filters", "pieces at most", "pieces", "whole s", "one more ms", "p99", "one less ms"),
    "p99 ",
)
_CHANGES = {"full": 500, "quick": 200, "tiny": 5}


def run(scale: str) -> Result:
    rows = []
    for name, count in SCALES[scale]:
        for limit in (None, 1_000):
            progress.say(f"{count:,} {name}, limit {limit}")
            rows.append(_row(name, count, limit, _CHANGES[scale]))
    progress.say("selectors")
    goals = _goals(rows)
    made = Table(
        "Selectors to filters", ("selectors", "µs each"), [_made(min(5_000, SCALES[scale][0][1]))]
    )
    return Result("filters", ABOUT, [verdicts(goals), Table("Merging", _COLUMNS, rows), made])


def _goals(rows: list[list]) -> list[Goal]:
    largest = max(row[1] for row in rows)
    goals = []
    for row in rows:
        if row[0] == "stock" and row[1] == largest:
            kind = "without loss" if row[2] is None else f"to {row[2]:,} pieces"
            goals += [
                Goal(f"{row[1]:,} stock filters {kind}", 5, None, row[4], " s", at_most=True),
                Goal(f"one more {kind}", 1, None, row[5], " ms", at_most=True),
                Goal(f"one less {kind}", 1, None, row[7], " ms", at_most=True),
            ]
        if row[0] == "boxes" and row[2] is not None:
            what = f"one more box, to {row[2]:,} pieces"
            goals.append(Goal(what, 1, None, row[5], " ms", at_most=True))
    return goals


def _row(name: str, count: int, limit: int | None, changes: int) -> list:
    make = packets.interests if name == "stock" else packets.boxes
    given = make(count + changes)
    merge: Merge[int] = Merge(limit, domains(stock.SCHEMA))
    whole = timed(lambda: merge.add_many(enumerate(given[:count])))
    before = merge.pieces
    more = latency(
        lambda i=i: merge.add(i, given[i])  # type: ignore[misc]
        for i in range(count, count + changes)
    )
    less = latency(lambda i=i: merge.remove(i) for i in range(count, count + changes))  # type: ignore[misc]
    assert merge.pieces == before
    figures = (more.median, more.p99, less.median, less.p99)
    return [name, count, limit, len(before), whole, *(1000 * figure for figure in figures)]


def _made(count: int) -> list:
    texts = list(stock.alerts(count).texts())
    seconds = timed(lambda: [dnf(parse(text), stock.SCHEMA) for text in texts])
    return [count, 1e6 * seconds / count]
