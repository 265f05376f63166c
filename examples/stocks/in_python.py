"""The flow of figure 2 as a job in Python: frames in, files out, subscriptions, counts, a report.

python examples/stocks/in_python.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tamis.flow import check, read_flow
from tamis.spark import session
from tamis.spark.flows import FlowJob, FlowRunning, Subscribed, flow_page
from tamis.spark.jobs.job import Sink

HERE = Path(__file__).parent
COLUMNS = "issue string, price double, vol bigint"
NYSE = [("IBM", 120.5, 10_000), ("GE", 30.0, 100), ("IBM", 0.0, 5), ("KO", 40.0, 50_000)]
NASDAQ = [("MSFT", 400.0, 9_000), ("AAPL", 190.0, 20)]


def job(spark: SparkSession, folder: Path) -> FlowJob:
    """Large trades with the ids of those who asked for them; the other spaces side by side."""
    asked = [("whale", "cap >= 3000000"), ("ibm", "com LIKE 'International%'")]
    return FlowJob(
        check(read_flow(HERE / "stocks.flow")),
        sources={
            "NYSE": spark.createDataFrame(NYSE, COLUMNS),
            "NASDAQ": spark.createDataFrame(NASDAQ, COLUMNS),
        },
        sinks={"LargeTrades": Sink(str(folder / "large"), "json", mode="overwrite")},
        together=Sink(str(folder / "others"), mode="overwrite"),
        errors=Sink(str(folder / "errors"), "json", mode="overwrite"),
        subscriptions={"LargeTrades": Subscribed(asked)},
        counted=True,
        folder=HERE,  # the flow names the files of its lookups from here
    )


def main(folder: Path) -> None:
    running = FlowRunning(job(session(), folder), session())
    running.run()
    counts = running.counting.counts
    assert counts is not None
    for space, messages in counts.spaces.items():
        print(f"{space:<12} {messages}")
    page = flow_page(running, "Stocks", [("folder", str(folder))])
    (folder / "report.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/stocks-in-python"))
