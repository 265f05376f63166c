"""Matching on Spark: a frame in, a frame out; the same calls serve batch and streaming."""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tamis.spark needs PySpark: pip install 'tamis[spark]'", name=error.name
    ) from None

from tamis.engine.table import Subscriptions
from tamis.spark.matching import counts, deliveries, match, problems, semi
from tamis.spark.session import session
from tamis.spark.types import schema_of

__all__ = [
    "Subscriptions",
    "counts",
    "deliveries",
    "match",
    "problems",
    "schema_of",
    "semi",
    "session",
]
