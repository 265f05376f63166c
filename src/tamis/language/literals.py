"""Constants of the tamis dialect: text to value and back."""

from __future__ import annotations

import datetime
import math
import re

from tamis.schema import INT_MAX, INT_MIN

MAGNITUDE = -INT_MIN  # the one integer that is legal only directly after a minus
_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?"
_TIMESTAMP = re.compile(rf"{_DATE}(?:[T ]{_TIME}(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_DAY = re.compile(_DATE, re.ASCII)
_ISO_TIMESTAMP = "TIMESTAMP '2000-02-01', '2000-02-01 10:30:00' or '2000-02-01T10:30:00+02:00'"


class ConstantError(ValueError):
    """A constant that has no value: what is wrong, and what to do."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def number(text: str) -> int | float:
    """The value of an unsigned number; an integer is at most 2^63 (see `in_range`)."""
    if text.isdigit():
        digits = text.lstrip("0")
        if len(digits) > 19 or (value := int(digits or "0")) > MAGNITUDE:
            raise too_big()
        return value
    return finite(float(text))


def finite(value: float) -> float:
    if math.isinf(value):
        raise ConstantError("this number is too big for a double", "doubles end near 1.79E308")
    return value


def too_big() -> ConstantError:
    return ConstantError(
        "this number does not fit into 64 bits", "write it as a double, with .0 at its end"
    )


def in_range(value: int | float) -> int | float:
    """`value`, unless it is an integer beyond 64 bits."""
    if isinstance(value, int) and value > INT_MAX:
        raise too_big()
    return value


def negated(value: int | float) -> int | float:
    """`-value`; the smallest integer stays itself, as in Java."""
    return INT_MIN if value == INT_MIN and isinstance(value, int) else -value


def timestamp(text: str) -> datetime.datetime:
    """The moment that `text` names, in UTC; without an offset it is UTC already."""
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        raise ConstantError("this is no timestamp", f"write {_ISO_TIMESTAMP}")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    micros = int((fraction or "0").ljust(6, "0"))
    try:
        zone = _zone(offset)
        moment = datetime.datetime(
            int(year), int(month), int(day),
            int(hour or 0), int(minute or 0), int(second or 0), micros, zone,
        )  # fmt: skip
        return moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise ConstantError("there is no such moment", "check its day, time and offset") from None


def date(text: str) -> datetime.datetime:
    """The first moment of the day that `text` names, in UTC."""
    if not _DAY.fullmatch(text):
        raise ConstantError("this is no date", "write DATE '2000-02-01', or TIMESTAMP for a time")
    return timestamp(text)


def _zone(offset: str | None) -> datetime.tzinfo:
    if offset is None or offset == "Z":
        return datetime.UTC
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if minutes > 59:
        raise ValueError("an offset has at most 59 minutes")
    delta = datetime.timedelta(hours=hours, minutes=minutes)
    return datetime.timezone(-delta if offset[0] == "-" else delta)


def timestamp_text(moment: datetime.datetime) -> str:
    """The shortest text that `timestamp` reads back as `moment`."""
    naive = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    if naive.time() == datetime.time():
        return naive.date().isoformat()
    return naive.isoformat() + "Z"
