"""Wants: the pieces of interest that a child names to its parent, and digests of sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

_MODULUS = 1 << 256


class Want(NamedTuple):
    """Messages of these subjects that satisfy the selector; an empty selector: all of them."""

    subjects: str
    selector: str


class WantSet:
    """A set of wants. Its digest depends on the set alone, and costs nothing to ask for.

    The digest is the sum of the hashes of all wants: equal sets have equal digests, whatever the
    order in which wants came and went.
    """

    __slots__ = ("_sum", "_wants")

    def __init__(self, wants: Iterable[Want] = ()) -> None:
        self._wants: set[Want] = set()
        self._sum = 0
        for want in wants:
            self.add(want)

    def __len__(self) -> int:
        return len(self._wants)

    def __iter__(self) -> Iterator[Want]:
        return iter(self._wants)

    def __contains__(self, want: object) -> bool:
        return want in self._wants

    def add(self, want: Want) -> bool:
        """Whether it is new."""
        if want in self._wants:
            return False
        self._wants.add(want)
        self._sum = (self._sum + _hash(want)) % _MODULUS
        return True

    def discard(self, want: Want) -> bool:
        """Whether it was there."""
        if want not in self._wants:
            return False
        self._wants.remove(want)
        self._sum = (self._sum - _hash(want)) % _MODULUS
        return True

    @property
    def digest(self) -> bytes:
        return self._sum.to_bytes(32)


def _hash(want: Want) -> int:
    subjects = want.subjects.encode("utf-8", "surrogatepass")
    selector = want.selector.encode("utf-8", "surrogatepass")
    length = len(subjects).to_bytes(4)
    return int.from_bytes(blake2b(length + subjects + selector, digest_size=32).digest())
