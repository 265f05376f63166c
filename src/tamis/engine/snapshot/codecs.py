"""Texts, ids and constants as arrays, and back again.

A loaded matcher reads its ids and selectors out of the mapped file, one by one, when
somebody asks for them; so a million of them cost nothing before the first match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tamis.critical_section import GATE
from tamis.diagram.questions import Pool, numbers_in
from tamis.engine.ground.ids import Id
from tamis.engine.ground.layout import I4, I8, U1
from tamis.engine.reading.templates import Template, Templates
from tamis.schema import INT_MAX, INT_MIN

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Saved(Protocol[T_co]):
    """A sequence that is read by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> T_co: ...
    def __iter__(self) -> Iterator[T_co]: ...


class Texts:
    """Text i is data[offsets[i]:offsets[i + 1]], in UTF-8."""

    def __init__(self, data: U1, offsets: I8) -> None:
        self.data, self.offsets = data, offsets
        self._data, self._offsets = data.data, offsets.data

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        encoded = [text.encode() for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(e) for e in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: int) -> str:
        return str(self._data[self._offsets[i] : self._offsets[i + 1]], "utf-8")

    def __iter__(self) -> Iterator[str]:
        data = self.data.tobytes()
        return (data[a:b].decode() for a, b in pairwise(self.offsets.tolist()))


class Growing(Generic[T]):
    """A saved sequence to which more is added in memory: what a matcher needs of a list."""

    def __init__(self, saved: Saved[T]) -> None:
        self._saved, self._count = saved, len(saved)
        self._more: list[T] = []

    def __len__(self) -> int:
        return self._count + len(self._more)

    def __getitem__(self, i: int) -> T:
        return self._saved[i] if i < self._count else self._more[i - self._count]

    def __iter__(self) -> Iterator[T]:
        return chain(self._saved, self._more)

    def append(self, value: T) -> None:
        self._more.append(value)

    def extend(self, values: Iterable[T]) -> None:
        self._more.extend(values)


# --- ids ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ids:
    """Strings, integers or both. Where both occur, an integer's text is its decimal form.

    `numbers` is empty where all are strings, `texts` where all are integers; `whole` marks the
    integers where both occur.
    """

    numbers: I8
    whole: U1
    texts: Texts

    @classmethod
    def of(cls, ids: Sequence[Id]) -> Ids:
        whole = np.fromiter((isinstance(i, int) for i in ids), np.uint8, len(ids))
        if whole.all():
            return cls(np.array(ids, np.int64), whole[:0], Texts.of(()))
        texts = Texts.of(map(str, ids))
        if not whole.any():
            return cls(np.empty(0, np.int64), whole[:0], texts)
        numbers = [i if isinstance(i, int) else 0 for i in ids]
        return cls(np.array(numbers, np.int64), whole, texts)

    def __len__(self) -> int:
        return max(len(self.numbers), len(self.texts))

    def __getitem__(self, i: int) -> Id:
        if not len(self.texts) or (len(self.whole) and self.whole[i]):
            return int(self.numbers[i])
        return self.texts[i]

    def __iter__(self) -> Iterator[Id]:
        if not len(self.texts):
            yield from self.numbers.tolist()
        elif not len(self.whole):
            yield from self.texts
        else:
            yield from (self[i] for i in range(len(self)))

    def names(self) -> Any:
        """The ids as one Arrow array without a copy of the texts; None where they are too long."""
        import pyarrow as pa

        if not len(self.texts):
            return pa.array(self.numbers)
        if len(self.texts.data) > np.iinfo(np.int32).max:
            return None
        offsets = pa.py_buffer(self.texts.offsets.astype(np.int32))
        buffers = [None, offsets, pa.py_buffer(self.texts.data)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)


# --- constants ---------------------------------------------------------------

