"""What a batch matched: for each message the ids of its subscriptions, as flat columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.notebook import SHOWN, html_table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class Matches:
    """Row i matched the subscriptions `ids[offsets[i]:offsets[i + 1]]`, in the order of adding.

    `slots` number subscriptions in the order of adding; `names` are the ids of all slots. Where
    some ids are integers and some strings, all of `names` are strings, and `given` are the ids.
    """

    offsets: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int32]
    names: pa.Array
    given: Sequence[str | int] | None = None

    def __repr__(self) -> str:
        matched = int(np.count_nonzero(self.counts))
        return f"<Matches: {len(self):,} rows, {matched:,} matched, {len(self.slots):,} ids>"

    def _repr_html_(self) -> str:
        last = min(len(self), SHOWN)
        first = Matches(
            self.offsets[: last + 1], self.slots[: self.offsets[last]], self.names, self.given
        )
        rows = [(row, ", ".join(map(str, ids))) for row, ids in enumerate(first.to_pylist())]
        return html_table(repr(self)[1:-1], ("row", "ids"), rows)

    @property
    def ids(self) -> pa.Array:
        """The ids of all rows, one behind the other."""
        import pyarrow as pa

        return self.names.take(pa.array(self.slots))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many subscriptions each row matched."""
        return np.diff(self.offsets)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """One list of ids per row, for any library that takes Arrow: `polars.Series(matches)`."""
        return self.to_arrow().__arrow_c_array__(requested_schema)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to_arrow(self) -> pa.LargeListArray:
        """One list of ids per row."""
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(pa.array(self.offsets), self.ids)

    def to_pylist(self) -> list[list[Any]]:
        """The ids of each row, as they were given."""
        if self.given is not None:
            ids = [self.given[slot] for slot in self.slots.tolist()]
            return [ids[a:b] for a, b in pairwise(self.offsets.tolist())]
        return self.to_arrow().to_pylist()  # type: ignore[no-any-return]
