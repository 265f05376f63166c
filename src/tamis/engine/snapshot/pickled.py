"""A matcher in a pickle, and its copies: the bytes of its snapshot, and its lookups."""

from __future__ import annotations

import io
import mmap
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.engine.snapshot.file import arrays_in, write_into
from tamis.engine.snapshot.saving import arrays_of
from tamis.engine.snapshot.store import opened
from tamis.errors import SnapshotError
from tamis.logic import Lookups

if TYPE_CHECKING:
    from tamis.engine.matcher import Matcher

_NAME = Path("a pickled matcher")  # what errors call it


def pickled(matcher: Matcher) -> tuple[Callable[..., Matcher], tuple[Any, ...]]:
    """What `__reduce__` returns."""
    for name, lookup in matcher.lookups.items():
        if not isinstance(lookup, Mapping):
            _need_pickle(name, lookup)
    if matcher.implications is not None:
        return _added, (type(matcher), *_settings(matcher))
    return _restored, (_bytes(matcher), dict(matcher.lookups))


def copied(matcher: Matcher) -> Matcher:
    """A matcher of its own with the same subscriptions; the lookups are the same objects."""
    if matcher.implications is not None:
        return _added(type(matcher), *_settings(matcher))
    return _restored(_bytes(matcher), matcher.lookups)


def _bytes(matcher: Matcher) -> bytes:
    buffer = io.BytesIO()
    write_into(buffer, _NAME, list(arrays_of(matcher)))
    return buffer.getvalue()


def _restored(data: bytes, lookups: Lookups) -> Matcher:
    memory = mmap.mmap(-1, max(len(data), 1))  # begins on a page, as a mapped file does
    memory.write(data)
    return opened(_NAME, arrays_in(_NAME, memoryview(memory)), lookups)


def _settings(matcher: Matcher) -> tuple[dict[str, Any], list[tuple[Any, str]]]:
    """A graph has no snapshot: it is made again from its selectors."""
    names = ("schema", "semantics", "dialect", "limits", "lookups")
    options = {name: getattr(matcher, name) for name in names}
    return options | {"engine": "implication"}, matcher.items()


def _added(kind: type[Matcher], options: dict[str, Any], pairs: list[tuple[Any, str]]) -> Matcher:
    matcher = kind(**options)
    matcher.add_many(pairs)
    return matcher


def _need_pickle(name: str, lookup: object) -> None:
    try:
        pickle.dumps(lookup)
    except Exception as error:
        what = f"cannot be made: the lookup {name} cannot be pickled: {error}"
        hint = "define it at the top level of a module, or give a mapping"
        raise SnapshotError(_NAME, what, hint) from error
