"""Compile every kernel once: `python -m tamis.warm`. Set-up does it, so that no user waits."""

from __future__ import annotations

import pyarrow as pa

from tamis.diagram.conditions import diagram_of
from tamis.diagram.reference import eval_bdd, mv_eval_bdd, truths_of
from tamis.engine import Matcher
from tamis.language import parse
from tamis.schema import Schema

_SELECTORS = (
    "symbol = 'S1' AND price < 10.5 AND volume > 7",
    "symbol IN ('S1', 'S2') OR NOT price BETWEEN 1 AND 2 OR (volume = 3 AND price IS NULL)",
    "venue = 'V1' AND price < 10.5 AND volume IN (1, 2, 3)",
    "symbol CONTAINS 'a' AND symbol STARTS WITH 'b' OR symbol ENDS WITH 'c' AND symbol < 'd'",
)


def main() -> None:
    schema = Schema.of(symbol=str, venue=str, price=float, volume=int)
    symbols = [f"S{i % 40}" for i in range(100)]
    venues = [f"V{i % 3}" if i % 7 else None for i in range(100)]
    numbers = {"price": [i / 10 for i in range(100)], "volume": list(range(100))}
    table = pa.table({"symbol": symbols, "venue": venues, **numbers})
    graph = Matcher(schema, engine="implication")
    for matcher in (Matcher(schema, semantics="strict"), Matcher(), graph):
        matcher.add_many(enumerate(_SELECTORS))
        matcher.add_many((100 + i, f"symbol = 'S{i}' AND price < {i}.5") for i in range(40))
        matcher.add_many((200 + i, _wide_or(i)) for i in range(3))
        matcher.match_batch(table)
        matcher.count_batch(table)
        matcher.bitmap_batch(table)
        matcher.match({"symbol": "abc", "price": 1.0, "volume": 8})
        matcher.remove(0)
        matcher.settle()
    diagram = diagram_of([parse(text) for text in _SELECTORS], schema)
    message = {"symbol": "S1", "price": 1.0, "volume": 8}
    eval_bdd(diagram.shared, truths_of(diagram, message))
    mv_eval_bdd(diagram.shared, truths_of(diagram, message))


def _wide_or(seed: int) -> str:
    return " OR ".join(f"(price < {i}.{seed} AND volume > {i})" for i in range(60))


if __name__ == "__main__":
    main()
