"""Every error that a user can meet.

One class per decision that a caller can take. Each carries its data (text,
position, hint) and formats itself; nothing needs to be parsed back out of a
message.
"""

from __future__ import annotations

import os

_WINDOW = 72  # characters of a long selector shown around the caret


class TamisError(Exception):
    """The base of all errors that Tamis raises on purpose."""


class SelectorError(TamisError):
    """A selector cannot be used: where, what, and what to do.

    `at` is a 0-based index into `text`; `limit` names the setting that was
    crossed, when one was.
    """

    def __init__(
        self, what: str, *, text: str = "", at: int = 0, hint: str = "", limit: str | None = None
    ) -> None:
        super().__init__(what)
        self.what, self.text, self.at, self.hint, self.limit = what, text, at, hint, limit

    def __str__(self) -> str:
        if not self.text:
            return f"{self.what}\n  {self.hint}" if self.hint else self.what
        line, column = _excerpt(self.text, self.at)
        return f"{self.what}\n  {line}\n  {' ' * column}^ {self.hint}".rstrip()

    def __reduce__(self) -> tuple[object, ...]:
        return _selector_error, (self.what, self.text, self.at, self.hint, self.limit)


class SchemaError(TamisError):
    """A schema contradicts itself or cannot be read."""


class MessageError(TamisError):
    """A message does not fit: a missing attribute, a wrong type, an unreadable row."""


class InputError(TamisError):
    """A file or a table cannot be read as what it was said to be."""


class SubscriptionError(TamisError):
    """A subscription id is unknown, already taken, or of a type that ids cannot have."""


class SnapshotError(TamisError):
    """A snapshot cannot be saved or loaded: which file, what is wrong, and what to do."""

    def __init__(self, path: str | os.PathLike[str], what: str, hint: str = "") -> None:
        super().__init__(path, what, hint)
        self.path, self.what, self.hint = os.fspath(path), what, hint

    def __str__(self) -> str:
        said = f"{self.path}: {self.what}"
        return f"{said}\n  {self.hint}" if self.hint else said


def _selector_error(what: str, text: str, at: int, hint: str, limit: str | None) -> SelectorError:
    return SelectorError(what, text=text, at=at, hint=hint, limit=limit)


def _excerpt(text: str, at: int) -> tuple[str, int]:
    """The part of `text` around `at` as one printable line, and the caret's column in it."""
    start = max(0, min(at - _WINDOW // 2, len(text) - _WINDOW))
    before, after = text[start:at], text[at : start + _WINDOW]
    left = ("..." if start else "") + _visible(before)
    right = _visible(after) + ("..." if start + _WINDOW < len(text) else "")
    return left + right, len(left)


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
