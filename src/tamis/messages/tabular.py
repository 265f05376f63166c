"""Whatever holds a table: rows as Arrow without a copy, or as mappings.

Libraries hand their tables over by the Arrow capsule interface (`__arrow_c_stream__`): pandas,
Polars, DuckDB, pyarrow and others. A row of Spark is a mapping by its `asDict`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from tamis.errors import InputError, MessageError, SubscriptionError


class SupportsArrow(Protocol):
    """A table that its library hands over as Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# A pyarrow Table or RecordBatch, or messages as mappings. (mypy does not know pyarrow's types.)
Rows = Any
Wanted = Callable[[], Collection[str]]  # names of columns

_COLUMNS = ("id", "selector")
_SHAPES = "give pairs (id, selector), mappings with id and selector, or a table with these columns"


def as_mapping(message: Any) -> Mapping[str, Any]:
    """One message: a mapping, or a row of Spark."""
    if isinstance(message, Mapping):
        return message
    if callable(found := getattr(message, "asDict", None)):
        return found(recursive=True)  # type: ignore[no-any-return]
    raise MessageError(f"a message is a mapping of names to values, not a {_kind(message)}")


def rows_of(data: Any, wanted: Wanted) -> Rows:
    """The messages in `data`: a table of any library, or an iterable of mappings. `wanted` gives
    the columns that will be read."""
    table = arrow_of(data, wanted)
    if table is not None:
        return table
    if isinstance(data, Mapping | str | bytes) or hasattr(data, "asDict"):
        raise MessageError(f"expected a table or a list of messages, not a {_kind(data)}")
    if not isinstance(data, Iterable):
        raise MessageError(f"a {_kind(data)} is not a table: {_hint(data)}")
    return [as_mapping(message) for message in data]


def arrow_of(data: Any, wanted: Wanted) -> Any:
    """The table as Arrow, sharing memory where its library can; None where it has no such form.

    A column that Arrow cannot hold, such as one of mixed types, is an error only if it is wanted.
    """
    kind = type(data)
    if kind.__module__.startswith("pyarrow") and kind.__name__ in ("Table", "RecordBatch"):
        return data
    if isinstance(data, Mapping) or not _has_capsule(data):
        return None
    import pyarrow as pa

    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        narrow = _narrowed(data, wanted())
        if narrow is not None:
            return arrow_of(narrow, wanted)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"this {_kind(data)} cannot be read as a table: {reason}") from None


def _narrowed(data: Any, wanted: Collection[str]) -> Any:
    """A pandas table without the columns that are not wanted; None if it has no other columns."""
    if not is_pandas(data):
        return None
    labels = dict.fromkeys(label for label in data.columns if str(label) in wanted)
    narrow = data[list(labels)]
    return narrow if narrow.shape[1] < data.shape[1] else None


def is_pandas(data: Any) -> bool:
    return type(data).__module__.startswith("pandas.") and hasattr(data, "columns")


def subscription_rows(data: Any, *, subscribers: bool = True) -> Iterator[tuple[Any, Any, Any]]:
    """(id, selector, subscriber or None) of each subscription in `data`.

    Without `subscribers` a third element is refused: it would be dropped silently.
    """
    table = arrow_of(data, lambda: (*_COLUMNS, "subscriber"))
    if table is not None:
        yield from _columns(table)
        return
    if isinstance(data, Mapping | str | bytes) or not isinstance(data, Iterable):
        raise SubscriptionError(f"a {_kind(data)} is not a list of subscriptions: {_SHAPES}")
    for number, given in enumerate(data):
        if type(given) is tuple and len(given) == 2:
            yield given[0], given[1], None
        else:
            yield _triple(number, given, subscribers)


def _triple(number: int, given: Any, subscribers: bool) -> tuple[Any, Any, Any]:
    if isinstance(given, Mapping) or hasattr(given, "asDict"):
        row = as_mapping(given)
        if missing := [name for name in _COLUMNS if name not in row]:
            what = f"subscription {number} has no {' and no '.join(missing)}"
            raise SubscriptionError(f"{what}: {_SHAPES}")
        return row["id"], row["selector"], row.get("subscriber")
    if isinstance(given, tuple | list) and 2 <= len(given) <= 2 + subscribers:
        return given[0], given[1], given[2] if len(given) == 3 else None
    size = f" of {len(given)}" if isinstance(given, tuple | list) else ""
    raise SubscriptionError(f"subscription {number} is a {_kind(given)}{size}: {_SHAPES}")


def _columns(table: Any) -> Iterator[tuple[Any, Any, Any]]:
    names = table.schema.names
    for name in _COLUMNS:
        if names.count(name) != 1:
            has = "no" if name not in names else "more than one"
            raise SubscriptionError(
                f"the table has {has} column {name!r}: it needs id and selector"
            )
    found = [table.column(name).to_pylist() for name in _COLUMNS]
    named = "subscriber" in names
    found.append(table.column("subscriber").to_pylist() if named else [None] * len(found[0]))
    yield from zip(*found, strict=True)


def _has_capsule(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _kind(data: object) -> str:
    return type(data).__name__


def _hint(data: object) -> str:
    if type(data).__module__.startswith("polars"):
        return "collect() it first"
    return "give Arrow, pandas or Polars, anything with __arrow_c_stream__, or a list of mappings"
