"""Notices about states: rules that never fire, and events of which only the last is told."""

from __future__ import annotations

from collections.abc import Iterator

from tamis.flow.graphs.wiring import Expansion, StateNode
from tamis.flow.model.expressions import FALSE, substitute
from tamis.flow.showing.notice import Notice
from tamis.flow.states.definitions.summary import Assign, Rule, Summary
from tamis.flow.states.expansion.firing import never_fires, undefined_forever
from tamis.language import Literal


def of_state(node: StateNode) -> Iterator[Notice]:
    """All notices of one state and its expansions."""
    summary, statement = node.summary, node.statement
    for number in never_fires(summary):
        what = f"rule {number + 1}, {summary.rules[number]}, can never fire"
        yield Notice(statement.title, what, statement.rules[number].at)
    for number, names in undefined_forever(summary).items():
        yield _waiting(node, number, names)
    changed = {change.component for rule in summary.rules for change in rule.changes}
    for name in summary.initial:
        if name not in changed:
            what = f"no rule sets {name}: it keeps its initial value"
            yield Notice(statement.title, what, statement.at)
    for expansion in node.expansions:
        yield from _collapsing(summary, expansion)


def _waiting(node: StateNode, number: int, names: tuple[str, ...]) -> Notice:
    summary = node.summary
    shown = " and ".join(names)
    kinds = ", ".join(f"{name}: {summary.scalars[name].type.value} := ..." for name in names)
    what = (
        f"rule {number + 1}, {summary.rules[number]}, can never fire: {shown} has no initial value "
        f"and no rule that fires sets it; write {kinds}"
    )
    return Notice(node.statement.title, what, node.statement.rules[number].at)


def _collapsing(summary: Summary, expansion: Expansion) -> Iterator[Notice]:
    """Derived events tell the difference between two states: one value of each component."""
    if expansion.through is None:
        return
    told = [n for n in expansion.summary.scalars if _changes_twice(summary, n)]
    if told:
        what = (
            f"{', '.join(told)} may change more than once in a trigger, and only the last value is "
            "told; append to a list to tell of each change"
        )
        yield Notice(expansion.statement.title, what, expansion.statement.at, strict=False)


def _changes_twice(summary: Summary, name: str) -> bool:
    own = [rule for rule in summary.rules if any(c.component == name for c in rule.changes)]
    return len(own) > 1 or any(not _fires_once(summary, rule) for rule in own)


def _fires_once(summary: Summary, rule: Rule) -> bool:
    """Whether the rule shuts itself out for good: it sets a component to a constant for which its
    condition is false, and no rule sets that component to anything else."""
    return any(
        isinstance(change, Assign)
        and isinstance(change.term, Literal)
        and substitute(rule.condition, {change.component: change.term}) == FALSE
        and _only_set_to(summary, change)
        for change in rule.changes
    )


def _only_set_to(summary: Summary, chosen: Assign) -> bool:
    changes = [c for rule in summary.rules for c in rule.changes]
    return all(c == chosen for c in changes if c.component == chosen.component)
