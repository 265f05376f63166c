"""Make flights.parquet, the bundled sample, from the whole nycflights13 table.

    python examples/flights/make_sample.py WHOLE_TABLE.parquet

Every 17th departure in the order of time: spread evenly over the year, and the
same rows on every run. The year itself is left out: it is 2013 in every row.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

STEP = 17
ORDER = ("time_hour", "sched_dep_time", "carrier", "flight", "origin")


def sample(flights: pa.Table) -> pa.Table:
    """Every STEP-th row in the order of time."""
    in_order = flights.sort_by([(name, "ascending") for name in ORDER])
    rows = pa.array(range(0, in_order.num_rows, STEP))
    return in_order.drop_columns(["year"]).take(rows).combine_chunks()


if __name__ == "__main__":
    target = Path(__file__).with_name("flights.parquet")
    pq.write_table(sample(pq.read_table(sys.argv[1])), target, compression="zstd")
    print(f"{target}: {pq.read_metadata(target).num_rows} flights")
