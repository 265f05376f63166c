"""Principals and rights as they are made and changed, over HTTP and by `tamis principal`.

What a change does not name stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from tamis.errors import InputError
from tamis.language import parse
from tamis.pubsub.subjects.subject import SubjectFilter
from tamis.registry import VERBS, Principal, Right
from tamis.registry.registry_values import Verb, check_name

MAX_RATE = 1e9  # messages a second
MAX_SUBSCRIPTIONS = 1_000_000_000
LONGEST_TOKEN = 3_155_760_000  # seconds: a hundred years


def change(tenant: str, name: str, **named: Any) -> Callable[[Principal | None], Principal]:
    """For `Registry.change_principal`: a principal with these fields, checked; else as it was."""
    _check(**named)

    def changed(known: Principal | None) -> Principal:
        return structs.replace(known or Principal(name, tenant), **named)

    return changed


def _check(
    *, selector: str = "", rate: float = 0, subscriptions: int = 0, password: str = ""
) -> None:
    if selector:
        for dialect in ("tamis", "jms"):  # channels of both may be judged by it
            parse(selector, dialect=dialect)
    if not 0 <= rate <= MAX_RATE:
        raise InputError(f"rate is 0 to {MAX_RATE:,.0f} messages a second")
    if not 0 <= subscriptions <= MAX_SUBSCRIPTIONS:
        raise InputError(f"subscriptions are 0 to {MAX_SUBSCRIPTIONS:,}")


def right(login: str, verb: Verb, channel: str = "*", subjects: str = ">") -> Right:
    """A right, checked: a pattern that can be no subject would allow nothing, silently."""
    if channel != "*":
        check_name("channel", channel)
    SubjectFilter.parse(subjects)
    return Right(login, verb, channel, subjects)


def read_right(login: str, text: str) -> Right:
    """VERB:CHANNEL:SUBJECTS; the last two may be left out."""
    verb, _, rest = text.partition(":")
    channel, _, subjects = rest.partition(":")
    for known in VERBS:
        if verb == known:
            return right(login, known, channel or "*", subjects or ">")
    raise InputError(f"{text[:80]!r} is not a right: begin with publish, subscribe or manage")
