"""How far a message is from a condition: by how many predicates it fails."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.language.tree import And, Attribute, Condition, Constant, Not, Or, attributes
from tamis.logic.evaluate import finder, satisfied
from tamis.logic.reduce import Reducer, Semantics
from tamis.logic.terms import Lookups
from tamis.schema import Schema

_NEVER = 1 << 30  # a constant does not change


def distance(
    condition: Condition,
    message: Mapping[str, object],
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    lookups: Lookups | None = None,
) -> int:
    """How many predicates would have to turn out otherwise for the message to match; 0: it does.

    Predicates count by themselves, also where they contradict each other. Under strict semantics
    each attribute that is missing counts once more.
    """
    reducer, known = Reducer(semantics, schema), lookups or {}
    find = finder(message, semantics, schema)

    def costs(node: Condition) -> tuple[int, int]:
        """To be true, and to be false."""
        match node:
            case And(parts):
                each = [costs(part) for part in parts]
                return sum(true for true, _ in each), min(false for _, false in each)
            case Or(parts):
                each = [costs(part) for part in parts]
                return min(true for true, _ in each), sum(false for _, false in each)
            case Not(part):
                true, false = costs(part)
                return false, true
        step = _NEVER if isinstance(node, Constant) else 1
        holds = satisfied(reducer.holds(node), find, known)
        return 0 if holds else step, 0 if satisfied(reducer.fails(node), find, known) else step

    missing = 0
    if semantics == "strict":
        missing = sum(
            not satisfied(reducer.defined(Attribute(name)), find, known)
            for name in attributes(condition)
        )
    return missing + costs(condition)[0]