# What an item is. BIG: an integer beyond 64 bits; LINK: the number of another constant.
STRING, BIG, INT, DOUBLE, BOOL, LINK = range(6)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values of a pool: scalars, tuples of scalars, and lists of links to scalars.

    Value i, of `family[i]`, is made of the items from starts[i] to starts[i + 1]. Items of one
    kind stand in the column of that kind, in order; BIG ones as texts, in hexadecimal.
    """

    family: U1
    grouped: U1  # is the value a tuple or list?
    starts: I8
    kind: U1
    texts: Texts
    integers: I8
    doubles: npt.NDArray[np.float64]
    links: I4

    @classmethod
    def of(cls, values: Sequence[tuple[int, Any]]) -> Constants:
        grouped = [isinstance(value, tuple | bytes) for _, value in values]
        parts = [_items(value) for _, value in values]
        starts = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=starts[1:])
        by_kind = [pair for part in parts for pair in part]
        return cls(
            np.array([family for family, _ in values], np.uint8),
            np.array(grouped, np.uint8),
            starts,
            np.array([k for k, _ in by_kind], np.uint8),
            Texts.of(i if k == STRING else f"{i:x}" for k, i in by_kind if k in (STRING, BIG)),
            np.array([i for k, i in by_kind if k in (INT, BOOL)], np.int64),
            np.array([i for k, i in by_kind if k == DOUBLE], np.float64),
            np.array([i for k, i in by_kind if k == LINK], np.int32),
        )

    def values(self) -> list[Any]:
        items = self._scalars()
        values: list[Any] = items[self.starts[:-1]].tolist()
        link = np.append(0, np.cumsum(self.kind == LINK))[self.starts]  # the first of each value
        for i in np.flatnonzero(self.grouped).tolist():
            linked = self.links[link[i] : link[i + 1]]
            own = items[self.starts[i] : self.starts[i + 1]]
            values[i] = linked.tobytes() if len(linked) else tuple(own.tolist())
        return values

    def _scalars(self) -> npt.NDArray[np.object_]:
        # one more than there are, so that an empty tuple at the end has a place to start
        items = np.empty(len(self.kind) + 1, object)
        kind = np.append(self.kind, np.uint8(255))
        textual, whole = (kind == STRING) | (kind == BIG), (kind == INT) | (kind == BOOL)
        items[textual] = list(self.texts)
        items[whole] = self.integers.tolist()
        items[kind == DOUBLE] = self.doubles.tolist()
        for i in np.flatnonzero(kind == BIG).tolist():
            items[i] = int(items[i], 16)
        for i in np.flatnonzero(kind == BOOL).tolist():
            items[i] = bool(items[i])
        return items

    def pool(self) -> Pool:
        return SavedPool(self.values(), family=self.family)


def _items(value: Any) -> list[tuple[int, Any]]:
    """What a value is made of: the kind of each item, and the item."""
    if isinstance(value, bytes):
        return [(LINK, number) for number in numbers_in(value)]
    return [(_kind(item), item) for item in (value if isinstance(value, tuple) else (value,))]


def _kind(item: object) -> int:
    if isinstance(item, str):
        return STRING
    if isinstance(item, bool):
        return BOOL
    if isinstance(item, int):
        return INT if INT_MIN <= item <= INT_MAX else BIG
    assert isinstance(item, float)
    return DOUBLE


@dataclass(slots=True)
class SavedPool(Pool):
    """A pool whose numbers are put into dicts when a constant is first looked up."""

    family: U1 | None = None

    def number(self, family: int, value: Any) -> int:
        saved = self.family
        if saved is not None:
            known = zip(saved.tolist(), self.values[: len(saved)], strict=True)
            for i, (own, constant) in enumerate(known):
                self.numbers[own][constant] = i
            self.family = None
        return Pool.number(self, family, value)


def families(pool: Pool, count: int) -> list[int]:
    """The families of the first `count` constants."""
    saved = pool.family if isinstance(pool, SavedPool) else None
    if saved is not None:
        return saved[:count].tolist()  # type: ignore[no-any-return]
    found = [0] * count
    for family, numbers in enumerate(pool.numbers):
        for number in list(numbers.values()):
            if number < count:  # others may be adding
                found[number] = family
    return found


# --- templates ---------------------------------------------------------------


class SavedTemplates(Templates):
    """Templates that are unpacked when something is added: matching needs none of them."""

    def __init__(self, words: tuple[I8, I4], required: tuple[I8, I4]) -> None:
        self._saved = words, required
        self._unpacked: Templates | None = None

    @property
    def items(self) -> list[Template]:  # type: ignore[override]
        return self._own().items

    @property
    def numbers(self) -> dict[Template, int]:  # type: ignore[override]
        return self._own().numbers

    def number(self, packed: bytes, required: tuple[int, ...]) -> int:
        return self._own().number(packed, required)

    def _own(self) -> Templates:
        if self._unpacked is None:
            with GATE:
                if self._unpacked is None:
                    self._unpacked = self._made()
        return self._unpacked

    def _made(self) -> Templates:
        made = Templates()
        (word_offsets, words), (required_offsets, required) = self._saved
        packed, terms = words.tobytes(), required.tolist()
        spans = (pairwise(offsets.tolist()) for offsets in (word_offsets, required_offsets))
        for (a, b), (c, d) in zip(*spans, strict=True):
            made.enter(packed[4 * a : 4 * b], tuple(terms[c:d]))
        return made
