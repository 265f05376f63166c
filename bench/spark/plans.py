"""Native plans beside the matcher and beside what users write by hand, in CPU-seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from bench import progress
from bench.spark import today
from bench.spark.cpu import by_turns
from bench.spark.place import Figures, Place
from bench.spark.rows import Job, Rows
from bench.workloads import icse, mixed, stock
from tamis.spark import deliveries, match, plan_of
from tamis.spark.message_questions import Question
from tamis.spark.native.planning import PlanLimits, choose

GOALS = (100, 1_000)  # simple rules with peers
JOBS = ("pairs", "arrays", "cases", "native", "deliveries", "matcher")
_CASES = 100  # rules at most for a column each, beyond which Spark plans for seconds
# Far beyond what `auto` allows itself, to see both sides of where plans cross.
_WIDE = PlanLimits(rules=20_000, cuts=200)


def plans(at: Place) -> Figures:
    """Rows (kind, rules, messages, plan that auto takes, seconds of each of JOBS)."""
    return [*(_simple(at, n) for n in at.s.simple), *(_mixed(at, n) for n in at.s.mixed)]


def _simple(at: Place, n: int) -> list[Any]:
    """`symbol = S AND price < P`, 100 symbols, against joins on the symbol."""
    alerts = stock.alerts(n, 100)
    rows = at.rows("plans", stock.trades(at.s.plan_rows, 100))
    texts = [text.partition(" AND volume")[0] for text in alerts.texts()]
    table = at.frame(f"simple-{n}", alerts.table().drop_columns("volume"))
    peers: dict[str, Job] = {
        "pairs": today.joined(table, today.SIMPLE),
        "arrays": today.gathered(table),
    }
    return _compared(at, "simple", n, rows, texts, peers if n in GOALS else {})


def _mixed(at: Place, n: int) -> list[Any]:
    """Conjunctions over ten columns, against CASE WHEN columns."""
    rules = mixed.rules(n)
    rows = at.rows("mixed", icse.messages(at.s.icse_rows))
    peers = {"cases": today.case_when(list(rules.sql()))} if n <= _CASES else {}
    return _compared(at, "mixed", n, rows, list(rules.texts()), peers)


def _compared(
    at: Place, kind: str, n: int, rows: Rows, texts: list[str], peers: dict[str, Job]
) -> list[Any]:
    given = at.frame(f"{kind}-{n}-rules", pa.table({"id": list(range(n)), "selector": texts}))
    frame = rows.frame()
    jobs = dict(peers)
    if _native_plan(frame, given):
        jobs["native"] = lambda messages: _native(messages, given).match("subscriptions")
        if "pairs" in peers:
            jobs["deliveries"] = lambda messages: deliveries(messages, given)
    jobs["matcher"] = lambda messages: match(messages, given, plan="matcher")
    sample = rows.frame(at.s.sample)
    told = {name: today.pairs(job(sample)) for name, job in jobs.items()}
    assert len(set(told.values())) == 1, told
    progress.say(f"{n:,} {kind} rules: {', '.join(jobs)}")
    # What is asked for has several turns; one, in a young session, is mostly Java's compiler.
    turns, warm = (at.s.turns, 2) if peers else (1, 1)
    taken = by_turns(jobs, frame, turns, warm)
    return [kind, n, len(rows), plan_of(frame, given).how, *map(taken.get, JOBS)]


def _native(messages: DataFrame, given: DataFrame) -> Question:
    """As `auto` does it, but for the limits."""
    question = Question.of(messages, given, {})
    plan = choose(messages, question.matcher, "native", texts=False, limits=_WIDE)
    return replace(question, chosen=plan)


def _native_plan(frame: DataFrame, given: DataFrame) -> bool:
    return _native(frame, given).plan().native
