"""Lists in messages: tags of which some are wanted, and prices of which one is low."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from bench import progress
from bench.measure import cpu_seconds, timed
from bench.report import Goal, Result, Table, verdicts
from tamis import Matcher, Schema

ABOUT = (
    "Messages with lists, per CPU-second: `ANY(tags) IN (...)` with one to five of 50,000 tags, "
    "the same and a bound of another attribute, and `ANY(prices) < ...`. A message has zero to "
    "eight tags and prices."
)
_MUST = 200_000  # rows/s with 100,000 subscriptions ANY(tags) IN (...)


@dataclass(frozen=True, slots=True)
class Scale:
    subscriptions: int
    messages: int
    single: int


SCALES = {
    "full": Scale(100_000, 262_144, 2_000),
    "quick": Scale(20_000, 65_536, 500),
    "tiny": Scale(200, 128, 4),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    schema = Schema.of(tags=list[str], prices=list[float], volume=int)
    table = _messages(s.messages, random.Random(1))
    rows, goals = [], []
    for name, selectors in _sets(s.subscriptions, random.Random(2)).items():
        matcher = Matcher(schema)
        seconds = timed(lambda m=matcher, x=selectors: m.add_many(x))
        matcher.settle()
        counts = len(table) / cpu_seconds(lambda m=matcher: m.count_batch(table))
        ids = len(table) / cpu_seconds(lambda m=matcher: m.match_batch(table))
        one = table.slice(0, s.single).to_pylist()
        single = len(one) / cpu_seconds(lambda m=matcher, o=one: [*map(m.match, o)])
        mean = float(matcher.count_batch(table).mean())
        rows.append((name, counts, ids, single, mean, seconds))
        if name == "ANY(tags) IN (...)":
            goals += [Goal("counts", _MUST, None, counts), Goal("with ids", _MUST, None, ids)]
        progress.say(name)
    columns = ("set", "counts", "ids", "one by one", "matches of a message", "seconds to add")
    found = Table("Messages per CPU-second", columns, rows)
    return Result("lists", ABOUT, [verdicts(goals), found])


def _messages(count: int, rng: random.Random) -> pa.Table:
    tags = [[_tag(rng) for _ in range(rng.randint(0, 8))] for _ in range(count)]
    prices = [[round(rng.uniform(1, 1000), 2) for _ in range(len(own))] for own in tags]
    return pa.table({"tags": tags, "prices": prices, "volume": [*range(count)]})


def _tag(rng: random.Random) -> str:
    return f"tag-{rng.randrange(50_000)}"


def _sets(count: int, rng: random.Random) -> dict[str, list[tuple[int, str]]]:
    tags = [", ".join(f"'{_tag(rng)}'" for _ in range(rng.randint(1, 5))) for _ in range(count)]
    bounds = [rng.randrange(1_000_000) for _ in range(count)]
    low = [round(rng.uniform(1, 2), 4) for _ in range(count)]
    sets = {
        "ANY(tags) IN (...)": [f"ANY(tags) IN ({own})" for own in tags],
        "ANY(tags) IN (...) AND volume > n": [
            f"ANY(tags) IN ({own}) AND volume > {n}" for own, n in zip(tags, bounds, strict=True)
        ],
        "ANY(prices) < x": [f"ANY(prices) < {x}" for x in low],
    }
    return {name: list(enumerate(selectors)) for name, selectors in sets.items()}
