"""The broker without sockets, clock and disk: requests and times in, actions out.

After every call take `actions()` and do them in order. The way of a message: `publish` admits it
to a group; `tick` closes the group and asks for a commit; `committed` acknowledges it; `match`
judges it and delivers, and `search` looks for the reason if a judge fails. Nothing is acknowledged
before the commit, and a filter that changes is stored before any message is judged by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from tamis.engine.matcher import Matcher
from tamis.errors import BusyError, FaultError, HoleError, SubscriptionError, TamisError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import Change, End, Move, Pause, Put, Scratch
from tamis.pubsub.broker.intake import Admission, Draft, Group, Lane
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.live_channel import Judged, LiveChannel, deliver
from tamis.pubsub.broker.recaps import Recap
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.broker.session import Session
from tamis.pubsub.broker.shapes import Shape
from tamis.pubsub.broker.stored import Key, Stored, Tally, Version
from tamis.pubsub.broker.subscription import Subscription


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What bounds the memory of a broker."""

    pending: int = 200_000  # messages that wait for their commit
    pending_bytes: int = 64 << 20
    room: int = 2_000  # messages on their way to one session
    room_bytes: int = 1 << 20  # and their bytes, names of subscriptions included
    window: int = 10_000  # messages of a durable subscription that are not acknowledged
    read: int = 2_000  # records that a subscription reads at a time


