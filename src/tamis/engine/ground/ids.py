"""Ids of subscriptions: strings or 64-bit integers, as given."""

from __future__ import annotations

from tamis.errors import SelectorError, SubscriptionError
from tamis.schema import INT_MAX, INT_MIN

Id = str | int


def check_id(id: object) -> None:
    if not isinstance(id, str | int) or isinstance(id, bool):
        shown = repr(id) if isinstance(id, bool | float | None) else f"a {type(id).__name__}"
        raise SubscriptionError(f"an id is a string or a 64-bit integer, not {shown}")
    if isinstance(id, int):
        if not INT_MIN <= id <= INT_MAX:
            # Python refuses to print integers of many thousand digits.
            shown = str(id) if id.bit_length() <= 256 else f"of {id.bit_length():,} bits"
            raise SubscriptionError(f"id {shown} does not fit into 64 bits")
    elif not id.isascii() and any("\ud800" <= c <= "\udfff" for c in id):
        raise SubscriptionError(f"id {id!r} holds half of a surrogate pair: no output can hold it")


def blamed(
    id: object, error: SelectorError | SubscriptionError
) -> SelectorError | SubscriptionError:
    """The error, saying whose it is."""
    if isinstance(error, SelectorError):
        what = f"subscription {id!r}: {error.what}"
        return SelectorError(what, text=error.text, at=error.at, hint=error.hint, limit=error.limit)
    return SubscriptionError(f"subscription {id!r}: {error}")


def twin(id: Id) -> Id | None:
    """The id of the other type that has the same text, if there is one."""
    if isinstance(id, int):
        return str(id)
    digits = id[1:] if id[:1] == "-" else id
    if len(digits) > 19 or not digits.isdecimal() or not digits.isascii():
        return None
    number = int(id)
    return number if str(number) == id and INT_MIN <= number <= INT_MAX else None
