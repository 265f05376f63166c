"""The implication graph: a second evaluator over the same predicates (US 7,136,899)."""

from tamis.engine.implications.growth import Implications
from tamis.engine.implications.implication_graph import Statistics

__all__ = ["Implications", "Statistics"]