class Broker:
    def __init__(
        self, limits: BrokerLimits | None = None, lane: Callable[[int], int] | None = None
    ) -> None:
        """`lane`: which channels are stored together, by their numbers; None: all, in lane 0."""
        self.limits = limits or BrokerLimits()
        self.channels: dict[int, LiveChannel] = {}
        self.sessions: dict[int, Session] = {}
        self.cursors: dict[Key, int] = {}  # that moved since somebody took them
        self._actions: list[act.Action] = []
        self._lane_of, self.lanes = lane, {0: Lane()}
        self._pending = self._pending_bytes = 0  # messages in groups of all lanes
        self._changes: list[Change] = []
        self._storing: list[Change] = []
        self._scratch: Scratch = {}
        self._leaving: deque[Session | LiveChannel] = deque()  # gone, with subscriptions left
        self._searching: deque[LiveChannel] = deque()
        self.busy = self.published = self.delivered = 0

    def actions(self) -> list[act.Action]:
        found, self._actions = self._actions, []
        return found

    # --- channels ------------------------------------------------------------------

    def open(
        self,
        number: int,
        language: Language,
        next: int = 1,
        time: int = 0,
        admission: Admission | None = None,
        stored: Iterable[tuple[Stored, str]] = (),
        saved: Matcher | None = None,
    ) -> LiveChannel:
        """A channel whose log goes on at `next`; with its subscriptions and their bounds, and a
        matcher that was saved when it was open before."""
        lane = self._lane(number)
        channel = LiveChannel(number, language, next, time, admission or Admission(), lane)
        self.channels[number] = channel
        channel.restore(stored, self.limits.window, saved)
        try:
            channel.judge.prepare()
        except Exception as error:  # messages will show whether a subscription is the reason
            self._report(f"preparing channel {number}", error)
        return channel

    def close(self, number: int) -> None:
        """No more messages; sessions keep what they were sent. `tidy` ends its subscriptions."""
        channel = self.channels.pop(number)
        group = channel.lane.group
        self._gone(group)
        group.remove(number)
        self._pending += group.count
        self._pending_bytes += group.size
        gone = SubscriptionError("the channel is gone", status=404)
        for request, (channel_number, _) in list(group.requests.items()):
            if channel_number == number:
                del group.requests[request]
                self._actions.append(act.Refused(request, gone))
        self._leaving.append(channel)

    # --- publishing ----------------------------------------------------------------

    def _lane(self, number: int) -> Lane:
        key = 0 if self._lane_of is None else self._lane_of(number)
        found = self.lanes.get(key)
        if found is None:
            found = self.lanes[key] = Lane()
        return found

    def publish(self, request: int, number: int, publisher: str, drafts: Sequence[Draft]) -> None:
        """Admit checked messages; `Acknowledged` or `Refused` will answer the request."""
        channel, limits, count = self.channels[number], self.limits, len(drafts)
        size = len(drafts[0].body) if count == 1 else sum([len(draft.body) for draft in drafts])
        if (
            self._pending + count + len(channel.waiting) > limits.pending
            or self._pending_bytes + size > limits.pending_bytes
        ):
            self.busy += count
            raise BusyError("too many messages wait for the disk: try again later")
        lane = channel.lane
        group, held, held_bytes = lane.group, lane.group.count, lane.group.size
        group.add(request, number, publisher, drafts, size, channel.admission, lane.committing)
        self._pending += group.count - held
        self._pending_bytes += group.size - held_bytes

    def tick(self, now: int) -> None:
        """Close the group of each lane of which nothing is on its way to the disk."""
        for number, lane in self.lanes.items():
            if lane.group.requests and not lane.committing.requests:
                self._close(number, lane, now)

    def _close(self, number: int, lane: Lane, now: int) -> None:
        lane.committing, lane.group = lane.group, Group()
        for channel_number, batch in lane.committing.batches.items():
            channel = self.channels[channel_number]
            channel.time = max(channel.time, now)
            lane.blocks += batch.blocks(channel_number, channel.next, channel.time)
        if lane.blocks:
            self._actions.append(act.Commit(lane.blocks, number))
        else:
            self.committed(number)

    def committed(self, lane: int = 0) -> None:
        """The blocks of the lane are in the log."""
        found = self.lanes[lane]
        group, found.committing = found.committing, Group()
        self._gone(group)
        blocks, found.blocks = found.blocks, []
        first = {number: batch.first for number, batch in group.batches.items()}
        answers = []
        for request, (number, places) in group.requests.items():
            start = first.get(number, 0)
            if len(places) == 1:  # nearly always
                place = places[0]
                answers.append((request, [start + place if place >= 0 else -1 - place]))
            else:
                answers.append((request, [start + p if p >= 0 else -1 - p for p in places]))
        self._actions.append(act.Acknowledged(answers))
        for number, batch in group.batches.items():
            if (open := self.channels.get(number)) is not None:
                batch.committed(open.admission)
        for block in blocks:
            channel = self.channels.get(block.channel)
            if channel is not None:
                channel.next = block.last + 1
                channel.committed(block.records)
                channel.published += len(block.records)
        self.published += group.count

    def _gone(self, group: Group) -> None:
        """It does not wait any more."""
        self._pending -= group.count
        self._pending_bytes -= group.size

    def follow(self, block: Block) -> None:
        """(In a copy.) A block that came over a link is in the log; `match` judges it."""
        self.channels[block.channel].follow(block)

    def begin(self, number: int, names: Iterable[Hashable]) -> list[Subscription]:
        """(In a copy.) These subscriptions are in force now."""
        held = self.channels[number].subscriptions
        found = [held[name] for name in names if isinstance(name, str) and name in held]
        for subscription in found:
            self._resume(subscription)
        return found

    def jump(self, number: int, first: int) -> None:
        """(In a copy.) The log begins at `first`, and all before is gone."""
        channel = self.channels[number]
        channel.jump(first)
        for subscription in channel.subscriptions.values():
            self._feed(subscription)

    def not_committed(self, error: TamisError, lane: int = 0) -> int:
        """Nothing of the lane's group is in the log. What was admitted after it is refused as well,
        for it may repeat some of it, or has to come after it. How many messages were refused."""
        found = self.lanes[lane]
        groups = found.committing, found.group
        found.committing, found.group, found.blocks = Group(), Group(), []
        for group in groups:
            self._gone(group)
            for request in group.requests:
                self._actions.append(act.Refused(request, error))
        return sum(group.count for group in groups)

    def match(self, most: int | None = None) -> bool:
        """Judge what was committed, up to `most` messages of each channel, unless filters are just
        being stored. Whether more can be judged now."""
        if self._storing:
            return False
        touched: dict[int, Session] = {}
        more = False
        for channel in self.channels.values():
            if channel.waiting:
                before = channel.deliveries
                self._match(channel, touched, most)
                self.delivered += channel.deliveries - before
                more = more or (bool(channel.waiting) and channel.search is None)
        self._flush(touched)
        self._store()
        return more and not self._storing

    def _match(self, channel: LiveChannel, touched: dict[int, Session], most: int | None) -> None:
        """If the judge fails and no subscription is the reason, everybody reads from the log:
        nothing that was committed is passed over."""
        try:
            judged = self._judged(channel, most) if self._settled(channel) else None
            gathered = None if judged is None else channel.hand_out(judged, touched)
        except Exception as error:
            self._report(f"judging channel {channel.number}", error)
            self._fall_behind(channel)
        else:
            if gathered is not None:
                self._actions.append(gathered)

    def _judged(self, channel: LiveChannel, most: int | None) -> Judged | None:
        """A judge that fails tries once more. Then those on which it fails are searched for, and
        the messages of the channel wait until that is over."""
        for again in (True, False):
            try:
                return channel.judged(most)
            except Exception as error:
                self._report(f"judging channel {channel.number}", error)
                if not again:
                    channel.look_for_culprits(most, error)
                    self._searching.append(channel)
        return None

    def _settled(self, channel: LiveChannel) -> bool:
        """Whether messages can be judged: no search is on. One that is over takes effect here."""
        search = channel.search
        if search is None or not search.over:
            return search is None
        channel.search = None
        for culprit in search.culprits():
            if channel.subscriptions.get(culprit.name) is culprit:
                self.fail(culprit, search.error)
        if not search.successful:
            self._fall_behind(channel)
        return bool(channel.waiting)

    def _fall_behind(self, channel: LiveChannel) -> None:
        if channel.waiting:
            channel.fall_behind()
        for subscription in channel.subscriptions.values():
            self._feed(subscription)

    @property
    def searching(self) -> bool:
        """Whether there are steps for `search` to do."""
        return bool(self._searching)

    def search(self, most: int | None = None) -> None:
        """Search for subscriptions on which judges fail, up to `most` steps; then call `match`."""
        while self._searching and (most is None or most > 0):
            channel = self._searching.popleft()
            if channel.search is not None and self.channels.get(channel.number) is channel:
                channel.search.step()
                if not channel.search.over:
                    self._searching.append(channel)
            most = None if most is None else most - 1

    def _report(self, where: str, error: Exception) -> None:
        self._actions.append(act.Fault(where, error))

    def fail(self, subscription: Subscription, error: Exception) -> None:
        """Set aside a subscription that cannot be judged or sent, so that the others go on. Its
        session is told. A durable one stays as it is, and is tried again by whoever takes it up."""
        self._report(f"subscription {subscription.name}", error)
        told = set_aside(subscription, error)
        self._end(subscription, told)
        channel = self.channels.get(subscription.channel)
        if channel is None or subscription.name not in channel.subscriptions:
            return
        channel.set_aside(subscription, str(told))
        if not subscription.durable:
            channel.remove(subscription)

    def _flush(self, touched: dict[int, Session]) -> None:
        for session in touched.values():
            self._actions.append(act.Deliver(session.id, session.take_outbox()))

    # --- sessions ------------------------------------------------------------------

    def connect(
        self,
        session: int,
        room: int | None = None,
        prefix: Callable[[str], bytes] | None = None,
    ) -> None:
        """`prefix`: the session takes gathered messages, each behind the prefix of its label."""
        found = self.limits.room if room is None else room
        self.sessions[session] = Session(session, found, self.limits.room_bytes, prefix)

    def disconnect(self, session: int) -> None:
        """Nothing more is sent to it. Its durable subscriptions stay, the others end: by `tidy`."""
        gone = self.sessions.pop(session, None)
        if gone is not None:
            gone.room = 0
            self._leaving.append(gone)

    @property
    def leaving(self) -> bool:
        """Whether sessions or channels that are gone still have subscriptions."""
        return bool(self._leaving)

    def tidy(self, most: int | None = None) -> None:
        """Let go of the subscriptions of sessions and channels that are gone, of up to `most`."""
        while self._leaving and (most is None or most > 0):
            gone = self._leaving[0]
            if not gone.subscriptions:
                self._leaving.popleft()
                continue
            _, subscription = gone.subscriptions.popitem()
            if isinstance(gone, LiveChannel):
                self._end(subscription, SubscriptionError("the channel is gone", status=404))
            elif subscription.session is gone:
                self._leave(subscription)
            most = None if most is None else most - 1

    def _leave(self, subscription: Subscription) -> None:
        self._detach(subscription)
        channel = self.channels.get(subscription.channel)
        if not subscription.durable and channel is not None:
            channel.remove(subscription)

    def _detach(self, subscription: Subscription) -> None:
        if subscription.session is not None:
            self.settle(subscription)
            subscription.session.subscriptions.pop(subscription.key, None)
            if subscription.seats is not None:
                subscription.seats.leave(subscription, subscription.session)
            if subscription.delivery:
                self._actions.append(act.Left(subscription))
        subscription.live, subscription.session, subscription.loss = False, None, 0

    def settle(self, subscription: Subscription) -> None:
        """Move its cursor over what it did not want."""
        channel = self.channels.get(subscription.channel)
        if channel is not None and subscription.durable:
            done = subscription.done(channel.matched)
            if done > subscription.cursor:
                subscription.cursor = self.cursors[subscription.key] = done

    def attach(self, session: int, subscription: Subscription) -> None:
        """Let a session take up a durable subscription."""
        if subscription.problem and not self._put(subscription):
            return
        self._attach(subscription, self.sessions[session])

    def _put(self, subscription: Subscription) -> bool:
        """Whether the judge takes it as it is now; if not, it is set aside."""
        try:
            self.channels[subscription.channel].put(subscription)
        except Exception as error:
            self.fail(subscription, error)
            return False
        return True

    def _attach(self, subscription: Subscription, session: Session, *, short: bool = False) -> None:
        """From its cursor on: what was sent and not acknowledged is sent again."""
        if subscription.session is not None and subscription.session is not session:
            self._actions.append(act.Taken(subscription.session.id, subscription))
        self._detach(subscription)
        session.subscriptions[subscription.key] = subscription
        subscription.session, session.lagging = session, True
        if session.prefix is not None and subscription.plain:
            seats = self.channels[subscription.channel].seats
            seats.take(subscription, session, session.prefix(subscription.label))
        subscription.sent = None
        subscription.position = subscription.cursor + 1
        subscription.short = short and bool(subscription.summary)
        self._resume(subscription)

    def _resume(self, subscription: Subscription) -> None:
        """Onto the live path if nothing is missing, else to the log."""
        channel = self.channels.get(subscription.channel)
        if channel is None or subscription.session is None or subscription.paused:
            return
        if not channel.in_force(subscription):
            return  # it begins when the home has heard of it
        if subscription.position > channel.matched:
            subscription.live, subscription.judged, subscription.short = True, None, False
        else:
            self._feed(subscription)

    def written(self, session: int, count: int) -> None:
        """So many messages left the session's queue: there is room for as many more."""
        found = self.sessions.get(session)
        if found is not None:
            found.written(count)
            self._feed_all(found)

    def acknowledge(self, session: int, key: Key, upto: int) -> None:
        """The subscriber has everything up to the sequence: its cursor moves there."""
        found = self.sessions.get(session)
        subscription = found.subscriptions.get(key) if found else None
        if found is None or subscription is None:
            raise SubscriptionError(f"this session has no subscription {key[1]!r}", status=404)
        self._acknowledge(subscription, upto)
        self._feed_all(found)

    def _acknowledge(self, subscription: Subscription, upto: int) -> None:
        channel = self.channels.get(subscription.channel)
        if channel is None or subscription.catching:
            return  # the recap that is being made begins at the cursor
        upto = min(upto, channel.matched)
        if subscription.acknowledge(upto) and subscription.durable:
            self.cursors[subscription.key] = subscription.cursor
        self.settle(subscription)

    def held(self) -> list[Subscription]:
        """The durable subscriptions that sessions hold now."""
        sessions = self.sessions.values()
        return [one for s in sessions for one in s.subscriptions.values() if one.durable]

    def take_cursors(self) -> dict[Key, int]:
        found, self.cursors = self.cursors, {}
        return found

    def take_tallies(self, most: int) -> dict[Key, Tally]:
        """Counters of durable subscriptions that changed since they were taken last; some of them,
        if there are more. Empty: none is left."""
        found: dict[Key, Tally] = {}
        for channel in self.channels.values():
            while channel.counted and len(found) < most:
                tally = channel.tally(channel.counted.pop())
                if tally is not None:
                    found[tally[0]] = tally[1]
        return found

    def untake_tallies(self, keys: Iterable[Key]) -> None:
        """They were not written: the next time, then."""
        for channel, name in keys:
            held = self.channels[channel].subscriptions if channel in self.channels else {}
            if name in held:
                self.channels[channel].counted.add(held[name].number)

    # --- reading from the log --------------------------------------------------------

    def _feed_all(self, session: Session) -> None:
        if not session.lagging:
            return
        session.lagging = False
        for subscription in session.subscriptions.values():
            if not subscription.live:
                session.lagging = True
                self._feed(subscription)

    def _feed(self, subscription: Subscription) -> None:
        if subscription.reading or subscription.live or not subscription.ready:
            return
        channel = self.channels.get(subscription.channel)
        if channel is None or not channel.in_force(subscription):
            return
        if subscription.position <= subscription.recap.sequence:
            self._feed_recap(subscription)
            return
        subscription.reading = True
        if subscription.short:
            subscription.catching = True
            matched = self.channels[subscription.channel].matched
            self._actions.append(act.CatchUp(subscription, matched))
            return
        self._actions.append(act.Read(subscription, subscription.position, self.limits.read))

    def _feed_recap(self, subscription: Subscription) -> None:
        """What is left of the recap, as far as there is room."""
        recap = subscription.recap
        self.channels[subscription.channel].counted.add(subscription.number)
        touched: dict[int, Session] = {}
        for record in recap.records:
            if record.sequence < subscription.position:
                continue
            if not deliver(subscription, record, touched):
                break
            self.delivered += 1
            subscription.position = record.sequence + 1
        else:
            subscription.position = recap.sequence + 1
            if not subscription.sent:  # nothing of it is on its way: nobody will acknowledge it
                self._acknowledge(subscription, recap.sequence)
        self._flush(touched)
        if subscription.position > recap.sequence:
            self._resume(subscription)

    def caught_up(self, subscription: Subscription, recap: Recap | None) -> None:
        """The recap is stored. None: there is none, and everything will be sent."""
        subscription.reading = subscription.catching = subscription.short = False
        if recap is not None:
            subscription.recap = recap
        if subscription.channel in self.channels and not subscription.live:
            self._resume(subscription)

    def read_done(
        self,
        subscription: Subscription,
        first: int,
        records: list[Record],
        through: int | None = None,
    ) -> None:
        """The records from `first` on, as far as they were read. None at all: there are none.

        `through`: it is a copy that was read, these are all that it has up to that sequence, and
        none is lost.
        """
        subscription.reading = False
        channel = self.channels.get(subscription.channel)
        if channel is None or subscription.session is None or subscription.live:
            return
        if first != subscription.position or subscription.short:  # it was attached anew meanwhile
            self._feed(subscription)
            return
        start = records[0].sequence if records else channel.matched + 1
        if through is None and min(start, channel.matched + 1) > first:
            last = min(start - 1, channel.matched)
            lost = act.Lost(subscription.session.id, subscription, first, last)
            self._actions.append(lost)
            subscription.position, subscription.loss = last + 1, last
        touched: dict[int, Session] = {}
        try:
            done = self._deliver_read(channel, subscription, records, touched)
            if done and through is not None:
                upto = min(through, channel.matched)
                subscription.position = max(subscription.position, upto + 1)
        except Exception as error:
            self.fail(subscription, error)
        self._flush(touched)
        self._resume(subscription)

    def read_hole(self, subscription: Subscription, first: int, hole: HoleError) -> None:
        """The records from `first` on cannot be read: those after the hole come next."""
        subscription.reading = False
        channel = self.channels.get(subscription.channel)
        if channel is None or subscription.session is None or subscription.live:
            return
        if first == subscription.position and not subscription.short:
            last = max(first, min(hole.last, channel.matched))
            lost = act.Lost(subscription.session.id, subscription, first, last, hole.reason)
            self._actions.append(lost)
            subscription.position, subscription.loss = last + 1, last
        self._resume(subscription)

    def read_failed(self, subscription: Subscription, error: Exception) -> None:
        """The log cannot be read for it at all."""
        subscription.reading = False
        if subscription.session is not None:
            self.fail(subscription, error)

    def _deliver_read(
        self,
        channel: LiveChannel,
        subscription: Subscription,
        records: list[Record],
        touched: dict[int, Session],
    ) -> bool:
        """Whether none is left."""
        known = [r for r in records if r.sequence <= channel.matched]
        channel.counted.add(subscription.number)
        for version, part in _by_version(subscription, known):
            for record in self._hits(channel, subscription, version, part):
                if not deliver(subscription, record, touched):
                    return False  # its position is this record
                self.delivered += 1
            subscription.position = part[-1].sequence + 1
        return True

    def _hits(
        self, channel: LiveChannel, one: Subscription, version: Version, records: list[Record]
    ) -> list[Record]:
        """A judge that fails is replaced once."""
        try:
            return channel.judge_of(one, version).hits(records)
        except Exception as error:
            self._report(f"judging subscription {one.name}", error)
            one.judged = None
            return channel.judge_of(one, version).hits(records)

    # --- subscribing -----------------------------------------------------------------

    def subscribe(
        self,
        session: int,
        stored: Stored,
        *,
        start: int | None = None,
        bound: str = "",
        label: str = "",
        shape: Shape | None = None,
    ) -> Subscription:
        """A subscription that lives as long as its session; in force when this returns."""
        channel, holder = self.channels.get(stored.channel), self.sessions.get(session)
        if channel is None or holder is None:
            raise SubscriptionError("the channel or the session is gone", status=404)
        if stored.name in channel.subscriptions:
            raise SubscriptionError(f"there is a subscription {stored.name!r} already", status=409)
        subscription = Subscription(stored, channel.number_for(), durable=False, bound=bound)
        subscription.label, subscription.shape = label or stored.name, shape
        try:
            channel.put(subscription)
        except BaseException:
            channel.remove(subscription)
            raise
        after = channel.matched + 1
        subscription.cursor = (after if start is None else min(start, after)) - 1
        self._attach(subscription, holder)
        return subscription

    def unsubscribe(self, session: int, key: Key) -> None:
        """End a subscription of this session that is not durable."""
        subscription = self.sessions[session].subscriptions.get(key)
        if subscription is None or subscription.durable:
            raise SubscriptionError(
                f"this session has no subscription {key[1]!r} to end", status=404
            )
        self._leave(subscription)

    def leave(self, session: int, key: Key) -> None:
        """The session leaves a durable subscription, which stays."""
        subscription = self.sessions[session].subscriptions.get(key)
        if subscription is not None:
            self._detach(subscription)

    def skip(self, subscription: Subscription) -> None:
        """Give up what a durable subscription has not got yet: its cursor moves to the end."""
        self._acknowledge(subscription, self.channels[subscription.channel].matched)
        subscription.position = max(subscription.position, subscription.cursor + 1)
        self._resume(subscription)

    def send_away(self, subscription: Subscription) -> None:
        """Take a durable subscription from its session, which is told."""
        if subscription.session is not None:
            self._actions.append(act.Taken(subscription.session.id, subscription))
            self._detach(subscription)

    def drop(self, subscription: Subscription, error: TamisError) -> None:
        """Forget a subscription that the registry does not hold any more; its session is told."""
        self._end(subscription, error)
        self.channels[subscription.channel].remove(subscription)

    def revoke(self, subscription: Subscription, error: TamisError) -> None:
        """Take it from its session, which is told why. A durable one stays, with its cursor."""
        if subscription.durable:
            self._end(subscription, error)
        else:
            self.drop(subscription, error)

    def _end(self, subscription: Subscription, error: TamisError) -> None:
        if subscription.session is not None:
            self._actions.append(act.Ended(subscription.session.id, subscription, error))
        self._detach(subscription)

    def bind(self, subscription: Subscription, bound: str) -> None:
        """Another selector that the server adds: in force for the next message."""
        subscription.bound, subscription.judged = bound, None
        self._put(subscription)  # in the dialect of this channel it may have no meaning

    def change(self, change: Change) -> None:
        """Change durable subscriptions; `Applied` or `Refused` will answer the request."""
        self._changes.append(change)
        self._store()

    def _store(self) -> None:
        """Store what was asked for. Until it is stored nothing is judged."""
        if self._storing or not self._changes:
            return
        waiting, self._changes, self._scratch = self._changes, [], {}
        for change in waiting:
            try:
                self._prepare(change)
            except TamisError as error:
                self._actions.append(act.Refused(change.request, error))
            except Exception as error:
                self._report(f"a change of subscription {change.name}", error)
                self._actions.append(act.Refused(change.request, failed(error)))
        if self._storing:
            put = [one for one in self._scratch.values() if one is not None]
            gone = [key for key, one in self._scratch.items() if one is None]
            self._actions.append(act.Store(put, gone))

    def _prepare(self, change: Change) -> None:
        channel = self.channels.get(change.channel)
        if channel is None:
            raise SubscriptionError("the channel is gone", status=404)
        known = channel.subscriptions.get(change.name)
        if known is not None and not known.durable:
            raise SubscriptionError(
                f"{change.name!r} is the name of one that is not durable", status=409
            )
        if change.key not in self._scratch and known is not None:
            self._scratch[change.key] = known.stored()
        change.prepare(self._scratch, channel.matched + 1)
        if (stored := self._scratch[change.key]) is not None and not stored.number:
            numbered = msgspec.structs.replace(stored, number=channel.number_for())
            self._scratch[change.key] = numbered
        self._storing.append(change)

    def not_stored(self, error: TamisError) -> None:
        changes, self._storing = self._storing, []
        self._actions += [act.Refused(change.request, error) for change in changes]
        self._store()

    def stored(self) -> None:
        """What was asked for is in the registry: now it is in force."""
        changes, self._storing = self._storing, []
        for change in changes:
            channel = self.channels.get(change.channel)
            stored = self._scratch.get(change.key)
            if channel is None:
                gone = SubscriptionError("the channel is gone", status=404)
                self._actions.append(act.Refused(change.request, gone))
                continue
            try:
                answer: act.Action = act.Applied(
                    change.request, self._apply(channel, change, stored)
                )
            except Exception as error:
                answer = act.Refused(change.request, self._not_applied(channel, change, error))
            self._actions.append(answer)

    def _not_applied(self, channel: LiveChannel, change: Change, error: Exception) -> TamisError:
        """It is stored, but the judge does not take it."""
        known = channel.subscriptions.get(change.name)
        if known is None:
            self._report(f"a change of subscription {change.name}", error)
            return failed(error)
        self.fail(known, error)
        return set_aside(known, error)

    def _apply(
        self, channel: LiveChannel, change: Change, stored: Stored | None
    ) -> Subscription | None:
        known = channel.subscriptions.get(change.name)
        if stored is None:
            if known is not None:
                self._remove(channel, known, change)
            return None
        if known is None:
            known = Subscription(stored, stored.number, durable=True)
            known.window = self.limits.window
        if isinstance(change, Put):
            self._apply_put(channel, change, known, stored)
        elif isinstance(change, Pause):
            self._apply_pause(channel, known, stored.paused)
        elif isinstance(change, Move):
            self._apply_move(known, stored.cursor)
        return known

    def _remove(self, channel: LiveChannel, known: Subscription, change: Change) -> None:
        session = known.session
        if session is not None and isinstance(change, End) and change.session == session.id:
            self._detach(known)
        else:
            self._end(known, SubscriptionError("the subscription was removed"))
        channel.remove(known)

    def _apply_put(
        self, channel: LiveChannel, change: Put, known: Subscription, stored: Stored
    ) -> None:
        known.versions, known.delivery, known.bound = stored.versions, stored.delivery, change.bound
        known.window = min(change.window or self.limits.window, self.limits.window)
        channel.put(known)
        session = None if change.session is None else self.sessions.get(change.session)
        if session is not None and known.session is not session:
            known.shape = change.shape
            self._acknowledge(known, change.have)
            self._attach(known, session, short=change.short)

    def _apply_move(self, known: Subscription, cursor: int) -> None:
        """Whatever session has it is told, and may take it up again there."""
        self.send_away(known)
        known.position, known.sent = cursor + 1, None
        known.cursor = self.cursors[known.key] = cursor

    def _apply_pause(self, channel: LiveChannel, known: Subscription, paused: bool) -> None:
        if paused and known.live:
            known.live, known.position = False, channel.matched + 1
        known.paused = paused
        if known.problem and not paused:
            self._put(known)
        self._resume(known)


def failed(error: Exception) -> TamisError:
    """What whoever asked is told about a fault of the broker."""
    return error if isinstance(error, TamisError) else FaultError(error)


def set_aside(subscription: Subscription, error: Exception) -> SubscriptionError:
    """What the owner of the subscription is told."""
    reason = str(error) if isinstance(error, TamisError) else f"{type(error).__name__}: {error}"
    return SubscriptionError(
        f"subscription {subscription.label} was set aside: {reason[:500]}\n"
        "  take it up again, perhaps with another selector: nothing that it waits for is dropped"
    )


def _by_version(
    subscription: Subscription, records: list[Record]
) -> list[tuple[Version, list[Record]]]:
    """The records cut where the filter changed."""
    parts: list[tuple[Version, list[Record]]] = []
    if len(subscription.versions) == 1:
        return [(subscription.versions[0], records)] if records else []
    for record in records:
        version = subscription.at(record.sequence)
        if not parts or parts[-1][0] is not version:
            parts.append((version, []))
        parts[-1][1].append(record)
    return parts


__all__ = ["Broker", "BrokerLimits", "Draft", "End", "Pause", "Put"]
