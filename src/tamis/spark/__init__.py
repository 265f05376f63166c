"""Matching on Spark: a frame in, a frame out; the same calls serve batch and streaming."""

try:
    import pyspark
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tamis.spark needs PySpark: pip install 'tamis[spark]'", name=error.name
    ) from None

# 4.1 is the first with functions over Arrow columns.
if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 1):
    raise ImportError(
        f"tamis.spark needs PySpark 4.1 or newer, and this is {pyspark.__version__}: "
        "pip install 'pyspark>=4.1', or choose a runtime with Spark 4.1",
        name="pyspark",
    )

from tamis.spark.broker import use_broker
from tamis.spark.dataframes.spark_types import schema_of
from tamis.spark.differences import diff
from tamis.spark.message_questions import counts, deliveries, match, plan_of, problems, semi
from tamis.spark.row_explanations import explain
from tamis.spark.spark_session import session
from tamis.spark.sql import register
from tamis.table import Subscriptions

__all__ = [
    "Subscriptions",
    "counts",
    "deliveries",
    "diff",
    "explain",
    "match",
    "plan_of",
    "problems",
    "register",
    "schema_of",
    "semi",
    "session",
    "use_broker",
]
