"""States: what sequences of events mean, and the shortest sequences that mean the same."""

from tamis.flow.states.equivalence import catch_up, equivalent, expand_all
from tamis.flow.states.expansion.expanding import expand
from tamis.flow.states.expansion.search import Trace
from tamis.flow.states.sequences.collapsing import collapse
from tamis.flow.states.summaries.derived import Derived, DerivedEvent
from tamis.flow.states.summaries.keyed import States
from tamis.flow.states.summaries.stepping import Limits
from tamis.flow.states.summaries.summary import (
    Append,
    Assign,
    Clear,
    Component,
    ListOf,
    Rule,
    Summary,
)

__all__ = [
    "Append",
    "Assign",
    "Clear",
    "Component",
    "Derived",
    "DerivedEvent",
    "Limits",
    "ListOf",
    "Rule",
    "States",
    "Summary",
    "Trace",
    "catch_up",
    "collapse",
    "equivalent",
    "expand",
    "expand_all",
]
