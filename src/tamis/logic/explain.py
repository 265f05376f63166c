"""Why a condition did or did not match one message, predicate by predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tamis.language import canonical
from tamis.language.tree import And, Attribute, Condition, Constant, Not, Or, attributes
from tamis.logic.evaluate import finder, satisfied
from tamis.logic.reduce import Reducer, Semantics
from tamis.logic.terms import Find, Lookups
from tamis.notebook import html_table
from tamis.schema import Schema


@dataclass(frozen=True, slots=True)
class Line:
    """One condition: how deep it stands, its text, its truth, and what the message said."""

    depth: int
    text: str
    truth: str  # "true", "false" or "unknown"
    why: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    matches: bool
    lines: tuple[Line, ...]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = [("\u2003" * ln.depth + ln.text, ln.truth, ln.why) for ln in self.lines]
        said = "match" if self.matches else "no match"
        return html_table(said, ("condition", "truth", "because"), rows)

    def __str__(self) -> str:
        texts = ["  " * line.depth + line.text for line in self.lines]
        width = min(max(map(len, texts), default=0), 60)
        shown = [
            f"{text:{width}}  {line.truth:7}  {line.why}".rstrip()
            for text, line in zip(texts, self.lines, strict=True)
        ]
        return "\n".join([*shown, "=> match" if self.matches else "=> no match"])


def explain(
    condition: Condition,
    message: Mapping[str, object],
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    lookups: Lookups | None = None,
) -> Explanation:
    """Evaluate `condition` on `message` and tell how the verdict came about."""
    reducer = Reducer(semantics, schema)
    find = finder(message, semantics, schema)
    lookups = lookups or {}
    lines: list[Line] = []

    def visit(node: Condition, depth: int) -> None:
        truth = _truth(reducer, node, find, lookups)
        match node:
            case And(parts) | Or(parts):
                lines.append(Line(depth, "all of" if isinstance(node, And) else "any of", truth))
                for part in parts:
                    visit(part, depth + 1)
            case Not(part):
                lines.append(Line(depth, "not", truth))
                visit(part, depth + 1)
            case Constant():
                lines.append(Line(depth, canonical(node), truth))
            case _:
                lines.append(Line(depth, canonical(node), truth, _values(node, find)))

    missing = [
        name
        for name in attributes(condition)
        if not satisfied(reducer.defined(Attribute(name)), find, lookups)
    ]
    if semantics == "strict":
        for name in missing:
            why = "strict semantics: every attribute of the selector must be defined"
            lines.append(Line(0, f"{canonical(Attribute(name))} is defined", "false", why))
    visit(condition, 0)
    adequate = satisfied(reducer.adequacy(condition), find, lookups)
    return Explanation(
        adequate and satisfied(reducer.holds(condition), find, lookups), tuple(lines)
    )


def _truth(reducer: Reducer, node: Condition, find: Find, lookups: Lookups) -> str:
    if satisfied(reducer.holds(node), find, lookups):
        return "true"
    return "false" if satisfied(reducer.fails(node), find, lookups) else "unknown"


def _values(node: Condition, find: Find) -> str:
    found = {name: find(name) for name in attributes(node)}
    return ", ".join(
        f"{name} is undefined" if value is None else f"{name} = {value!r}"
        for name, value in found.items()
    )
