"""A picture as one SVG document that needs nothing else."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tamis.drawing.layering import Place, layered
from tamis.drawing.pictures import DASHED, Box, Picture, visible

Edge = tuple[int, int, int]  # from box, to box, kind
_SIGN = 7.3  # width of a sign
_LINE = 16.0  # height of a line
_STEP = 46.0  # free space between layers
_MARGIN = 32.0
_STYLE = (
    "text{font:12px 'DejaVu Sans Mono',Menlo,Consolas,monospace;text-anchor:middle;fill:#111}"
    ".caption{fill:#1f4e9c;text-anchor:start}.name,.space,.point,.state{font-weight:bold}"
    "rect{fill:#fff;stroke:#333;stroke-width:1.2}rect.leaf{fill:#eee}rect.root{stroke-width:3.5}"
    "rect.space{fill:#e8f0fa;stroke-width:2}rect.point{fill:#f4f4ec;stroke-dasharray:4 3}"
    "rect.operation{stroke:#999}rect.state{fill:#eef7ee;stroke:#2c6e2c;stroke-width:2}"
    "path{fill:none;stroke:#222;stroke-width:1.3}.low{stroke:#777;stroke-dasharray:5 4}"
    ".implies{stroke:#b3401f;stroke-width:2}.paper{fill:#fff;stroke:none}"
    ".end{fill:#222;stroke:none}.implied{fill:#b3401f;stroke:none}"
)
_ARROWS = "".join(
    f"<marker id='{name}' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' "
    f"markerUnits='userSpaceOnUse' orient='auto'><path class='{name}' d='M0 0.8L8 4L0 7.2Z'/>"
    "</marker>"
    for name in ("end", "implied")
)
_CORNERS = {"leaf": 0.0, "operation": 4.0, "state": 4.0, "test": 8.0, "root": 8.0}  # else round


def svg(
    picture: Picture, title: str = "", *, taken: Sequence[Edge] = (), styled: bool = True
) -> str:
    """The document, with the picture's title or another. Edges that are `taken` have a class of
    that name; without `styled`, colours are left to the page that the drawing is put in."""
    drawing = _Drawing(picture, taken)
    width, height = drawing.width, drawing.height
    style = f"<style>{_STYLE}</style>" if styled else ""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>{_text(title or picture.title)}</title>",
            f"{style}<defs>{_ARROWS}</defs>",
            *([f"<path class='paper' d='M0 0H{width:.0f}V{height:.0f}H0Z'/>"] if styled else []),
            *drawing.stems(),
            *drawing.lines(),
            *(drawing.box(n, box) for n, box in picture.boxes.items()),
            *drawing.links(),
            *drawing.names(),
            "</svg>\n",
        ]
    )


def box_width(box: Box) -> float:
    """How wide a box is drawn."""
    text = max(sum(map(_columns, line)) * _SIGN for line in box.lines)
    return max(34.0, text + 18) + (0.0 if box.kind in _CORNERS else 14.0)


def _columns(sign: str) -> int:
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _height(box: Box) -> float:
    return 12 + _LINE * len(box.lines)


class _Drawing:
    """Sizes and places in the document."""

    def __init__(self, picture: Picture, taken: Sequence[Edge] = ()) -> None:
        self.picture, self.boxes, self.taken = picture, picture.boxes, taken
        self.widths = {n: box_width(box) for n, box in self.boxes.items()}
        layers = {n: box.layer for n, box in self.boxes.items()}
        self.placed = picture.layout or layered(layers, self.widths, picture.edges)
        self.tops, self.heights, top = list[float](), list[float](), _MARGIN
        for layer in range(max(layers.values(), default=-1) + 1):
            boxes = (box for box in self.boxes.values() if box.layer == layer)
            self.tops.append(top)
            self.heights.append(max(map(_height, boxes), default=0.0))
            top += self.heights[-1] + _STEP
        self.width, self.height = self.placed.width + 2 * _MARGIN, max(top - _STEP, 0) + _MARGIN

    def at(self, place: Place) -> tuple[float, float]:
        """The middle of the upper side of a box, or the upper end of a joint."""
        return self.placed.x[place] + _MARGIN, self.tops[place[2]]

    def stems(self) -> list[str]:
        """The straight piece of each joint, beside the boxes of its layer."""
        joints = sorted(place for place in self.placed.x if place[1] >= 0)
        return [
            f"<path{self._class(p, p, p[1])} d='M{self.at(p)[0]:.1f} {self.at(p)[1]:.1f}"
            f"v{self.heights[p[2]]:.1f}'/>"
            for p in joints
        ]

    def lines(self) -> list[str]:
        forked = {a for a, _, kind in self.picture.edges if kind == DASHED}
        found = []
        for upper, lower, kind in self.placed.segments:
            (x, y), (to, end) = self.at(upper), self.at(lower)
            y += self.heights[upper[2]] if upper[1] >= 0 else _height(self.boxes[upper[0]])
            if upper[1] < 0 and upper[0] in forked:  # its two edges start a little apart
                x += self.widths[upper[0]] / 5 * (-1 if kind == DASHED else 1)
            bend = (end - y) / 2
            arrow = " marker-end='url(#end)'" if lower[1] < 0 else ""
            found.append(
                f"<path{self._class(upper, lower, kind)}{arrow} d='M{x:.1f} {y:.1f}"
                f"C{x:.1f} {y + bend:.1f} {to:.1f} {end - bend:.1f} {to:.1f} {end:.1f}'/>"
            )
        return found

    def _class(self, upper: Place, lower: Place, kind: int) -> str:
        """Edges of one kind to the same box share their joints: a taken one begins at its box."""
        taken = any(
            (kind, lower[0]) == (own, target)
            and (upper[0] == source if upper[1] < 0 else upper[2] > self.boxes[source].layer)
            for source, target, own in self.taken
        )
        names = ["low"] * (kind == DASHED) + ["taken"] * taken
        return f" class='{' '.join(names)}'" if names else ""

    def links(self) -> list[str]:
        """Arcs over the boxes, from one box to another."""
        found = []
        for source, target in self.picture.links:
            (x, y), (to, end) = self.centre(source), self.centre(target)
            bend = (to - x) / 3
            curve = (
                f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y - 30:.1f} {to - bend:.1f} {end - 30:.1f} "
                f"{to:.1f} {end:.1f}"
            )
            found.append(f"<path class='implies' marker-end='url(#implied)' d='{curve}'/>")
        return found

    def centre(self, number: int) -> tuple[float, float]:
        box = self.boxes[number]
        x, top = self.at((number, -1, box.layer))
        return x, top + _height(box) / 2

    def names(self) -> list[str]:
        """The name of each group, above its first box."""
        roots = {name: numbers[0] for name, numbers in self.picture.groups.items()}
        places = {name: self.at((n, -1, self.boxes[n].layer)) for name, n in roots.items()}
        return [
            f"<text class='name' x='{x:.1f}' y='{top - 8:.1f}'>{_text(name)}</text>"
            for name, (x, top) in places.items()
        ]

    def box(self, number: int, box: Box) -> str:
        x, top = self.at((number, -1, box.layer))
        width, height = self.widths[number], _height(box)
        corner, left = _CORNERS.get(box.kind, height / 2), x - width / 2
        parts = [
            f"<g><title>{_text(box.title)}</title><rect class='{box.kind}' x='{left:.1f}' "
            f"y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' rx='{corner:.0f}'/>"
        ]
        for i, line in enumerate(box.lines):
            y = top + 18 + i * _LINE
            parts.append(f"<text class='{box.kind}' x='{x:.1f}' y='{y:.1f}'>{_text(line)}</text>")
        if box.caption:
            # the names of a root above it, a count beside the edge that leaves its box
            place = (
                (left + 2, top - 6) if box.kind in ("root", "test") else (x + 6, top + height + 13)
            )
            parts.append(
                f"<text class='caption' x='{place[0]:.1f}' y='{place[1]:.1f}'>"
                f"{_text(box.caption)}</text>"
            )
        return "".join(parts) + "</g>"


def _text(text: str) -> str:
    return escape(visible(text))
