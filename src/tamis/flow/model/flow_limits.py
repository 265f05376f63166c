"""How much one flow may ask for. Every limit is a setting; crossing one is a FlowError."""

from __future__ import annotations

from dataclasses import dataclass, field

from tamis.errors import FlowError
from tamis.language import Limits


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Bounds on one flow, safe for text from strangers.

    `length`: characters of text. `statements`: spaces, lookups, arcs and tests. `columns`: of one
    space. `paths`: ways from publication to subscription points. `nodes`: of the terms and
    conditions of one path after rewriting. `selectors`: bounds on each condition.
    """

    length: int = 1_000_000
    statements: int = 10_000
    columns: int = 2_000
    paths: int = 1_000
    nodes: int = 20_000
    selectors: Limits = field(default_factory=Limits)

    def crossed(
        self, name: str, what: str, *, where: str = "", text: str = "", at: int = 0
    ) -> FlowError:
        """The error for crossing the limit `name`; it tells the limit and how to raise it."""
        bound: int = getattr(self, name)
        return FlowError(
            f"{what}: the limit is {bound:,} ({name})",
            where=where,
            text=text,
            at=at,
            hint=f"raise it with limits=FlowLimits({name}=...)",
            limit=name,
        )


LIMITS = FlowLimits()
