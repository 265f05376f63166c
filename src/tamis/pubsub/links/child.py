"""The child's side of a link: it says what it wants, and takes what comes, in order.

`Router` calls it. `settled` is called when wants are in force, and `covered` when the copy has
wants that it did not have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from tamis.pubsub.broker.epochs import Epochs, epoch_of
from tamis.pubsub.broker.records import Block
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.branch import HELLO
from tamis.pubsub.links.coverage import Coverage
from tamis.pubsub.links.wants import Want, WantSet

INLINE = 100  # wants that are sent with a hello, whether the parent knows them or not
GAP = 0  # the id of the fetch that fills a gap


class ProtocolError(Exception):
    """The parent sent what it must not send."""


@dataclass
class Child:
    """`wants` is all that is asked for, on the link or at the next hello. `asked` are those that
    were not confirmed yet, by id of `Add`; `HELLO` is among the ids until the parent's welcome is
    complete."""

    name: str
    channel: int
    coverage: Coverage
    out: list[fx.Effect]
    covered: Callable[[list[Want], int], None]  # wants that are in force now, and since when
    epochs: Epochs = ()

    def __post_init__(self) -> None:
        self.link: int | None = None
        self.wants = WantSet()
        self.asked: dict[int, set[Want]] = {HELLO: set()}
        self.last_id = HELLO
        self.greeted = False  # the parent has welcomed it on this link
        self.welcomed = False  # and the stream is whole: no gap has to be filled
        self.got = self.coverage.upto  # taken in order, and perhaps not stored yet
        self._storing: deque[tuple[int, Block | None]] = deque()
        self._later: deque[tuple[int, int]] = deque()  # answers that count once that is stored
        self._retiring: dict[Want, int] = {}
        self._gap: tuple[int, int] | None = None
        self._held: list[wire.DownFrame] = []  # what came while a gap was filled
        self._start = 1

    # --- the link ----------------------------------------------------------------------

    def connect(self, link: int) -> None:
        self.disconnected()
        self.link = link
        upto, few = self.got, len(self.wants) <= INLINE
        epoch = "" if upto is None else epoch_of(self.epochs, upto)
        wants = tuple(self.wants) if few else None
        digest, count = self.wants.digest, len(self.wants)
        self._send(wire.Hello(wire.VERSION, self.name, epoch, upto, digest, count, wants))

    def disconnected(self) -> None:
        """Wants that were about to go are gone: the next hello does not name them."""
        self.link, self.greeted, self.welcomed = None, False, False
        self.asked, self._gap = {HELLO: set()}, None
        self._held.clear()
        self._later.clear()
        self._retire()

    def reset(self) -> None:
        """The copy is dropped."""
        self.disconnected()
        self._storing.clear()
        self.coverage.since.clear()
        self.coverage.upto = self.got = None
        self.coverage.oldest, self.epochs = 1, ()

    def _send(self, frame: wire.UpFrame) -> None:
        if self.link is not None:
            self.out.append(fx.Send(self.link, frame))

    def receive(self, frame: wire.DownFrame) -> None:
        if self._gap is not None and not isinstance(frame, wire.Unknown | wire.Fetched):
            self._held.append(frame)
            return
        match frame:
            case wire.Unknown():
                self._send_wants()
            case wire.Welcome(first):
                self._welcome(first)
            case wire.Data(first, last, records):
                self._in_order(first)
                self._take(Block(self.channel, records, covers=(first, last)))
            case wire.Added(id, first):
                self._in_order(first)
                self._when_stored(id, first)
            case wire.Fetched():
                self._fill(frame)
            case _:
                raise ProtocolError(f"{type(frame).__name__} is not expected")

    def _in_order(self, first: int) -> None:
        if not self.welcomed or self.got is None or first != self.got + 1:
            raise ProtocolError(f"sequence {first} does not follow {self.got}")

    def _send_wants(self) -> None:
        wants, most = list(self.wants), wire.MAX_WANTS
        for at in range(0, max(len(wants), 1), most):
            self._send(wire.Wants(tuple(wants[at : at + most]), at + most < len(wants)))

    # --- the stream ---------------------------------------------------------------------

    def _welcome(self, first: int) -> None:
        if self.got is None:
            self.got = first - 1
            self._begin(first)
        if first <= self.got:
            raise ProtocolError(f"sequence {first} is here already: {self.got} was the last")
        self._start, self.greeted = self.got + 1, True
        if first > self._start:
            self._ask_gap(self._start, first - 1)
        else:
            self._filled()

    def _ask_gap(self, first: int, last: int) -> None:
        self._gap = first, last
        self._send(wire.Fetch(GAP, first, last, None))

    def _fill(self, frame: wire.Fetched) -> None:
        gap = self._gap
        if gap is None or frame.first != gap[0] or frame.last > gap[1]:
            raise ProtocolError(f"{frame.first} to {frame.last} was not asked for")
        if frame.lost:
            self.got = frame.last
            self._begin(frame.last + 1)
        else:
            self._take(Block(self.channel, frame.records, covers=(frame.first, frame.last)))
        if frame.last < gap[1]:
            self._ask_gap(frame.last + 1, gap[1])
            return
        self._gap = None
        self._filled()
        while self._held and self._gap is None:
            self.receive(self._held.pop(0))

    def _filled(self) -> None:
        """The stream is whole from here on."""
        if not self.welcomed:
            self.welcomed = True
            self._when_stored(HELLO, self._start)

    def _take(self, block: Block) -> None:
        self.got = block.last
        self._storing.append((block.last, block))
        self.out.append(fx.Store(block))

    def _begin(self, first: int) -> None:
        """What is older than `first` is not to be had any more."""
        self.coverage.oldest = first
        self._storing.append((first - 1, None))
        self.out.append(fx.Begin(first))

    def stored(self, last: int) -> Iterator[Block | None]:
        """All up to the sequence is in the copy: these blocks, None for each new beginning."""
        while self._storing and self._storing[0][0] <= last:
            self.coverage.upto, block = self._storing.popleft()
            yield block
        if self.coverage.upto is not None and self.welcomed:
            self._send(wire.Ack(self.coverage.upto))
        self._confirm_stored()

    # --- wants --------------------------------------------------------------------------

    def change(self, came: Iterable[Want], gone: Iterable[Want]) -> None:
        """More wants, and fewer. What goes is asked for until all that came up to now is in force:
        one may stand for the other."""
        retiring = self._retiring
        new = []
        for want in came:
            if retiring.pop(want, None) is None and self.wants.add(want):
                new.append(want)
        if self.link is not None:
            self._add(new)
        for want in gone:
            if want in self.wants:
                retiring[want] = self.last_id
        self._retire()

    def _add(self, wants: list[Want]) -> None:
        for at in range(0, len(wants), wire.MAX_WANTS):
            part = tuple(wants[at : at + wire.MAX_WANTS])
            self.last_id += 1
            self.asked[self.last_id] = set(part)
            self._send(wire.Add(self.last_id, part))

    @property
    def floor(self) -> int:
        """All ids below this one are answered."""
        return min(self.asked, default=self.last_id + 1)

    def _retire(self) -> None:
        floor = self.floor if self.link is not None else self.last_id + 1
        retiring = self._retiring.items()  # in the order of their ids
        gone = [want for want, _ in takewhile(lambda one: one[1] < floor, retiring)]
        for want in gone:
            del self._retiring[want]
            self.wants.discard(want)
            self.coverage.since.pop(want, None)
        for at in range(0, len(gone), wire.MAX_WANTS):
            self._send(wire.Remove(tuple(gone[at : at + wire.MAX_WANTS])))

    def _when_stored(self, id: int, first: int) -> None:
        if id in self.asked:
            self._later.append((id, first))
            self._confirm_stored()

    def _confirm_stored(self) -> None:
        if self.coverage.upto is None:
            return  # where the copy begins is not stored yet
        while self._later and self._later[0][1] <= self.coverage.next:
            self._confirm(*self._later.popleft())

    def _confirm(self, id: int, first: int) -> None:
        wants = self.asked.pop(id)
        since = self.coverage.since
        if id == HELLO:
            later = set[Want]().union(*self.asked.values())
            wants = {want for want in self.wants if want not in later and want not in since}
        for want in wants:
            since[want] = first
        self.covered(list(wants), first)
        self._retire()
