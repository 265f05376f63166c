"""Say in a few lines what `tamis match` found in the bundled example.

python examples/flights/report.py MATCHES.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHOWN = 6


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def report(selectors: dict[str, str], matches: Iterable[dict[str, list[str]]]) -> Iterator[str]:
    """The lines of the report."""
    found = [match["subscriptions"] for match in matches]
    hits = Counter(id for ids in found for id in ids)
    yield f"{len(selectors)} subscriptions, {len(hits)} of them matched something"
    yield f"{len(found):,} flights were of interest to someone, {hits.total():,} deliveries in all"
    yield "the busiest subscription of each kind:"
    for id in busiest_of_each_kind(hits)[:SHOWN]:
        yield f"  {hits[id]:>6,}  {id:<16} {selectors[id]}"


def busiest_of_each_kind(hits: Counter[str]) -> list[str]:
    """An id is a kind and a number: `night-117`."""
    first: dict[str, str] = {}
    for id, _ in hits.most_common():
        first.setdefault(id.rpartition("-")[0], id)
    return list(first.values())


if __name__ == "__main__":
    selectors = {s["id"]: s["selector"] for s in read(HERE / "subscriptions.jsonl")}
    print("\n".join(report(selectors, read(Path(sys.argv[1])))))
