"""A diagram to look at: as Mermaid text, or as SVG that needs nothing else.

Roots have a thick line, low edges are dashed, high edges are solid, as in ICSE 2001, figure 2.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tamis.diagram.conditions import Diagram
from tamis.diagram.layering import Layout, Place, layout
from tamis.diagram.picture import LOW, MOST_NODES, Node, picture, visible
from tamis.diagram.wording import atom_text

__all__ = ["MOST_NODES", "atom_text", "mermaid", "svg"]

# --- Mermaid -----------------------------------------------------------------

# Signs that mean something to Mermaid, or to HTML inside of it; spelled by their code.
_MEANT = re.compile(r"""["#&;<>`{}%\\|\[\]*~$]|(?<=_)_|://""")


def mermaid(diagram: Diagram, names: Sequence[str] | None = None) -> str:
    """The diagram as a Mermaid flowchart. More than MOST_NODES nodes are a SelectorError."""
    shown = picture(diagram, names)
    lines = ["flowchart TD"]
    for node in shown.nodes:
        caption = f"<br/>{quoted(node.caption)}" if node.caption else ""
        kind = ":::leaf" if node.number <= 1 else ""
        kind = ":::root" if node.names else kind
        lines.append(f'    n{node.number}["{quoted(node.shown)}{caption}"]{kind}')
    for source, target, edge in shown.edges:
        lines.append(f"    n{source} {'-.->' if edge == LOW else '-->'} n{target}")
    lines.append("    classDef root stroke-width:4px")
    lines.append("    classDef leaf stroke-width:1px")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return _MEANT.sub(lambda found: "".join(f"#{ord(c)};" for c in found[0]), text)


# --- SVG ---------------------------------------------------------------------

_SIGN = 7.3  # width of a sign
_HEIGHT = 28.0  # of a node
_STEP = 74.0  # from layer to layer
_MARGIN = 24.0
_STYLE = (
    "text{font:12px 'DejaVu Sans Mono',Menlo,Consolas,monospace;text-anchor:middle;fill:#111}"
    ".name{font-weight:bold;fill:#1f4e9c;text-anchor:start}"
    "rect{fill:#fff;stroke:#333;stroke-width:1.2}.leaf{fill:#eee}.root{stroke-width:3.5}"
    "path{fill:none;stroke:#222;stroke-width:1.3}.low{stroke:#777;stroke-dasharray:5 4}"
    ".end{fill:#222;stroke:none}"
)
_ARROW = (
    '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'markerUnits="userSpaceOnUse" orient="auto"><path class="end" d="M0 0.8L8 4L0 7.2Z"/></marker>'
)


def svg(diagram: Diagram, names: Sequence[str] | None = None) -> str:
    """The diagram as one SVG document. More than MOST_NODES nodes are a SelectorError."""
    shown = picture(diagram, names)
    widths = {node.number: text_width(node.shown) for node in shown.nodes}
    placed = layout({node.number: node.layer for node in shown.nodes}, widths, shown.edges)
    width = placed.width + 2 * _MARGIN
    last = max((node.layer for node in shown.nodes), default=0)
    height = last * _STEP + _HEIGHT + 2 * _MARGIN + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>A decision diagram of {len(shown.nodes)} nodes</title>",
            f"<style>{_STYLE}</style><defs>{_ARROW}</defs>",
            f"<path style='fill:#fff;stroke:none' d='M0 0H{width:.0f}V{height:.0f}H0Z'/>",
            *_stems(placed),
            *_lines(placed, widths),
            *(_box(node, placed.x[node.number, -1, node.layer], widths) for node in shown.nodes),
            "</svg>\n",
        ]
    )


def text_width(text: str) -> float:
    wide = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return max(34.0, wide * _SIGN + 18)


def _top(place: Place) -> float:
    return _MARGIN + 8 + place[2] * _STEP


def _stems(placed: Layout) -> list[str]:
    """The straight piece of each joint, beside the nodes of its layer."""
    joints = sorted(place for place in placed.x if place[1] >= 0)
    return [
        f"<path{_kind(p[1])} d='M{placed.x[p] + _MARGIN:.1f} {_top(p):.1f}v{_HEIGHT}'/>"
        for p in joints
    ]


def _lines(placed: Layout, widths: dict[int, float]) -> list[str]:
    found = []
    for upper, lower, kind in placed.segments:
        x = placed.x[upper] + _MARGIN
        if upper[1] < 0:  # the two edges of a node start a little apart
            x += widths[upper[0]] / 5 * (-1 if kind == LOW else 1)
        to = placed.x[lower] + _MARGIN
        start, end = _top(upper) + _HEIGHT, _top(lower)
        bend = (end - start) / 2
        arrow = " marker-end='url(#end)'" if lower[1] < 0 else ""
        curve = f"M{x:.1f} {start:.1f}C{x:.1f} {start + bend:.1f} {to:.1f} {end - bend:.1f}"
        found.append(f"<path{_kind(kind)}{arrow} d='{curve} {to:.1f} {end:.1f}'/>")
    return found


def _kind(edge: int) -> str:
    return " class='low'" if edge == LOW else ""


def _box(node: Node, x: float, widths: dict[int, float]) -> str:
    width = widths[node.number]
    left, top = x + _MARGIN - width / 2, _top((node.number, -1, node.layer))
    kind = " ".join(["leaf"] * (node.number <= 1) + ["root"] * bool(node.names))
    corner = 0 if node.number <= 1 else 8
    parts = [
        f"<g><title>{escape(visible(node.text))}</title>"
        f"<rect class='{kind}' x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' "
        f"height='{_HEIGHT}' rx='{corner}'/>",
        f"<text x='{left + width / 2:.1f}' y='{top + 18:.1f}'>{escape(node.shown)}</text>",
    ]
    if node.caption:
        parts.append(
            f"<text class='name' x='{left + 2:.1f}' y='{top - 6:.1f}'>{escape(node.caption)}</text>"
        )
    return "".join(parts) + "</g>"
