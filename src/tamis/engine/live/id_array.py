"""The ids of all slots as one Arrow array, for whoever matches batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.ids import Id
from tamis.engine.ground.layout import I4

if TYPE_CHECKING:
    import pyarrow as pa

_MANY = 1024  # ids of one message that are picked by numpy, which keeps all ids once more for it


class IdNames:
    """Integers, or strings where some id is one. What was made is kept: only new ids are added.

    `given` are the ids as they were given, where some are integers and some strings.
    """

    def __init__(
        self, ids: Sequence[Id], known: pa.Array | None = None, *, mixed: bool = False
    ) -> None:
        self._ids, self._known, self._mixed = ids, known, mixed
        self._objects: npt.NDArray[np.object_] = np.empty(0, object)

    @property
    def given(self) -> Sequence[Id] | None:
        return self._ids if self._mixed else None

    def of(self, slots: I4) -> list[Id]:
        """The ids of some slots, as they were given."""
        if len(slots) < _MANY:
            return [self._ids[s] for s in slots.tolist()]
        if len(self._objects) < len(self._ids):
            objects = np.empty(len(self._ids), object)
            objects[:] = [self._ids[i] for i in range(len(objects))]
            self._objects = objects  # two readers may both make it: the results are the same
        return self._objects[slots].tolist()  # type: ignore[no-any-return]

    def picked(self, slots: I4) -> pa.Array:
        """The same as an Arrow array."""
        import pyarrow as pa

        every = self.array()
        if every.type == pa.int64():  # numpy is quicker, and there are no nulls
            return pa.array(every.to_numpy()[slots])
        return every.take(pa.array(slots))

    def array(self) -> pa.Array:
        import pyarrow as pa

        known = self._known
        if known is not None and len(known) == len(self._ids):
            return known
        known = pa.array([], pa.int64()) if self._known is None else self._known
        new = [self._ids[i] for i in range(len(known), len(self._ids))]
        strings = [isinstance(id, str) for id in new]
        if any(strings) and known.type == pa.int64():
            self._mixed = self._mixed or len(known) > 0
            known = known.cast(pa.string())
        self._mixed = self._mixed or (known.type == pa.string() and not all(strings))
        texts = new if known.type == pa.int64() else map(str, new)
        made = pa.concat_arrays([known, pa.array(texts, known.type)])
        self._known = made  # two readers may both make it: the results are the same
        return made
