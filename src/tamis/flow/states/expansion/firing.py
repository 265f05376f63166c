"""Rules that can never fire: nothing fits them, or they wait for what is never defined."""

from __future__ import annotations

from tamis.flow.model.expressions import parts_of
from tamis.flow.states.definitions.scope import EVENT, STATE
from tamis.flow.states.definitions.summary import Assign, Summary
from tamis.flow.states.expansion.linear import Variable
from tamis.flow.states.expansion.rule_cases import Case, OutsideError, Reader, possible
from tamis.flow.states.expansion.rule_rows import event_only
from tamis.language import And, Call, Condition, Constant, Term, attributes


def never_fires(summary: Summary) -> list[int]:
    """The rules, from 0, that no event and state can reach; those outside the form are left out."""
    return [n for n in range(len(summary.rules)) if not _fires(summary, n, frozenset())]


def undefined_forever(summary: Summary) -> dict[int, tuple[str, ...]]:
    """The rules, from 0, that need a component which is undefined whenever they are tried.

    A component without an initial value stays undefined until a rule that can fire sets it; so
    rules are taken up as long as there are more that can fire.
    """
    names = {n for n in summary.scalars if summary.initial[n] is None}
    while True:
        firing = [n for n in range(len(summary.rules)) if _fires(summary, n, frozenset(names))]
        changes = [c for n in firing for c in summary.rules[n].changes if isinstance(c, Assign)]
        defined = {c.component for c in changes if _may_be_defined(summary, c, names)}
        if not defined & names:
            break
        names -= defined
    dead = set(never_fires(summary))
    return {
        number: tuple(sorted(names & _components(summary, rule.condition)))
        for number, rule in enumerate(summary.rules)
        if number not in firing and number not in dead
    }


def _fires(summary: Summary, number: int, undefined: frozenset[str]) -> bool:
    """Whether some event and state fit the rule and none before it, while these components are
    undefined."""
    own, *earlier = reversed(
        [summary.scope.qualified(r.condition) for r in summary.rules[: number + 1]]
    )
    reader = Reader(summary.scope.full, "")
    try:
        parts = [reader.cases(And((event_only(summary.where), own)))]
        parts += [reader.cases(condition, "not true") for condition in earlier]
        null = frozenset(reader.variable(STATE + name) for name in undefined)
        return any(possible(case) and _fits(case, null) for case in reader.all_of(parts))
    except OutsideError:
        return own != Constant(False)


def _fits(case: Case, undefined: frozenset[Variable]) -> bool:
    """Whether the case asks no value of what is undefined."""
    return not any(atom.op != "null" and atom.variables & undefined for atom in case)


def _may_be_defined(summary: Summary, change: Assign, undefined: set[str]) -> bool:
    if any(isinstance(part, Call) and part.name == "coalesce" for part in parts_of(change.term)):
        return True
    return not undefined & _components(summary, change.term)


def _components(summary: Summary, node: Condition | Term) -> set[str]:
    full = attributes(summary.scope.qualified(node))
    return {name.removeprefix(STATE) for name in full if not name.startswith(EVENT)}
