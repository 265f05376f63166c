"""Makes two feeds of the bundled flights and 1,000 subscriptions, and runs the flow on Spark.

python examples/flights-flow/run.py
"""

from __future__ import annotations

import csv
import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HERE, OUT = Path(__file__).parent, Path("out/flights-flow")
FLIGHTS = HERE.parent / "flights" / "flights.parquet"


def newark(flights: pa.Table) -> pa.Table:
    """The feed of Newark: Parquet, with miles and minutes."""
    own = flights.filter(pc.equal(flights["origin"], "EWR"))
    renamed = {"distance": "miles", "time_hour": "at"}
    kept = own.select(["carrier", "flight", "dest", "distance", "arr_delay", "time_hour"])
    return kept.rename_columns([renamed.get(name, name) for name in kept.column_names])


def newyork(flights: pa.Table) -> str:
    """The feed of Kennedy and LaGuardia: JSON lines, with kilometres and hours; some are broken."""
    lines = []
    own = flights.filter(pc.not_equal(flights["origin"], "EWR"))
    for i, row in enumerate(own.to_pylist()):
        late = row["arr_delay"]
        line = json.dumps(
            {
                "airline": row["carrier"],
                "flight": row["flight"],
                "origin": row["origin"],
                "dest": row["dest"],
                "km": round(row["distance"] * 1.609344, 1),
                "late_hours": None if late is None else late / 60,
                "at": row["time_hour"].isoformat() + "Z",
            }
        )
        lines.append(line if i % 5000 else line[: len(line) // 2])
    return "\n".join(lines) + "\n"


def values(name: str) -> list[str]:
    with (HERE / f"{name}.csv").open(encoding="utf-8") as file:
        return [row["value"].replace("'", "''") for row in csv.DictReader(file)]


def subscriptions(count: int = 1_000) -> list[dict[str, str]]:
    rng, cities, carriers = random.Random(11), values("airports"), values("carriers")
    asked = (
        lambda: f"city = '{rng.choice(cities)}' AND late > {rng.randrange(30, 240)}",
        lambda: f"carrier = '{rng.choice(carriers)}' AND grade = 'very late'",
        lambda: f"city IN ('{rng.choice(cities)}', '{rng.choice(cities)}') AND origin = 'JFK'",
        lambda: f"km > {rng.randrange(2000, 8000)} AND carrier STARTS WITH '{rng.choice('ADSU')}'",
    )
    return [{"id": f"traveller-{i}", "selector": rng.choice(asked)()} for i in range(count)]


def main() -> int:
    from tamis.cli import main as tamis

    OUT.mkdir(parents=True, exist_ok=True)
    flights = pq.read_table(FLIGHTS)
    pq.write_table(newark(flights), OUT / "newark.parquet")
    (OUT / "newyork.jsonl").write_text(newyork(flights), encoding="utf-8")
    lines = "".join(json.dumps(one) + "\n" for one in subscriptions())
    (OUT / "subscriptions.jsonl").write_text(lines, encoding="utf-8")
    return tamis(["flow", "run", str(HERE / "job.toml")])


if __name__ == "__main__":
    sys.exit(main())
