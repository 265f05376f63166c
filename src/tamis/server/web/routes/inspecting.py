"""Questions about selectors and messages: checks, explanations, near misses, values."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import HoleError, InputError, TamisError
from tamis.language import canonical, parse
from tamis.language import check as types_of
from tamis.logic import Explanation, explain
from tamis.logic.explain import Line
from tamis.messages.message_values import lookup
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import Judge
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open
from tamis.server.publishing import Message, taken_apart
from tamis.server.subscribing import Wish
from tamis.server.web.answers import form, json

_REACHED = 1_000_000  # names of subscriptions in the answer to a dry run
_PIECE = 1_000  # messages of a dry run that are matched at a time
_RECENT = 2_000  # messages that a check looks at
_PIECES = 20  # of a histogram of them
_NEAR = 1_000  # subscriptions that are looked at for near misses
_VALUES = 20


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """A message (as published, or its attributes), and a selector or the name of a subscription."""

    message: dict[str, Any]
    selector: str = ""
    subscription: str = ""


class Names(msgspec.Struct, forbid_unknown_fields=True):
    """Names of attributes that messages have."""

    attributes: Annotated[list[str], msgspec.Meta(max_length=1_000)]


async def dry_run(parts: Parts, caller: Caller, channel: Open, messages: list[Message]) -> Response:
    """The names of the subscriptions that each message would reach: those that the caller sees."""
    drafts = await parts.publishing.large_drafts(caller, channel, messages)
    return await parts.questions.run(caller.name, _would_match, parts, caller, channel, drafts)


def _would_match(parts: Parts, caller: Caller, channel: Open, drafts: list[Draft]) -> Response:
    """Piece by piece: very many may match, and the sum of their names is bounded."""
    read, live, names, left = channel.live.language.read, channel.live, list[list[str]](), _REACHED
    for first in range(0, len(drafts), _PIECE):
        piece = drafts[first : first + _PIECE]
        for numbers in live.judge.match([(d.subject, read(d.body)) for d in piece]):
            held = live.held(numbers)
            names.append([s.label for s in held if parts.subscribing.shows(caller, channel, s)])
            left -= len(names[-1])
            if left < 0:
                raise InputError(f"more than {_REACHED:,} deliveries: send fewer messages")
    return json({"matches": names, "among": _among(caller, channel)})


def _among(caller: Caller, channel: Open) -> str:
    """Which subscriptions were looked at: all of the channel, or the caller's own."""
    return "all" if caller.may("manage", channel.entry.name) else "own"


async def check(parts: Parts, caller: Caller, request: Request) -> Response:
    """How it reads, its types, notes, and how many recent messages match."""
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
    wish: Wish = await form(request, Wish)
    parts.subscribing.check(caller, channel, wish)
    notes = await parts.notes(caller, channel, wish)
    records = await recent(parts, channel)
    records, hits = await parts.questions.run(
        caller.name, _matching, caller, channel, wish, records
    )
    example = msgspec.json.decode(hits[-1].body) if hits else None
    reads, types = "TRUE", {}
    if wish.selector:
        condition = parse(wish.selector, dialect=channel.entry.dialect)
        reads = canonical(condition)
        found = types_of(condition, None, text=wish.selector)
        types = {name: sorted(kind.value for kind in kinds) for name, kinds in found.items()}
    return json({"reads": reads, "attributes": types, "notes": notes,
                 "matching": len(hits), "recent": len(records), "example": example,
                 "histogram": _histogram(records, hits)})  # fmt: skip


async def spelling(parts: Parts, caller: Caller, request: Request) -> Response:
    """Notes on attributes of messages that nothing uses."""
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("publish", channel.entry.name)
    names: Names = await form(request, Names)
    return json({"notes": parts.spelling.of_message(caller, channel, names.attributes)})


async def recent(parts: Parts, channel: Open) -> list[Record]:
    """The newest messages; those in a damaged block are passed over."""
    first, following = max(1, channel.live.next - _RECENT), channel.live.next
    read, found = partial(parts.hub.log.read, channel.entry.number), list[Record]()
    while first < following:
        try:
            records: list[Record] = await parts.hub.in_reader(read, first, _RECENT)
        except HoleError as hole:
            first = hole.last + 1
            continue
        if not records:
            break
        found += records
        first = records[-1].sequence + 1
    return found


