"""Flows on Spark: arc by arc, or rewritten to one select and one transform for each path."""

from tamis.spark.flows.arcs import arc_by_arc
from tamis.spark.flows.flow_job import FlowJob, Subscribed
from tamis.spark.flows.flow_page import flow_page
from tamis.spark.flows.flow_run import FlowRunning
from tamis.spark.flows.path_frames import rewritten
from tamis.spark.flows.streams import Streams

__all__ = [
    "FlowJob",
    "FlowRunning",
    "Streams",
    "Subscribed",
    "arc_by_arc",
    "flow_page",
    "rewritten",
]
