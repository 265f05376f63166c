"""How the arrays of paths are put into words."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.diagram.bdd import LOWEST
from tamis.engine.choosing.segment_names import Names


def bounds_text(names: Names, tests: Sequence[int], bounds: Sequence[int]) -> list[str]:
    """`bound <= key` of each test, for ~column both inverted."""
    return [
        names.bound(t, b, below=False) if t >= 0 else names.bound(~t, ~b + 1, below=True)
        for t, b in zip(tests, bounds, strict=False)
        if b != LOWEST
    ]


def literal_text(text: str, holds: object) -> str:
    return text if holds else f"NOT ({text})"


def joined(parts: list[str]) -> str:
    return " AND ".join(parts) or "TRUE"
