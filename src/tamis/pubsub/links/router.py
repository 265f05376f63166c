"""One channel of a router in a network: a child of its parent, and the parent of its children.

No sockets, no clock, no disk: frames and other events in, effects out; after each call take
`effects()` and do them in order. The home of a channel gives the sequences, which hold everywhere.
Every other router has a copy: what somebody at it or below it wants, with the home's sequences.
docs/links.md is the protocol.

The surroundings of a home call `appended` for each block of its log; those of any other router do
what `Store` says. Subscriptions at a router are `put` under keys; a subscription that must miss
nothing begins when `InForce` names its key, at `since` at the earliest: what it needs of earlier
messages is to be had by `fetch`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tamis.pubsub.broker.epochs import Epochs
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.branch import HELLO
from tamis.pubsub.links.child import GAP, Child, ProtocolError
from tamis.pubsub.links.coverage import Coverage
from tamis.pubsub.links.interests import Interests
from tamis.pubsub.links.parent import MAX_FETCHES, Parent, ParentLimits, Request, cycle
from tamis.pubsub.links.wants import Want

CUT_OFF = "this router is cut off from the home of the channel: nothing can be published here now"
FETCHES = MAX_FETCHES // 2  # that wait for the parent's answer at a time
_STEP = 200  # wants that are asked for in one step
PERHAPS = "the way to the home broke: perhaps the messages are stored, so send them again"


@dataclass(slots=True)
class _Fetch:
    """What is fetched from above, and for whom: a ticket of the parent's, or a request."""

    first: int
    last: int
    wants: tuple[Want, ...] | None
    ticket: int | None
    request: int = 0


