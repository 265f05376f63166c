"""Summaries whose result does not depend on a fold: highest, lowest, latest, sums of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tamis.flow.states.definitions.scope import STATE
from tamis.flow.states.definitions.summary import TRUE, Assign, Summary
from tamis.language import Arithmetic, Attribute, Compare, Condition, Term, attributes
from tamis.logic import static_type
from tamis.schema import Type


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What a component is of all events of its key; `term` has names in full."""

    kind: Literal["highest", "lowest", "latest", "sum"]
    term: Term


def aggregates(summary: Summary) -> dict[str, Aggregate] | None:
    """For each component what it is; None where some component needs the fold."""
    if summary.lists or not summary.order or not summary.rules:
        return None
    found: dict[str, Aggregate] = {}
    for name in summary.scalars:
        told = _aggregate(summary, name)
        if told is None:
            return None
        found[name] = told
    return found


def _aggregate(summary: Summary, name: str) -> Aggregate | None:
    scope = summary.scope
    changes = [
        next((scope.qualified(c.term) for c in rule.changes
              if isinstance(c, Assign) and c.component == name), None)
        for rule in summary.rules
    ]  # fmt: skip
    always = summary.rules[-1].condition == TRUE
    if always and changes[0] is not None and all(term == changes[0] for term in changes):
        return _same_in_all(summary, name, changes[0])
    if changes[0] is None or any(term is not None for term in changes[1:]):
        return None
    return _extreme(summary, name, scope.qualified(summary.rules[0].condition), changes[0])


def _same_in_all(summary: Summary, name: str, term: Term) -> Aggregate | None:
    """`c := t` is the latest t, `c := c + t` the sum; whichever rule fires."""
    if _of_event(term) and _fits(summary, name, term):
        return Aggregate("latest", term)
    own = Attribute(STATE + name)
    if not isinstance(term, Arithmetic) or term.op != "+" or term.left != own:
        return None
    whole = summary.scalars[name].type is Type.INT and summary.initial[name] is not None
    return Aggregate("sum", term.right) if whole and _of_event(term.right) else None


def _extreme(summary: Summary, name: str, condition: Condition, term: Term) -> Aggregate | None:
    """`rule t > c => c := t` as the first rule, and the only one that sets c."""
    own = Attribute(STATE + name)
    if summary.initial[name] is None or not _of_event(term) or not _fits(summary, name, term):
        return None
    kinds: dict[Condition, Literal["highest", "lowest"]] = {
        Compare(term, ">", own): "highest",
        Compare(own, "<", term): "highest",
        Compare(term, "<", own): "lowest",
        Compare(own, ">", term): "lowest",
    }
    kind = kinds.get(condition)
    return None if kind is None else Aggregate(kind, term)


def _of_event(term: Term) -> bool:
    return not any(n.startswith(STATE) for n in attributes(term))


def _fits(summary: Summary, name: str, term: Term) -> bool:
    return static_type(term, summary.scope.full) is summary.scalars[name].type
