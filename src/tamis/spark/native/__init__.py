"""Selectors as Columns of Spark, with exactly the meaning that the matcher gives them."""

from tamis.spark.native.native_conditions import Translation, sure
from tamis.spark.native.native_values import NotNative, Value

__all__ = ["NotNative", "Translation", "Value", "sure"]
