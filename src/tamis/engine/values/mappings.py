"""Python mappings as columns: what messages have, not what might be asked, decides the cost.

Messages with the same keys are put side by side and turned into columns by `zip`. What a column
holds is settled when it is asked for; values of Python's own types are settled all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I8
from tamis.engine.values.column_texts import NO_WORDS, Words
from tamis.engine.values.message_batch import Messages, filled
from tamis.engine.values.typed_columns import (
    AnyColumn,
    Column,
    from_values,
    lists_of,
    maps_of,
    undefined,
)
from tamis.logic import Semantics, finder
from tamis.messages.message_values import fitted, settle, walk
from tamis.schema import Schema, Shape, Type

Column_ = tuple[I8, list[Any]]  # rows, and what they hold
_PLAIN: dict[type, tuple[Type, type]] = {
    str: (Type.STRING, np.int32),
    int: (Type.INT, np.int64),
    float: (Type.DOUBLE, np.float64),
    bool: (Type.BOOL, np.int64),
}
_NO_ROWS: I8 = np.empty(0, np.int64)


class Mappings(Messages):
    """An attribute becomes a column when it is first asked for."""

    def __init__(
        self, messages: Sequence[Mapping[str, object]], semantics: Semantics, schema: Schema | None
    ) -> None:
        super().__init__(len(messages), {})
        self.semantics, self.schema = semantics, schema
        self._known: dict[str, AnyColumn] = {}
        self._pieces: dict[str, list[Column_]] = {}
        self._other: list[
            tuple[int, Mapping[str, object]]
        ] = []  # not dicts: who knows what .get does
        self._dicts: list[tuple[I8, list[dict[str, Any]], frozenset[str]]] = []
        self._group(messages)
        if semantics == "total" and schema is not None:
            self._insist(messages)

    def _group(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Put those with the same keys side by side."""
        alike: dict[tuple[str, ...], tuple[list[int], list[dict[str, Any]]]] = {}
        for i, message in enumerate(messages):
            if type(message) is not dict:
                self._other.append((i, message))
                continue
            found = alike.get(keys := tuple(message))
            if found is None:
                found = alike[keys] = [], []
            found[0].append(i)
            found[1].append(message)
        for keys, (numbers, own) in alike.items():
            rows = np.array(numbers, np.int64)
            self._dicts.append((rows, own, frozenset(keys)))
            for name, values in zip(keys, zip(*map(dict.values, own), strict=True), strict=True):
                self._pieces.setdefault(name, []).append((rows, values))  # type: ignore[arg-type]

    def _insist(self, messages: Sequence[Mapping[str, object]]) -> None:
        """Under total semantics every attribute must be there; else an error names those that are
        not."""
        assert self.schema is not None
        for name in self.schema:
            column = self.attribute(name)
            assert isinstance(column, Column)
            if not column.valid.all():
                finder(messages[int(np.argmin(column.valid))], self.semantics, self.schema)

    def attribute(self, name: str) -> AnyColumn:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._column(name)
        return found

    def _column(self, name: str) -> AnyColumn:
        rows, values = self._held(name)
        schema = self.schema
        own = schema[name] if schema is not None and name in schema else None
        column: AnyColumn | None
        wanted = own.type if own is not None and own.shape is Shape.SCALAR else None
        column = _typed(name, rows, values, self.length, wanted)
        if own is not None and own.shape is not Shape.SCALAR:
            column = None
        if column is None:
            settled = [settle(name, v) for v in values]
            if own is not None and schema is not None:
                settled = [fitted(schema, name, v) for v in settled]
            whole: list[object] = [None] * self.length
            for row, value in zip(rows.tolist(), settled, strict=True):
                whole[row] = value
            column = from_values(whole)
        if own is not None and own.shape is not Shape.SCALAR:
            return lists_of(column) if own.shape is Shape.LIST else maps_of(column)
        if own is None or own.default is None or self.semantics != "default":
            return column
        assert isinstance(column, Column)
        return filled(column, own.default, own.type)

    def _held(self, name: str) -> Column_:
        """The rows that have something for the name, and what: the exact key comes first, then a
        field of a nested message."""
        pieces = list(self._pieces.get(name, ()))
        if "." in name:
            root = name.split(".")[0]
            for rows, own, keys in self._dicts:
                if root in keys and name not in keys:
                    pieces.append((rows, [walk(message, name) for message in own]))
        for row, message in self._other:
            value = message.get(name)
            if value is None and "." in name and name not in message:
                value = walk(message, name)
            pieces.append((np.array([row]), [value]))
        if not pieces:
            return _NO_ROWS, []
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([r for r, _ in pieces]), list(chain(*(v for _, v in pieces)))


def _typed(
    name: str, rows: I8, values: Sequence[Any], length: int, wanted: Type | None
) -> Column | None:
    """A column of values that are all of one plain type; None where they are not."""
    kinds = set(map(type, values))
    if type(None) in kinds:
        kinds.discard(type(None))
        there = np.array([v is not None for v in values], bool)
        rows, values = rows[there], [v for v in values if v is not None]
    if not kinds:
        return undefined(length)
    kind = kinds.pop()
    if kinds or kind not in _PLAIN:
        return None
    own, dtype = _PLAIN[kind]
    if wanted is not None and own is not wanted:
        return None
    texts = NO_WORDS
    if kind is str:
        number = {text: i for i, text in enumerate(dict.fromkeys(values))}
        texts = Words(list(number))
        for text in number:
            if not text.isascii():
                settle(name, text)
        given: Any = list(map(number.__getitem__, values))
    else:
        given = values
    try:
        data: npt.NDArray[Any] = np.array(given, dtype)
    except OverflowError:
        for value in values:
            settle(name, value)
        raise AssertionError(name) from None
    return _spread(own, rows, data, length, texts)


def _spread(kind: Type, rows: I8, data: npt.NDArray[Any], length: int, texts: Words) -> Column:
    """Values of some rows as a column of all; NaN is undefined."""
    if kind is Type.DOUBLE and (nan := np.isnan(data)).any():
        rows, data = rows[~nan], data[~nan]
    valid, whole = np.zeros(length, bool), np.zeros(length, data.dtype)
    valid[rows] = True
    whole[rows] = data
    return Column(kind, valid, whole, texts)
