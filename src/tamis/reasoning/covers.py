"""Questions about conditions that no single message answers.

All of them ask whether some formula is true of any message. The restricted diagram decides most
of that; where it leaves paths, `witness.Search` looks for a message along them. Answers that claim
something of *all* messages are given only where they are proved: numbers, timestamps, Booleans
and compared strings are exact, patterns and arithmetic may stay undecided.
"""

from __future__ import annotations

from tamis.language.tree import Condition
from tamis.logic import Formula, Lookups, Semantics, reduce
from tamis.logic.atoms import all_of, negation
from tamis.reasoning.witness import Message, Search
from tamis.schema import Schema


def example(
    condition: Condition,
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    *,
    lookups: Lookups | None = None,
) -> Message | None:
    """A message that the condition matches; None where there is none, or none was found.

    The message was checked. Dotted names are keys of their own; undefined attributes are left out.
    """
    return _search(reduce(condition, semantics, schema), schema, semantics, lookups)[0]


def satisfiable(
    condition: Condition,
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    *,
    lookups: Lookups | None = None,
) -> bool:
    """False where it is proved that the condition matches no message at all."""
    found, sure = _search(reduce(condition, semantics, schema), schema, semantics, lookups)
    return found is not None or not sure


def always_true(
    condition: Condition,
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    *,
    lookups: Lookups | None = None,
) -> bool:
    """True where it is proved that the condition matches every message."""
    formula = negation(reduce(condition, semantics, schema))
    return _impossible(formula, schema, semantics, lookups)


def covers(
    a: Condition,
    b: Condition,
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    *,
    lookups: Lookups | None = None,
) -> bool:
    """True where it is proved that every message that b matches is matched by a."""
    first, second = reduce(a, semantics, schema), reduce(b, semantics, schema)
    if first == second:
        return True
    return _impossible(all_of([second, negation(first)]), schema, semantics, lookups)


def _impossible(
    formula: Formula, schema: Schema | None, semantics: Semantics, lookups: Lookups | None
) -> bool:
    found, sure = _search(formula, schema, semantics, lookups)
    return found is None and sure


def _search(
    formula: Formula, schema: Schema | None, semantics: Semantics, lookups: Lookups | None
) -> tuple[Message | None, bool]:
    search = Search(formula, schema, semantics, lookups or {})
    found = search.message()
    return found, search.sure
