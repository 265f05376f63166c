"""The decision diagram of a selector inside a page, and the path that a message takes in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from tamis.diagram.conditions import Diagram, diagram_of
from tamis.diagram.draw import picture
from tamis.diagram.wording import atom_of
from tamis.drawing import svg
from tamis.errors import TamisError
from tamis.language import Condition, parse
from tamis.logic import Semantics
from tamis.logic.evaluate import finder
from tamis.logic.terms import Find, value
from tamis.pubsub.broker.judge import Language
from tamis.schema import Schema

_BUDGET = 20_000  # nodes that are made before it is given up


def diagram(language: Language, selector: str, message: Mapping[str, Any] | None = None) -> Markup:
    """Of a selector of a channel; empty where there is nothing to draw."""
    if not selector:
        return Markup("")
    try:
        condition = parse(selector, dialect=language.dialect, limits=language.limits)
    except TamisError:
        return Markup("")
    semantics: Semantics = "sql" if language.semantics == "total" else language.semantics
    # In SQL semantics names that the channel does not declare have any type.
    schema = language.schema if len(language.schema) and semantics != "sql" else None
    return drawn(condition, schema, semantics, message)


def drawn(
    condition: Condition,
    schema: Schema | None,
    semantics: Semantics,
    message: Mapping[str, Any] | None = None,
) -> Markup:
    """As SVG without styles of its own; empty where it would be too much."""
    try:
        found = diagram_of([condition], schema, semantics, budget=_BUDGET)
        taken = [] if message is None else _path(found, finder(message, semantics, schema))
        return Markup(svg(picture(found, [""]), taken=taken, styled=False))
    except TamisError:
        return Markup("")


def _path(diagram: Diagram, find: Find) -> list[tuple[int, int, int]]:
    """The edges from the root to a leaf."""
    shared, edges = diagram.shared, list[tuple[int, int, int]]()
    n = int(shared.roots[0])
    while n > 1:
        kind = int(_truth(diagram, int(shared.test[n]), find))
        child = int((shared.high if kind else shared.low)[n])
        edges.append((n, child, kind))
        n = child
    return edges


def _truth(diagram: Diagram, test: int, find: Find) -> bool:
    """Of an atom, or of another node whose value is asked for."""
    shared = diagram.shared
    if test < shared.atoms:
        atom = atom_of(diagram, test)
        return atom.holds(value(atom.term, find, {}))
    n = test - shared.atoms
    while n > 1:
        n = int((shared.high if _truth(diagram, int(shared.test[n]), find) else shared.low)[n])
    return bool(n)