class Router:
    def __init__(
        self,
        name: str,
        channel: int,
        language: Language,
        *,
        home: bool = False,
        upto: int | None = None,
        oldest: int = 1,
        epochs: Epochs = (),
        limits: ParentLimits | None = None,
        merged: int | None = None,
    ) -> None:
        """With what there is of the channel: the home's log, or a copy (`upto` None: there is
        none). `epochs` are those that `Keep` gave, with one more at a home (see `begun`).
        `merged` limits the wants that local subscriptions are merged into."""
        self.name, self.channel, self.home = name, channel, home
        self._effects: list[fx.Effect] = []
        out = self._effects
        self.coverage = coverage = Coverage(upto, oldest, home)
        self.child = Child(name, channel, coverage, out, self._covered, epochs)
        self.parent = Parent(
            name, language, coverage, out, self._tell, self._fetch_above, limits or ParentLimits()
        )
        self.parent.path, self.parent.epochs = (name,), epochs
        self.interests = Interests(language, merged)
        self._counts: dict[Want, int] = {}  # who wants it: children, and local subscriptions
        self._local: set[Hashable] = set()
        self._waiting: dict[Hashable, int] = {}  # local keys, and the last `Add` they depend on
        self._offered: Epochs = ()
        self._fetches: dict[int, _Fetch] = {}
        self._queued: deque[int] = deque()  # of them, to be sent
        self._flying: set[int] = set()  # sent, and not answered
        self._passed: dict[int, tuple[int | None, int]] = {}  # to the home: link, and id there
        self._count = GAP

    def effects(self) -> list[fx.Effect]:
        found = list(self._effects)
        self._effects.clear()
        return found

    @property
    def path(self) -> tuple[str, ...]:
        """From this router to the home, as far as it is known."""
        return self.parent.path

    @property
    def connected(self) -> bool:
        """Whether messages come from above, or are made here."""
        return self.home or self.child.welcomed

    # --- links ---------------------------------------------------------------------------

    def accept(self, link: int, principal: str = "", bound: str = "") -> None:
        """A child's link; nothing that the selector `bound` does not match goes over it."""
        self.parent.accept(link, principal, bound)

    def connect(self, link: int) -> None:
        """A link to a parent; there is none yet."""
        assert not self.home
        assert self.child.link is None
        self.child.connect(link)

    def disconnected(self, link: int) -> None:
        """A link broke."""
        if link in self.parent:
            self.parent.disconnected(link)
            self._purge_fetches()
        elif link == self.child.link:
            self._lose_parent()

    def forget(self, name: str) -> None:
        """A child has been gone for so long that its wants need not be kept."""
        self.parent.forget(name)

    def tidy(self, most: int = 1 << 62) -> bool:
        """Let go of wants of children that were forgotten, up to `most`. Whether more are left."""
        return self.parent.tidy(most)

    def receive(self, link: int, frame: wire.Frame) -> None:
        """A frame that was decoded. One that contradicts the protocol ends the link."""
        if link in self.parent and isinstance(frame, wire.Up):
            if isinstance(frame, wire.Publish) and self.parent.greeted(link):
                self._pass_on(link, frame)
            else:
                self.parent.receive(link, frame)
        elif link == self.child.link and isinstance(frame, wire.Down):
            try:
                self._from_parent(frame)
            except ProtocolError as error:
                self._leave(f"{self._parent_name} broke the protocol: {error}")

    @property
    def _parent_name(self) -> str:
        return self.path[1] if len(self.path) > 1 else "the parent"

    def _from_parent(self, frame: wire.DownFrame) -> None:
        match frame:
            case wire.Above():
                self._above(frame)
            case wire.Published():
                self._published(frame)
            case wire.Refused():
                self._refused(frame)
            case wire.Drain(reason):
                self._leave(reason)
            case wire.Fetched() if frame.id != GAP:
                self._fetched(frame)
            case _:
                if isinstance(frame, wire.Welcome):
                    self._adopt()
                self.child.receive(frame)
                if isinstance(frame, wire.Welcome):
                    self._fetch_again()

    def _above(self, frame: wire.Above) -> None:
        if self.name in frame.path:
            self._leave(cycle(self.name, frame.path))
            return
        self._offered = frame.epochs
        if self.child.greeted:
            self._adopt()
        self.parent.above_changed((self.name, *frame.path), self.child.epochs)

    def _adopt(self) -> None:
        """The home's log is the one that the copy is of: its epochs are the copy's."""
        if self._offered != self.child.epochs:
            self.child.epochs = self._offered
            self._effects.append(fx.Keep(self._offered))
            self.parent.above_changed(self.path, self._offered)

    def _refused(self, frame: wire.Refused) -> None:
        self._leave(frame.reason)
        if frame.common is None:
            return
        self.child.reset()
        self._offered = ()
        self._waiting = dict.fromkeys(self._local, self.child.last_id)
        for branch in list(self.parent.branches.values()):
            if branch.link is not None:
                self.parent.refuse(branch.link, f"{self.name} begins anew: {frame.reason}")
        self.parent.above_changed((self.name,), ())
        self._effects.append(fx.Reset(frame.common, frame.reason))

    def _leave(self, reason: str) -> None:
        """End the link to the parent."""
        assert self.child.link is not None
        self._effects.append(fx.Close(self.child.link, reason))
        self._lose_parent()

    def _lose_parent(self) -> None:
        self.child.disconnected()
        self._waiting = dict.fromkeys(self._waiting, self.child.last_id)
        self._offered = ()
        self.parent.above_changed((self.name,), self.child.epochs)
        passed, self._passed = self._passed, {}
        for link, id in passed.values():
            self._answer(link, wire.Published(id, (), PERHAPS, unknown=True))

    # --- wants -----------------------------------------------------------------------------

    def put(self, key: Hashable, subjects: str, selector: str, bound: str = "") -> None:
        """A subscription here, or another filter for one."""
        self.put_many([(key, subjects, selector, bound)])

    def put_many(self, many: Iterable[tuple[Hashable, str, str, str]]) -> None:
        """Subscriptions with different keys."""
        many = list(many)
        keys = tuple(key for key, *_ in many)
        if self.home:
            self._effects.append(fx.InForce(keys, 1))
            return
        self._local.update(keys)
        self._tell(*self.interests.put_many(many))
        self._waiting |= dict.fromkeys(keys, self.child.last_id)
        self._settle(self.coverage.next)

    def begin(self, keys: Iterable[Hashable], interests: Interests) -> Iterator[None]:
        """Very many subscriptions at once, in steps: these were merged into `interests` elsewhere,
        and are all that there are. Nothing else may be put or removed before the last step."""
        old, self.interests = self.interests, interests
        self._local = set(keys)
        self._waiting.clear()
        for part in _parts(interests.wants):
            self._tell(part, ())
            yield
        for part in _parts(old.wants):
            self._tell((), part)
            yield
        self._waiting = dict.fromkeys(self._local, self.child.last_id)
        self._settle(self.coverage.next)

    def remove(self, key: Hashable) -> None:
        """A subscription here ends."""
        if key in self._local:
            self._local.discard(key)
            self._waiting.pop(key, None)
            self._tell(*self.interests.remove(key))

    def _tell(self, came: Iterable[Want], gone: Iterable[Want]) -> None:
        """Somebody here wants more, or less."""
        if self.home:
            return
        counts, new, left = self._counts, [], []
        for want in came:
            counts[want] = count = counts.get(want, 0) + 1
            if count == 1:
                new.append(want)
        for want in gone:
            counts[want] -= 1
            if not counts[want]:
                del counts[want]
                left.append(want)
        self.child.change(new, left)

    def _covered(self, wants: list[Want], since: int) -> None:
        self.parent.covered(wants)
        self._settle(since)

    def _settle(self, since: int) -> None:
        """Local subscriptions that depend on no `Add` without an answer are in force."""
        floor = self.child.floor
        if floor == HELLO:
            return
        keys = tuple([key for key, id in self._waiting.items() if id < floor])
        if keys:
            for key in keys:
                del self._waiting[key]
            self._effects.append(fx.InForce(keys, since))

    # --- messages ----------------------------------------------------------------------------

    def appended(self, block: Block) -> None:
        """(At the home.) A block is in the log."""
        self.coverage.upto = block.last
        self.parent.advance(block)

    def stored(self, last: int) -> None:
        """Everything that `Store` or `Begin` said up to the sequence is done."""
        for block in self.child.stored(last):
            if block is None:
                self.parent.go_on()
            else:
                self.parent.advance(block)

    def trimmed(self, oldest: int) -> None:
        """The log or copy begins at this sequence now."""
        self.coverage.oldest = max(self.coverage.oldest, oldest)

    def tick(self) -> None:
        """From time to time (0.1 s): children that want nothing learn how far the channel is."""
        self.parent.tick()

    def read_done(self, ticket: int, through: int, records: list[Record]) -> None:
        """All records of the copy from the first one of `Read`, `through` included."""
        self.parent.read_done(ticket, through, records)

    def read_failed(self, ticket: int, through: int) -> None:
        """The copy cannot be read from the first sequence of `Read` `through` that one."""
        self.parent.read_failed(ticket, through)

    def pause(self, name: str, *, paused: bool) -> None:
        """Send nothing to a child for a while, or go on."""
        self.parent.pause(name, paused=paused)

    def drain(self, reason: str) -> None:
        """Ask all children to go elsewhere, and take no more."""
        self.parent.drain(reason)

    def why(self, name: str, record: Record) -> list[Want]:
        """The wants of a child because of which a message crosses its link."""
        return self.parent.sieve.why(self.parent.branches[name].child, record)

    def wanted_by(self, want: Want) -> list[str]:
        """Who here wants it of the parent: children by name, and this router for its own."""
        below = [b.name for b in self.parent.branches.values() if want in b.wants]
        return [self.name] * (want in self.interests.wanted) + below

    # --- fetching ----------------------------------------------------------------------------

    def fetch(self, request: int, first: int, last: int, wants: Sequence[Want]) -> None:
        """Messages from above, for one who reads what the copy does not have; `Got` brings them
        in parts. For very many wants they are all messages: whoever asks judges them again."""
        few = len(wants) <= wire.MAX_FETCHED
        asked = tuple(wants) if few else (Want(">", ""),)
        self._ask(_Fetch(first, last, asked, None, request))

    def cancel(self, request: int) -> None:
        """Nobody waits for what was fetched any more."""
        for id, fetch in list(self._fetches.items()):
            if fetch.ticket is None and fetch.request == request:
                del self._fetches[id]

    def _fetch_above(self, ticket: int, request: Request) -> None:
        self._ask(_Fetch(request.first, request.last, request.wants, ticket))

    def _ask(self, fetch: _Fetch) -> None:
        self._count += 1
        self._fetches[self._count] = fetch
        self._queued.append(self._count)
        self._send_queued()

    def _fetch_again(self) -> None:
        """What was not answered by another parent, and what waited for one."""
        self._purge_fetches()
        self._flying.clear()
        self._queued = deque(self._fetches)
        self._send_queued()

    def _send_queued(self) -> None:
        """Not all at once: a parent takes a bounded number. Before the greeting it does not know
        what is wanted here."""
        while self.child.greeted and self._queued and len(self._flying) < FETCHES:
            id = self._queued.popleft()
            if (fetch := self._fetches.get(id)) is not None:
                self._flying.add(id)
                self._send_fetch(id, fetch)

    def _purge_fetches(self) -> None:
        """Without those of children that are gone."""
        wanted = self.parent.requests
        self._fetches = {
            id: one
            for id, one in self._fetches.items()
            if one.ticket is None or one.ticket in wanted
        }

    def _send_fetch(self, id: int, fetch: _Fetch) -> None:
        assert self.child.link is not None
        frame = wire.Fetch(id, fetch.first, fetch.last, fetch.wants)
        self._effects.append(fx.Send(self.child.link, frame))

    def _fetched(self, frame: wire.Fetched) -> None:
        fetch = self._fetches.pop(frame.id, None)
        self._flying.discard(frame.id)
        self._send_queued()
        if fetch is None:
            return  # nobody waits for it any more
        if frame.first != fetch.first or frame.last > fetch.last:
            raise ProtocolError(f"{frame.first} to {frame.last} was not asked for")
        if fetch.ticket is not None:
            self.parent.fetched_above(fetch.ticket, frame)
            return
        self._effects.append(
            fx.Got(fetch.request, frame.first, frame.last, frame.records, frame.lost)
        )
        if frame.last < fetch.last:
            self._ask(_Fetch(frame.last + 1, fetch.last, fetch.wants, None, fetch.request))

    # --- publishing ----------------------------------------------------------------------------

    def publish(self, request: int, publisher: str, drafts: Sequence[Draft]) -> None:
        """Messages from here; `Answered` says what became of them."""
        self._pass_on(None, wire.Publish(request, publisher, tuple(drafts)))

    def published(
        self, ticket: int, sequences: Sequence[int], error: str = "", *, unknown: bool = False
    ) -> None:
        """(At the home.) What became of what `Admit` asked for."""
        link, id = self._passed.pop(ticket)
        self._answer(link, wire.Published(id, tuple(sequences), error, unknown))

    def _pass_on(self, link: int | None, frame: wire.Publish) -> None:
        self._count += 1
        if self.home:
            self._passed[self._count] = link, frame.id
            self._effects.append(fx.Admit(self._count, link, frame.publisher, frame.drafts))
        elif not self.child.greeted:
            self._answer(link, wire.Published(frame.id, (), CUT_OFF))
        else:
            self._passed[self._count] = link, frame.id
            assert self.child.link is not None
            onward = wire.Publish(self._count, frame.publisher, frame.drafts)
            self._effects.append(fx.Send(self.child.link, onward))

    def _published(self, frame: wire.Published) -> None:
        passed = self._passed.pop(frame.id, None)
        if passed is not None:
            link, id = passed
            self._answer(link, wire.Published(id, frame.sequences, frame.error, frame.unknown))

    def _answer(self, link: int | None, frame: wire.Published) -> None:
        if link is None:
            answer = fx.Answered(frame.id, frame.sequences, frame.error, frame.unknown)
            self._effects.append(answer)
        elif link in self.parent:
            self._effects.append(fx.Send(link, frame))


def _parts(wants: list[Want]) -> Iterator[list[Want]]:
    for at in range(0, len(wants), _STEP):
        yield wants[at : at + _STEP]
