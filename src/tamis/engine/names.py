"""The ids of all slots as one Arrow array, for whoever matches batches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tamis.engine.ids import Id

if TYPE_CHECKING:
    import pyarrow as pa


class Names:
    """Integers, or strings where some id is one. What was made is kept: only new ids are added.

    `given` are the ids as they were given, where some are integers and some strings.
    """

    def __init__(
        self, ids: Sequence[Id], known: pa.Array | None = None, *, mixed: bool = False
    ) -> None:
        self._ids, self._known, self._mixed = ids, known, mixed
        self._lock = threading.Lock()

    @property
    def given(self) -> Sequence[Id] | None:
        return self._ids if self._mixed else None

    def array(self) -> pa.Array:
        import pyarrow as pa

        known = self._known
        if known is not None and len(known) == len(self._ids):
            return known
        with self._lock:
            known = pa.array([], pa.int64()) if self._known is None else self._known
            new = [self._ids[i] for i in range(len(known), len(self._ids))]
            strings = [isinstance(id, str) for id in new]
            if any(strings) and known.type == pa.int64():
                self._mixed = self._mixed or len(known) > 0
                known = known.cast(pa.string())
            self._mixed = self._mixed or (known.type == pa.string() and not all(strings))
            texts = new if known.type == pa.int64() else map(str, new)
            self._known = pa.concat_arrays([known, pa.array(texts, known.type)])
            return self._known
