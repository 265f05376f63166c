"""The parent's side of links: it welcomes children, and sends each what it wants.

`Router` calls it. `tell` is called with wants that come and go, as soon as they do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tamis.pubsub.broker.epochs import Epochs, agreed
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.branch import HELLO, Branch, size_of
from tamis.pubsub.links.coverage import Coverage
from tamis.pubsub.links.sieve import Sieve
from tamis.pubsub.links.wants import Want

READ = 2_000  # records that are read for a child at a time
PART = 512 << 10  # bytes of messages in one frame, but for one large message
MAX_FETCHES = 64  # that a child may wait for


@dataclass(frozen=True, slots=True)
class ParentLimits:
    """What bounds the memory that children take."""

    children: int = 1_000
    wants: int = 2_000_000  # of one child


@dataclass(slots=True)
class _Guest:
    """A link: whose it is, and the child that said hello on it."""

    principal: str
    bound: str
    branch: Branch | None = None


@dataclass(slots=True)
class Request:
    """A part of the copy that is being read for a child. `id` None: the child is behind; else it
    fetches, `wants` None: whatever it wants."""

    branch: Branch
    link: int
    first: int
    last: int
    id: int | None = None
    wants: tuple[Want, ...] | None = None


@dataclass
class Parent:
    name: str
    language: Language
    coverage: Coverage
    out: list[fx.Effect]
    tell: Callable[[Iterable[Want], Iterable[Want]], None]
    fetch_above: Callable[[int, Request], None]
    limits: ParentLimits = field(default_factory=ParentLimits)
    path: tuple[str, ...] = ()  # from this router to the home
    epochs: Epochs = ()
    draining: str = ""

    def __post_init__(self) -> None:
        self.sieve = Sieve(self.language)
        self.branches: dict[str, Branch] = {}
        self.requests: dict[int, Request] = {}
        self._guests: dict[int, _Guest] = {}
        self._by_child: dict[int, Branch] = {}
        self._awaiting: dict[Want, set[tuple[int, int]]] = {}  # children, and ids of `Add`
        self._leaving: deque[tuple[int, list[Want]]] = deque()  # children, forgotten
        self._count = 0

    # --- links ---------------------------------------------------------------------

    def accept(self, link: int, principal: str, bound: str) -> None:
        self._guests[link] = _Guest(principal, bound)

    def __contains__(self, link: object) -> bool:
        return link in self._guests

    def greeted(self, link: int) -> bool:
        """Whether a child has said hello on it."""
        return self._guests[link].branch is not None

    def receive(self, link: int, frame: wire.UpFrame) -> None:
        guest = self._guests[link]
        if isinstance(frame, wire.Hello):
            self._hello(link, guest, frame)
            return
        branch = guest.branch
        if branch is None:
            self.refuse(link, "a link begins with a hello")
            return
        match frame:
            case wire.Wants():
                self._parts(branch, frame)
            case wire.Add():
                self._add(branch, frame)
            case wire.Remove():
                self._remove(branch, [want for want in frame.wants if branch.wants.discard(want)])
            case wire.Ack():
                branch.acknowledge(frame.upto)
                self._go_on(branch)
            case wire.Fetch():
                self._fetch(branch, frame)

    def disconnected(self, link: int) -> None:
        """Its wants stay, until it comes back or `forget` is called."""
        guest = self._guests.pop(link)
        if guest.branch is not None:
            self._detach(guest.branch)

    def forget(self, name: str) -> None:
        """A child that is gone will not come back soon: `tidy` lets go of what it wants."""
        branch = self.branches.get(name)
        if branch is None or branch.link is not None:
            return
        del self.branches[name], self._by_child[branch.child]
        self._leaving.append((branch.child, list(branch.wants)))

    def tidy(self, most: int) -> bool:
        """Let go of up to `most` wants of children that were forgotten. Whether more are left."""
        while self._leaving and most > 0:
            child, wants = self._leaving[0]
            gone = wants[-most:]
            del wants[-most:]
            self.sieve.remove(child, gone)
            self.tell((), gone)
            if not wants:
                self.sieve.close(child)
                self._leaving.popleft()
            most -= len(gone) or 1
        return bool(self._leaving)

    def refuse(self, link: int, reason: str, common: int | None = None) -> None:
        self.out.append(fx.Send(link, wire.Refused(reason, common)))
        self.out.append(fx.Close(link, reason))
        self.disconnected(link)

    def _detach(self, branch: Branch) -> None:
        for id, wants in branch.missing.items():
            for want in wants:
                self._wait_no_more(want, branch.child, id)
        for ticket in branch.fetches:
            self.requests.pop(ticket, None)
        branch.connect(None, "", None)

    # --- hello -----------------------------------------------------------------------

    def _hello(self, link: int, guest: _Guest, hello: wire.Hello) -> None:
        reason = self._objection(guest, hello)
        if reason:
            self.refuse(link, reason)
            return
        branch = self._branch_for(guest, hello.name)
        branch.connect(link, hello.epoch, hello.upto)
        guest.branch = branch
        self.out.append(fx.Send(link, wire.Above(self.path, self.epochs)))
        if hello.wants is not None:
            self._replace_wants(branch, hello.wants)
        elif hello.digest == branch.wants.digest:
            self._begin_greeting(branch)
        else:
            branch.parts = set()
            self.out.append(fx.Send(link, wire.Unknown()))

    def _objection(self, guest: _Guest, hello: wire.Hello) -> str:
        known = self.branches.get(hello.name)
        if guest.branch is not None:
            return "a second hello on the same link"
        if self.draining:
            return self.draining
        if hello.name in self.path:
            return cycle(hello.name, self.path)
        if len(self.path) >= wire.MAX_PATH:
            return too_long(self.path)
        if known is not None and known.principal != guest.principal:
            return f"another principal has a router {hello.name!r}: give yours another name"
        if known is None and len(self.branches) >= self.limits.children:
            return f"{self.name} has {self.limits.children:,} children already (children)"
        if hello.count > self.limits.wants:
            return f"more than {self.limits.wants:,} wants (wants)"
        return ""

    def _branch_for(self, guest: _Guest, name: str) -> Branch:
        """The child of this name; it has no link afterwards."""
        known = self.branches.get(name)
        if known is not None and known.link is not None:
            self.out.append(fx.Close(known.link, f"{name} has connected anew"))
            self.disconnected(known.link)
        if known is not None and known.bound != guest.bound:
            self.forget(name)
            known = None
        if known is None:
            self._count += 1
            known = Branch(name, guest.principal, guest.bound, self._count)
            self.branches[name] = self._by_child[known.child] = known
            self.sieve.open(known.child, known.bound)
        return known

    def _parts(self, branch: Branch, frame: wire.Wants) -> None:
        if branch.parts is None or branch.link is None:
            return
        branch.parts.update(frame.wants)
        if len(branch.parts) > self.limits.wants:
            self.refuse(branch.link, f"more than {self.limits.wants:,} wants (wants)")
            return
        self._take_in(branch, frame.wants)
        if not frame.more:
            wants, branch.parts = branch.parts, None
            self._replace_wants(branch, wants)

    def _take_in(self, branch: Branch, wants: Iterable[Want]) -> None:
        came = [want for want in wants if branch.wants.add(want)]
        self.sieve.put(branch.child, came)
        self.tell(came, ())

    def _replace_wants(self, branch: Branch, wants: Collection[Want]) -> None:
        self._take_in(branch, wants)
        kept = set(wants)
        gone = [want for want in branch.wants if want not in kept]
        for want in gone:
            branch.wants.discard(want)
        self.sieve.remove(branch.child, gone)
        self.tell((), gone)
        self._begin_greeting(branch)

    def _begin_greeting(self, branch: Branch) -> None:
        self._await(branch, HELLO, branch.wants)
        self._greet(branch)

    def _greet(self, branch: Branch) -> None:
        """Welcome a child, once all that it wants has coverage, and nothing is missing here."""
        coverage, link = self.coverage, branch.link
        if not branch.greeting or link is None or branch.parts is not None:
            return
        if branch.missing.get(HELLO) or coverage.upto is None or not self.epochs:
            return
        upto = coverage.upto if branch.upto is None else branch.upto
        if branch.upto is not None and self._forked(link, branch.epoch, upto):
            return
        first = max(upto + 1, branch.since.get(HELLO, 1), coverage.oldest)
        if first > coverage.upto + 1:
            return  # the child knows more than this router does yet
        branch.greeting = False
        branch.missing.pop(HELLO, None)
        self._welcome(branch, first)
        self._go_on(branch)

    def _forked(self, link: int, epoch: str, upto: int) -> bool:
        common = agreed(self.epochs, epoch, upto)
        if self.coverage.whole:
            common = min(common, self.coverage.next - 1)
        if common == upto:
            return False
        self.refuse(link, f"your copy is of another log: it agrees up to {common:,} only", common)
        return True

    def _welcome(self, branch: Branch, first: int) -> None:
        assert branch.link is not None
        self.out.append(fx.Send(branch.link, wire.Welcome(first)))
        branch.sent = branch.level = first - 1

    def above_changed(self, path: tuple[str, ...], epochs: Epochs) -> None:
        """Another way to the home, or another epoch of its log."""
        self.path, self.epochs = path, epochs
        for branch in list(self.branches.values()):
            if branch.link is None:
                continue
            if branch.name in path:
                self.refuse(branch.link, cycle(branch.name, path))
                continue
            if len(path) >= wire.MAX_PATH:
                self.refuse(branch.link, too_long(path))
                continue
            self.out.append(fx.Send(branch.link, wire.Above(path, epochs)))
            self._greet(branch)

    # --- wants -------------------------------------------------------------------------

    def _await(self, branch: Branch, id: int, wants: Iterable[Want]) -> None:
        """Note which of the wants have no coverage yet, and from where on the others have it."""
        missing, since = set[Want](), 1
        of = self.coverage.of
        for want in wants:
            start = of(want)
            if start is None:
                missing.add(want)
                self._awaiting.setdefault(want, set()).add((branch.child, id))
            elif start > since:
                since = start
        branch.missing[id], branch.since[id] = missing, since

    def _wait_no_more(self, want: Want, child: int, id: int) -> None:
        waiting = self._awaiting.get(want)
        if waiting is not None:
            waiting.discard((child, id))
            if not waiting:
                del self._awaiting[want]

    def _add(self, branch: Branch, frame: wire.Add) -> None:
        link = branch.link
        assert link is not None
        if frame.id <= branch.last_id:
            self.refuse(link, "ids of wants count upward")
            return
        if len(branch.wants) + len(frame.wants) > self.limits.wants:
            self.refuse(link, f"more than {self.limits.wants:,} wants (wants)")
            return
        branch.last_id = frame.id
        if branch.level > branch.sent:  # what lies between was not judged by these wants
            self._send(branch, branch.level, [])
        self._take_in(branch, frame.wants)
        self._await(branch, frame.id, frame.wants)
        self._settle(branch, frame.id)

    def _remove(self, branch: Branch, gone: list[Want]) -> None:
        self.sieve.remove(branch.child, gone)
        for id, missing in list(branch.missing.items()):
            for want in missing.intersection(gone):
                missing.discard(want)
                self._wait_no_more(want, branch.child, id)
            self._settle(branch, id)
        self.tell((), gone)

    def covered(self, wants: Iterable[Want]) -> None:
        """The copy has these now, as `coverage` says from where on."""
        touched: dict[tuple[int, int], None] = {}
        for want in wants:
            since = self.coverage.of(want) or 1
            for child, id in self._awaiting.pop(want, ()):
                branch = self._by_child[child]
                branch.missing[id].discard(want)
                branch.since[id] = max(branch.since[id], since)
                touched[child, id] = None
        for child, id in touched:
            self._settle(self._by_child[child], id)

    def _settle(self, branch: Branch, id: int) -> None:
        if branch.missing.get(id):
            return
        if id == HELLO:
            self._greet(branch)
        elif branch.missing.pop(id, None) is not None:
            branch.ready.append(id)
            self._answer(branch)

    def _answer(self, branch: Branch) -> None:
        """Say of wants that they are in force, where the stream is so far that they are."""
        if not branch.ready or not branch.streaming:
            return
        assert branch.link is not None
        if any(branch.since[id] > branch.sent + 1 for id in branch.ready):
            self._flush(branch)
        late = []
        for id in branch.ready:
            if branch.since[id] > branch.sent + 1:
                late.append(id)
                continue
            del branch.since[id]
            self.out.append(fx.Send(branch.link, wire.Added(id, branch.sent + 1)))
        branch.ready = late

    # --- messages ----------------------------------------------------------------------

    def advance(self, block: Block) -> None:
        """A block is in the copy now."""
        keen = [b for b in self.branches.values() if b.level == block.first - 1 and b.open]
        sifted = self.sieve.sift(block.records) if keen and block.records else {}
        for branch in keen:
            if branch.reading:
                continue
            if found := sifted.get(branch.child):
                self._send(branch, block.last, found)
            else:
                branch.level = block.last
        for branch in list(self.branches.values()):
            if branch.greeting:
                self._greet(branch)
            elif branch.ready:
                self._answer(branch)

    def tick(self) -> None:
        """Tell children how far the channel is, if nothing has reached them lately."""
        for branch in self.branches.values():
            self._flush(branch)

    def _flush(self, branch: Branch) -> None:
        if branch.open and branch.level > branch.sent:
            self._send(branch, branch.level, [])

    def _send(self, branch: Branch, last: int, records: list[Record]) -> None:
        """All that the child wants up to `last`, in frames that are not too large."""
        assert branch.link is not None
        parts = _parts(records)
        for part in parts:
            end = last if part is parts[-1] else part[-1].sequence
            self.out.append(fx.Send(branch.link, wire.Data(branch.sent + 1, end, part)))
            branch.fly(end, part)
            branch.sent = end
        branch.level = last
        self._answer(branch)

    def _go_on(self, branch: Branch) -> None:
        """Read what a child has not been told of, if it may be sent more."""
        coverage = self.coverage
        if not branch.open or branch.reading or coverage.upto is None:
            return
        if branch.level >= coverage.upto:
            self._answer(branch)
            return
        if branch.level + 1 < coverage.oldest:  # it is gone here: the child has to fetch it
            self._welcome(branch, coverage.oldest)
            self._go_on(branch)
            return
        branch.reading = True
        assert branch.link is not None
        self._read(Request(branch, branch.link, branch.level + 1, coverage.upto))

    def go_on(self) -> None:
        """The copy begins later than it did."""
        for branch in self.branches.values():
            self._go_on(branch)

    def pause(self, name: str, *, paused: bool) -> None:
        """Send nothing to a child for a while, or go on."""
        self.branches[name].paused = paused
        self._go_on(self.branches[name])

    def drain(self, reason: str) -> None:
        """Ask all children to go elsewhere, and take no more."""
        self.draining = reason
        for branch in self.branches.values():
            if branch.link is not None:
                self.out.append(fx.Send(branch.link, wire.Drain(reason)))

    # --- reading -------------------------------------------------------------------------

    def _read(self, request: Request) -> None:
        ticket = self._ticket(request)
        self.out.append(fx.Read(ticket, request.first, request.last, READ))

    def _ticket(self, request: Request) -> int:
        self._count += 1
        self.requests[self._count] = request
        if request.id is not None:
            request.branch.fetches.add(self._count)
        return self._count

    def _done(self, ticket: int) -> Request | None:
        """The request, if the child still waits for it."""
        request = self.requests.pop(ticket, None)
        if request is None or request.branch.link != request.link:
            return None
        request.branch.fetches.discard(ticket)
        return request

    def read_done(self, ticket: int, through: int, records: list[Record]) -> None:
        """All records of the copy from where the request began, `through` included."""
        request = self._done(ticket)
        if request is None:
            return
        branch = request.branch
        if request.id is not None:
            self._fetched(request, through, records, lost=False)
            return
        branch.reading = False
        if branch.level + 1 == request.first:
            if found := self.sieve.sift_for(branch.child, records):
                self._send(branch, through, found)
            else:
                branch.level = through
        self._go_on(branch)

    def read_failed(self, ticket: int, through: int) -> None:
        """The copy cannot be read from there `through` that sequence: somebody above has it."""
        request = self._done(ticket)
        if request is None:
            return
        branch = request.branch
        if request.id is not None and not self.coverage.whole:
            self.fetch_above(self._ticket(request), request)
            return
        if request.id is not None:
            self._fetched(request, through, [], lost=True)
            return
        branch.reading = False
        if branch.level + 1 == request.first:
            self._welcome(branch, through + 1)
        self._go_on(branch)

    def _fetch(self, branch: Branch, frame: wire.Fetch) -> None:
        assert branch.link is not None
        if len(branch.fetches) >= MAX_FETCHES:
            self.refuse(branch.link, f"more than {MAX_FETCHES} fetches at once")
            return
        request = Request(branch, branch.link, frame.first, frame.last, frame.id, frame.wants)
        coverage = self.coverage
        here = frame.last < coverage.next
        if coverage.whole and not here:
            self.refuse(branch.link, f"a fetch up to {frame.last:,}, which is still to come")
        elif coverage.whole and frame.first < coverage.oldest:
            self._fetched(request, min(frame.last, coverage.oldest - 1), [], lost=True)
        elif here and coverage.oldest <= frame.first and self._has(request):
            self._read(request)
        else:
            self.fetch_above(self._ticket(request), request)

    def _has(self, request: Request) -> bool:
        """Whether the copy has all of it."""
        if self.coverage.whole:
            return True
        wants = request.branch.wants if request.wants is None else request.wants
        of, first = self.coverage.of, request.first
        return all((start := of(want)) is not None and start <= first for want in wants)

    def fetched_above(self, ticket: int, frame: wire.Fetched) -> None:
        request = self._done(ticket)
        if request is not None:
            self._fetched(request, frame.last, list(frame.records), lost=frame.lost)

    def _fetched(
        self, request: Request, through: int, records: list[Record], *, lost: bool
    ) -> None:
        """A first part of what a child fetches; the child asks for the rest."""
        child, id = request.branch.child, request.id
        assert id is not None
        if request.wants is None:
            found = self.sieve.sift_for(child, records)
        else:
            found = self.sieve.sift_by(request.wants, child, records)
        parts = _parts(found)
        last = through if len(parts) == 1 else parts[0][-1].sequence
        frame = wire.Fetched(id, request.first, last, parts[0], lost)
        self.out.append(fx.Send(request.link, frame))


def _parts(records: Sequence[Record]) -> list[tuple[Record, ...]]:
    """At least one part, each but the last one not empty."""
    if size_of(records) <= PART:
        return [tuple(records)]
    parts: list[list[Record]] = [[]]
    size = 0
    for record in records:
        size += size_of([record])
        if parts[-1] and size > PART:
            parts.append([])
            size = size_of([record])
        parts[-1].append(record)
    return [tuple(part) for part in parts]


def too_long(path: tuple[str, ...]) -> str:
    return f"the way from {path[0]} to the home has {len(path)} routers already (path)"


def cycle(name: str, path: tuple[str, ...]) -> str:
    return f"{name} would feed itself: the way to the home is {' > '.join((name, *path))}"
