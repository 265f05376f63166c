"""Selectors as Columns of Spark, with exactly the meaning that the matcher gives them."""

from tamis.spark.native.conditions import Translation, sure
from tamis.spark.native.values import NotNative, Value

__all__ = ["NotNative", "Translation", "Value", "sure"]
