"""Frames of Spark: their types as those of Tamis, and tables of subscriptions."""
