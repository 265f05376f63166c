"""States: what sequences of events mean, and the shortest sequences that mean the same."""

from tamis.flow.states.definitions.derived import Derived, DerivedEvent
from tamis.flow.states.definitions.keyed import States
from tamis.flow.states.definitions.stepping import Limits
from tamis.flow.states.definitions.summary import (
    Append,
    Assign,
    Clear,
    Component,
    ListOf,
    Rule,
    Summary,
)
from tamis.flow.states.equivalence import catch_up, equivalent, expand_all
from tamis.flow.states.expansion.expanding import expand
from tamis.flow.states.expansion.search import Trace
from tamis.flow.states.sequences.collapsing import collapse

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
