"""The rules of section 3.1 on the steps of paths: any sequence becomes [select transform].

Each rule is a function of a path; `pipeline` gives it all paths of a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tamis.flow.model.elements import Output, Rule, Select, Step, Transform
from tamis.flow.model.expressions import (
    FALSE,
    TRUE,
    all_of,
    any_of,
    not_true,
    parts_of,
    substitute,
    substitute_term,
)
from tamis.flow.model.flow_limits import FlowLimits
from tamis.flow.rewriting.plan import Path
from tamis.language import Attribute, Condition, Term
from tamis.language.measure import size


def selects_of_guards(path: Path, limits: FlowLimits) -> Path:
    """Write as a select that some rule of a transform must match: all others do not pass."""
    steps: list[Step] = []
    for step in path.steps:
        if isinstance(step, Transform):
            steps += _guarded(step)
        else:
            steps.append(step)
    return replace(path, steps=tuple(steps))


def _guarded(step: Transform) -> list[Step]:
    rules = _reachable(step.rules)
    guards = [rule.guard for rule in rules if rule.guard is not None]
    if len(rules) == 1:
        plain = Transform((replace(rules[0], guard=None),), step.at)
        return [*(Select(guard, step.at) for guard in guards), plain]
    transform = Transform(rules, step.at)
    if len(guards) < len(rules):
        return [transform]
    return [Select(any_of(guards), step.at), transform]


def _reachable(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules up to the first that always matches."""
    for i, rule in enumerate(rules):
        if rule.guard in (None, TRUE):
            return (*rules[:i], replace(rule, guard=None))
    return rules


def push_selects(path: Path, limits: FlowLimits) -> Path:
    """[T S] becomes [S T], until every select stands before every transform."""
    selects: list[Step] = []
    transforms: list[Transform] = []
    for step in path.steps:
        if isinstance(step, Transform):
            transforms.append(step)
            continue
        condition = step.condition
        for transform in reversed(transforms):
            condition = before(transform, condition, limits)
        selects.append(Select(condition, step.at))
    return replace(path, steps=(*selects, *transforms))


def before(transform: Transform, condition: Condition, limits: FlowLimits) -> Condition:
    """What must hold before the transform, so that the condition holds after it.

    One rule: substitute its terms. Several: by the rule that matches, of which there is one, since
    the select for the guards stands before.
    """
    found = [_substituted(rule, condition, limits) for rule in transform.rules]
    if all(one == found[0] for one in found):
        return found[0]
    cases, earlier = list[Condition](), list[Condition]()
    for rule, one in zip(transform.rules, found, strict=True):
        guard = TRUE if rule.guard is None else rule.guard
        cases.append(all_of([*earlier, guard, one]))
        earlier.append(not_true(guard))
    return any_of(cases)


def join_selects(path: Path, limits: FlowLimits) -> Path:
    """[S S] becomes [S]: a sequence of selects is a conjunction."""
    selects = [step for step in path.steps if isinstance(step, Select)]
    others = tuple(step for step in path.steps if not isinstance(step, Select))
    condition = all_of(select.condition for select in selects)
    if condition == TRUE:
        return replace(path, steps=others)
    return replace(path, steps=(Select(condition, selects[0].at), *others))


def join_transforms(path: Path, limits: FlowLimits) -> Path:
    """[T T] becomes [T]: terms of the first are put into the second."""
    joined: Transform | None = None
    for step in path.steps:
        if isinstance(step, Transform):
            joined = step if joined is None else _joined(joined, step, limits)
    kept: tuple[Step, ...] = tuple(s for s in path.steps if isinstance(s, Select))
    return path if joined is None else replace(path, steps=(*kept, joined))


def _joined(first: Transform, second: Transform, limits: FlowLimits) -> Transform:
    """The rules of both, pair by pair, in order: the first pair that matches is the right one.

    A message for which a rule of `first` matches and none of `second` is not there any more.
    """
    rules = [_pair(a, b, limits) for a in first.rules for b in second.rules]
    possible = [rule for rule in rules if rule.guard != FALSE] or rules[-1:]
    return Transform(_reachable(tuple(possible)), first.at)


def _pair(a: Rule, b: Rule, limits: FlowLimits) -> Rule:
    values = _values(a)
    guards = [] if a.guard is None else [a.guard]
    if b.guard is not None:
        guards.append(_substituted(a, b.guard, limits))
    outputs = []
    for output in b.outputs:
        check_size([output.term], values, limits)
        outputs.append(Output(output.name, substitute_term(output.term, values), output.at))
    guard = all_of(guards) if guards else None
    return Rule(a.names, tuple(outputs), None if guard == TRUE else guard, at=a.at)


def _substituted(rule: Rule, condition: Condition, limits: FlowLimits) -> Condition:
    values = _values(rule)
    check_size([condition], values, limits)
    return substitute(condition, values)


def _values(rule: Rule) -> dict[str, Term]:
    return {output.name: output.term for output in rule.outputs}


def check_size(
    nodes: list[Condition | Term], values: Mapping[str, Term], limits: FlowLimits
) -> None:
    """Terms that are put into terms grow: refuse before it takes time and memory."""
    sizes: dict[str, int] = {}
    total = 0
    for node in nodes:
        for part in parts_of(node):
            grown = 1
            if isinstance(part, Attribute) and part.name in values:
                if part.name not in sizes:
                    sizes[part.name] = size(values[part.name], limits.nodes)
                grown = sizes[part.name]
            total += grown
            if total > limits.nodes:
                what = "a term or condition becomes too large when transforms are joined"
                raise limits.crossed("nodes", what)
