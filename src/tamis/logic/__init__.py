"""What a condition means: canonical atoms, the four semantics, and explanations."""

from tamis.logic.atoms import FALSE, TRUE, All, Atom, Family, Formula, Kind, Literal, Some, atoms
from tamis.logic.evaluate import finder, satisfied
from tamis.logic.explain import Explanation, explain
from tamis.logic.reduce import SEMANTICS, Reducer, Semantics, reduce
from tamis.logic.terms import FUNCTIONS, Derived, Lookups, static_type, value

__all__ = [
    "FALSE",
    "FUNCTIONS",
    "SEMANTICS",
    "TRUE",
    "All",
    "Atom",
    "Derived",
    "Explanation",
    "Family",
    "Formula",
    "Kind",
    "Literal",
    "Lookups",
    "Reducer",
    "Semantics",
    "Some",
    "atoms",
    "explain",
    "finder",
    "reduce",
    "satisfied",
    "static_type",
    "value",
]
