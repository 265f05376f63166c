"""States on Spark: collapse in batches and streams, expansion exactly once."""

from tamis.spark.states.frame_collapse import collapse_frame
from tamis.spark.states.state_streams import StateStream, read_states
from tamis.spark.states.stateful_flows import StatefulFlow
from tamis.spark.states.stateful_run import StatefulRunning

__all__ = ["StateStream", "StatefulFlow", "StatefulRunning", "collapse_frame", "read_states"]
