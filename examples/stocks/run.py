"""Makes trades and subscriptions, and runs the flow of figure 2 over them on Spark.

python examples/stocks/run.py [TRADES]
"""

from __future__ import annotations

import csv
import json
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE, OUT = Path(__file__).parent, Path("out/stocks")
SUBSCRIPTIONS = 500


def issues(name: str) -> list[str]:
    with (HERE / f"{name}.csv").open(encoding="utf-8") as file:
        return [row["key"] for row in csv.DictReader(file)]


def trades(exchange: str, count: int, seed: int) -> pa.Table:
    """Most are small; some prices are not known, and some are zero, which the space refuses."""
    rng = np.random.default_rng(seed)
    prices = np.round(rng.lognormal(3.5, 0.8, count), 2)
    prices[rng.random(count) < 0.001] = 0.0
    unknown = rng.random(count) < 0.002
    return pa.table(
        {
            "issue": rng.choice(issues(exchange), count),
            "price": pa.array(prices, mask=unknown),
            "vol": (rng.lognormal(6.5, 1.6, count)).astype(np.int64) + 1,
        }
    )


def subscriptions() -> list[dict[str, str]]:
    rng, names = random.Random(7), []
    for exchange in ("nyse", "nasdaq"):
        with (HERE / f"{exchange}.csv").open(encoding="utf-8") as file:
            names += [row["value"] for row in csv.DictReader(file)]
    return [
        {
            "id": f"s{i}",
            "selector": f"com = '{rng.choice(names)}' AND cap >= {rng.randrange(1, 90)}00000",
        }
        for i in range(SUBSCRIPTIONS)
    ]


def main() -> int:
    from tamis.cli import main as tamis

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    OUT.mkdir(parents=True, exist_ok=True)
    for seed, exchange in enumerate(("nyse", "nasdaq")):
        pq.write_table(trades(exchange, count, seed), OUT / f"{exchange}.parquet")
    lines = "".join(json.dumps(one) + "\n" for one in subscriptions())
    (OUT / "subscriptions.jsonl").write_text(lines, encoding="utf-8")
    return tamis(["flow", "run", str(HERE / "job.toml")])


if __name__ == "__main__":
    sys.exit(main())
