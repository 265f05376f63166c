"""What a writer asks of a table, and what becomes of it given the subscriptions that are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from tamis.engine.ground.ids import Id, check_id
from tamis.errors import SubscriptionError
from tamis.table.table_changes import BAD, CLEAR, DROP, PUT, Changes, IdKind, Net, Row

Verb = Literal["add", "replace", "remove", "bad", "clear"]
_WORDS = {"string": "strings", "int": "integers"}


class Step(NamedTuple):
    """One wish. With `report`, what cannot be done becomes a problem; else it raises."""

    verb: Verb
    id: Any = None
    selector: Any = None
    subscriber: Any = None
    report: bool = False
    reason: str = ""


def settled(steps: Iterable[Step], now: Net, version: int) -> Changes:
    """The changes that the steps amount to; SubscriptionError where one cannot be taken."""
    return _Settling(now).changes(steps, version)


class _Settling:
    """Steps one after the other; each sees what those before it have done."""

    def __init__(self, now: Net) -> None:
        self.now, self.ids = now, now.ids
        self.there: dict[Id, bool] = {}
        self.troubled = {problem.id for problem in now.bad}

    def changes(self, steps: Iterable[Step], version: int) -> Changes:
        rows = [self._row(step) for step in steps]
        return Changes(version, self.ids, rows)

    def _row(self, step: Step) -> Row:
        if step.verb == "clear":
            return Row(CLEAR)
        if step.verb == "bad":
            return self._bad(step, step.reason)
        try:
            self._check(step)
        except SubscriptionError as error:
            if not step.report:
                raise
            return self._bad(step, str(error))
        self.there[step.id] = step.verb != "remove"
        if step.verb == "remove":
            return Row(DROP, step.id)
        return Row(PUT, step.id, step.selector, step.subscriber)

    def _bad(self, step: Step, reason: str) -> Row:
        id = None if step.id is None else str(step.id)
        self.troubled.add(id)
        selector = step.selector if isinstance(step.selector, str) else None
        return Row(BAD, id, selector, None, reason)

    def _check(self, step: Step) -> None:
        self.ids = checked(step.id, self.ids)
        taken = self.there.get(step.id, step.id in self.now.put)
        if step.verb == "add" and taken:
            raise SubscriptionError(
                f"there is a subscription {step.id!r} already: remove or replace it"
            )
        if step.verb == "remove" and not taken and str(step.id) not in self.troubled:
            raise SubscriptionError(f"there is no subscription {step.id!r}")
        text = step.subscriber
        if text is not None and not (isinstance(text, str) and _encodable(text)):
            raise SubscriptionError(f"a subscriber is a string, not {text!r}")


def checked(id: object, ids: IdKind | None) -> IdKind:
    """The type of the id; SubscriptionError where it is none, or another than the table's."""
    if id is None:
        raise SubscriptionError("the id is NULL")
    check_id(id)
    kind: IdKind = "int" if isinstance(id, int) else "string"
    if ids not in (None, kind):
        raise SubscriptionError(f"the ids of this table are {_WORDS[ids]}, not {id!r}")
    return kind


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
