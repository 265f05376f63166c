"""Stock alerts at the branches of a network, and trades as a home has them."""

from __future__ import annotations

import msgspec
import numpy as np

from bench.workloads import stock
from tamis.pubsub.broker.records import Block, Record

SYMBOLS = 5_000
_encode = msgspec.json.encode


def alerts(branch: int, count: int, local: int) -> stock.Alerts:
    """What the subscribers of a branch want: alerts on `local` of the 5,000 symbols, each of which
    some half of the trades of its symbol satisfies."""
    rng = np.random.default_rng((branch, 3))
    own = rng.choice(SYMBOLS, local, replace=False)
    chosen = own[rng.integers(0, local, count)]
    usual = stock.usual_price(SYMBOLS)[chosen]
    price = np.round(usual * rng.uniform(0.95, 1.1, count), 2)
    return stock.Alerts(stock.symbols(SYMBOLS)[chosen], price, rng.integers(1, 500, count))


def blocks(count: int, size: int) -> list[Block]:
    """So many trades as blocks of `size`; a body has some 50 bytes."""
    records = [
        Record(n, 1_760_000_000_000_000 + n, "exchange", n, "", "trades", _encode(trade))
        for n, trade in enumerate(stock.trades(count, SYMBOLS).to_pylist(), 1)
    ]
    return [Block(1, tuple(records[at : at + size])) for at in range(0, count, size)]
