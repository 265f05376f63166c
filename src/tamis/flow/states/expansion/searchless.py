"""Moves without guards that change one component each: the answer needs no search.

That is the uniform unconstrained form with k = 1, and lists that grow by one: every component
that differs takes one event, every missing element of a list one more.
"""

from __future__ import annotations

from collections.abc import Mapping

from tamis.flow.states.definitions.scope import EVENT, STATE
from tamis.flow.states.expansion.rule_rows import Moves, Row

Event = dict[str, object]


def direct_rows(moves: Moves) -> dict[str, Row] | None:
    """The cheapest row of each component; None where the moves have another form."""
    return moves.once("direct", lambda: _rows(moves))


def _rows(moves: Moves) -> dict[str, Row] | None:
    found: dict[str, Row] = {}
    for row in moves.rows:
        names = row.changed
        if row.guard or row.null or row.defined or row.clears or len(names) != 1 or not _free(row):
            return None
        (name,) = names
        if name not in found or row.cost < found[name].cost:
            found[name] = row
    return found if len(found) == len(moves.summary.components) else None


def _free(row: Row) -> bool:
    """Whether each changed value is a parameter of its own."""
    told = [*row.sets.values(), *(t for terms in row.appends.values() for t in terms)]
    plain = [t.terms[0][0] for t in told
             if len(t.terms) == 1 and t.terms[0][1] == 1 and not t.constant]  # fmt: skip
    alike = all(
        target.whole == linear.terms[0][0].whole
        for target, linear in row.sets.items()
        if linear.terms
    )
    events = all(v.name.startswith(EVENT) for v in plain)
    return len(plain) == len(told) == len(set(plain)) and events and alike


def direct(
    rows: dict[str, Row], start: Mapping[str, object], goal: Mapping[str, object]
) -> list[tuple[str, Event]] | None:
    """The events, in the order of rules; None where a list is no continuation."""
    found: list[tuple[int, str, Event]] = []
    for name, row in rows.items():
        if name in row.appends:
            old, new = start[name], goal[name]
            if new[: len(old)] != old:  # type: ignore[index, arg-type]
                return None
            fields = [_name(t.terms[0][0].name) for t in row.appends[name]]
            found += [(row.rule, row.event, dict(zip(fields, entry, strict=True)))
                      for entry in new[len(old) :]]  # type: ignore[index, arg-type]  # fmt: skip
        elif start[name] != goal[name]:
            told = next(iter(row.sets.values()))
            found.append((row.rule, row.event, {_name(told.terms[0][0].name): goal[name]}))
    found.sort(key=lambda item: item[0])
    return [(event, values) for _, event, values in found]


def _name(full: str) -> str:
    return full.removeprefix(EVENT).removeprefix(STATE)
