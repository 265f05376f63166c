"""The routing table of a channel (tables 15 and 16, figure 13): filters in, links and actions out.

All filters are decided at once, by one matcher; a message that satisfies none is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.engine import Matcher, Matches
from tamis.errors import ChannelError, SelectorError, SubjectError, SubscriptionError
from tamis.language import canonical, parse
from tamis.language.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Regex,
    Term,
    Text,
)
from tamis.pubsub import selectors
from tamis.pubsub.filters import Interest
from tamis.pubsub.subjects.channel import Channel
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.pubsub.wire.wire_messages import Notification

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.pubsub.wire.packet_columns import Notifications

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
_POSITION = re.compile(r"\$(\d{1,3})")
_OWN = re.compile(rf"{selectors.SUBJECT}(\.(length|\d{{1,2}}))?")


class Route(NamedTuple):
    """Where a message goes, and what else is done with it. Neither: it is dropped."""

    links: frozenset[str]
    actions: frozenset[str]

    @property
    def dropped(self) -> bool:
        return not self.links and not self.actions


DROPPED = Route(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Routes:
    """Routes of many messages: message i has the targets numbers[offsets[i] : offsets[i + 1]].

    Targets are numbered: links first, then actions.
    """

    offsets: I8
    numbers: I8
    links: list[str]
    actions: list[str]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Route:
        found = self.numbers[self.offsets[i] : self.offsets[i + 1]].tolist()
        count = len(self.links)
        return Route(
            frozenset(self.links[n] for n in found if n < count),
            frozenset(self.actions[n - count] for n in found if n >= count),
        )

    def messages(self, link: str) -> I8:
        """The messages that go to a link, in their order."""
        if link not in self.links:
            return np.empty(0, np.int64)
        (at,) = np.nonzero(self.numbers == self.links.index(link))
        return np.searchsorted(self.offsets, at, side="right") - 1


class RoutingTable:
    """Filters of a channel, each with links and actions."""

    def __init__(self, channel: Channel) -> None:
        for name in channel.positions:
            if _OWN.fullmatch(name):
                raise ChannelError(f"attribute {name!r} would hide what is asked of the subject")
        self.channel = channel
        self._matcher = Matcher()
        self._routes: dict[int | str, Route] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def __contains__(self, id: object) -> bool:
        return id in self._routes

    def add(
        self,
        id: int | str,
        filter: str | Interest,
        links: Iterable[str] = (),
        actions: Iterable[str] = (),
    ) -> None:
        """Send what satisfies the filter to the links.

        A text is a selector as in table 16: `sub = "quotes.*" & ($1 > 5 & $2 = "LU")`, where `$1`
        is the first predefined attribute. An Interest is what came by a subscription message.
        """
        if id in self._routes:
            raise SubscriptionError(f"there is a filter {id!r} already: remove it first")
        self._matcher.add(id, self.selector(filter))
        self._routes[id] = Route(frozenset(links), frozenset(actions))

    def remove(self, id: int | str) -> None:
        if id not in self._routes:
            raise SubscriptionError(f"there is no filter {id!r}")
        self._matcher.remove(id)
        del self._routes[id]

    def selector(self, filter: str | Interest) -> str:
        """What the matcher is asked for this filter."""
        if isinstance(filter, str):
            return canonical(_rewritten(parse(filter), self.channel))
        parts = [selectors.subject_condition(filter.subjects), selectors.condition(filter.filter)]
        return canonical(selectors.conjunction(parts))

    # --- deciding -----------------------------------------------------------------

    def route(self, notification: Notification) -> Route:
        """Where one message goes."""
        asked = selectors.subject_attributes(Subject.parse(notification.subject))
        return self._route_of(self._matcher.match({**notification.attributes, **asked}))

    def _route_of(self, ids: Iterable[int | str]) -> Route:
        found = [route for id in ids if (route := self._routes.get(id)) is not None]
        if not found:
            return DROPPED
        if len(found) == 1:
            return found[0]
        links, actions = (frozenset().union(*parts) for parts in zip(*found, strict=True))
        return Route(links, actions)

    def route_columns(self, notifications: Notifications) -> Routes:
        """Where many messages go."""
        matches = self._matcher.match_batch(self._table(notifications))
        used, slots = np.unique(matches.slots, return_inverse=True)
        routes = [self._route_of([id]) for id in _ids(matches, used)]
        alone = {i: self._route_alone(notifications, i, m) for i, m in notifications.more.items()}
        links, actions = (
            sorted(frozenset().union(*(r[part] for r in (*routes, *alone.values()))))
            for part in (0, 1)
        )
        numbers = (
            {name: n for n, name in enumerate(links)},
            {name: len(links) + n for n, name in enumerate(actions)},
        )
        rows = np.repeat(np.arange(len(notifications)), matches.counts)
        known = ~np.isin(rows, np.array(list(alone), np.int64)) if alone else slice(None)
        targets = [_targets(route, numbers) for route in routes]
        pairs = _expanded(rows[known], slots[known], targets)
        own = [(i, n) for i, route in alone.items() for n in _targets(route, numbers)]
        pairs.append(np.array(own, np.int64).reshape(-1, 2))
        return _routes(pairs, len(notifications), links, actions)

    def _route_alone(self, notifications: Notifications, i: int, more: dict[str, Any]) -> Route:
        """Of a message with discretionary attributes: they make no columns."""
        row = notifications.attributes.slice(i, 1).to_pylist()[0]
        subject = notifications.subject[i].as_py()
        return self.route(Notification(self.channel.id, 0, 0, 0, subject, {**row, **more}))

    def _table(self, notifications: Notifications) -> pa.Table:
        import pyarrow as pa

        columns = dict(
            zip(notifications.attributes.schema.names, notifications.attributes, strict=True)
        )
        subject = notifications.subject
        asked = [
            selectors.subject_attributes(Subject.parse(text))
            for text in subject.dictionary.to_pylist()
        ]
        for name in self._matcher.attributes:
            if _OWN.fullmatch(name):
                kind = pa.int64() if name == selectors.LENGTH else pa.string()
                values = pa.array([one.get(name) for one in asked], kind)
                columns[name] = values.take(subject.indices)
        if not columns:
            columns[selectors.SUBJECT] = subject.cast(pa.string())
        return pa.table(columns)


def _ids(matches: Matches, slots: I4) -> list[int | str]:
    """The ids of the filters at these slots."""
    if matches.given is not None:
        return [matches.given[slot] for slot in slots.tolist()]
    found: list[int | str] = matches.names.take(slots).to_pylist()
    return found


def _targets(route: Route, numbers: tuple[dict[str, int], dict[str, int]]) -> list[int]:
    return [numbers[part][name] for part in (0, 1) for name in route[part]]


def _expanded(rows: I8, filters: I8, targets: list[list[int]]) -> list[I8]:
    """(message, target) for each (message, filter): a filter has several targets."""
    counts = np.array([len(own) for own in targets], np.int64)
    starts = np.cumsum(counts) - counts
    flat = np.array([n for own in targets for n in own], np.int64)
    own = counts[filters] if len(targets) else np.zeros(0, np.int64)
    within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
    found = flat[np.repeat(starts[filters], own) + within] if len(flat) else flat
    return [np.stack([np.repeat(rows, own), found], axis=1)]


def _routes(pairs: list[I8], count: int, links: list[str], actions: list[str]) -> Routes:
    """Each message with each of its targets once."""
    many = max(1, len(links) + len(actions))
    joined = np.concatenate(pairs)
    keys = np.unique(joined[:, 0] * many + joined[:, 1])
    offsets = np.searchsorted(keys, np.arange(count + 1) * many)
    return Routes(offsets.astype(np.int64), keys % many, links, actions)


# --- selectors as in table 16 -----------------------------------------------------


def _rewritten(node: Condition, channel: Channel) -> Condition:
    """Wildcards of subjects by rules (table 23), positions by names."""
    match node:
        case And(parts):
            return selectors.conjunction([_rewritten(part, channel) for part in parts])
        case Or(parts):
            return selectors.disjunction([_rewritten(part, channel) for part in parts])
        case Not(part):
            return Not(_rewritten(part, channel))
        case Compare(Attribute(selectors.SUBJECT), ("=" | "<>") as op, Literal(_, str() as text)):
            found = _subject_condition(text, node.at)
            return found if op == "=" else Not(found)
        case In(Attribute(selectors.SUBJECT), values):
            texts = [str(v.value) for v in values]
            return selectors.disjunction([_subject_condition(text, node.at) for text in texts])
        case Compare(left, op, right):
            return Compare(_named(left, channel), op, _named(right, channel))
        case Between(term, low, high):
            return Between(_named(term, channel), _named(low, channel), _named(high, channel))
        case Text(term, op, other):
            return Text(_named(term, channel), op, _named(other, channel))
        case In(term, values):
            return In(_named(term, channel), values)
        case Like(term, pattern, escape):
            return Like(_named(term, channel), pattern, escape)
        case Regex(term, pattern):
            return Regex(_named(term, channel), pattern)
        case IsNull(term):
            return IsNull(_named(term, channel))
    return node


def _named(term: Term, channel: Channel) -> Term:
    """`$1` is the first predefined attribute, unless one has just this name."""
    match term:
        case Attribute(name, at):
            found = _POSITION.fullmatch(name)
            if found is None or name in channel.positions:
                return term
            if not 1 <= int(found[1]) <= len(channel.attributes):
                what = f"channel {channel.id} has no attribute {name}"
                raise SelectorError(what, at=at, hint=f"it has {len(channel.attributes)}")
            return Attribute(channel.attributes[int(found[1]) - 1].name, at)
        case Arithmetic(op, left, right):
            return Arithmetic(op, _named(left, channel), _named(right, channel))
        case Negate(inner):
            return Negate(_named(inner, channel))
        case Call(name, arguments):
            return Call(name, tuple([_named(a, channel) for a in arguments]))
    return term


def _subject_condition(text: str, at: int) -> Condition:
    try:
        return selectors.subject_condition(SubjectFilter.parse(text))
    except SubjectError as error:
        raise SelectorError(str(error), at=at) from None
