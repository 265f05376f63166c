"""The distinct texts of a column: as UTF-8 bytes, as Python strings, or both."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tamis.engine.ground.layout import I4
from tamis.engine.lookup.string_table import Table, find
from tamis.engine.lookup.text_index import Values, values_of
from tamis.jit.kernel import kernel
from tamis.logic.terms import CHANGES_CASE

if TYPE_CHECKING:
    import pyarrow as pa

_HIGHEST = 2**31 - 1  # of 32 bits
_LETTERS = {"lower": (65, 90), "upper": (97, 122), "casefold": (65, 90)}  # of ASCII, that change


class Words(Sequence[str]):
    """Texts by number. Whichever form was not given is made when it is first asked for."""

    def __init__(self, texts: list[str] | None = None, values: Values | None = None) -> None:
        self._texts, self._values = texts, values

    @classmethod
    def of_arrow(cls, array: pa.Array) -> Words:
        """The strings of an Arrow array without nulls, from its buffers."""
        _, offsets, data = array.buffers()
        if not len(array):
            return cls([""])
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        return cls(None, Values(np.frombuffer(data or b"", np.uint8), bounds.astype(np.int64)))

    @property
    def texts(self) -> list[str]:
        if self._texts is None:
            self._texts = [self.values.bytes(i).decode() for i in range(len(self.values))]
        return self._texts

    @property
    def values(self) -> Values:
        if self._values is None:
            self._values = values_of(self._texts or ())
        return self._values

    def cased(self, function: str) -> Words:
        """`lower`, `upper` or `casefold` of each: of ASCII by bytes, of the rest by Python."""
        (first, last), convert = _LETTERS[function], CHANGES_CASE[function]
        data, offsets = self.values.data, self.values.offsets
        changed = np.empty_like(data)
        beyond = np.zeros(len(self), np.uint8)
        _case(data, offsets, first, last, changed, beyond)
        for i in np.flatnonzero(beyond).tolist():
            text = convert(self.values.bytes(i).decode()).encode()
            if len(text) != offsets[i + 1] - offsets[i]:
                return Words([convert(t) for t in self.texts])
            changed[offsets[i] : offsets[i + 1]] = np.frombuffer(text, np.uint8)
        return Words(None, Values(changed, offsets))

    def find(self, table: Table) -> I4:
        """Which string of the table each text is, -1 where it is none."""
        found, offsets, first = np.empty(len(self), np.int32), self.values.offsets, 0
        while first < len(found):  # with places of 32 bits, as those of Arrow
            most = np.searchsorted(offsets, offsets[first] + _HIGHEST, "right") - 1
            last = min(int(most), len(found))
            if last == first:  # no selector holds a string of so many bytes
                found[first] = -1
                first += 1
                continue
            begin, end = int(offsets[first]), int(offsets[last])
            bounds = (offsets[first : last + 1] - begin).astype(np.int32)
            start = self.values.data.ctypes.data + begin
            column = np.array((0, 0, bounds.ctypes.data, start, end - begin), np.int64)
            find(column, table.at, np.ones(last - first, bool), found[first:last])
            first = last
        return found

    def __len__(self) -> int:
        return len(self._texts) if self._texts is not None else len(self.values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: Any) -> Any:
        return self.texts[i]


NO_WORDS = Words([])


@kernel
def _case(data, offsets, first, last, out, beyond):
    """The letters first to last (of ASCII) in their other case; which texts have other letters."""
    for t in range(beyond.size):
        most = np.uint8(0)
        for i in range(offsets[t], offsets[t + 1]):
            byte = data[i]
            most |= byte
            out[i] = byte ^ np.uint8(32) if first <= byte <= last else byte
        beyond[t] = most >> np.uint8(7)
