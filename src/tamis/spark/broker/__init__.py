"""Channels of a broker as sources and sinks of Spark, over HTTP."""

from tamis.spark.broker.log_source import use_broker

__all__ = ["use_broker"]
