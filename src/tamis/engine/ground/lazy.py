"""Properties that are worked out once, when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - it is used like a function
    """As functools.cached_property, which up to Python 3.11 lets nobody ask any other object of the
    class meanwhile. Two threads that ask at once may both work it out."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work, self.__doc__ = work, work.__doc__
        self._name = work.__name__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._work(instance)
        return found
