"""Small charts as SVG: attributes only, for a strict policy allows no style in them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_LINE = Markup('<svg class="line" viewBox="0 0 100 24" preserveAspectRatio="none" '
               'aria-hidden="true"><polyline points="{}"/></svg>')  # fmt: skip
_AREA = Markup('<svg class="area" viewBox="0 0 300 60" preserveAspectRatio="none" role="img" '
               'aria-label="{}"><polygon points="0,60 {} 300,60"/><polyline points="{}"/></svg>'
               )  # fmt: skip
_BARS = Markup('<svg class="bars" viewBox="0 0 {} 40" preserveAspectRatio="none" role="img" '
               'aria-label="{}">{}</svg>')  # fmt: skip
_BAR = Markup('<rect x="{}" y="{:.1f}" width="8" height="{:.1f}"/>')


def _points(values: Sequence[float], width: float, height: float) -> str:
    most = max(values, default=0) or 1.0
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{place * step:.1f},{height - 1 - value / most * (height - 2):.1f}"
        for place, value in enumerate(values)
    )


def line(values: Sequence[float]) -> Markup:
    return _LINE.format(_points(values, 100, 24))


def area(values: Sequence[float], label: str) -> Markup:
    points = _points(values, 300, 60)
    return _AREA.format(label, points, points)


def bars(values: Sequence[float], label: str) -> Markup:
    most = max(values, default=0) or 1.0
    inner = Markup("").join(
        _BAR.format(place * 10, 40 - value / most * 40, value / most * 40)
        for place, value in enumerate(values)
    )
    return _BARS.format(len(values) * 10, label, inner)
