"""Networks that addresses are in: `address IN CIDR`, of IPv4 and of IPv6."""

from __future__ import annotations

import ipaddress
import random
from dataclasses import dataclass

import pyarrow as pa

from bench import progress
from bench.measure import cpu_seconds, timed
from bench.report import Goal, Result, Table, verdicts
from tamis import Matcher, Schema

ABOUT = (
    "Networks, per CPU-second: `address IN CIDR '...'` with lengths of 16 to 32 bits (IPv4) or 32 "
    "to 128 (IPv6), and the same with a port. Addresses are texts, all different."
)
_MUST = 1_000_000  # rows/s with 100,000 networks of IPv4


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
    schema, rng = Schema.of(address=str, port=int), random.Random(1)
    rows, goals = [], []
    for name, version, tail in (
        ("IPv4", 4, ""), ("IPv4 AND port = n", 4, " AND port = {}"), ("IPv6", 6, ""),
    ):  # fmt: skip
        table = _messages(s.messages, version, rng)
        selectors = [
            (i, f"address IN CIDR '{_network(version, rng)}'" + tail.format(rng.randrange(100)))
            for i in range(s.subscriptions)
        ]
        matcher = Matcher(schema)
        seconds = timed(lambda m=matcher, x=selectors: m.add_many(x))
        matcher.settle()
        counts = len(table) / cpu_seconds(lambda m=matcher, t=table: m.count_batch(t))
        ids = len(table) / cpu_seconds(lambda m=matcher, t=table: m.match_batch(t))
        one = table.slice(0, s.single).to_pylist()
        single = len(one) / cpu_seconds(lambda m=matcher, o=one: [*map(m.match, o)])
        rows.append((name, counts, ids, single, float(matcher.count_batch(table).mean()), seconds))
        if name == "IPv4":
            goals.append(Goal("counts, IPv4", _MUST, None, counts))
        progress.say(name)
    columns = ("set", "counts", "ids", "one by one", "matches of a message", "seconds to add")
    found = Table("Messages per CPU-second", columns, rows)
    return Result("networks", ABOUT, [verdicts(goals), found])


def _address(version: int, rng: random.Random) -> int:
    """Of IPv6 those that are given out begin with 2."""
    return rng.getrandbits(32) if version == 4 else 2 << 124 | rng.getrandbits(124)


def _text(version: int, number: int) -> str:
    kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    return str(kind(number))


def _network(version: int, rng: random.Random) -> str:
    whole, lengths = (
        (32, (16, 20, 24, 24, 28, 32)) if version == 4 else (128, (32, 48, 56, 64, 128))
    )
    bits = rng.choice(lengths)
    first = _address(version, rng) >> (whole - bits) << (whole - bits)
    return f"{_text(version, first)}/{bits}"


def _messages(count: int, version: int, rng: random.Random) -> pa.Table:
    addresses = [_text(version, _address(version, rng)) for _ in range(count)]
    return pa.table({"address": addresses, "port": [rng.randrange(100) for _ in range(count)]})
