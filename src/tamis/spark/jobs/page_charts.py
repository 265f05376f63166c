"""Small charts as SVG, with the colours of the page that they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 480, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 20, 22, 40  # room for labels around the plot
_INNER, _DEEP = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM


_TOPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)  # a scale that ends at one of these is easy to read


def short(number: float) -> str:
    """A number in few letters: 950, 1.2k, 34k, 5.6M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:
            part = number / size
            return f"{part:.1f}".removesuffix(".0") + unit if part < 9.95 else f"{part:.0f}{unit}"
    return f"{number:.3g}"


def ceiling(number: float) -> float:
    """A round number that is not smaller, and not much larger."""
    size = 1.0
    while size * 10 < number:
        size *= 10
    return next(step * size for step in _TOPS if step * size >= number)


def area(points: Sequence[tuple[float, float]], width: float, title: str, across: str) -> str:
    """Steps over time, from 0 on: each point is where a step of `width` begins, and its height."""
    last = ceiling(points[-1][0] + width)
    top = ceiling(max(1.0, *(height for _, height in points)))
    path, end = [f"M{_LEFT} {_y(0, top)}"], 0.0
    for at, height in points:
        if at > end:  # nothing was done meanwhile
            path.append(f"V{_y(0, top)}H{_x(at, last)}")
        end = at + width
        path.append(f"V{_y(height, top)}H{_x(end, last)}")
    path.append(f"V{_y(0, top)}Z")
    labels = [_label(_x(part * last, last), f"{part * last:.4g}") for part in (0, 0.5, 1)]
    return _svg(title, across, [_scale(top), f'<path class="area" d="{"".join(path)}"/>', *labels])


def bars(named: Sequence[tuple[str, int]], title: str, across: str) -> str:
    """A bar for each name; the first stands apart from the others."""
    top = ceiling(max(1, *(height for _, height in named)))
    room = _INNER / len(named)
    drawn = [_scale(top)]
    for i, (name, height) in enumerate(named):
        x, y = _LEFT + i * room, _y(height, top)
        kind = "apart" if i == 0 else "bar"
        drawn.append(
            f'<rect class="{kind}" x="{x + room * 0.1:.1f}" y="{y}" rx="2"'
            f' width="{room * 0.8:.1f}" height="{_y(0, top) - y:.1f}"/>'
        )
        if height:
            drawn.append(_label(x + room / 2, short(height), y - 4))
        drawn.append(_label(x + room / 2, name))
    return _svg(title, across, drawn)


def _svg(title: str, across: str, drawn: list[str]) -> str:
    inside = "\n".join([*drawn, _label(_LEFT + _INNER / 2, across, _HEIGHT - 5)])
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        f"{inside}\n</svg>"
    )


def _scale(top: float) -> str:
    lines = []
    for part in (0, 0.5, 1):
        y = _y(part * top, top)
        lines.append(f'<path class="line" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 4}" class="end">{short(part * top)}</text>')
    return "\n".join(lines)


def _label(x: float, text: str, y: float = _HEIGHT - _BOTTOM + 16) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _x(at: float, last: float) -> float:
    return round(_LEFT + _INNER * at / last, 1)


def _y(height: float, top: float) -> float:
    return round(_TOP + _DEEP * (1 - height / top), 1)
