"""Flows of the broker: their source spaces are channels, their derived spaces can be subscribed to.

`FLOW/SPACE` names a space where otherwise the name of a channel stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tamis.errors import InputError, RegistryError, SubscriptionError, TamisError
from tamis.pubsub.broker.shapes import Question, Shape, questions
from tamis.pubsub.broker.subscription import Subscription
from tamis.registry import FlowEntry
from tamis.server.access import Caller
from tamis.server.channels import Channels, Open
from tamis.server.subscribing import Subscribing, Wish, moment

if TYPE_CHECKING:
    from tamis.flow import Graph
    from tamis.flow.model.lookups import Table


class FlowForm(msgspec.Struct, forbid_unknown_fields=True):
    """A flow as JSON says it.

    `channels` names the channel of a source space, if it has another name. `lookups` are tables:
    an object, or pairs of key and value.
    """

    text: str
    channels: dict[str, str] = {}
    lookups: dict[str, Any] = {}


@dataclass(frozen=True)
class OpenFlow:
    entry: FlowEntry
    graph: Graph
    tables: dict[str, Table]

    def channel(self, source: str) -> str:
        return self.entry.channels.get(source, source)

    @property
    def sources(self) -> list[str]:
        """The spaces whose messages come from a channel."""
        graph, named = self.graph, self.entry.channels
        return [s for s in graph.published if s in named or s not in graph.derived]


class Spaces:
    def __init__(self, channels: Channels, subscribing: Subscribing) -> None:
        self.channels, self.subscribing = channels, subscribing
        self._flows: dict[tuple[str, str], OpenFlow] = {}

    def load(self) -> None:
        hub = self.channels.hub
        for entry in hub.registry.flows():
            try:
                self._flows[entry.tenant, entry.name] = opened(entry)
            except TamisError as error:  # the others go on; it can be put again
                hub.watch.fault(f"flow {entry.name} of tenant {entry.tenant}", error)

    # --- flows ----------------------------------------------------------------------

    def get(self, caller: Caller, name: str) -> OpenFlow:
        """A flow of the caller's tenant on a channel that it sees; any other looks as if there were
        none."""
        caller.require_any()
        found = self._flows.get((caller.tenant, name))
        if found is None or not self._sees(caller, found):
            raise RegistryError(f"there is no flow {name}", status=404)
        return found

    def visible(self, caller: Caller) -> list[OpenFlow]:
        caller.require_any()
        own = [flow for (tenant, _), flow in self._flows.items() if tenant == caller.tenant]
        return [flow for flow in own if self._sees(caller, flow)]

    def _sees(self, caller: Caller, flow: OpenFlow) -> bool:
        return any(caller.sees(flow.channel(source)) for source in flow.sources)

    async def put(self, caller: Caller, name: str, form: FlowForm) -> OpenFlow:
        """Make it or change it; who manages all its channels may, of an older flow, too."""
        known = self._flows.get((caller.tenant, name))
        if known is not None:
            if not self._sees(caller, known):
                raise RegistryError(
                    f"there is a flow {name} already: choose another name", status=409
                )
            self._require_manage(caller, known)
        entry = FlowEntry(caller.tenant, name, form.text, form.channels, form.lookups)
        flow = opened(entry)
        if not flow.sources:
            raise InputError("the flow has no source space: declare one for each channel")
        for source in flow.sources:
            channel = self.channels.get(caller, flow.channel(source))
            caller.require("manage", channel.entry.name)
            _check_source(flow.graph, source, channel)
        hub = self.channels.hub
        await hub.in_registry(hub.registry.put_flow, entry)
        self._flows[caller.tenant, name] = flow
        return flow

    def _require_manage(self, caller: Caller, flow: OpenFlow) -> None:
        for source in flow.sources:
            caller.require("manage", flow.channel(source))

    async def end(self, caller: Caller, name: str) -> None:
        flow = self.get(caller, name)
        self._require_manage(caller, flow)
        hub = self.channels.hub
        await hub.in_registry(hub.registry.remove_flow, caller.tenant, name)
        self._flows.pop((caller.tenant, name), None)  # two may have asked for it

    # --- subscriptions ----------------------------------------------------------------

    async def keep(
        self, caller: Caller, place: str, name: str, wish: Wish, delivery: dict[str, str | int]
    ) -> dict[str, Subscription]:
        """A durable subscription on FLOW/SPACE that no session holds. One that the broker brings
        somewhere keeps the flow as it is now."""
        flow = self.get(caller, place.partition("/")[0])
        if delivery:
            form = msgspec.json.encode(
                FlowForm(flow.entry.text, flow.entry.channels, flow.entry.lookups)
            )
            delivery = {**delivery, "space": place, "select": wish.selector, "flow": form.decode()}
        made = {}
        for channel, own, _ in self._asked(caller, place, wish, {}, True):
            made[channel.entry.name] = await self.subscribing.durable(
                caller, channel, name, own, delivery=delivery
            )
        return made

    def kept(self, caller: Caller, place: str, name: str) -> list[tuple[Open, Subscription]]:
        """The parts of such a subscription; SubscriptionError where there is none."""
        flow, space = self._space(caller, place)
        channels = [self.channels.get(caller, flow.channel(q.source))
                    for q in questions(flow.graph, space, "")
                    if q.source in flow.sources]  # fmt: skip
        found = [(c, one) for c in channels
                 if (one := c.live.subscriptions.get(name)) is not None
                 and self.subscribing.shows(caller, c, one)]  # fmt: skip
        if not found:
            for channel in channels:
                caller.require_subscriptions(channel.entry.name)
            raise SubscriptionError(f"there is no subscription {name}", status=404)
        return found

    async def subscribe(
        self, caller: Caller, place: str, session: int, name: str, wish: Wish,
        starts: dict[str, int], durable: bool,
    ) -> dict[str, Subscription]:  # fmt: skip
        """A subscription on FLOW/SPACE, as one on each source channel, by the channel's name."""
        made: dict[str, Subscription] = {}
        try:
            for channel, own, shape in self._asked(caller, place, wish, starts, durable):
                if durable:
                    one = await self.subscribing.durable(
                        caller, channel, name, own, session, shape=shape
                    )
                else:
                    one = await self.subscribing.live(
                        caller, channel, session, name, own, shape=shape
                    )
                made[channel.entry.name] = one
        except BaseException:
            for one in made.values():
                leave(self.channels.hub.broker, session, one)
            raise
        return made

    def check(
        self, caller: Caller, place: str, wish: Wish, starts: dict[str, int], durable: bool = False
    ) -> list[Open]:
        """Refuse what `subscribe` would refuse; else the channels that it would ask."""
        found = self._asked(caller, place, wish, starts, durable)
        if isinstance(wish.start, str) and wish.start not in ("now", "all"):
            moment(wish.start)
        return [channel for channel, _, _ in found]

    def _asked(
        self, caller: Caller, place: str, wish: Wish, starts: dict[str, int], durable: bool
    ) -> list[tuple[Open, Wish, Shape]]:
        """All is checked before the first subscription is made."""
        flow, space = self._space(caller, place)
        if wish.summary or wish.catch_up != "all" or isinstance(wish.start, int):
            raise SubscriptionError("a space has neither summaries nor sequences of its own")
        found = []
        for question in questions(flow.graph, space, wish.selector):
            if durable and not question.exact:
                raise SubscriptionError(
                    f"what {space} asks of {question.source} depends on a lookup: "
                    "such a subscription cannot be durable"
                )
            if question.source not in flow.sources:
                continue  # nothing is published there
            channel = self.channels.get(caller, flow.channel(question.source))
            start = starts.get(channel.entry.name, wish.start)
            own = Wish(question.selector, wish.subjects, start, wish.window)
            self.subscribing.check(caller, channel, own)
            found.append((channel, own, _shape(flow, question, channel)))
        if not found:
            raise SubscriptionError(f"no message can reach {space} and satisfy this selector")
        return found

    def _space(self, caller: Caller, place: str) -> tuple[OpenFlow, str]:
        name, _, space = place.partition("/")
        flow = self.get(caller, name)
        flow.graph.space(space)
        return flow, space


