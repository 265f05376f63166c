"""Trees and the implications between them, to look at: as Mermaid text or as SVG."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from tamis.diagram.conditions import Diagram
from tamis.diagram.questions import Terms, Vocabulary
from tamis.diagram.shared import Shared
from tamis.diagram.wording import atom_text
from tamis.drawing.layering import Layout
from tamis.drawing.pictures import DASHED, MOST_NODES, SOLID, Box, Picture, clipped
from tamis.drawing.svg import box_width
from tamis.engine.ground.sources import Source
from tamis.engine.implications.edges import edges_of, find, nothing_found
from tamis.engine.implications.forest import Forest, plant
from tamis.engine.reading.templates import Templates
from tamis.errors import SelectorError
from tamis.language.tree import Condition
from tamis.logic import Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import Schema

_GAP = 22.0  # between the branches of a tree


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
    sources = np.repeat(np.arange(len(trees.test)), np.diff(edges.offsets))
    groups = {f"S{t + 1}": np.flatnonzero(trees.owner == t).tolist() for t in range(len(forest))}
    roots = [numbers[0] for numbers in groups.values()]
    depths = _depths(forest, roots)
    boxes = {n: _box(forest, vocabulary, n, depth) for n, depth in sorted(depths.items())}
    inner = [n for n, box in boxes.items() if box.kind != "leaf"]
    children = [
        (n, int(child[n]), kind)
        for n in inner
        for kind, child in ((SOLID, trees.high), (DASHED, trees.low))
    ]
    links = list(zip(sources.tolist(), edges.target.tolist(), strict=True))
    title = f"{len(groups)} trees and {len(links)} implications"
    layout = _side_by_side(boxes, children, roots)
    return Picture(title, boxes, children, links, groups, layout)


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


def _is_leaf(forest: Forest, n: int) -> bool:
    return int(forest.trees.test[n]) == len(forest.atoms.question)


def _depths(forest: Forest, roots: list[int]) -> dict[int, int]:
    depths = dict.fromkeys(roots, 0)
    waiting = list(roots)
    while waiting:
        n = waiting.pop()
        if not _is_leaf(forest, n):
            for child in (int(forest.trees.low[n]), int(forest.trees.high[n])):
                depths[child] = depths[n] + 1
                waiting.append(child)
    return depths


def _box(forest: Forest, vocabulary: Vocabulary, n: int, depth: int) -> Box:
    if _is_leaf(forest, n):
        value = str(forest.trees.low[n])
        return Box("leaf", depth, (value,), value)
    nothing = np.empty(0, np.int32)
    diagram = Diagram(Shared(nothing, nothing, nothing, nothing, 0), forest.atoms, vocabulary)
    text = atom_text(diagram, int(forest.trees.test[n]))
    return Box("test", depth, (clipped(text),), text)


def _side_by_side(
    boxes: dict[int, Box], edges: list[tuple[int, int, int]], roots: list[int]
) -> Layout:
    """Each node in the middle above its two branches, tree by tree."""
    children = {(n, kind): child for n, child, kind in edges}
    middle = dict[int, float]()

    def place(n: int, left: float) -> float:
        """Place the tree under node n from `left` on; returns its right end."""
        width = box_width(boxes[n])
        if (n, DASHED) not in children:
            middle[n] = left + width / 2
            return left + width
        low, high = children[n, DASHED], children[n, SOLID]
        right = place(high, place(low, left) + _GAP)
        middle[n] = max((middle[low] + middle[high]) / 2, left + width / 2)
        return max(right, middle[n] + width / 2)

    left = 0.0
    for root in roots:
        left = place(root, left) + 3 * _GAP
    places = {n: (n, -1, box.layer) for n, box in boxes.items()}
    segments = [(places[a], places[b], kind) for a, b, kind in edges]
    return Layout({places[n]: x for n, x in middle.items()}, segments, left)
