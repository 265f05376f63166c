"""A flow back to text: one line for each statement but tests, in the order of the flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tamis.flow.model.elements import (
    Arc,
    Column,
    Flow,
    Lookup,
    Output,
    Row,
    Rule,
    Sample,
    Select,
    Space,
    Step,
    Test,
    Transform,
)
from tamis.language import Attribute, Literal, canonical
from tamis.schema import Scalar


def printed(flow: Flow) -> str:
    """The canonical text: reading it gives an equal flow."""
    from tamis.flow.text.stateful import PRINTERS as STATES

    printers = PRINTERS | STATES
    return "".join(f"{printers[type(s)](s)}\n" for s in flow.statements)


def name_text(name: str) -> str:
    return canonical(Attribute(name))


def space_text(space: Space) -> str:
    where = "" if space.where is None else f" where {canonical(space.where)}"
    return f"space {name_text(space.name)}({columns_text(space.columns)}){where}"


def columns_text(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{name_text(c.name)}: {c.type.value}" for c in columns)


def lookup_text(lookup: Lookup) -> str:
    source = "" if lookup.source is None else f" from {scalar_text(lookup.source)}"
    name = name_text(lookup.name)
    return f"lookup {name}({lookup.key.value}) -> {lookup.value.value}{source}"


def arc_text(arc: Arc) -> str:
    steps = "; ".join(map(step_text, arc.steps))
    ends = f"{_start(arc.source)} -> {name_text(arc.target)}"
    return f"{ends} : {steps}" if steps else ends


def _start(name: str) -> str:
    return name_text(name)


def step_text(step: Step) -> str:
    if isinstance(step, Select):
        return f"select {canonical(step.condition)}"
    return " | ".join(map(rule_text, step.rules))


def rule_text(rule: Rule) -> str:
    names = [*map(name_text, rule.names), *["..."] * rule.rest]
    guard = "" if rule.guard is None else f" when {canonical(rule.guard)}"
    outputs = [*map(output_text, rule.outputs), *["..."] * rule.carry]
    return f"[{', '.join(names)}{guard}] => [{', '.join(outputs)}]"


def output_text(output: Output) -> str:
    name = name_text(output.name)
    return name if output.bare else f"{name} := {canonical(output.term)}"


def test_text(test: Test) -> str:
    lines = [f"test {scalar_text(test.name)}"]
    for entries in test.entries:
        pairs = ", ".join(f"{scalar_text(k)} -> {scalar_text(v)}" for k, v in entries.pairs)
        lines.append(f"  with {name_text(entries.lookup)} {pairs}")
    lines += [f"  given {_sample_text(sample)}" for sample in test.given]
    lines += [f"  expect {_sample_text(sample)}" for sample in test.expected]
    return "\n".join(lines)


test_text.__test__ = False  # type: ignore[attr-defined]  # pytest: this prints one


def _sample_text(sample: Sample) -> str:
    rows = ", ".join(map(row_text, sample.rows)) or "nothing"
    return f"{name_text(sample.space)} {rows}"


def row_text(row: Row) -> str:
    return f"({', '.join(map(scalar_text, row))})"


def scalar_text(value: Scalar | None) -> str:
    return "NULL" if value is None else canonical(Literal.of(value))


PRINTERS: dict[type, Callable[[Any], str]] = {
    Space: space_text,
    Lookup: lookup_text,
    Arc: arc_text,
    Test: test_text,
}
__all__ = ["PRINTERS", "Transform", "printed", "step_text"]
