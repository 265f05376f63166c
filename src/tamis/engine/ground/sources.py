"""Subscriptions as data: what segments are compiled from, merged from and saved as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I4, I8

_MANY = 4096  # numbers from which on a narrower type is worth its while
_NARROW = (np.uint8, np.uint16)
Numbers = npt.NDArray[Any]  # of some type of integers


@dataclass(frozen=True, slots=True)
class Source:
    """Subscriptions as data: slot (order of adding), template, and the keys of their literals."""

    slot: I4
    template: I4
    offsets: I8
    keys: I8

    def __len__(self) -> int:
        return len(self.slot)

    def with_more(self, more: Source) -> Source:
        """With others, whose slots all come later."""
        return Source(
            np.concatenate([self.slot, more.slot]),
            np.concatenate([self.template, more.template]),
            np.concatenate([self.offsets, more.offsets[1:] + self.offsets[-1]]),
            np.concatenate([self.keys, more.keys]),
        )

    def without(self, at: int) -> Source:
        """Without one."""
        first, last = self.offsets[at], self.offsets[at + 1]
        later = self.offsets[at + 1 :] - (last - first)
        return Source(
            np.delete(self.slot, at),
            np.delete(self.template, at),
            np.concatenate([self.offsets[:at], later]),
            np.delete(self.keys, slice(first, last)),
        )

    def only(self, at: int) -> Source:
        """One of them alone."""
        first, last = self.offsets[at], self.offsets[at + 1]
        own = slice(at, at + 1)
        offsets = np.array([0, last - first], np.int64)
        return Source(self.slot[own], self.template[own], offsets, self.keys[first:last])

    def with_constant(self, at: int, template: int) -> Source:
        """With a template that has no literals in place of one's condition."""
        first, last = self.offsets[at], self.offsets[at + 1]
        templates, offsets = self.template.copy(), self.offsets.copy()
        templates[at] = template
        offsets[at + 1 :] -= last - first
        return Source(self.slot, templates, offsets, np.delete(self.keys, slice(first, last)))


@dataclass(frozen=True, slots=True)
class Kept:
    """A source in little room, for as long as its segment lives.

    Keys repeat, so a literal is the number of its variable, `keys[literal]` its key. A
    subscription has `sizes` literals, which stand one behind the other.
    """

    slot: I4
    template: Numbers
    sizes: Numbers
    literal: Numbers
    keys: I8

    def __len__(self) -> int:
        return len(self.slot)

    def source(self) -> Source:
        """As it was."""
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.sizes, out=offsets[1:])
        template = self.template.astype(np.int32, copy=False)
        return Source(self.slot, template, offsets, self.keys[self.literal])


def kept(source: Source, variable: I4, keys: I8) -> Kept:
    """The source, given the variable of each literal and the key of each variable."""
    sizes = np.diff(source.offsets)
    return Kept(source.slot, narrow(source.template), narrow(sizes), narrow(variable), keys)


def narrow(numbers: Numbers) -> Numbers:
    """The same numbers, none of them negative, in the narrowest type where that saves much."""
    if len(numbers) < _MANY:
        return numbers
    largest = int(numbers.max())
    for kind in _NARROW:
        if largest <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return numbers.astype(np.int32, copy=False)
