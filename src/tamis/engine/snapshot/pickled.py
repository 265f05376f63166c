"""A matcher in a pickle, and its copies: the bytes of its snapshot, and its lookups."""

from __future__ import annotations

import io
import mmap
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tamis.engine.snapshot.file import arrays_in, write_into
from tamis.engine.snapshot.saving import Savable, arrays_of
from tamis.engine.snapshot.snapshot_store import opened
from tamis.errors import SnapshotError
from tamis.logic import Lookups

M = TypeVar("M", bound=Savable)
_NAME = Path("a pickled matcher")  # what errors call it


def pickled(matcher: M) -> tuple[Callable[..., M], tuple[Any, ...]]:
    """What `__reduce__` returns."""
    need_pickles(matcher.lookups)
    return _restored, (type(matcher), _bytes(matcher), dict(matcher.lookups))


def copied(matcher: M) -> M:
    """Another matcher with the same subscriptions; the lookups are the same objects."""
    return _restored(type(matcher), _bytes(matcher), matcher.lookups)


def _bytes(matcher: Savable) -> bytes:
    buffer = io.BytesIO()
    write_into(buffer, _NAME, list(arrays_of(matcher)))
    return buffer.getvalue()


def _restored(kind: type[M], data: bytes, lookups: Lookups) -> M:
    memory = mmap.mmap(-1, max(len(data), 1))  # begins on a page, as a mapped file does
    memory.write(data)
    return opened(kind, _NAME, arrays_in(_NAME, memoryview(memory)), lookups)


def need_pickles(lookups: Lookups) -> None:
    """SnapshotError for functions that cannot be pickled."""
    for name, lookup in lookups.items():
        if not isinstance(lookup, Mapping):
            _need_pickle(name, lookup)


def _need_pickle(name: str, lookup: object) -> None:
    try:
        pickle.dumps(lookup)
    except Exception as error:
        what = f"cannot be made: the lookup {name} cannot be pickled: {error}"
        hint = "define it at the top level of a module, or give a mapping"
        raise SnapshotError(_NAME, what, hint) from error
