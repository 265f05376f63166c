"""Where the measurements on Spark find their data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.spark.rows import Rows, write
from bench.spark.scale import Scale

Figures = list[list[Any]]


@dataclass(frozen=True, slots=True)
class Place:
    """A session, a folder with the snapshots (see experiments.spark), and room for data."""

    spark: SparkSession
    folder: Path
    s: Scale

    def rows(self, name: str, table: pa.Table) -> Rows:
        return Rows(self.spark, self.folder / "data" / name, table)

    def frame(self, name: str, table: pa.Table) -> DataFrame:
        """Of rules: read like any other table."""
        target = self.folder / "data" / name
        if not target.exists():
            write(table, target)
        return self.spark.read.parquet(str(target))

    def snapshot(self, kind: str, count: int) -> str:
        return str(self.folder / f"{kind}-{count}.snapshot")