def _histogram(records: list[Record], hits: list[Record]) -> list[int]:
    """How many of the recent messages match, in pieces of them; the newest last."""
    counts = [0] * _PIECES
    for record in hits:
        counts[(record.sequence - records[0].sequence) * _PIECES // _RECENT] += 1
    return counts


def _matching(
    caller: Caller, channel: Open, wish: Wish, records: list[Record]
) -> tuple[list[Record], list[Record]]:
    """The messages that the caller may read, and those of them that match."""
    seen, judge = _seen(caller, channel, records), Judge(channel.live.language)
    judge.add(0, wish.subjects, wish.selector, caller.selector)
    return seen, judge.hits(seen)


def _seen(caller: Caller, channel: Open, records: list[Record]) -> list[Record]:
    """The messages that the caller may read: by the subjects of its rights, and its selector."""
    if caller.reads_all(channel.entry.name):
        return records
    judge = Judge(channel.live.language)
    for number, subjects in enumerate(caller.filters("subscribe", channel.entry.name)):
        judge.add(number, subjects, "", caller.selector)
    return judge.hits(records)


async def explained(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require_subscriptions(channel.entry.name)
    asked: Question = await form(request, Question)
    subjects, selector = ">", asked.selector
    if asked.subscription:
        filter = parts.subscribing.find(caller, channel, asked.subscription).filter
        subjects, selector = filter.subjects, filter.selector
    elif not selector:
        raise TamisError("explain what? give a selector or the name of a subscription")
    found = await parts.questions.run(
        caller.name, _explain, channel, subjects, selector, asked.message
    )
    lines = [
        {"depth": n.depth, "text": n.text, "truth": n.truth, "why": n.why} for n in found.lines
    ]
    return json({"matches": found.matches, "lines": lines, "text": str(found)})


def _explain(channel: Open, subjects: str, selector: str, message: dict[str, Any]) -> Explanation:
    """Why a filter lets the message pass or not; the subject has a line if that is asked for."""
    language = channel.live.language
    subject, attributes = taken_apart(channel, message)
    condition = parse(selector, dialect=language.dialect, limits=language.limits)
    semantics = "sql" if language.semantics == "total" else language.semantics
    found = explain(condition, language.checked(dict(attributes)), None, semantics)
    fits = SubjectFilter.parse(subjects).matches(Subject.parse(subject))
    if subjects == ">":
        return found
    line = Line(0, f"subjects {subjects}", "true" if fits else "false", f"subject = {subject}")
    return Explanation(found.matches and fits, (line, *found.lines))


async def near(parts: Parts, caller: Caller, request: Request) -> Response:
    """Of up to 1,000 subscriptions that the caller sees, those that fail by a single predicate."""
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require_subscriptions(channel.entry.name)
    asked: Question = await form(request, Question)
    return await parts.questions.run(
        caller.name, _near_misses, parts, caller, channel, asked.message
    )


def _near_misses(parts: Parts, caller: Caller, channel: Open, message: dict[str, Any]) -> Response:
    own = [s for s in list(channel.live.subscriptions.values())
           if s.filter.selector and parts.subscribing.shows(caller, channel, s)]  # fmt: skip
    found = _near(channel, own[:_NEAR], message)
    return json({"near": found, "looked_at": min(len(own), _NEAR), "of": len(own),
                 "among": _among(caller, channel)})  # fmt: skip


def _near(channel: Open, own: list[Subscription], message: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    for one in own:
        told = _explain(channel, one.filter.subjects, one.filter.selector, message)
        inner = {i for i, (a, b) in enumerate(pairwise(told.lines)) if b.depth > a.depth}
        leaves = [leaf for i, leaf in enumerate(told.lines) if i not in inner]
        failing = [leaf for leaf in leaves if leaf.truth != "true"]
        if not told.matches and len(failing) == 1:
            found.append({"subscription": one.label, "fails": failing[0].text})
    return found


async def values(parts: Parts, caller: Caller, request: Request) -> Response:
    """Up to 20 values of an attribute in recent messages, most frequent first."""
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
    name, text = request.path_params["a"], request.query_params.get("q", "").lower()
    records = await recent(parts, channel)
    return await parts.questions.run(caller.name, _counted, caller, channel, records, name, text)


def _counted(
    caller: Caller, channel: Open, records: list[Record], name: str, text: str
) -> Response:
    read, counts = channel.live.language.read, dict[Any, int]()
    for record in _seen(caller, channel, records):
        value = lookup(read(record.body), name)
        if isinstance(value, str | int | float | bool) and text in str(value).lower():
            counts[value] = counts.get(value, 0) + 1
    found = sorted(counts.items(), key=lambda item: -item[1])[:_VALUES]
    return json({"values": [{"value": value, "count": count} for value, count in found]})
