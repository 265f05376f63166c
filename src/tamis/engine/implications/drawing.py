"""Two trees and the implication edges between them, to look at: as Mermaid text or as SVG."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from tamis.diagram.conditions import Diagram
from tamis.diagram.draw import quoted, text_width
from tamis.diagram.picture import MOST_NODES, visible
from tamis.diagram.questions import Terms, Vocabulary
from tamis.diagram.shared import Shared
from tamis.diagram.wording import atom_text
from tamis.engine.compile.programs import Source
from tamis.engine.implications.edges import edges_of, find, nothing_found
from tamis.engine.implications.forest import Forest, plant
from tamis.engine.intake.templates import Templates
from tamis.errors import SelectorError
from tamis.language.tree import Condition
from tamis.logic import Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import Schema

_SHOWN = 44  # characters of a text that is too long for its node


@dataclass(frozen=True, slots=True)
class Node:
    number: int
    text: str
    leaf: bool
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Trees, each a list of nodes in preorder; and edges from node to node."""

    trees: tuple[tuple[Node, ...], ...]
    edges: tuple[tuple[int, int], ...]


def picture(
    conditions: Sequence[Condition], schema: Schema | None = None, semantics: Semantics = "sql"
) -> Picture:
    """The trees of some conditions and every edge between them. Large ones are a SelectorError."""
    vocabulary, templates = Vocabulary(Terms(schema)), Templates()
    source = _source(conditions, Reducer(semantics, schema), vocabulary, templates)
    forest = plant(vocabulary, templates, source, budget=MOST_NODES)
    trees = forest.trees
    if len(forest.large) or len(trees.test) > MOST_NODES:
        raise SelectorError(
            "the trees are too large to be drawn",
            hint=f"at most {MOST_NODES} nodes can be seen at once: draw simpler selectors",
        )
    found = nothing_found(forest)
    find(forest, found, 0, len(forest))
    edges = edges_of(forest, found)
    numbers = np.repeat(np.arange(len(trees.test)), np.diff(edges.offsets))
    nodes = [_node(forest, vocabulary, n) for n in range(len(trees.test))]
    own = [[nodes[n] for n in np.flatnonzero(trees.owner == t)] for t in range(len(forest))]
    pairs = zip(numbers.tolist(), edges.target.tolist(), strict=True)
    return Picture(tuple(map(tuple, own)), tuple(pairs))


def _source(
    conditions: Sequence[Condition], reducer: Reducer, vocabulary: Vocabulary, templates: Templates
) -> Source:
    formulas = [all_of([reducer.adequacy(c), reducer.holds(c)]) for c in conditions]
    programs = [vocabulary.program(f, whole=reducer.semantics == "total") for f in formulas]
    numbers = [templates.number(array("i", p.words).tobytes(), p.required) for p in programs]
    return Source(
        np.arange(len(programs), dtype=np.int32),
        np.array(numbers, np.int32),
        np.cumsum([0, *(len(p.keys) for p in programs)]).astype(np.int64),
        np.array([key for p in programs for key in p.keys], np.int64),
    )


