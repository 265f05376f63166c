"""Say in a few lines what `tamis match` found in the bundled example.

python examples/flights/report.py MATCHES.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = 5


def read(path: Path) -> Iterator[dict[str, object]]:
    """The objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def report(selectors: dict[str, str], matches: Iterable[dict[str, object]]) -> Iterator[str]:
    """The lines of the report."""
    found = [match["subscriptions"] for match in matches]
    hits = Counter(id for ids in found for id in ids)
    yield f"{len(selectors)} subscriptions, {len(hits)} of them matched something"
    yield f"{len(found):,} flights were of interest to someone, {hits.total():,} deliveries in all"
    yield "the busiest subscriptions:"
    for id, count in hits.most_common(SHOWN):
        yield f"  {count:>6,}  {id:<16} {selectors[id]}"


if __name__ == "__main__":
    selectors = {str(s["id"]): str(s["selector"]) for s in read(HERE / "subscriptions.jsonl")}
    print("\n".join(report(selectors, read(Path(sys.argv[1])))))
