"""One search line for all subscriptions, however many there are; by key, never by offset.

Words are looked for in name, principal and selector. `channel:`, `subscriber:`, `attribute:` and
`state:` narrow the search; `matches:{...}` (a message), `covers:SELECTOR`, `covered:SELECTOR` and
`equal:SELECTOR` take the rest of the line.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import InputError, SelectorError
from tamis.language import parse
from tamis.language.tree import attributes
from tamis.pubsub.broker.judge import Language, joined
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.subjects.subject import Subject
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open
from tamis.server.publishing import taken_apart
from tamis.server.web.answers import json, whole_number

STATES = ("never-matched", "slow", "problem", "paused", "gone")
_PROVING = 2.0  # seconds that proofs may take; what was not looked at then is left out
_RESTS = re.compile(r"(?:^|\s)(matches|covers|covered|equal):(.*)$", re.DOTALL)
_PROOFS = {"covers": ((1, 0),), "covered": ((0, 1),), "equal": ((1, 0), (0, 1))}  # 0: what is asked
Test = Callable[[Open, Subscription], bool]


async def search(parts: Parts, caller: Caller, request: Request) -> Response:
    """Rows behind the key `after` (CHANNEL/NAME)."""
    limit = whole_number(request, "limit", 50, 1000)
    found = await _searched(parts, caller, request.query_params, limit + 1)
    rows = [{"channel": c.entry.name, **parts.shown(c, s)} for c, s in found[:limit]]
    return json({"subscriptions": rows, "more": len(found) > limit})


async def count(parts: Parts, caller: Caller, request: Request) -> Response:
    found = await _searched(parts, caller, {**request.query_params, "after": ""}, 0)
    return json({"count": len(found)})


async def _searched(
    parts: Parts, caller: Caller, query: Any, most: int
) -> list[tuple[Open, Subscription]]:
    if "state:problem" in query.get("q", ""):
        await parts.spelling.look_for_problems(parts.channels.visible(caller))
    rest = _RESTS.search(query.get("q", ""))
    pool = parts.proofs if rest and rest[1] in _PROOFS else parts.questions
    return await pool.run(caller.name, _found, parts, caller, query, most)


def _found(parts: Parts, caller: Caller, query: Any, most: int) -> list[tuple[Open, Subscription]]:
    caller.require_any()
    tests, channel_name = _tests(parts, query.get("q", ""))
    after, _, name = query.get("after", "").partition("/")
    found = []
    for channel in sorted(parts.channels.visible(caller), key=lambda c: c.entry.name):
        own = channel.entry.name
        if own < after or (channel_name and own != channel_name):
            continue
        for one in _from(channel, name if own == after else ""):
            if parts.subscribing.shows(caller, channel, one) and all(
                t(channel, one) for t in tests
            ):
                found.append((channel, one))
                if len(found) == most:
                    return found
    return found


def _from(channel: Open, after: str) -> Iterator[Subscription]:
    """Durable subscriptions by name."""
    held = channel.live.subscriptions
    names = sorted(list(held))  # noqa: C414 - one step, whatever other threads do
    for name in names[bisect_right(names, after) if after else 0 :]:
        one = held.get(name)
        if one is not None and one.durable:
            yield one


def _tests(parts: Parts, line: str) -> tuple[list[Test], str]:
    """What the line asks for, and the channel that it names."""
    tests, channel = [], ""
    rest = _RESTS.search(line)
    if rest is not None:
        line = line[: rest.start()]
        tests.append(_matches(rest[2]) if rest[1] == "matches" else _related(rest[1], rest[2]))
    for word in line.split():
        key, colon, value = word.partition(":")
        if colon and key == "channel":
            channel = value
        else:
            tests.insert(0, _test(parts, key if colon else "", value, word))
    return tests, channel


def _test(parts: Parts, key: str, value: str, word: str) -> Test:
    if key == "subscriber":
        return lambda _, one: one.principal == value
    if key == "attribute":
        return lambda channel, one: _names(channel.live.language, one, value)
    if key == "state":
        return _in_state(parts, value)
    text = word.lower()
    return lambda _, one: text in f"{one.name} {one.principal} {one.filter.selector}".lower()


def _names(language: Language, one: Subscription, attribute: str) -> bool:
    selector = one.filter.selector
    if attribute not in selector:
        return False
    return attribute in attributes(parse(selector, dialect=language.dialect))


def _in_state(parts: Parts, state: str) -> Test:
    if state not in STATES:
        raise InputError(f"{state[:40]!r} is no state: choose one of {', '.join(STATES)}")

    troubled: dict[int, dict[str, str]] = {}  # by number of a channel

    def test(channel: Open, one: Subscription) -> bool:
        match state:
            case "never-matched":
                return not one.matched + one.seated
            case "slow":
                return one.session is not None and not one.live and not one.paused
            case "problem":
                number = channel.entry.number
                if number not in troubled:
                    troubled[number] = parts.spelling.troubled(channel)
                unheard = one.name in troubled[number] and not one.matched + one.seated
                return unheard or bool(one.problem or parts.deliveries.problem(one.key))
            case "paused":
                return one.paused
        return one.session is None

    return test


def _matches(text: str) -> Test:
    """The matcher itself is the index: it is asked once for each channel."""
    try:
        message = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"matches: takes a message as JSON: {error}") from None
    numbers: dict[int, set[int]] = {}

    def test(channel: Open, one: Subscription) -> bool:
        number = channel.entry.number
        if number not in numbers:
            subject, held = taken_apart(channel, message)
            attributes = channel.live.language.checked(dict(held))
            found = channel.live.judge.match([(str(Subject.parse(subject)), attributes)])
            numbers[number] = set(found[0])
        return one.number in numbers[number]

    return test


def _related(how: str, selector: str) -> Test:
    """Those that get every message that this selector lets pass (`covers`), no other (`covered`),
    or both, as far as it can be proved."""
    parse(selector)
    end = time.monotonic() + _PROVING

    def test(channel: Open, one: Subscription) -> bool:
        if time.monotonic() > end:
            return False
        for make in (channel.live.language.reasoner, channel.live.language.matcher):
            matcher = make()
            try:
                matcher.add(1, joined(one.filter.subjects, one.filter.selector))
                matcher.add(0, selector)
            except SelectorError:  # of discretionary attributes no types are known
                continue
            return all(matcher.covers(wide, narrow) for wide, narrow in _PROOFS[how])
        raise InputError(f"{how}: takes a selector, and {selector[:80]!r} is none")

    return test
