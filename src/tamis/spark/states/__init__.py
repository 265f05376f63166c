"""States on Spark: collapse in batches and streams, expansion exactly once."""

from tamis.spark.states.batch import collapse_frame
from tamis.spark.states.flows import StatefulFlow
from tamis.spark.states.stateful_run import StatefulRunning
from tamis.spark.states.streaming import StateStream, read_states

__all__ = ["StateStream", "StatefulFlow", "StatefulRunning", "collapse_frame", "read_states"]
