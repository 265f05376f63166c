"""Events on their way to the bucket of their key, in the types of their space."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.errors import StateError
from tamis.flow.states.definitions.summary import Summary
from tamis.language.types import nearest
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.native.native_values import SPARK_TYPES

BUCKET = "__bucket__"


def bucketed(events: DataFrame, summary: Summary, buckets: int) -> DataFrame:
    """The events with their bucket, all of a bucket in one partition."""
    key = [F.col(quoted(n)) for n in summary.key]
    bucket = F.pmod(F.hash(*key), F.lit(buckets)) if key else F.lit(0)
    rows = typed(events, summary)
    return rows.withColumn(BUCKET, bucket.cast("int")).repartition(
        buckets, *(key or [F.col(BUCKET)])
    )


def typed(events: DataFrame, summary: Summary) -> DataFrame:
    """The attributes of the space, in its types."""
    return events.select(*(_column(events, summary, n) for n in summary.events))


def _column(events: DataFrame, summary: Summary, name: str) -> Column:
    if name not in events.columns:
        hint = nearest(name, events.columns) or f"there are {', '.join(events.columns[:12])}"
        raise StateError(f"the events of {summary.name} have no column {name}", hint=hint)
    return F.col(quoted(name)).cast(SPARK_TYPES[summary.events[name].type]).alias(name)


def default_buckets(spark: SparkSession) -> int:
    """As many buckets as Spark makes of a shuffle."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
