"""What is to be seen of a diagram: its nodes with their texts, and its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tamis.diagram.conditions import Diagram
from tamis.diagram.wording import atom_text
from tamis.errors import SelectorError

MOST_NODES = 400
LOW, HIGH = 0, 1
_SHOWN = 44  # characters of a text that is too long for its node


@dataclass(frozen=True, slots=True)
class Node:
    """`text` is what the node asks; `names` are those of the conditions whose root it is.

    `tag` is its number where another node asks for its value, else empty.
    """

    number: int
    layer: int
    text: str
    names: tuple[str, ...]
    tag: str

    @property
    def shown(self) -> str:
        """The text as one line of bounded length, every sign of it visible."""
        line = visible(self.text)
        return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"

    @property
    def caption(self) -> str:
        """The conditions that end here, and the number if it matters."""
        names = visible(", ".join(self.names))
        names = names if len(names) <= _SHOWN else names[: _SHOWN - 1] + "…"
        return " ".join(part for part in (names, self.tag) if part)


@dataclass(frozen=True, slots=True)
class Picture:
    """Nodes by layers, from the top; edges (from, to, LOW or HIGH)."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int, int], ...]


def picture(diagram: Diagram, names: Sequence[str] | None = None) -> Picture:
    """The picture of a small diagram; `names` are those of its conditions (Q1, Q2, ...)."""
    shared = diagram.shared
    if len(shared) > MOST_NODES:
        raise SelectorError(
            f"a diagram of {len(shared):,} nodes is too large to be drawn",
            hint=f"at most {MOST_NODES} nodes can be seen at once: draw fewer or simpler selectors",
        )
    roots = _roots(diagram, names)
    layers = _layers(diagram)
    asked = {n - shared.atoms for n in shared.test[2:].tolist() if n >= shared.atoms}
    edges = tuple(
        (n, int(child[n]), kind)
        for n in range(2, len(shared.test))
        for kind, child in ((LOW, shared.low), (HIGH, shared.high))
    )
    seen = {n for n in (0, 1) if n in roots or any(to == n for _, to, _ in edges)}
    nodes = [
        Node(n, layers[n], _text(diagram, n), roots.get(n, ()), f"#{n}" if n in asked else "")
        for n in [*range(len(shared.test) - 1, 1, -1), *sorted(seen)]
    ]
    return Picture(tuple(sorted(nodes, key=lambda node: node.layer)), edges)


def visible(text: str) -> str:
    """Signs that cannot be printed as pictures of themselves, or as the replacement sign."""
    return "".join(c if c.isprintable() else _picture_of(c) for c in text)


def _picture_of(c: str) -> str:
    return chr(0x2400 + ord(c)) if ord(c) < 32 else "\N{REPLACEMENT CHARACTER}"


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
