"""Texts, terms and attributes without number: what no equality leads to, and real rules."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bench import progress
from bench.measure import cpu_seconds, in_own_process, resident_bytes, timed
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import rules, texts
from tamis import Limits, Matcher, Schema

ABOUT = (
    "Sets in which no equality leads to the relevant subscriptions, per CPU-second; and real "
    "detection rules against real event logs, where TAMIS_BENCH_DATA names the folder that has "
    "them (else the rules and events of the experiment `rules` take their place)."
)
_MUST = {
    "LIKE with _ (20,000)": (3_000, 0),
    "CONTAINS of two letters (50,000)": (10_000, 0),
    "WITHIN (20,000)": (20_000, 0),
    "arithmetic terms (10,000)": (50_000, 500),
    "attribute against attribute (20,000)": (50_000, 500),
    "500 attributes (100,000)": (200_000, 3_000),
}


@dataclass(frozen=True, slots=True)
class Scale:
    size: float  # of the sets, as a share of the full ones
    rules: int
    events: int
    single: int


SCALES = {
    "full": Scale(1.0, 1_400, 32_768, 3_000),
    "quick": Scale(0.2, 300, 4_096, 300),
    "tiny": Scale(0.005, 20, 64, 4),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    sets, set_goals = _sets(s)
    progress.say("texts and terms are done")
    attributes, attribute_goals = _attributes(s)
    found, rule_goals = _rules(s)
    progress.say("lists of constants")
    bytes_each = in_own_process(list_bytes, s.size)
    lists = Goal("IN of 1,000: bytes for each constant", 16, None, bytes_each, at_most=True)
    goals = verdicts([*rule_goals, *set_goals, *attribute_goals, lists])
    return Result("relevance_texts", ABOUT, [goals, found, sets, attributes])


def list_bytes(size: float) -> float:
    """Resident bytes for each constant of lists of 1,000, texts and ids not counted."""
    chance = random.Random(5)
    symbols = [f"S{i}" for i in range(20_000)]
    lists = [chance.sample(symbols, 1000) for _ in range(max(2, int(1000 * size)))]
    selectors = [f"sym IN ({', '.join(map(repr, constants))})" for constants in lists]
    table = texts.as_table([{"sym": symbol} for symbol in symbols[:100]])
    _counted(selectors[:2], table)  # kernels are loaded
    before = resident_bytes()
    matcher = _counted(selectors, table)
    used = resident_bytes() - before
    assert len(matcher) == len(selectors)
    return used / (1000 * len(selectors))


def _counted(selectors: list[str], table: pa.Table) -> Matcher:
    matcher = Matcher(Schema.of(sym=str))
    matcher.add_many(enumerate(selectors))
    matcher.settle()
    matcher.count_batch(table)
    return matcher


def _sets(s: Scale) -> tuple[Table, list[Goal]]:
    rows, goals = [], []
    for name, make in texts.SETS.items():
        given = make(s.size, random.Random(5))
        matcher = Matcher(given.schema)
        matcher.add_many(enumerate(given.selectors))
        matcher.settle()
        table, one = given.table, given.table.slice(0, 50).to_pylist()
        batch = len(table) / cpu_seconds(lambda m=matcher, t=table: m.count_batch(t))
        single = len(one) / cpu_seconds(lambda m=matcher, o=one: [*map(m.match, o)])
        rows.append((name, batch, single, float(matcher.count_batch(table).mean())))
        goals.append(Goal(f"{name}: counts", _MUST[name][0], None, batch))
        if _MUST[name][1]:
            goals.append(Goal(f"{name}: one by one", _MUST[name][1], None, single))
        progress.say(name)
    columns = ("set", "counts", "one by one", "matches of a message")
    return Table("Messages per CPU-second", columns, rows), goals


def _attributes(s: Scale) -> tuple[Table, list[Goal]]:
    """20,000 attributes in one set; alerts with and without a schema."""
    given = texts.many_attributes(s.size, random.Random(5))
    matcher = Matcher()
    added = len(given.selectors) / timed(lambda: matcher.add_many(enumerate(given.selectors)))
    matcher.settle()
    one = given.table.slice(0, 500).to_pylist()
    single = len(one) / cpu_seconds(lambda: [*map(matcher.match, one)])
    rates = []
    for schema in (Schema.of(sym=str, price=float), None):
        trades = texts.alerts(s.size, random.Random(5), schema)
        alerts = Matcher(schema)
        alerts.add_many(enumerate(trades.selectors))
        alerts.settle()
        table = trades.table
        rates.append(len(table) / cpu_seconds(lambda m=alerts, t=table: m.count_batch(t)))
    rows = [
        ("20,000 attributes: added per CPU-second", added),
        ("20,000 attributes: messages per CPU-second, one by one", single),
        ("alerts with a schema: counts per CPU-second", rates[0]),
        ("the same without: counts per CPU-second", rates[1]),
    ]
    goals = [
        Goal("20,000 attributes: added per second", 20_000, None, added),
        Goal("20,000 attributes: one by one", 10_000, None, single),
        Goal("no schema: times as slow", 1.5, 1.1, rates[0] / rates[1], at_most=True),
    ]
    return Table("Many attributes, and no schema", ("", ""), rows), goals


def _rules(s: Scale) -> tuple[Table, list[Goal]]:
    given, events, source = _rules_and_events(s)
    matcher = _matcher()
    matcher.add_many(given)
    matcher.settle()
    table = texts.as_table(events)
    arrow = len(events) / cpu_seconds(lambda: matcher.match_batch(table))
    mappings = len(events) / cpu_seconds(lambda: matcher.match_many(events))
    fresh = _matcher()
    fresh.add_many(given)
    fresh.settle()
    fresh.match({})
    chosen = events[: s.single]
    single = len(chosen) / timed(lambda: [*map(fresh.match, chosen)])
    one = _matcher()
    adding = timed(lambda: [one.add(id, text) for id, text in given]) / len(given)
    rows = [
        ("Arrow, ids: events per CPU-second", arrow),
        ("mappings, ids: events per CPU-second", mappings),
        ("one by one, events not seen before: per CPU-second", single),
        ("one `add`: CPU ms", 1e3 * adding),
        ("matches", int(matcher.match_batch(table).counts.sum())),
    ]
    goals = [
        Goal("rules: Arrow", 150_000, 300_000, arrow),
        Goal("rules: mappings", 80_000, None, mappings),
        Goal("rules: one by one", 10_000, None, single),
        Goal("rules: one add", 0.5, 0.1, 1e3 * adding, " ms", at_most=True),
    ]
    return Table(
        f"{len(given):,} rules and {len(events):,} events: {source}", ("", ""), rows
    ), goals


def _matcher() -> Matcher:
    return Matcher(semantics="default", limits=Limits(length=400_000))


def _rules_and_events(s: Scale) -> tuple[list[tuple[Any, str]], list[dict[str, Any]], str]:
    found = texts.real() if s.size >= 1 else None
    if found is not None:
        return (*found, "real ones")
    made = rules.rules(s.rules, 9 * s.rules)
    rows = rules.events(s.events, made).to_pylist()
    events = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return list(enumerate(rules.texts(made))), events, "made up, as TAMIS_BENCH_DATA has none"
