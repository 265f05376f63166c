"""Stock alerts: 10k to 1M subscriptions on symbol, price and volume; uniform, Zipf, real ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bench import peers, progress
from bench.measure import cpu_seconds, few, latency, peer_rate, timed, wall_by_turns
from bench.report import Chart, Goal, Result, Table, verdicts
from bench.workloads import stock
from tamis import Matcher, Schema

ABOUT = (
    "Alerts `symbol = 'S0123' AND price < 12.34 AND volume > 5678` over 5,000 symbols, uniform or "
    "by Zipf's law; alerts that are equalities only; and alerts on the real ticks of one day. "
    "Rates are messages per CPU-second on one core, DuckDB's join likewise with one thread."
)


@dataclass(frozen=True, slots=True)
class Scale:
    sizes: tuple[int, ...]
    messages: int
    checked: int  # messages whose counts are compared with DuckDB's
    single: int


SCALES = {
    "full": Scale((10_000, 100_000, 1_000_000), 262_144, 2_048, 2_000),
    "quick": Scale((10_000, 30_000), 32_768, 2_048, 300),
    "tiny": Scale((200,), 256, 64, 10),
}
Row = list[Any]
_COLUMNS = (
    *("alerts", "set", "build s", "counts", "with ids", "matches per message"),
    *("DuckDB counts", "DuckDB with ids", "one message: median µs", "p99 µs"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One set of alerts with its messages; `on` is the condition of the join."""

    name: str
    schema: Schema
    texts: Callable[[], Iterable[str]]
    alerts: Callable[[], pa.Table]
    messages: pa.Table
    on: str


def run(scale: str) -> Result:
    s = SCALES[scale]
    rows: list[Row] = []
    threads: list[Row] = []
    small: list[Row] = []
    for n, case in _cases(s):
        progress.say(f"{n:,} alerts, {case.name}")
        matcher, seconds = _built(case)
        rows.append([f"{n:,}", case.name, seconds, *_measured(matcher, case, s)])
        if case.name == "uniform":
            threads.append(_threads(n, matcher, case.messages))
        if n == max(s.sizes):
            small.append([f"{n:,}", case.name, *_small(matcher, case)])
    tables = [
        verdicts(_goals(rows, threads)),
        Table("Messages per CPU-second", _COLUMNS, rows, _note()),
        Table(f"Counts in batches of {_BATCH:,} messages", _SMALL, small, _READS),
        Table("Threads", ("alerts", "1 thread", "2 threads", "ratio"), threads, _WALL),
    ]
    return Result("stock", ABOUT, tables, [_chart(rows)])


