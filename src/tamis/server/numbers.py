"""Numbers from outside, checked as they are read: every protocol has the same bounds."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tamis.errors import InputError

LARGEST = 2**63 - 1  # what the log, the registry and every protocol can hold
Whole = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


def is_whole(text: str) -> bool:
    """Whether the text says a number from 0 to LARGEST, in ASCII digits."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= LARGEST


def whole(name: str, text: str) -> int:
    if not is_whole(text):
        raise InputError(f"{name} is a whole number from 0 to {LARGEST}, not {text[:40]!r}")
    return int(text)


def sequence_or_text(text: str) -> int | str:
    """A `start` as text says it: a sequence, or one of the words and times that are others."""
    if text.isascii() and text.isdigit():
        return whole("start", text)
    return text
