"""A dictionary of bounded size: the entry that was used least recently goes first."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `most` values by key. Not for several threads at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value, made if it is not there; now the one used last."""
        value = self._values.pop(key) if key in self._values else make()
        self[key] = value
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._values.pop(key, None)
        self._values[key] = value
        while len(self._values) > self._most:
            del self._values[next(iter(self._values))]