def _shape(flow: OpenFlow, question: Question, channel: Open) -> Shape:
    return Shape(channel.entry.name, question.ways, flow.tables, channel.live.language.read)


def kept_shape(delivery: dict[str, str | int], channel: Open) -> Shape | None:
    """What becomes of messages that the broker brings somewhere; None: nothing."""
    if "space" not in delivery:
        return None
    name, _, space = str(delivery["space"]).partition("/")
    form = msgspec.json.decode(str(delivery["flow"]), type=FlowForm)
    entry = FlowEntry(channel.entry.tenant, name, form.text, form.channels, form.lookups)
    flow, selector = opened(entry), str(delivery["select"])
    own = [q for q in questions(flow.graph, space, selector)
           if flow.channel(q.source) == channel.entry.name]  # fmt: skip
    return _shape(flow, own[0], channel) if own else None


def leave(broker: Any, session: int, one: Subscription) -> None:
    """The session lets go of a subscription; a durable one stays."""
    if one.durable:
        broker.leave(session, one.key)
    else:
        broker.unsubscribe(session, one.key)


def opened(entry: FlowEntry) -> OpenFlow:
    """Its text is read and checked, its tables too."""
    from tamis.flow import check, parse_flow
    from tamis.flow.model.lookups import tables

    graph = check(parse_flow(entry.text))
    if graph.states:
        raise InputError("a flow with states runs on Spark (tamis flow run), not in the broker")
    for name in graph.lookups:
        if name not in entry.lookups:
            raise InputError(f"lookup {name} has no table: give one in lookups")
    for source in entry.channels:
        if source not in graph.published:
            raise InputError(f"the flow declares no space {source}")
    pairs = _pairs(entry.lookups)
    return OpenFlow(entry, graph, tables(graph.lookups, pairs, text=entry.text))


def _pairs(lookups: dict[str, Any]) -> dict[str, dict[Any, Any]]:
    try:
        return {name: dict(table) for name, table in lookups.items()}
    except (TypeError, ValueError):
        raise InputError("a table is an object, or an array of pairs [key, value]") from None


def _check_source(graph: Graph, source: str, channel: Open) -> None:
    """A source space has attributes of its channel, and means by them what the channel does."""
    schema, name = channel.channel.schema, channel.entry.name
    for attribute in graph.schemas[source].attributes:
        known = schema[attribute.name].type if attribute.name in schema else None
        if known is not attribute.type:
            has = "has no such attribute" if known is None else f"says {known.value}"
            raise InputError(
                f"space {source}: {attribute.name} is {attribute.type.value}, channel {name} {has}"
            )
    if (channel.entry.semantics, channel.entry.dialect) != ("sql", "tamis"):
        raise InputError(f"channel {name}: flows need the semantics sql and the dialect tamis")


def shown(flow: OpenFlow) -> dict[str, Any]:
    """A flow as JSON tells it."""
    graph = flow.graph
    return {
        "name": flow.entry.name,
        "text": flow.entry.text,
        "channels": {source: flow.channel(source) for source in flow.sources},
        "spaces": {
            space: {a.name: a.type.value for a in schema.attributes}
            for space, schema in graph.schemas.items()
        },
    }
