"""A picture of a graph: labelled boxes in layers, and edges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tamis.drawing.layering import Layout

MOST_NODES = 400
DASHED, SOLID = 0, 1  # kinds of edges
Kind = Literal["test", "leaf", "root", "space", "point", "operation", "state"]


@dataclass(frozen=True, slots=True)
class Box:
    """`lines` are shown, `title` is the whole text; `caption` is a short text beside the box."""

    kind: Kind
    layer: int
    lines: tuple[str, ...]
    title: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes by number; edges (from, to, DASHED or SOLID) lead to a larger layer.

    `links` join boxes whatever their layers. `groups` are separate graphs, each a name and its
    boxes from the root; without groups, all boxes are one graph. `layout` is where the boxes are,
    if that is known.
    """

    title: str

    boxes: Mapping[int, Box]
    edges: Sequence[tuple[int, int, int]]
    links: Sequence[tuple[int, int]] = ()
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    layout: Layout | None = None


def visible(text: str) -> str:
    """Signs that cannot be printed as pictures of themselves, or as the replacement sign."""
    return "".join(c if c.isprintable() else _picture_of(c) for c in text)


def _picture_of(c: str) -> str:
    return chr(0x2400 + ord(c)) if ord(c) < 32 else "\N{REPLACEMENT CHARACTER}"


def clipped(text: str, longest: int = 44) -> str:
    """The text as one line of bounded length, every sign of it visible."""
    line = visible(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"
