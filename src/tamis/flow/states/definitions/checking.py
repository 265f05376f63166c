"""What can be said of a summary before any event is seen; every mistake has its own message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tamis.errors import MessageError, SelectorError, StateError
from tamis.language import Condition, Term, canonical, check
from tamis.language.functions import ONLY
from tamis.language.types import Checker, nearest
from tamis.schema import Schema, Type

if TYPE_CHECKING:
    from tamis.flow.states.definitions.summary import Append, Assign, Change, Summary

COMPONENTS = 32  # of one state
RULES = 64  # of one summary


def check_summary(summary: Summary) -> None:
    """Raise StateError for what can never work."""
    _names(summary)
    check_condition(summary.where, summary.events, f"{summary.source}: where")
    for number, rule in enumerate(summary.rules, 1):
        place = f"{summary.name}, rule {number}"
        try:
            refuse_lists(summary, rule.condition, place)
            check_condition(rule.condition, summary.scope.visible, place)
            check_changes(summary, rule.changes, summary.scope.visible, place)
        except StateError as error:
            error.rule = number
            raise


def _names(summary: Summary) -> None:
    name = summary.name
    if not summary.components:
        raise StateError(f"{name} has no components", hint="a state holds at least one value")
    for what, found, most in (("components", len(summary.components), COMPONENTS),
                              ("rules", len(summary.rules), RULES)):  # fmt: skip
        if found > most:
            raise StateError(f"{name} has {found} {what}: the limit is {most}", limit=what)
    seen: set[str] = set()
    for component in summary.components:
        if component.name in seen:
            raise StateError(f"{name} has two components {component.name}")
        seen.add(component.name)
    for part, columns in (("keyed by", summary.key), ("ordered by", summary.order)):
        for column in columns:
            if column not in summary.events:
                hint = nearest(column, summary.events) or _has(summary.source, summary.events)
                raise StateError(f"{name} {part} {column}: no such attribute", hint=hint)
    if len({*summary.key}) != len(summary.key):
        raise StateError(f"{name} is keyed by the same attribute twice")


def refuse_lists(summary: Summary, node: Condition | Term, place: str) -> None:
    from tamis.language import attributes

    for used in attributes(node):
        if used in summary.lists and used not in summary.events:
            hint = "rules append to a list; conditions and terms cannot read it"
            raise StateError(f"{place}: {used} is a list", hint=hint)


def check_condition(condition: Condition, schema: Schema, place: str) -> None:
    try:
        check(condition, schema, text=canonical(condition))
    except SelectorError as error:
        raise StateError(f"{place}: {error.what}", hint=error.hint) from None


def check_changes(
    summary: Summary, changes: tuple[Change, ...], schema: Schema, place: str
) -> None:
    """Each component once, by a term of its type."""
    from tamis.flow.states.definitions.summary import Append, Assign

    if not changes:
        raise StateError(f"{place} changes nothing", hint="write => component := term")
    changed: set[str] = set()
    for change in changes:
        target = change.component
        if target not in summary.initial:
            known = _has(summary.name, summary.initial)
            raise StateError(f"{place}: there is no component {target}",
                             hint=nearest(target, summary.initial) or known)  # fmt: skip
        if target in changed:
            raise StateError(f"{place} sets {target} twice")
        changed.add(target)
        if isinstance(change, Assign):
            _check_assign(summary, change, schema, place)
        elif target not in summary.lists:
            raise StateError(f"{place}: {target} is no list", hint=f"write {target} := term")
        elif isinstance(change, Append):
            _check_append(summary, change, schema, place)


def _check_assign(summary: Summary, change: Assign, schema: Schema, place: str) -> None:
    if change.component in summary.lists:
        hint = f"write {change.component} += (...), or {change.component} := () to empty it"
        raise StateError(f"{place}: {change.component} is a list", hint=hint)
    kind = summary.scalars[change.component].type
    _check_type(summary, change.term, kind, schema, f"{place}: {change.component}")


def _check_append(summary: Summary, change: Append, schema: Schema, place: str) -> None:
    fields = summary.lists[change.component].attributes
    if len(fields) != len(change.terms):
        what = f"{change.component} takes {len(fields)} values, not {len(change.terms)}"
        raise StateError(
            f"{place}: {what}", hint=f"its fields are {_listed(f.name for f in fields)}"
        )
    for column, term in zip(fields, change.terms, strict=True):
        _check_type(summary, term, column.type, schema,
                    f"{place}: {change.component}.{column.name}")  # fmt: skip


def _check_type(summary: Summary, term: Term, kind: Type, schema: Schema, place: str) -> None:
    refuse_lists(summary, term, place)
    try:
        found = Checker(
            {a.name: ONLY[a.type] for a in schema.attributes}, canonical(term), ()
        ).term(term)
    except SelectorError as error:
        raise StateError(f"{place}: {error.what}", hint=error.hint) from None
    fits = {kind} | ({Type.INT} if kind is Type.DOUBLE else set())
    if not found <= fits:
        types = _listed(sorted(t.value for t in found))
        raise StateError(f"{place} is {kind.value}, and {canonical(term)} is {types}")


def fitting(summary: Summary, state: Mapping[str, object]) -> dict[str, object]:
    """`state` with every component in its type, in the order of the summary."""
    for name in state:
        if name not in summary.initial:
            raise StateError(f"{summary.name} has no component {name}",
                             hint=nearest(name, summary.initial))  # fmt: skip
    try:
        return {name: _fit(summary, name, state.get(name)) for name in summary.initial}
    except MessageError as error:
        raise StateError(f"{summary.name}: {error}") from None


def _fit(summary: Summary, name: str, value: object) -> object:
    fields = summary.lists.get(name)
    if fields is None:
        return summary.scalars.convert(name, value)
    rows = value or ()
    if not isinstance(rows, list | tuple) or any(len(row) != len(fields) for row in rows):
        raise StateError(f"{summary.name}: {name} is a list of ({_listed(fields)}), not {value!r}")
    return tuple(tuple(fields.convert(f, v) for f, v in zip(fields, row, strict=True))
                 for row in rows)  # fmt: skip


def _has(owner: str, names: Iterable[str]) -> str:
    return f"{owner} has {_listed(names)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
