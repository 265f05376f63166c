"""Channels of a broker as sources and sinks of Spark, over HTTP."""

from tamis.spark.broker.source import use_broker

__all__ = ["use_broker"]
