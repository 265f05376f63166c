"""Information flow graphs: spaces joined by arcs that select and transform (Gryphon, section 3)."""

from tamis.flow.builder import FlowBuilder
from tamis.flow.graphs.execution import Rejected, Result, run
from tamis.flow.graphs.flow_graph import Graph, check
from tamis.flow.model.elements import (
    Arc,
    Flow,
    Lookup,
    Output,
    Rule,
    Select,
    Space,
    Test,
    Transform,
)
from tamis.flow.model.flow_limits import FlowLimits
from tamis.flow.model.lookups import tables
from tamis.flow.rewriting import RULES, Plan, on_sources, rewrite, stages
from tamis.flow.text import parse_flow, printed, read_flow

__all__ = [
    "RULES",
    "Arc",
    "Flow",
    "FlowBuilder",
    "FlowLimits",
    "Graph",
    "Lookup",
    "Output",
    "Plan",
    "Rejected",
    "Result",
    "Rule",
    "Select",
    "Space",
    "Test",
    "Transform",
    "check",
    "on_sources",
    "parse_flow",
    "printed",
    "read_flow",
    "rewrite",
    "run",
    "stages",
    "tables",
]
