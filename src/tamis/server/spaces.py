"""Flows of the broker: their source spaces are channels, their derived spaces can be subscribed to.

`FLOW/SPACE` names a space where otherwise the name of a channel stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tamis.errors import InputError, RegistryError, SubscriptionError
from tamis.pubsub.broker.shapes import Shape, questions
from tamis.pubsub.broker.subscription import Subscription
from tamis.registry import FlowEntry
from tamis.server.access import Caller
from tamis.server.channels import Channels, Open
from tamis.server.subscribing import Subscribing, Wish

if TYPE_CHECKING:
    from tamis.flow import Graph
    from tamis.flow.lookups import Table


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
        for entry in self.channels.hub.registry.flows():
            self._flows[entry.tenant, entry.name] = opened(entry)

    # --- flows ----------------------------------------------------------------------

    def get(self, caller: Caller, name: str) -> OpenFlow:
        found = self._flows.get((caller.tenant, name))
        if found is None or not self._sees(caller, found):
            raise RegistryError(f"there is no flow {name}")
        return found

    def visible(self, caller: Caller) -> list[OpenFlow]:
        own = [flow for (tenant, _), flow in self._flows.items() if tenant == caller.tenant]
        return [flow for flow in own if self._sees(caller, flow)]

    def _sees(self, caller: Caller, flow: OpenFlow) -> bool:
        return any(caller.sees(flow.channel(source)) for source in flow.sources)

    async def put(self, caller: Caller, name: str, form: FlowForm) -> OpenFlow:
        """Make it or change it; who manages all its channels may."""
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

    async def end(self, caller: Caller, name: str) -> None:
        flow = self.get(caller, name)
        for source in flow.sources:
            caller.require("manage", flow.channel(source))
        hub = self.channels.hub
        await hub.in_registry(hub.registry.remove_flow, caller.tenant, name)
        del self._flows[caller.tenant, name]

    # --- subscriptions ----------------------------------------------------------------

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

    def _asked(
        self, caller: Caller, place: str, wish: Wish, starts: dict[str, int], durable: bool
    ) -> list[tuple[Open, Wish, Shape]]:
        """All is checked before the first subscription is made."""
        name, _, space = place.partition("/")
        flow = self.get(caller, name)
        if wish.summary or wish.catch_up != "all" or isinstance(wish.start, int):
            raise SubscriptionError("a space has neither summaries nor sequences of its own")
        flow.graph.space(space)
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
            read = channel.live.language.read
            shape = Shape(channel.entry.name, question.ways, flow.tables, read)
            found.append((channel, own, shape))
        if not found:
            raise SubscriptionError(f"no message can reach {space} and satisfy this selector")
        return found


def leave(broker: Any, session: int, one: Subscription) -> None:
    """The session lets go of a subscription; a durable one stays."""
    if one.durable:
        broker.leave(session, one.key)
    else:
        broker.unsubscribe(session, one.key)


def opened(entry: FlowEntry) -> OpenFlow:
    """Its text is read and checked, its tables too."""
    from tamis.flow import check, parse_flow
    from tamis.flow.lookups import tables

    graph = check(parse_flow(entry.text))
    if graph.states:
        raise InputError("a flow with states runs on Spark (tamis flow run), not in the broker")
    for name in graph.lookups:
        if name not in entry.lookups:
            raise InputError(f"lookup {name} has no table: give one in lookups")
    for source in entry.channels:
        if source not in graph.published:
            raise InputError(f"the flow declares no space {source}")
    return OpenFlow(entry, graph, tables(graph.lookups, _pairs(entry.lookups)))


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
