"""What a batch matched: for each message the ids of its subscriptions, as flat columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Matches:
    """Row i matched the subscriptions `ids[offsets[i]:offsets[i + 1]]`, in the order of adding.

    `slots` number subscriptions in the order of adding; `names` are the ids of all slots. Where
    some ids are integers and some strings, all of `names` are strings, and `given` are the ids.
    """

    offsets: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int32]
    names: pa.Array
    given: Sequence[str | int] | None = None

    @property
    def ids(self) -> pa.Array:
        """The ids of all rows, one behind the other."""
        import pyarrow as pa

        return self.names.take(pa.array(self.slots))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many subscriptions each row matched."""
        return np.diff(self.offsets)

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
