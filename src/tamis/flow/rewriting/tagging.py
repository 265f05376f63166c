"""All sources as one: messages carry the name of their source (the end of section 3.2)."""

from __future__ import annotations

from dataclasses import replace

from tamis.flow.model.elements import Output, Rule, Transform
from tamis.flow.model.expressions import all_of, substitute, substitute_term
from tamis.flow.rewriting.plan import Path, Plan, SingleSource
from tamis.language import Attribute, Compare, Condition, Literal, Term
from tamis.schema import Attribute as Column
from tamis.schema import Schema, Type

TAG = "source"


def combine_sources(plan: Plan) -> Plan:
    """Add the single-source form: one space, a select on the tag, a table of tagged transforms."""
    schemas = {source: plan.schema_of(source) for source in plan.sources}
    tag = TAG
    while any(tag in schema for schema in schemas.values()):
        tag += "_"
    schema, names = _united(schemas, tag)
    selects = tuple(_select(path, tag, names[path.source]) for path in plan.paths)
    transforms: dict[tuple[str, str], tuple[tuple[int, Transform], ...]] = {}
    for number, path in enumerate(plan.paths):
        if not path.rejected:
            entry = number, _renamed(path.transform, names[path.source])
            key = path.source, path.target
            transforms[key] = (*transforms.get(key, ()), entry)
    return replace(plan, single=SingleSource(schema, tag, names, selects, transforms))


def _united(schemas: dict[str, Schema], tag: str) -> tuple[Schema, dict[str, dict[str, str]]]:
    """One schema of all; attributes of the same name share a column where their types agree."""
    columns: dict[str, Column] = {tag: Column(tag, Type.STRING)}
    names: dict[str, dict[str, str]] = {}
    for source, schema in schemas.items():
        own = names[source] = {}
        for column in schema.attributes:
            name = column.name
            while name in columns and columns[name].type is not column.type:
                name = f"{source}_{name}"
            columns[name] = Column(name, column.type)
            own[column.name] = name
    return Schema(tuple(columns.values())), names


def _values(names: dict[str, str]) -> dict[str, Term]:
    return {name: Attribute(there) for name, there in names.items()}


def _select(path: Path, tag: str, names: dict[str, str]) -> Condition:
    of_source = Compare(Attribute(tag), "=", Literal(Type.STRING, path.source))
    return all_of([of_source, substitute(path.select, _values(names))])


def _renamed(transform: Transform, names: dict[str, str]) -> Transform:
    values = _values(names)
    rules = tuple(
        Rule(
            tuple(names[name] for name in rule.names),
            tuple(Output(o.name, substitute_term(o.term, values)) for o in rule.outputs),
            None if rule.guard is None else substitute(rule.guard, values),
        )
        for rule in transform.rules
    )
    return Transform(rules, transform.at)
