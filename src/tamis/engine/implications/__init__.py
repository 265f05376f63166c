"""The implication graph: a second evaluator over the same predicates (US 7,136,899)."""

from tamis.engine.implications.graph import Statistics
from tamis.engine.implications.growth import Implications

__all__ = ["Implications", "Statistics"]