def _node(forest: Forest, vocabulary: Vocabulary, n: int) -> Node:
    trees = forest.trees
    test, low, high = int(trees.test[n]), int(trees.low[n]), int(trees.high[n])
    if test == len(forest.atoms.question):
        return Node(n, str(low), True, n, n)
    nothing = np.empty(0, np.int32)
    asked = Diagram(Shared(nothing, nothing, nothing, nothing, 0), forest.atoms, vocabulary)
    line = visible(atom_text(asked, test))
    return Node(n, line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…", False, low, high)


def mermaid(shown: Picture) -> str:
    """The trees side by side; thick arrows are implications."""
    lines = ["flowchart TD"]
    for number, tree in enumerate(shown.trees, 1):
        lines.append(f'    subgraph S{number}["S{number}"]')
        for node in tree:
            lines.append(f'        n{node.number}["{quoted(node.text)}"]{":::leaf" * node.leaf}')
        for node in tree:
            if not node.leaf:
                lines.append(f"        n{node.number} --> n{node.high}")
                lines.append(f"        n{node.number} -.-> n{node.low}")
        lines.append("    end")
    lines += [f"    n{a} ==> n{b}" for a, b in shown.edges]
    lines.append("    classDef leaf stroke-width:1px")
    return "\n".join(lines) + "\n"


# --- SVG -------------------------------------------------------------------------

_STEP, _HEIGHT, _GAP, _MARGIN = 74.0, 28.0, 22.0, 30.0
_STYLE = (
    "text{font:12px 'DejaVu Sans Mono',Menlo,Consolas,monospace;text-anchor:middle;fill:#111}"
    "rect{fill:#fff;stroke:#333;stroke-width:1.2}.leaf{fill:#eee}.name{font-weight:bold}"
    "path{fill:none;stroke:#222;stroke-width:1.3}.low{stroke:#777;stroke-dasharray:5 4}"
    ".implies{stroke:#b3401f;stroke-width:2}.end{fill:#b3401f;stroke:none}"
)
_ARROW = (
    '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" orient="auto"><path class="end" d="M0 0.8L8 4L0 7.2Z"/></marker>'
)
Places = dict[int, tuple[float, float]]  # node -> the middle of its upper side


def svg(shown: Picture) -> str:
    """The trees side by side as one SVG document; the red arrows are implications."""
    places: Places = {}
    left = _MARGIN
    parts: list[str] = []
    for number, tree in enumerate(shown.trees, 1):
        right = _place({n.number: n for n in tree}, tree[0].number, left, 0, places)
        x, y = places[tree[0].number]
        parts.append(f"<text class='name' x='{x:.1f}' y='{y - 8:.1f}'>S{number}</text>")
        left = right + 3 * _GAP
    width, height = left, max(y for _, y in places.values()) + _HEIGHT + _MARGIN
    nodes = [node for tree in shown.trees for node in tree]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>{len(shown.trees)} trees and {len(shown.edges)} implications</title>",
            f"<style>{_STYLE}</style><defs>{_ARROW}</defs>",
            *(_line(places, n.number, n.high, "") for n in nodes if not n.leaf),
            *(_line(places, n.number, n.low, "low") for n in nodes if not n.leaf),
            *(_box(node, places[node.number]) for node in nodes),
            *(_implication(places[a], places[b]) for a, b in shown.edges),
            *parts,
            "</svg>\n",
        ]
    )


def _place(nodes: dict[int, Node], n: int, left: float, depth: int, places: Places) -> float:
    """Place the tree under node n from `left` on; returns where it ends on the right."""
    node, y = nodes[n], _MARGIN + 12 + depth * _STEP
    own = text_width(node.text)
    if node.leaf:
        places[n] = left + own / 2, y
        return left + own
    middle = _place(nodes, node.low, left, depth + 1, places)
    right = _place(nodes, node.high, middle + _GAP, depth + 1, places)
    x = max((places[node.low][0] + places[node.high][0]) / 2, left + own / 2)
    places[n] = x, y
    return max(right, x + own / 2)


def _line(places: Places, a: int, b: int, kind: str) -> str:
    (x, y), (to, end) = places[a], places[b]
    return f"<path class='{kind}' d='M{x:.1f} {y + _HEIGHT:.1f}L{to:.1f} {end:.1f}'/>"


def _implication(a: tuple[float, float], b: tuple[float, float]) -> str:
    (x, y), (to, end) = a, b
    y, end = y + _HEIGHT / 2, end + _HEIGHT / 2
    bend = (to - x) / 3
    curve = f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y - 30:.1f} {to - bend:.1f} {end - 30:.1f}"
    return f"<path class='implies' marker-end='url(#end)' d='{curve} {to:.1f} {end:.1f}'/>"


def _box(node: Node, place: tuple[float, float]) -> str:
    x, y = place
    width = text_width(node.text)
    return (
        f"<rect class='{'leaf' * node.leaf}' x='{x - width / 2:.1f}' y='{y:.1f}' "
        f"width='{width:.1f}' height='{_HEIGHT}' rx='{0 if node.leaf else 8}'/>"
        f"<text x='{x:.1f}' y='{y + 18:.1f}'>{escape(node.text)}</text>"
    )
