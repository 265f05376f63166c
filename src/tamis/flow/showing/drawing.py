"""Pictures of flows as Mermaid text, or as SVG that needs nothing else."""

from __future__ import annotations

from xml.sax.saxutils import escape

from tamis.diagram.draw import quoted, text_width
from tamis.diagram.layering import Layout, Place, layout
from tamis.flow.showing.picture import Node, Picture

# --- Mermaid -----------------------------------------------------------------

_SHAPES = {"space": '(["{}"])', "point": '("{}")', "operation": '["{}"]', "state": '[("{}")]'}


def mermaid(picture: Picture) -> str:
    """The picture as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    for number, node in enumerate(picture.nodes):
        shown = [*map(quoted, node.lines), *([f"{quoted(node.caption)}"] if node.caption else [])]
        lines.append(f"    n{number}{_SHAPES[node.kind].format('<br/>'.join(shown))}")
    lines += [f"    n{start} --> n{end}" for start, end in picture.edges]
    return "\n".join(lines) + "\n"


# --- SVG ---------------------------------------------------------------------

_LINE = 16.0
_STEP = 46.0  # free space between layers
_MARGIN = 24.0
_STYLE = (
    "text{font:12px 'DejaVu Sans Mono',Menlo,Consolas,monospace;text-anchor:middle;fill:#111}"
    ".space,.point{font-weight:bold}.count{fill:#1f4e9c;text-anchor:start}"
    "rect{fill:#fff;stroke:#333;stroke-width:1.2}rect.space{fill:#e8f0fa;stroke-width:2}"
    "rect.point{fill:#f4f4ec;stroke-dasharray:4 3}rect.operation{stroke:#999}"
    "rect.state{fill:#eef7ee;stroke:#2c6e2c;stroke-width:2}.state{font-weight:bold}"
    "path{fill:none;stroke:#444;stroke-width:1.3}.end{fill:#444;stroke:none}"
)
_ARROW = (
    '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'markerUnits="userSpaceOnUse" orient="auto"><path class="end" d="M0 0.8L8 4L0 7.2Z"/></marker>'
)


def svg(picture: Picture, title: str = "An information flow graph") -> str:
    """The picture as one SVG document."""
    drawing = _Drawing(picture)
    width, height = drawing.width, drawing.height
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style><defs>{_ARROW}</defs>",
            f"<path style='fill:#fff;stroke:none' d='M0 0H{width:.0f}V{height:.0f}H0Z'/>",
            *drawing.lines(),
            *drawing.boxes(),
            "</svg>\n",
        ]
    )


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self.nodes = picture.nodes
        self.widths = {n: _width(node) for n, node in enumerate(self.nodes)}
        layers = {n: node.layer for n, node in enumerate(self.nodes)}
        edges = [(start, end, 0) for start, end in picture.edges]
        self.placed: Layout = layout(layers, self.widths, edges)
        self.tops, at = dict[int, float](), _MARGIN
        for layer in range(max(layers.values(), default=0) + 1):
            self.tops[layer] = at
            heights = [_height(node) for node in self.nodes if node.layer == layer]
            at += max(heights, default=-_STEP / 2) + _STEP
        self.width, self.height = self.placed.width + 2 * _MARGIN, at - _STEP + _MARGIN

    def bottom(self, place: Place) -> float:
        inside = _height(self.nodes[place[0]]) if place[1] < 0 else 0.0
        return self.tops[place[2]] + inside

    def lines(self) -> list[str]:
        found = []
        for upper, lower, _ in self.placed.segments:
            x, to = self.placed.x[upper] + _MARGIN, self.placed.x[lower] + _MARGIN
            start, end = self.bottom(upper), self.tops[lower[2]]
            bend = (end - start) / 2
            arrow = " marker-end='url(#end)'" if lower[1] < 0 else ""
            curve = f"M{x:.1f} {start:.1f}C{x:.1f} {start + bend:.1f} {to:.1f} {end - bend:.1f}"
            found.append(f"<path{arrow} d='{curve} {to:.1f} {end:.1f}'/>")
        return found

    def boxes(self) -> list[str]:
        return [self._box(n, node) for n, node in enumerate(self.nodes)]

    def _box(self, number: int, node: Node) -> str:
        x, top = self.placed.x[number, -1, node.layer] + _MARGIN, self.tops[node.layer]
        width, height = self.widths[number], _height(node)
        corner = 4 if node.kind in ("operation", "state") else height / 2
        left = x - width / 2
        parts = [
            f"<g><title>{escape(node.title)}</title><rect class='{node.kind}' x='{left:.1f}' "
            f"y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' rx='{corner:.0f}'/>"
        ]
        for i, line in enumerate(node.lines):
            y = top + 19 + i * _LINE
            parts.append(f"<text class='{node.kind}' x='{x:.1f}' y='{y:.1f}'>{escape(line)}</text>")
        if node.caption:
            y = top + height + 13
            caption = escape(node.caption)
            parts.append(f"<text class='count' x='{x + 6:.1f}' y='{y:.1f}'>{caption}</text>")
        return "".join(parts) + "</g>"


def _width(node: Node) -> float:
    return max(text_width(line) for line in node.lines) + (14 if node.kind != "operation" else 0)


def _height(node: Node) -> float:
    return 12 + _LINE * len(node.lines)
