"""Stock quotes that look like some: a random walk for each symbol, always the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

CHANNEL, SUBJECT = "quotes", "quotes.nyse"
FORM = {
    "sentence": "Stock quotes",
    "attributes": {"symbol": "string", "price": "double", "volume": "int"},
}


def ticks(count: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(2000)
    prices = {"IBM": 120.0, "LU": 60.0, "T": 35.0, "MSFT": 90.0}
    for _ in range(count):
        symbol = chance.choice(list(prices))
        prices[symbol] = round(prices[symbol] * chance.uniform(0.98, 1.02), 2)
        yield {
            "subject": f"nyse.{symbol}",
            "attributes": {
                "symbol": symbol,
                "price": prices[symbol],
                "volume": chance.randrange(100, 10_000, 100),
            },
        }
