"""A diagram to look at: as Mermaid text, or as SVG.

Roots have a thick line, low edges are dashed, high edges are solid, as in ICSE 2001, figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis import drawing
from tamis.diagram.conditions import Diagram
from tamis.diagram.wording import atom_text
from tamis.drawing.pictures import DASHED, MOST_NODES, SOLID, Box, Kind, Picture, clipped
from tamis.errors import SelectorError


def mermaid(diagram: Diagram, names: Sequence[str] | None = None) -> str:
    """The diagram as a Mermaid flowchart. More than MOST_NODES nodes are a SelectorError."""
    return drawing.mermaid(picture(diagram, names))


def svg(diagram: Diagram, names: Sequence[str] | None = None) -> str:
    """The diagram as one SVG document. More than MOST_NODES nodes are a SelectorError."""
    return drawing.svg(picture(diagram, names))


def picture(diagram: Diagram, names: Sequence[str] | None = None) -> Picture:
    """The picture of a small diagram; `names` are those of its conditions (Q1, Q2, ...).

    The caption of a box is the conditions whose root it is, and its number if another node's
    test is its value.
    """
    shared = diagram.shared
    if len(shared) > MOST_NODES:
        raise SelectorError(
            f"a diagram of {len(shared):,} nodes is too large to be drawn",
            hint=f"at most {MOST_NODES} nodes can be seen at once: draw fewer or simpler selectors",
        )
    roots = _roots(diagram, names)
    layers = _layers(diagram)
    tested = {n - shared.atoms for n in shared.test[2:].tolist() if n >= shared.atoms}
    edges = tuple(
        (n, int(child[n]), kind)
        for n in range(2, len(shared.test))
        for kind, child in ((DASHED, shared.low), (SOLID, shared.high))
    )
    leaves = {n for n in (0, 1) if n in roots or any(to == n for _, to, _ in edges)}
    boxes = dict[int, Box]()
    inner = range(len(shared.test) - 1, 1, -1)
    for n in sorted([*inner, *sorted(leaves)], key=layers.__getitem__):
        kind: Kind = "root" if n in roots else "leaf" if n <= 1 else "test"
        text = _text(diagram, n)
        names_of = clipped(", ".join(roots.get(n, ())))
        caption = " ".join(filter(None, [names_of, f"#{n}" if n in tested else ""]))
        boxes[n] = Box(kind, layers[n], (clipped(text),), text, caption)
    return Picture(f"A decision diagram of {len(boxes)} nodes", boxes, edges)


def _roots(diagram: Diagram, names: Sequence[str] | None) -> dict[int, tuple[str, ...]]:
    roots = diagram.shared.roots.tolist()
    names = names or [f"Q{i + 1}" for i in range(len(roots))]
    found: dict[int, tuple[str, ...]] = {}
    for root, name in zip(roots, names, strict=True):
        found[root] = (*found.get(root, ()), name)
    return found


def _text(diagram: Diagram, n: int) -> str:
    if n <= 1:
        return str(n)
    test = int(diagram.shared.test[n])
    atoms = diagram.shared.atoms
    return atom_text(diagram, test) if test < atoms else f"value of #{test - atoms}"


def _layers(diagram: Diagram) -> dict[int, int]:
    """One layer per variable that is asked, then the strata by depth, then the leaves."""
    shared = diagram.shared
    used = np.unique(shared.test[2:][shared.test[2:] < shared.atoms]).tolist()
    layer_of = {test: i for i, test in enumerate(used)}
    layers: dict[int, int] = {}
    for n in range(len(shared.test) - 1, 1, -1):
        test = int(shared.test[n])
        layers[n] = layer_of.get(test, max(layers.get(n, 0), len(used)))
        for child in (int(shared.low[n]), int(shared.high[n])):
            layers[child] = max(layers.get(child, 0), layers[n] + 1)
    inner = [layers[n] for n in range(2, len(shared.test))]
    return layers | dict.fromkeys((0, 1), max(inner, default=-1) + 1)
