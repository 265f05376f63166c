"""A snapshot that an earlier version wrote still loads, and matches as its selectors say."""

from __future__ import annotations

import gzip
from pathlib import Path

import oracle
from tamis import Matcher
from tamis.language import parse

EARLIER = Path(__file__).parents[1] / "golden" / "earlier.snapshot.gz"
MESSAGES = [
    {"symbol": f"S{i % 18}", "price": i * 1.25, "volume": i % 9, "tags": ["a", "b"][: i % 3]}
    for i in range(90)
]
MESSAGES += [{"symbol": "S3", "price": 2.25, "volume": 2}, {"volume": 1}, {}]


def test_a_snapshot_of_an_earlier_version_loads(tmp_path: Path) -> None:
    path = tmp_path / "earlier"
    path.write_bytes(gzip.decompress(EARLIER.read_bytes()))
    matcher = Matcher.load(path)
    rules = {id: parse(text) for id, text in matcher.items()}
    assert len(rules) == 193
    expected = [
        [id for id, rule in rules.items() if oracle.matches(rule, m, "strict", matcher.schema)]
        for m in MESSAGES
    ]
    assert [matcher.match(m) for m in MESSAGES] == expected
    assert matcher.match_many(MESSAGES).to_pylist() == expected
    matcher.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
