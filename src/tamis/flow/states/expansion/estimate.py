"""The estimator: how much a sequence costs at least, by which components differ (section 4.3).

The paper solves a hierarchy of easier problems; all of them are one table. An entry for a set
of components is the cheapest choice of rows that together replace all of it, guards and shared
parameters left aside. For the uniform unconstrained form that is ceil(m/k), and exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tamis.flow.states.expansion.rule_rows import Moves, Row

_WIDEST = 12  # components for a full table; beyond it the dearest single component counts


class Estimator:
    """`table[mask]`: the least cost of rows that change every component of the mask."""

    def __init__(self, moves: Moves) -> None:
        names = [c.name for c in moves.summary.components]
        self.bit = {name: 1 << i for i, name in enumerate(names)}
        self.wide = len(names) > _WIDEST
        self._rows = _cheapest({self.mask(row.changed): row for row in _by_cost(moves.rows)})
        self.table = [] if self.wide else self._cover(1 << len(names))
        self._single = {n: self._least(b) for n, b in self.bit.items()}
        self._append = {n: _append_cost(moves.rows, n) for n in moves.summary.lists}

    def mask(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= self.bit[name]
        return found

    def cost(self, differing: Iterable[str], missing: dict[str, int] | None = None) -> float:
        """At least so much; infinite where a component differs that no row changes.

        `missing` are elements that must still be appended: one event appends one to a list.
        """
        names = list(differing)
        if self.wide:
            least = max((self._single[n] for n in names), default=0.0)
        else:
            least = self.table[self.mask(names)]
        for name, count in (missing or {}).items():
            least = max(least, count * self._append[name] if count else 0.0)
        return least

    def _cover(self, size: int) -> list[float]:
        table = [0.0] + [math.inf] * (size - 1)
        for mask in range(1, size):
            table[mask] = min(
                (cost + table[mask & ~changed] for changed, cost in self._rows if mask & changed),
                default=math.inf,
            )
        return table

    def _least(self, bit: int) -> float:
        return min((cost for changed, cost in self._rows if changed & bit), default=math.inf)


def estimator(moves: Moves) -> Estimator:
    """The estimator of these moves, made once."""
    return moves.once("estimator", lambda: Estimator(moves))


def _by_cost(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.cost)


def _cheapest(rows: dict[int, Row]) -> list[tuple[int, float]]:
    return [(mask, row.cost) for mask, row in rows.items()]


def _append_cost(rows: Iterable[Row], name: str) -> float:
    return min((row.cost for row in rows if name in row.appends), default=math.inf)
