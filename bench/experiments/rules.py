"""Detection rules: build, the worst single add, events in batches and one by one."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bench import progress
from bench.measure import cpu_seconds, latency, timed
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import rules
from tamis import Matcher

ABOUT = (
    "Text-heavy rules: 3,000 conditions with 26,000 case-insensitive CONTAINS, STARTS WITH and "
    "ENDS WITH patterns and 200 regexes, one condition of 4,400 atoms and 350,000 characters, one "
    "that would be 4 * 10^10 terms in disjunctive normal form. Events have 30 attributes, "
    "two thirds of them undefined; one event in 200 is written so as to satisfy a rule."
)


@dataclass(frozen=True, slots=True)
class Scale:
    rules: int
    patterns: int
    events: int
    single: int
    added: int  # rules that are also added one by one, the longest among them


SCALES = {
    "full": Scale(3_000, 26_000, 65_536, 5_000, 3_000),
    "quick": Scale(3_000, 26_000, 8_192, 500, 200),
    "tiny": Scale(40, 300, 100, 10, 10),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    made = rules.rules(s.rules, s.patterns)
    texts = rules.texts(made)
    events = rules.events(s.events, made)
    matcher = Matcher(rules.SCHEMA, limits=rules.LIMITS)
    build = timed(lambda: matcher.add_many(enumerate(texts)))
    progress.say("all rules are added")
    tables = [_building(texts, build, s), _matching(matcher, events, s)]
    return Result("rules", ABOUT, [verdicts(_goals(*tables)), *tables])


def _goals(adding: Table, matching: Table) -> list[Goal]:
    added, found = ([row[1] for row in table.rows] for table in (adding, matching))
    return [
        Goal("all rules at once: CPU time", 10, None, added[0], " s", at_most=True),
        Goal("one rule added: worst", 100, None, added[3], " ms", at_most=True),
        Goal("events per CPU-second in batches, counts", 20_000, None, found[0]),
        Goal("events per CPU-second in batches, ids", 20_000, None, found[1]),
        Goal("events per CPU-second, one by one", 2_000, None, found[2]),
    ]


def _building(texts: list[str], build: float, s: Scale) -> Table:
    """All at once, and one by one into a set of its own."""
    matcher = Matcher(rules.SCHEMA, limits=rules.LIMITS)
    chosen = sorted(texts, key=len)[-s.added :]
    matcher.add("warm", chosen[0])
    one = latency(lambda i=i, t=t: matcher.add(i, t) for i, t in enumerate(chosen))
    rows = [
        ("all at once, CPU seconds", build),
        (f"one by one ({len(chosen):,} longest), median ms", 1e3 * one.median),
        ("one by one, p99 ms", 1e3 * one.p99),
        ("one by one, worst ms", 1e3 * one.worst),
    ]
    return Table(f"Adding {len(texts):,} rules", ("", ""), rows)


def _matching(matcher: Matcher, events: pa.Table, s: Scale) -> Table:
    counts = matcher.count_batch(events)
    batch = len(events) / cpu_seconds(lambda: matcher.count_batch(events))
    ids = len(events) / cpu_seconds(lambda: matcher.match_batch(events))
    rows = events.slice(0, s.single).to_pylist()
    single = len(rows) / cpu_seconds(lambda: [*map(matcher.match, rows)], 1)
    found = [
        ("batch, counts: events per CPU-second", batch),
        ("batch, ids: events per CPU-second", ids),
        ("one by one: events per CPU-second", single),
        ("share of events that hit a rule", f"{(counts > 0).mean():.2%}"),
    ]
    return Table(f"Matching {len(events):,} events", ("", ""), found)
