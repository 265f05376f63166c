"""The tests that a flow brings along: sample rows in, sample rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tamis.errors import FlowError, MessageError
from tamis.flow.graphs.execution import Message, fitted, run
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.elements import Flow, Sample, Test
from tamis.flow.model.lookups import Tables, table
from tamis.flow.text.flow_printer import row_text
from tamis.language.types import nearest

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problems` is empty where the test passes."""

    test: Test
    problems: tuple[str, ...] = ()


def run_tests(
    graph: Graph, tables: Tables | None = None, more: Iterable[Flow] = ()
) -> list[Outcome]:
    """Run the tests of the flow, and those of other texts about it."""
    found = [(test, graph.flow.text) for test in graph.flow.tests]
    for other in more:
        if len(other.statements) > len(other.tests):
            raise FlowError("a file of tests holds only tests", text=other.text)
        found += [(test, other.text) for test in other.tests]
    return [_outcome(graph, test, tables or {}, text) for test, text in found]


def _outcome(graph: Graph, test: Test, tables: Tables, text: str) -> Outcome:
    checked = _Checked(graph, test, text)
    known: dict[str, Any] = dict(tables)
    for entries in test.entries:
        known[entries.lookup] = checked.entries(entries.lookup, entries.pairs, entries.at)
    for name in graph.lookups:
        known.setdefault(name, {})
    messages: dict[str, list[Message]] = {}
    for sample in test.given:
        if sample.space not in graph.schemas:
            hint = (
                f"publish its events: given {graph.states[0].source} (...)" if graph.states else ""
            )
            raise checked.error(f"there is no space {sample.space}", sample.at, hint)
        messages.setdefault(sample.space, []).extend(checked.rows(sample))
    result = run(graph, messages, known)
    expected: dict[str, list[Message]] = {}
    for sample in test.expected:
        expected.setdefault(sample.space, []).extend(checked.rows(sample))
    problems = [
        problem
        for space, rows in expected.items()
        for problem in _differences(graph, space, rows, result.spaces[space])
    ]
    return Outcome(test, tuple(problems))


def _differences(
    graph: Graph, space: str, expected: list[Message], found: list[Message]
) -> Iterable[str]:
    wanted, arrived = _bag(expected), _bag(found)
    for what, rows in (("is missing", wanted - arrived), ("is not expected", arrived - wanted)):
        for i, (row, count) in enumerate(sorted(rows.items(), key=repr)):
            if i == _SHOWN:
                yield f"... and {len(rows) - _SHOWN} more"
                break
            values = tuple(dict(row).get(name) for name in graph.rows_of(space) or ())
            times = f" ({count} times)" if count > 1 else ""
            yield f"{space} {row_text(values)} {what}{times}"


def _bag(rows: list[Message]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


class _Checked:
    """The rows of one test, made to fit; what does not fit is an error of the test."""

    def __init__(self, graph: Graph, test: Test, text: str) -> None:
        self.graph, self.test, self.text = graph, test, text

    def error(self, what: str, at: int, hint: str = "") -> FlowError:
        return FlowError(what, where=self.test.title, text=self.text, at=at, hint=hint)

    def rows(self, sample: Sample) -> list[Message]:
        schema = self.graph.rows_of(sample.space)
        if schema is None:
            hint = nearest(sample.space, self.graph.schemas)
            raise self.error(f"there is no space {sample.space}", sample.at, hint)
        found = []
        for row in sample.rows:
            if len(row) != len(schema):
                what = f"a row of {sample.space} has {len(schema)} values, this one {len(row)}"
                raise self.error(what, sample.at, f"write ({', '.join(schema)})")
            try:
                found.append(fitted(schema, dict(zip(schema, row, strict=True))))
            except MessageError as error:
                raise self.error(str(error), sample.at) from None
        return found

    def entries(self, name: str, pairs: Iterable[tuple[Any, Any]], at: int) -> Mapping[Any, Any]:
        if name not in self.graph.lookups:
            hint = nearest(name, self.graph.lookups)
            raise self.error(f"there is no lookup {name}", at, hint)
        try:
            return table(self.graph.lookups[name], dict(pairs), ".")
        except FlowError as error:
            raise self.error(f"lookup {name}: {error.what}", at) from None
