"""General Boolean conditions: negations, nesting and wide disjunctions over 30 attributes."""

from __future__ import annotations

from dataclasses import dataclass

from bench import progress
from bench.measure import cpu_seconds, few, latency, timed
from bench.report import Cell, Chart, Result, Table
from bench.workloads import general
from tamis import Matcher

ABOUT = (
    "Conditions with negations, nesting and disjunctions of 20 to 200 terms over 30 attributes, "
    "four fifths of them defined in a message. Rates are messages per CPU-second on one core."
)


@dataclass(frozen=True, slots=True)
class Scale:
    sizes: tuple[int, ...]
    messages: int
    single: int


SCALES = {
    "full": Scale((1_000, 3_000, 10_000), 65_536, 500),
    "quick": Scale((50, 150), 8_192, 50),
    "tiny": Scale((10, 20), 128, 5),
}
_COLUMNS = (
    *("conditions", "characters", "build s", "counts", "with ids", "matches per message"),
    *("one message: median µs", "p99 µs"),
)


def run(scale: str) -> Result:
    s = SCALES[scale]
    rows = [_measured(n, s) for n in s.sizes]
    points = [(float(n), float(row[3] or 0)) for n, row in zip(s.sizes, rows, strict=True)]
    chart = Chart("general", "General conditions", "conditions", "messages/s", {"counts": points})
    return Result("general", ABOUT, [Table("Messages per CPU-second", _COLUMNS, rows)], [chart])


def _measured(n: int, s: Scale) -> list[Cell]:
    progress.say(f"{n:,} conditions")
    texts = general.conditions(n)
    Matcher(general.SCHEMA).add_many(enumerate(texts[:10]))  # compiled before the clock starts
    table = general.messages(s.messages)
    matcher = Matcher(general.SCHEMA)
    build = timed(lambda: matcher.add_many(enumerate(texts)))
    table = table.slice(0, max(2_048, s.messages * s.sizes[0] // n))  # wide sets take long
    counts = len(table) / cpu_seconds(lambda: matcher.count_batch(table))
    fan_out = float(matcher.count_batch(table).mean())
    some = table.slice(0, int(min(len(table), 5_000_000 / max(fan_out, 1e-9) + 1)))
    ids = len(some) / cpu_seconds(lambda: matcher.match_batch(some))
    messages = table.slice(0, s.single).to_pylist()
    matcher.match(messages[0])
    one = latency(few(lambda m=m: matcher.match(m) for m in messages))
    size = sum(map(len, texts))
    return [f"{n:,}", size, build, counts, ids, fan_out, 1e6 * one.median, 1e6 * one.p99]
