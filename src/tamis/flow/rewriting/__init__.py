"""Rewriting: any graph becomes one (select; transform) for each path (Gryphon, section 3.1)."""

from tamis.flow.rewriting.pipeline import RULES, rewrite, stages
from tamis.flow.rewriting.plan import Edge, Path, Plan
from tamis.flow.rewriting.source_selects import on_sources

__all__ = ["RULES", "Edge", "Path", "Plan", "on_sources", "rewrite", "stages"]
