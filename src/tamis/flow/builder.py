"""Flows in Python: the second face of the text form.

What is built is printed and read again, so both faces accept the same and complain alike; places
in errors point into the printed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Self

from tamis.flow.graphs.flow_graph import Graph, check
from tamis.flow.model.elements import Flow
from tamis.flow.model.flow_limits import LIMITS, FlowLimits
from tamis.flow.text.flow_printer import name_text, scalar_text
from tamis.flow.text.flow_reader import parse_flow
from tamis.schema import Schema

# A line break, unless it is inside of quotes, backticks or a comment.
_BREAK = re.compile(r"""('[^']*+'|"[^"]*+"|`[^`]*+`|\#[^\n]*+)|\n""")


class FlowBuilder:
    """Collects statements; `build` reads them, `graph` checks them as well.

    >>> flow = FlowBuilder()
    >>> flow.space("Trades", issue=str, price=float, vol=int)
    >>> flow.arc("Trades", "Large").transform(issue="issue", cap="price * vol").select("cap > 1e6")
    """

    def __init__(self, limits: FlowLimits = LIMITS) -> None:
        self.limits = limits
        self._statements: list[str | ArcBuilder] = []

    def space(
        self,
        name: str,
        columns: Mapping[str, object] | None = None,
        /,
        *,
        where: str | None = None,
        **more: object,
    ) -> None:
        """Declare a space; types as in `Schema.of`."""
        schema = Schema.of(columns, **more)
        listed = ", ".join(f"{name_text(a.name)}: {a.kind}" for a in schema.attributes)
        tail = "" if where is None else f" where {where}"
        self._statements.append(f"space {name_text(name)}({listed}){tail}")

    def lookup(self, name: str, key: object, value: object, source: str | None = None) -> None:
        """Declare a lookup; `source` is a CSV or Parquet file."""
        types = [a.type.value for a in Schema.of(key=key, value=value).attributes]
        tail = "" if source is None else f" from {scalar_text(source)}"
        self._statements.append(f"lookup {name_text(name)}({types[0]}) -> {types[1]}{tail}")

    def arc(self, source: str, target: str) -> ArcBuilder:
        """Begin an arc; its steps are added to what is returned."""
        arc = ArcBuilder(source, target)
        self._statements.append(arc)
        return arc

    def state(
        self,
        name: str,
        source: str,
        components: Mapping[str, str],
        rules: Iterable[str],
        *,
        key: Iterable[str] = (),
        order: Iterable[str],
    ) -> None:
        """Declare a state.

        Components are given as `{"max": "double := 0"}`, rules as `"v > max => max := v"`.
        """
        by = f" keyed by {', '.join(map(name_text, key))}" if key else ""
        parts = ", ".join(f"{name_text(n)}: {told}" for n, told in components.items())
        head = f"state {name_text(name)}{by} from {name_text(source)}"
        lines = [f"{head} ordered by {', '.join(map(name_text, order))} ({parts})"]
        self._statements.append("\n".join([*lines, *(f"rule {rule}" for rule in rules)]))

    def expand(
        self,
        state: str,
        target: str,
        events: Iterable[str] = (),
        *,
        like: str | None = None,
        only: Iterable[str] = (),
    ) -> None:
        """Expand a state, or `only` some components of it.

        The events are `like` those of its own space, or given as `"B(v: int) => bal := v"`.
        """
        parts = f" ({', '.join(map(name_text, only))})" if only else ""
        head = f"expand {name_text(state)}{parts} -> {name_text(target)}"
        tail = [f"as {name_text(like)}"] if like is not None else [f"event {e}" for e in events]
        self._statements.append("\n".join([head, *tail]))

    def text(self) -> str:
        """All statements as they were given."""
        return "".join(f"{_indented(str(s))}\n" for s in self._statements)

    def build(self) -> Flow:
        return parse_flow(self.text(), self.limits)

    def graph(self) -> Graph:
        return check(self.build(), self.limits)


class ArcBuilder:
    """The steps of one arc, in order."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        self._steps: list[str] = []

    def select(self, condition: str) -> Self:
        """Let only messages pass for which the condition is true."""
        end = "\n" if "#" in condition else ""  # a comment must not reach the next step
        self._steps.append(f"select {condition}{end}")
        return self

    def transform(
        self,
        outputs: Mapping[str, str] | None = None,
        /,
        *,
        names: Iterable[str] | None = None,
        when: str | None = None,
        carry: bool = False,
        **more: str,
    ) -> Self:
        """Assign terms to names. `carry` keeps the attributes that no term and no output names.

        `names` is the pattern; without it, the attributes that the terms and the guard name.
        """
        self._steps.append(_rule({**(outputs or {}), **more}, names, when, carry))
        return self

    def otherwise(
        self,
        outputs: Mapping[str, str] | None = None,
        /,
        *,
        names: Iterable[str] | None = None,
        when: str | None = None,
        carry: bool = False,
        **more: str,
    ) -> Self:
        """A further rule of the transform before: for messages that no earlier rule matched."""
        self._steps[-1] += f" | {_rule({**(outputs or {}), **more}, names, when, carry)}"
        return self

    def __str__(self) -> str:
        ends = f"{name_text(self.source)} -> {name_text(self.target)}"
        return f"{ends} : {'; '.join(self._steps)}" if self._steps else ends


def _rule(
    outputs: Mapping[str, str], names: Iterable[str] | None, when: str | None, carry: bool
) -> str:
    pattern = list(_named(outputs, when) if names is None else names)
    shown = (
        [*map(name_text, pattern), "..."] if names is None or carry else [*map(name_text, pattern)]
    )
    guard = "" if when is None else f" when {when}"
    made = [f"{name_text(name)} := {term}" for name, term in outputs.items()]
    return f"[{', '.join(shown)}{guard}] => [{', '.join([*made, *['...'] * carry])}]"


def _named(outputs: Mapping[str, str], when: str | None) -> Iterable[str]:
    """The attributes that terms and guard use; with `carry`, what is assigned is named as well."""
    from tamis.language import attributes, parse

    found: dict[str, None] = {}
    for term in outputs.values():
        # A term is no selector, but one side of a comparison is.
        found.update(dict.fromkeys(attributes(parse(f"({term}) IS NULL"))))
    if when is not None:
        found.update(dict.fromkeys(attributes(parse(when))))
    return found


def _indented(statement: str) -> str:
    """With further lines indented: what begins in column 0 is another statement. Line breaks of
    constants stay as they are."""
    return _BREAK.sub(lambda found: found[1] or "\n  ", statement)
