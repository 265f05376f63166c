"""Common sub-expressions: computed once, and used by the selects and transforms of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from tamis.flow.model.elements import Output, Select, Step
from tamis.flow.model.expressions import map_term, map_terms, parts_of
from tamis.flow.rewriting.plan import Path, Plan
from tamis.language import Arithmetic, Attribute, Call, Condition, Negate, Term, terms
from tamis.language.measure import size
from tamis.schema import Schema

MOST = 200  # terms of one source that are shared
PREFIX = "_shared"
Change = Callable[[Term], Term | None]


def share_terms(plan: Plan) -> Plan:
    """Give every term that stands twice in the paths of a source a name, the largest first."""
    shared: dict[str, tuple[Output, ...]] = {}
    paths = list(plan.paths)
    for source in plan.sources:
        own = [i for i, path in enumerate(paths) if path.source == source]
        found, changed = _share([paths[i] for i in own])
        for i, path in zip(own, changed, strict=True):
            paths[i] = path
        if found:
            shared[source] = found
    return replace(plan, paths=tuple(paths), shared=shared)


def _share(paths: list[Path]) -> tuple[tuple[Output, ...], list[Path]]:
    made: list[Output] = []
    while len(made) < MOST:
        chosen = _most_worth(_repeated([*_terms(paths), *(o.term for o in made)]))
        if chosen is None:
            break
        name = _free_name(paths[0].schema, len(made) + 1)

        def named(term: Term, chosen: Term = chosen, name: str = name) -> Term | None:
            return Attribute(name) if term == chosen else None

        made = [replace(o, term=map_term(o.term, named)) for o in made]
        made.append(Output(name, chosen))
        paths = [_changed(path, named) for path in paths]
    # What was found later is part of what was found before: it must be computed before.
    return tuple(reversed(made)), paths


def _repeated(roots: list[Term]) -> Counter[Term]:
    return Counter(
        part
        for root in roots
        for part in parts_of(root)
        if isinstance(part, Arithmetic | Negate | Call)
    )


def _most_worth(counts: Counter[Term]) -> Term | None:
    repeated = [term for term, count in counts.items() if count > 1]
    return max(repeated, key=lambda term: size(term, 1 << 20), default=None)


def _terms(paths: list[Path]) -> Iterator[Term]:
    for path in paths:
        for step in path.steps:
            if isinstance(step, Select):
                yield from terms(step.condition)
            else:
                for rule in step.rules:
                    yield from (output.term for output in rule.outputs)
                    if rule.guard is not None:
                        yield from terms(rule.guard)


def _changed(path: Path, change: Change) -> Path:
    return replace(path, steps=tuple(_changed_step(step, change) for step in path.steps))


def _changed_step(step: Step, change: Change) -> Step:
    def condition(found: Condition) -> Condition:
        return map_terms(found, lambda term: map_term(term, change))

    if isinstance(step, Select):
        return replace(step, condition=condition(step.condition))
    rules = tuple(
        replace(
            rule,
            guard=None if rule.guard is None else condition(rule.guard),
            outputs=tuple(replace(o, term=map_term(o.term, change)) for o in rule.outputs),
        )
        for rule in step.rules
    )
    return replace(step, rules=rules)


def _free_name(schema: Schema, number: int) -> str:
    name = f"{PREFIX}{number}"
    while name in schema:
        name += "_"
    return name
