"""A picture as a Mermaid flowchart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tamis.drawing.pictures import DASHED, Box, Picture

_SHAPES = {"space": '(["{}"])', "point": '("{}")', "state": '[("{}")]'}
_CLASSES = {"root": "stroke-width:4px", "leaf": "stroke-width:1px"}
# Signs that mean something to Mermaid, or to HTML inside of it; spelled by their code.
_MEANT = re.compile(r"""["#&;<>`{}%\\|\[\]*~$]|(?<=_)_|://""")


def mermaid(picture: Picture) -> str:
    """The text. Separate graphs are subgraphs; links are thick arrows."""
    lines = ["flowchart TD"]
    for name, numbers in picture.groups.items():
        inside = set(numbers)
        edges = (edge for edge in picture.edges if edge[0] in inside)
        lines.append(f'    subgraph {name}["{_quoted(name)}"]')
        lines += [f"    {line}" for line in _graph(picture, numbers, edges)]
        lines.append("    end")
    if not picture.groups:
        lines += _graph(picture, picture.boxes, picture.edges)
    lines += [f"    n{a} ==> n{b}" for a, b in picture.links]
    kinds = {box.kind for box in picture.boxes.values()}
    lines += [f"    classDef {kind} {css}" for kind, css in _CLASSES.items() if kind in kinds]
    return "\n".join(lines) + "\n"


def _graph(
    picture: Picture, numbers: Iterable[int], edges: Iterable[tuple[int, int, int]]
) -> list[str]:
    boxes = [f"    n{n}{_box(picture.boxes[n])}" for n in numbers]
    arrows = (f"    n{a} {'-.->' if kind == DASHED else '-->'} n{b}" for a, b, kind in edges)
    return [*boxes, *arrows]


def _box(box: Box) -> str:
    label = "<br/>".join(map(_quoted, (*box.lines, *filter(None, [box.caption]))))
    kind = f":::{box.kind}" if box.kind in _CLASSES else ""
    return _SHAPES.get(box.kind, '["{}"]').format(label) + kind


def _quoted(text: str) -> str:
    return _MEANT.sub(lambda found: "".join(f"#{ord(c)};" for c in found[0]), text)
