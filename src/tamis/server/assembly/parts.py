"""The parts of a server that every protocol uses."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.errors import BusyError
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.machine import BrokerLimits
from tamis.pubsub.broker.subscription import Subscription
from tamis.registry import AuditEntry
from tamis.schema import Schema
from tamis.server import folder
from tamis.server.access import Caller, Door
from tamis.server.channels import Channels, Open
from tamis.server.deliveries import Deliveries, MailServer
from tamis.server.deliveries.sealing import KEY, Sealing
from tamis.server.frames import Frames
from tamis.server.history import History
from tamis.server.hub import Hub
from tamis.server.links.network import Network
from tamis.server.links.uplink import name_of
from tamis.server.pauses import Pauses
from tamis.server.publishing import Publishing
from tamis.server.recognition import Recognition
from tamis.server.retention import Retention
from tamis.server.sockets.gate import Gate
from tamis.server.spaces import Spaces
from tamis.server.spelling import Spelling
from tamis.server.subscribing import Subscribing, Wish, shown
from tamis.server.turns import Pool
from tamis.server.visits import Visits

_PROVING = 1.0  # seconds that are spent on comparing a subscription with others
PROOF_THREADS, QUESTION_THREADS = 2, 2
WAITING = 100  # proofs, and questions, of one principal that wait for a thread


@dataclass
class Parts:
    directory: Path
    hub: Hub
    door: Door
    recognition: Recognition
    proofs: Pool  # of covering, whose cost the one who asks decides
    questions: Pool  # other work that would hold up the event loop
    channels: Channels
    publishing: Publishing
    network: Network
    subscribing: Subscribing
    frames: Frames
    frames_with_origin: Frames
    deliveries: Deliveries
    spaces: Spaces
    history: History
    visits: Visits
    retention: Retention
    pauses: Pauses
    gate: Gate
    spelling: Spelling
    reports: Path | None = None  # the folder of reports of `tamis run`

    @classmethod
    def at(
        cls,
        directory: Path,
        gate: Gate | None = None,
        *,
        local: bool,
        limits: BrokerLimits | None = None,
        mail: MailServer | None = None,
        webhook_key: Path | None = None,
        name: str = "",
    ) -> Parts:
        log, registry, unlock = folder.opened(directory)
        hub = Hub(log, registry, limits)
        hub.closed.append(unlock)
        door = Door(hub.registry, local)
        channels = Channels(hub, directory / "matchers")
        visits = Visits(hub, door, channels)
        sealing = Sealing(webhook_key or directory / KEY)
        subscribing = Subscribing(hub, visits)
        deliveries = Deliveries(hub, mail, channels, door, sealing)
        visits.also.append(deliveries.review)
        recognition = Recognition(door)
        proofs = Pool("proofs", PROOF_THREADS, 1, WAITING)
        questions = Pool("questions", QUESTION_THREADS, 1, WAITING)
        publishing = Publishing(hub)
        network = Network(hub, channels, publishing, name or name_of(directory))
        network.kick = visits.kick
        hub.last += [recognition.close, proofs.close, questions.close, publishing.checking.close]
        return cls(directory, hub, door, recognition, proofs, questions, channels, publishing,
                   network, subscribing, Frames(), Frames(origin=True), deliveries,
                   Spaces(channels, subscribing), History(hub), visits,
                   Retention(hub, channels), Pauses(), gate or Gate(), Spelling(hub))  # fmt: skip

    def start(self) -> None:
        self.hub.start()
        self.channels.load()
        self.network.start()
        self.deliveries.load()
        self.spaces.load()
        self.history.start()
        self.visits.start()
        self.retention.start()
        _warm()
        self.pauses.start()
        self.hub.last.append(self.pauses.stop)

    async def notes(self, caller: Caller, channel: Open, wish: Wish, name: str = "") -> list[str]:
        """In a thread, and not for ever: proofs can take long. Without a thread, only those on the
        names of attributes."""
        names, proved = await self.spelling.of_selector(caller, channel, wish.selector), list[str]()
        with contextlib.suppress(TimeoutError, BusyError):
            notes = self.subscribing.notes
            work = self.proofs.run(caller.name, notes, caller, channel, wish, name)
            proved = await asyncio.wait_for(work, _PROVING)
        return names + proved

    def shown(self, channel: Open, one: Subscription) -> dict[str, Any]:
        """A subscription as JSON shows it; `problem` also says why it is not delivered."""
        problem = one.problem or self.deliveries.problem(one.key)
        return {**shown(one, channel.live.matched), "problem": problem}

    def audit_soon(self, caller: Caller, action: str, target: str) -> None:
        """The same for what happens often: nobody's answer waits for another commit."""
        self.hub.audits.append(_audited(caller, action, target))

    async def audit(self, caller: Caller, action: str, target: str) -> None:
        self.hub.audits.append(_audited(caller, action, target))
        await self.hub.flush_audits()


def _audited(caller: Caller, action: str, target: str) -> AuditEntry:
    return AuditEntry(int(time.time() * 1e6), caller.name, action, target, caller.tenant)


def _warm() -> None:
    """Load the compiled kernels before anybody connects. A thread that loads them meanwhile would
    hold up all others for a second."""
    judge = Judge(Language(Schema(())))
    judge.add(1, "a.*", "price < 10 AND symbol = 'x'")
    for count in (1, 100):
        judge.match([("a.b", {"price": 5.0, "symbol": "x"})] * count)
    if judge.matcher.example(1) is not None:
        judge.matcher.covers(1, 1)
