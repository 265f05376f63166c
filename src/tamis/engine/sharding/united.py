"""Several matchers that are asked as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tamis.engine.ground.kernel_output import sort_rows
from tamis.engine.ground.layout import I4, I8
from tamis.engine.ground.matches import Matches
from tamis.engine.matcher import Matcher
from tamis.engine.values.message_batch import Messages, from_table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ShardPart:
    """A matcher, and for each of its slots the number of that subscription among all."""

    matcher: Matcher
    numbers: I8


class United:
    """Matchers of one schema and semantics that share no subscription; at least one of them.

    A row must fit in all of `attributes`, whichever of them the parts look at. With `texts`, ids
    that are integers become their text.
    """

    def __init__(
        self, parts: Sequence[ShardPart], attributes: Sequence[str], *, texts: bool
    ) -> None:
        first = parts[0].matcher
        self.schema, self.semantics, self.attributes = first.schema, first.semantics, attributes
        self._parts = [part for part in parts if len(part.numbers)]
        # Slots of the whole are given in the order of numbers; slots of the parts know theirs.
        order = np.argsort(np.concatenate([part.numbers for part in parts]), kind="stable")
        slots = np.empty(len(order), np.int32)
        slots[order] = np.arange(len(order), dtype=np.int32)
        self._slots: list[I4] = []
        for part in self._parts:
            own, slots = slots[: len(part.numbers)], slots[len(part.numbers) :]
            self._slots.append(own)
        self._names = _names(self._parts, order, texts=texts)

    def match_batch(self, table: pa.Table | pa.RecordBatch) -> Matches:
        """The ids that each row matches, by number."""
        messages = self._messages(table)
        found = [
            p.matcher._contents.merging.state.matched(messages, p.matcher.lookups)
            for p in self._parts
        ]
        offsets = sum((own for own, _ in found), np.zeros(len(messages) + 1, np.int64))
        out = np.empty(int(offsets[-1]), np.int32)
        cursor = offsets[:-1].copy()
        for (own, slots), joint in zip(found, self._slots, strict=True):
            counts = np.diff(own)
            out[np.repeat(cursor - own[:-1], counts) + np.arange(len(slots))] = joint[slots]
            cursor += counts
        sort_rows(offsets, out)
        return Matches(offsets, out, self._names)

    def count_batch(self, table: pa.Table | pa.RecordBatch) -> I8:
        """How many subscriptions each row matches."""
        messages = self._messages(table)
        counts, own = np.zeros((2, len(messages)), np.int64)
        for part in self._parts:
            part.matcher._contents.merging.state.count(messages, part.matcher.lookups, own)
            counts += own
        return counts

    def _messages(self, table: pa.Table | pa.RecordBatch) -> Messages:
        return from_table(table, self.attributes, self.semantics, self.schema)


def _names(parts: Sequence[ShardPart], order: I8, *, texts: bool) -> pa.Array:
    import pyarrow as pa

    kind = pa.string() if texts else pa.int64()
    names = [part.matcher._contents.names.array().cast(kind) for part in parts]
    if len(names) == 1:  # its numbers ascend
        return names[0]
    return pa.concat_arrays(names).take(pa.array(order)) if names else pa.array([], kind)
