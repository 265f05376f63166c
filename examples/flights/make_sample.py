"""Make flights.parquet, the bundled sample, from the whole nycflights13 table.

    python examples/flights/make_sample.py WHOLE_TABLE.parquet

Every third departure in the order of time: spread evenly over the year, and the
same rows on every run. The year itself is left out: it is 2013 in every row.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

STEP = 3
ORDER = ("time_hour", "sched_dep_time", "carrier", "flight", "origin")


def sample(flights: pa.Table) -> pa.Table:
    """Every STEP-th row in the order of time."""
    in_order = flights.sort_by([(name, "ascending") for name in ORDER])
    rows = pa.array(range(0, in_order.num_rows, STEP))
    return in_order.drop_columns(["year"]).take(rows).combine_chunks()


if __name__ == "__main__":
    target = Path(__file__).with_name("flights.parquet")
    flights = sample(pq.read_table(sys.argv[1]))
    # Four groups of rows, so that Spark can give them to several tasks; a dictionary only where
    # values repeat, which keeps the file small.
    pq.write_table(
        flights,
        target,
        row_group_size=-(-flights.num_rows // 4),
        compression="zstd",
        compression_level=19,
        use_dictionary=["carrier", "tailnum", "origin", "dest", "flight", "distance"],
    )
    print(f"{target}: {pq.read_metadata(target).num_rows} flights")