def _goals(rows: list[Row], threads: list[Row]) -> list[Goal]:
    """What was asked for, of the smallest and the largest set; one message at the middle size."""
    found = {(row[1], row[0]): row for row in rows}
    uniform = [row for row in rows if row[1] == "uniform"]
    small, middle, large = uniform[0], uniform[len(uniform) // 2], uniform[-1]
    n, m = large[0], middle[0]
    zipf, equal = found["Zipf", n], found["equalities", n]
    goals = [
        Goal(f"messages/s at {n} against {small[0]} alerts", 1 / 3, 1, large[3] / small[3]),
        Goal(f"{n} alerts: messages/s, counts, one core", 500_000, 2_000_000, large[3]),
        Goal(f"{n} alerts from text: build", 60, 20, large[2], " s", at_most=True),
        Goal(f"one of {m} alerts' messages: median", 100, 20, middle[8], " µs", at_most=True),
        Goal(f"{n} alerts, Zipf: counts against DuckDB", 1, None, zipf[3] / zipf[6], "x"),
        Goal(f"{n} alerts, Zipf: with ids against DuckDB", 1, None, zipf[4] / zipf[7], "x"),
        Goal(f"{n} equalities: counts against DuckDB", 1, None, equal[3] / equal[6], "x"),
    ]
    goals += [Goal(f"2 threads against 1, {t[0]} alerts", 1.7, 1.95, t[3], "x") for t in threads]
    return goals


_BATCH = 4_096
_SMALL = ("alerts", "set", "Tamis", "DuckDB", "Tamis is faster by")
_READS = (
    "Messages per CPU-second. Above, both get many messages at once: DuckDB reads all alerts for "
    "every batch, so it is the better the larger its batches are. A stream has small ones."
)
_WALL = "Messages per second on the wall, counts only, uniform."


def _note() -> str:
    return "" if stock.TICKS.exists() else "The real ticks are not here: that set is left out."


def _cases(s: Scale) -> Iterator[tuple[int, Case]]:
    """Made one by one: a million alerts are large."""
    day = stock.ticks()
    for n in s.sizes:
        yield n, _synthetic(n, s.messages, zipf=False)
        yield n, _synthetic(n, s.messages, zipf=True)
        yield n, _equalities(n, s.messages)
        if day is not None:
            yield n, _ticks(n, day, s.messages)


def _synthetic(n: int, messages: int, *, zipf: bool) -> Case:
    alerts = stock.alerts(n, zipf=zipf)
    table = stock.trades(messages, zipf=zipf)
    name = "Zipf" if zipf else "uniform"
    return Case(name, stock.SCHEMA, alerts.texts, alerts.table, table, peers.INEQUALITIES)


def _equalities(n: int, messages: int) -> Case:
    alerts, table = stock.equality_alerts(n), stock.equality_trades(messages)
    schema, on = stock.EQUALITY_SCHEMA, peers.EQUALITIES
    return Case("equalities", schema, alerts.texts, alerts.table, table, on)


def _ticks(n: int, day: pa.Table, messages: int) -> Case:
    """The messages are spread over the whole day: its first hours have few trades."""
    alerts = stock.tick_alerts(n, day)
    table = day.take(np.linspace(0, len(day) - 1, messages).astype(np.int64))
    on = peers.INEQUALITIES.replace("m.volume", "m.size")
    return Case("real ticks", stock.TICKS_SCHEMA, alerts.texts, alerts.table, table, on)


def _built(case: Case) -> tuple[Matcher, float]:
    texts = list(case.texts())
    Matcher(case.schema).add_many(enumerate(texts[:100]))  # compiled before the clock starts
    matcher = Matcher(case.schema)
    return matcher, timed(lambda: matcher.add_many(enumerate(texts)))


def _measured(matcher: Matcher, case: Case, s: Scale) -> Row:
    messages = case.messages
    counts = len(messages) / cpu_seconds(lambda: matcher.count_batch(messages))
    fan_out = float(matcher.count_batch(messages).mean())
    some = messages.slice(0, _affordable(len(messages), fan_out))
    ids = len(some) / cpu_seconds(lambda: matcher.match_batch(some))
    return [counts, ids, fan_out, *_joined(matcher, case, s), *_single(matcher, case, s)]


def _affordable(messages: int, fan_out: float) -> int:
    """So many messages that at most 20 million pairs come out."""
    return int(min(messages, 20_000_000 / max(fan_out, 1e-9) + 1))


def _joined(matcher: Matcher, case: Case, s: Scale) -> Row:
    """DuckDB on the same alerts and messages; its counts must equal ours."""
    join = peers.Join(case.alerts(), case.on)
    some = case.messages.slice(0, s.checked)
    assert (join.counts(some) == matcher.count_batch(some)).all()
    rates: Row = [peer_rate(ask, case.messages) for ask in (join.counts, join.pairs)]
    join.close()
    return rates


def _small(matcher: Matcher, case: Case) -> Row:
    join = peers.Join(case.alerts(), case.on)
    some = case.messages.slice(0, _BATCH)
    own, other = (
        len(some) / cpu_seconds(lambda ask=ask: ask(some))
        for ask in (matcher.count_batch, join.counts)
    )
    join.close()
    return [own, other, own / other]


def _single(matcher: Matcher, case: Case, s: Scale) -> Row:
    rows = case.messages.slice(0, s.single).to_pylist()
    matcher.match(rows[0])
    found = latency(few(lambda row=row: matcher.match(row) for row in rows))
    return [1e6 * found.median, 1e6 * found.p99]


def _threads(n: int, matcher: Matcher, messages: pa.Table) -> Row:
    messages = pa.concat_tables([messages] * 16)  # so many that beginning and end weigh little
    works = [lambda t=t: matcher.count_batch(messages, threads=t) for t in (1, 2)]
    one, two = (len(messages) / seconds for seconds in wall_by_turns(works))
    return [f"{n:,}", one, two, two / one]


def _chart(rows: list[Row]) -> Chart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        n = float(str(row[0]).replace(",", ""))
        for label, at in (("Tamis", 3), ("DuckDB", 6)):
            if row[1] in ("uniform", "Zipf"):
                lines.setdefault(f"{label}, {row[1]}", []).append((n, float(row[at] or 0)))
    return Chart("stock", "Stock alerts, counts, one core", "alerts", "messages/s", lines)
