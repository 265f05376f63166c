"""The experiment of ICSE 2001, section 8: its 208 atoms, its queries, its messages.

The paper prints the atoms and two averages: a query has 7.6 atomic formulas and 7.7 relational
operators. We read that as 7.7 atoms drawn with repetition, 7.6 of them distinct; 7.7 draws out
of 208 give just that. The grammar itself is not printed. Ours splits a query at random into two
sides, joins them by AND or OR, equally often, and negates one side in twenty. That is harder than
the paper's set: before restriction a query of ours has 10.6 nodes, one of the paper's 7.2. Saying
AND in 94 % of all cases would give the paper's number, but then a third of all queries could
never be satisfied.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tamis.schema import Schema

SCHEMA = Schema.of(
    {f"i{n}": int for n in (1, 2, 3)}
    | {f"d{n}": float for n in (1, 2, 3)}
    | {f"s{n}": str for n in (1, 2, 3, 4)}
)
DENSITIES = (0.077, 0.154, 0.231, 0.308, 1.0)
SIZES = (25_000, 50_000, 75_000, 100_000)

# The paper's two tables: (nodes before, nodes after restriction), and seconds to match 1,000
# messages, a column per density under strict semantics and a last one for total semantics.
PAPER_NODES = {
    25_000: (180_226, 108_889),
    50_000: (351_616, 206_848),
    75_000: (543_677, 299_942),
    100_000: (708_969, 376_992),
}
PAPER_SECONDS = {
    25_000: (1.56, 3.81, 5.86, 8.23, 27.64, 20.12),
    50_000: (3.56, 7.63, 10.92, 14.74, 55.66, 41.58),
    75_000: (6.65, 12.49, 18.11, 22.56, 89.93, 61.75),
    100_000: (9.01, 15.57, 21.4, 30.83, 121.32, 81.64),
}

_NUMBERS = (10, 30, 50, 70)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_STRINGS = ("aa", "bb", "a", "b")
_TEXT_TESTS = ("=", "<>", "CONTAINS", "WITHIN")

# Twenty alternatives of varying length. Each of the four constants equals, holds and is held by
# some of them.
ALTERNATIVES = (
    *("a", "b", "c", "aa", "bb", "ab", "ba", "cd", "aab", "bba"),
    *("cab", "dcd", "abba", "baab", "cccd", "aabb", "bcacb", "dddcc", "abcabc", "cdcdcdcd"),
)


def _atoms() -> tuple[str, ...]:
    numeric = [(name, f"{c}") for name in ("i1", "i2", "i3") for c in _NUMBERS]
    numeric += [(name, f"{c}.0") for name in ("d1", "d2", "d3") for c in _NUMBERS]
    texts = [(f"s{n}", c) for n in (1, 2, 3, 4) for c in _STRINGS]
    return tuple(
        [f"{name} {op} {c}" for name, c in numeric for op in _COMPARISONS]
        + [f"{name} {op} '{c}'" for name, c in texts for op in _TEXT_TESTS]
    )


ATOMS = _atoms()
assert len(ATOMS) == 208


class Grammar:
    """Random queries. `extra` is the mean number of atoms beyond the first."""

    def __init__(self, seed: int, *, extra: float = 6.75, conjunction: float = 0.5,
                 negation: float = 0.05) -> None:  # fmt: skip
        self.random = random.Random(seed)
        self.extra, self.conjunction, self.negation = extra, conjunction, negation

    def query(self) -> str:
        return self.condition(1 + self._poisson())

    def condition(self, atoms: int) -> str:
        """A condition of so many atoms; inner ones stand in brackets."""
        if atoms == 1:
            return self.random.choice(ATOMS)
        left = self.random.randint(1, atoms - 1)
        op = "AND" if self.random.random() < self.conjunction else "OR"
        return f"{self._side(left)} {op} {self._side(atoms - left)}"

    def _side(self, atoms: int) -> str:
        inner = self.condition(atoms)
        if self.random.random() < self.negation:
            return f"NOT ({inner})"
        return inner if atoms == 1 else f"({inner})"

    def _poisson(self) -> int:
        """Knuth's method: how many uniform factors keep the product above e^-mean."""
        bound, product, count = math.exp(-self.extra), self.random.random(), 0
        while product > bound:
            product *= self.random.random()
            count += 1
        return count


def queries(count: int, seed: int = 1) -> list[str]:
    """So many selectors; the first n of a larger set are the smaller set of the same seed."""
    grammar = Grammar(seed)
    return [grammar.query() for _ in range(count)]


def messages(count: int, density: float = 1.0, seed: int = 1) -> pa.Table:
    """So many messages. Each attribute is defined with probability `density`, independently.

    Integers are uniform in 0..80, doubles uniform over 0, 0.5, ..., 80 (so that `d1 = 10.0` can
    hold), strings uniform over ALTERNATIVES.
    """
    rng = np.random.default_rng(seed)
    columns = {name: _column(name, count, rng) for name in SCHEMA}
    if density < 1:
        columns = {
            name: pa.array(values, mask=rng.random(count) >= density)
            for name, values in columns.items()
        }
    return pa.table(columns)


def _column(name: str, count: int, rng: np.random.Generator) -> np.ndarray:
    if name.startswith("i"):
        return rng.integers(0, 81, count)
    if name.startswith("d"):
        return rng.integers(0, 161, count) / 2
    return np.array(ALTERNATIVES, dtype=object)[rng.integers(0, len(ALTERNATIVES), count)]


def averages(texts: Sequence[str]) -> tuple[float, float]:
    """Distinct atoms and relational operators per query, as the paper reports them."""
    distinct = operators = 0
    for text in texts:
        found = atoms_of(text)
        distinct += len(set(found))
        operators += len(found)
    return distinct / len(texts), operators / len(texts)


def atoms_of(text: str) -> list[str]:
    """The atoms of a generated selector, left to right."""
    bare = text.replace("NOT ", "").replace("(", "").replace(")", "")
    return [atom for part in bare.split(" AND ") for atom in part.split(" OR ")]
