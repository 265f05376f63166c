"""Every error that a user can meet.

One class per decision that a caller can take. Each carries its data (text,
position, hint) and formats itself; nothing needs to be parsed back out of a
message.
"""

from __future__ import annotations

import os

_WINDOW = 72  # characters of a long selector shown around the caret


class TamisError(Exception):
    """The base of all errors that Tamis raises on purpose.

    `status` is the status of HTTP with which a broker answers.
    """

    status = 422


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


class FlowError(TamisError):
    """A flow cannot be used: which statement, where it stands, what is wrong, what to do.

    `where` names the statement ("arc NYSE -> Combined"); `at` is a 0-based index into `text`.
    `limit` names the setting that was crossed, when one was.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        text: str = "",
        at: int = 0,
        hint: str = "",
        limit: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.where, self.text, self.at = what, where, text, at
        self.hint, self.limit = hint, limit

    @property
    def line(self) -> int:
        """The number of the line, from 1; 0 where there is no text."""
        return self.text.count("\n", 0, self.at) + 1 if self.text else 0

    def __str__(self) -> str:
        place = f"line {self.line}" if self.text else ""
        head = ", ".join(part for part in (place, self.where) if part)
        told = f"{head}: {self.what}" if head else self.what
        if not self.text:
            return f"{told}\n  {self.hint}" if self.hint else told
        start = self.text.rfind("\n", 0, self.at) + 1
        end = self.text.find("\n", self.at)
        line, column = _excerpt(self.text[start : None if end < 0 else end], self.at - start)
        return f"{told}\n  {line}\n  {' ' * column}^ {self.hint}".rstrip()

    def __reduce__(self) -> tuple[object, ...]:
        given = (self.what, self.where, self.text, self.at, self.hint, self.limit)
        return _flow_error, given


class SchemaError(TamisError):
    """A schema contradicts itself or cannot be read."""


class MessageError(TamisError):
    """A message does not fit: a missing attribute, a wrong type, an unreadable row.

    `message` says which of those that were sent together it was, from 1 on; 0 is not known.
    `what` is the text without that number.
    """

    def __init__(self, text: str = "", *, message: int = 0, what: str = "") -> None:
        super().__init__(text)
        self.message, self.what = message, what or text


class InputError(TamisError):
    """A file or a table cannot be read as what it was said to be."""


class RuleError(TamisError):
    """A rule of another language cannot be said exactly: where in the rule, which construct, why.

    `construct` is the name of what is not supported or not well formed ("cidr", "JSON").
    """

    def __init__(self, what: str, *, construct: str, at: str = "", hint: str = "") -> None:
        super().__init__(what, construct, at, hint)
        self.what, self.construct, self.at, self.hint = what, construct, at, hint

    def __str__(self) -> str:
        told = f"{self.at}: {self.what}" if self.at else self.what
        return f"{told}; {self.hint}" if self.hint else told

    def __reduce__(self) -> tuple[object, ...]:
        return _rule_error, (self.what, self.construct, self.at, self.hint)


class UnreachableError(InputError):
    """No broker answers at an address: which one, why, and what to do."""


class DeadlineError(TamisError, TimeoutError):
    """The broker did not answer in time. It may have done what it was asked to do."""


class ClosedError(TamisError):
    """The program itself closed the agent or ended the subscription."""


class SubscriptionError(TamisError):
    """A subscription id is unknown, already taken, or of a type that ids cannot have."""

    def __init__(self, what: str = "", *, status: int = 422) -> None:
        super().__init__(what)
        self.status = status


class SubjectError(TamisError):
    """A subject or a subject filter cannot be used: its text, what is wrong, and what to do."""

    def __init__(self, text: str, what: str, hint: str = "") -> None:
        super().__init__(text, what, hint)
        self.text, self.what, self.hint = text, what, hint

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= _WINDOW else self.text[: _WINDOW - 3] + "..."
        said = f"{self.what}: {_visible(shown)!r}"
        return f"{said}\n  {self.hint}" if self.hint else said


class ChannelError(TamisError):
    """A channel contradicts itself, cannot be read, or cannot carry what it was given."""


class WireError(TamisError):
    """Bytes that are no packet, or a value that fits into none. `at` is the offset of the byte."""

    def __init__(self, what: str, at: int | None = None) -> None:
        super().__init__(what, at)
        self.what, self.at = what, at

    def __str__(self) -> str:
        return self.what if self.at is None else f"{self.what} (at byte {self.at})"


class ResultError(TamisError):
    """A batch matches more often than its result may hold."""

    def __init__(self, rows: int, pairs: int, limit: int) -> None:
        super().__init__(rows, pairs, limit)
        self.rows, self.pairs, self.limit = rows, pairs, limit

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows have {self.pairs:,} matches, more than the limit of "
            f"{self.limit:,}: take them piece by piece with match_batches, only count them with "
            "count_batch, or give match_batch a larger limit"
        )


class LogError(TamisError):
    """The log cannot be written or read: a full disk, damaged bytes."""

    status = 503

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what, self.hint = what, hint

    def __str__(self) -> str:
        return f"{self.what}\n  {self.hint}" if self.hint else self.what


class HoleError(LogError):
    """Messages from sequence `first` to `last` of a channel cannot be read: their block is damaged
    or missing. What lies around them can."""

    def __init__(self, where: str, reason: str, first: int, last: int) -> None:
        super().__init__(f"{where} {reason}", "restore it from a backup")
        self.reason, self.first, self.last = f"the block {reason}", first, last


class RegistryError(TamisError):
    """A channel, principal or subscription is unknown or already there, or cannot be kept."""

    def __init__(self, what: str, hint: str = "", *, status: int = 422) -> None:
        super().__init__(what, hint)
        self.what, self.hint, self.status = what, hint, status

    def __str__(self) -> str:
        return f"{self.what}\n  {self.hint}" if self.hint else self.what


class VersionError(TamisError):
    """What is to be changed is not in the version that the caller names any more."""

    status = 412


class AccessError(TamisError):
    """Nobody was recognised, or what was asked for is not allowed to the one who asks.

    `known`: whether the principal was recognised at all.
    """

    def __init__(self, what: str, known: bool = True) -> None:
        super().__init__(what, known)
        self.what, self.known, self.status = what, known, 403 if known else 401

    def __str__(self) -> str:
        return self.what


class BusyError(TamisError):
    """The broker takes no more at the moment: a queue, a quota or a rate is at its limit.

    `retry`: seconds after which another attempt makes sense.
    """

    status = 429

    def __init__(self, what: str, retry: float = 1.0) -> None:
        super().__init__(what, retry)
        self.what, self.retry = what, retry

    def __str__(self) -> str:
        return self.what


class FaultError(TamisError):
    """The broker failed at a request by a fault of its own; its log says more."""

    status = 500

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the broker failed ({type(error).__name__}): its log says more")


class SnapshotError(TamisError):
    """A snapshot cannot be saved or loaded: which file, what is wrong, and what to do."""

    def __init__(self, path: str | os.PathLike[str], what: str, hint: str = "") -> None:
        super().__init__(path, what, hint)
        self.path, self.what, self.hint = os.fspath(path), what, hint

    def __str__(self) -> str:
        said = f"{self.path}: {self.what}"
        return f"{said}\n  {self.hint}" if self.hint else said


class StateError(TamisError):
    """A state or its summary cannot be used: what is wrong, where, and what to do.

    `limit` names the setting that was crossed, when one was; `rule` is the number of the rule
    that is wrong, from 1 on; 0 if it is not one rule.
    """

    rule = 0

    def __init__(self, what: str, *, hint: str = "", limit: str | None = None) -> None:
        super().__init__(what, hint, limit)
        self.what, self.hint, self.limit = what, hint, limit

    def __str__(self) -> str:
        return f"{self.what}\n  {self.hint}" if self.hint else self.what

    def __reduce__(self) -> tuple[object, ...]:
        return _state_error, (type(self), self.what, self.hint, self.limit)


class ExpandError(StateError):
    """No sequence of events was found between two states; `reason` says why.

    `unreachable`: there is none. `budget`: the search was cut off before it could tell.
    `outside`: the summary has a form that expansion does not understand.
    """

    def __init__(self, what: str, *, reason: str = "", hint: str = "") -> None:
        super().__init__(what, hint=hint, limit="budget" if reason == "budget" else None)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return _expand_error, (self.what, self.reason, self.hint)


def _rule_error(what: str, construct: str, at: str, hint: str) -> RuleError:
    return RuleError(what, construct=construct, at=at, hint=hint)


def _state_error(kind: type[StateError], what: str, hint: str, limit: str | None) -> StateError:
    return kind(what, hint=hint, limit=limit)


def _expand_error(what: str, reason: str, hint: str) -> ExpandError:
    return ExpandError(what, reason=reason, hint=hint)


def _selector_error(what: str, text: str, at: int, hint: str, limit: str | None) -> SelectorError:
    return SelectorError(what, text=text, at=at, hint=hint, limit=limit)


def _flow_error(
    what: str, where: str, text: str, at: int, hint: str, limit: str | None
) -> FlowError:
    return FlowError(what, where=where, text=text, at=at, hint=hint, limit=limit)


def _excerpt(text: str, at: int) -> tuple[str, int]:
    """The part of `text` around `at` as one printable line, and the caret's column in it."""
    start = max(0, min(at - _WINDOW // 2, len(text) - _WINDOW))
    before, after = text[start:at], text[at : start + _WINDOW]
    left = ("..." if start else "") + _visible(before)
    right = _visible(after) + ("..." if start + _WINDOW < len(text) else "")
    return left + right, len(left)


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
