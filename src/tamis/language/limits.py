"""How much one selector may ask for. Every limit is a setting; crossing one is a SelectorError."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.errors import SelectorError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one selector, safe for text from strangers.

    `length`: characters of text. `depth`: nesting of brackets, and height of the condition.
    `items`: constants in one IN list. `pattern`: characters of one MATCHES pattern, and of what
    stands between two % of a LIKE pattern where that holds a _.
    `expansion`: nodes copied where `=` between two conditions is written out.
    """

    length: int = 100_000
    depth: int = 100
    items: int = 20_000
    pattern: int = 1_000
    expansion: int = 2_000

    def crossed(self, name: str, what: str, text: str, at: int, hint: str = "") -> SelectorError:
        """The error for crossing the limit `name`; it tells the limit and how to raise it."""
        bound: int = getattr(self, name)
        hint = hint or f"raise it with limits=Limits({name}=...)"
        what = f"{what}: the limit is {bound:,} ({name})"
        return SelectorError(what, text=text, at=at, hint=hint, limit=name)
