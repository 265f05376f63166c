"""`python -m bench.spark.states FOLDER SCALE`: streaming folds, and print the figures as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from bench import progress
from bench.experiments.states import SCALES
from bench.workloads.states import MANY
from tamis.spark import session
from tamis.spark.states import StateStream

DDL = "k long, v double, n long, seq long"
_TICK = os.sysconf("SC_CLK_TCK")


def main(folder: str, scale: str) -> None:
    progress.begin("states on Spark")
    s = SCALES[scale]
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = session(cores=2, settings={"spark.sql.streaming.stateStore.providerClass": store})
    spark.sparkContext.setLogLevel("OFF")
    root = Path(folder)
    write(root / "events", s.keys, s.events, s.batches)
    write(root / "few", s.keys, s.slow, 4)
    found = [
        ["Tamis fold", s.keys, s.events, *measured(spark, root, "events", s.events, _fold)],
        [
            "native aggregation",
            s.keys,
            s.events,
            *measured(spark, root, "events", s.events, _native),
        ],
    ]
    try:
        slow = measured(spark, root, "few", s.slow, _with_state)
        found.append(["transformWithState", s.keys, s.slow, *slow])
    except Exception as error:
        progress.say(f"transformWithState did not run: {str(error)[:200]}")
    spark.stop()
    print(json.dumps(found))


def write(folder: Path, keys: int, events: int, batches: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(7)
    for batch in range(batches):
        table = pa.table({
            "k": rng.integers(0, keys, events),
            "v": rng.integers(1, 10_000, events) / 100,
            "n": rng.integers(1, 100, events),
            "seq": np.arange(batch * events, (batch + 1) * events),
        })  # fmt: skip
        pq.write_table(table, folder / f"{batch:05d}.parquet")


Start = Callable[[DataFrame, Path, Callable[[], None]], Any]


def measured(
    spark: SparkSession, root: Path, source: str, events: int, start: Start
) -> tuple[float, float]:
    """CPU-seconds of a micro-batch, and events per CPU-second, in the last half: Java is warm."""
    progress.say(start.__name__.strip("_"))
    marks: list[float] = []
    reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(root / source))
    folder = root / f"run{start.__name__}"
    query = start(frame, folder, lambda: marks.append(cpu()))
    query.awaitTermination()
    taken = median([b - a for a, b in pairwise(marks[len(marks) // 2 - 1 :])])
    return taken, events / taken


def _fold(frame: DataFrame, folder: Path, mark: Callable[[], None]) -> Any:
    stream = StateStream(MANY, str(folder / "states"), on_batch=lambda *_: mark())
    return stream.start(frame, str(folder / "checkpoint"), availableNow=True)


def _native(frame: DataFrame, folder: Path, mark: Callable[[], None]) -> Any:
    """The same three components, none of which depends on the order here."""
    state = frame.groupBy("k").agg(F.max("v"), F.max_by("v", "seq"), F.sum("n"))
    return _started(state, folder, mark, "update")


def _with_state(frame: DataFrame, folder: Path, mark: Callable[[], None]) -> Any:
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
    from pyspark.sql.types import Row

    class Fold(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.held = handle.getValueState("held", "top double, cur double, sum long")

        def handleInputRows(self, key: Any, rows: Iterator[Row], times: Any) -> Iterator[Row]:  # noqa: N802
            top, cur, total = self.held.get() if self.held.exists() else (0.0, 0.0, 0)
            for row in sorted(rows, key=lambda row: row["seq"]):
                top, cur, total = max(top, row["v"]), row["v"], total + row["n"]
            self.held.update((top, cur, total))
            yield Row(k=key[0], top=top, cur=cur, sum=total)

        def close(self) -> None:
            pass

    state = frame.groupBy("k").transformWithState(
        Fold(), "k long, top double, cur double, sum long", "Update", "None"
    )
    return _started(state, folder, mark, "update")


def _started(state: DataFrame, folder: Path, mark: Callable[[], None], mode: str) -> Any:
    def each(rows: DataFrame, _: int) -> None:
        rows.write.format("noop").mode("overwrite").save()
        mark()

    writer = state.writeStream.outputMode(mode).foreachBatch(each).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def cpu() -> float:
    """CPU-seconds of this process and of all that come from it, ended ones included."""
    found = [os.getpid()]
    children: dict[int, list[int]] = {}
    times: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            times[int(entry.name)] = sum(map(int, fields[11:15]))
    for pid in found:
        found += children.get(pid, [])
    return sum(times.get(pid, 0) for pid in found) / _TICK


if __name__ == "__main__":
    main(*sys.argv[1:])
