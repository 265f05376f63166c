"""`tamis serve --demo`: sample channels, subscriptions and a flow, and messages that keep coming.

Quotes are a random walk; flights are 500 real departures from New York in 2013 (the data set
nycflights13, CC0), again and again.
"""

from __future__ import annotations

import asyncio
import csv
import random
from collections.abc import Iterator
from importlib import resources
from itertools import cycle
from typing import Any

import msgspec

from tamis.errors import InputError, TamisError
from tamis.pubsub.broker import actions as act
from tamis.server.access import LOCAL, LOCAL_TENANT, Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import ChannelForm
from tamis.server.publishing import Message
from tamis.server.spaces import FlowForm
from tamis.server.subscribing import Wish

PACE = 0.25  # seconds between two publications
_QUOTES, _FLIGHTS = 6, 2  # messages of each
_BEGIN = 400  # messages that are there at once
CHANNELS = {
    "quotes": ChannelForm("Stock quotes of two exchanges, made up",
                          {"symbol": "string", "price": "double", "volume": "int"}),
    "flights": ChannelForm("Departures from New York in 2013",
                           {"carrier": "string", "flight": "int", "origin": "string",
                            "dest": "string", "dep_delay": "int", "arr_delay": "int",
                            "distance": "int", "air_time": "int", "tailnum": "string"}),
}  # fmt: skip
SUBSCRIPTIONS = {
    "quotes": {
        "cheap-ibm": "symbol = 'IBM' AND price < 115",
        "large-trades": "price * volume >= 500000",
        "tech": "symbol IN ('IBM', 'MSFT')",
        "busy-or-cheap": "volume > 9000 OR price < 30",
        "misspelled": "prise < 100",
    },
    "flights": {
        "late": "dep_delay > 60 OR arr_delay > 60",
        "long-haul": "distance > 2000 AND origin = 'JFK'",
        "delta-to-atlanta": "carrier = 'DL' AND dest = 'ATL'",
        "cancelled": "dep_delay IS NULL",
    },
}
_ABSENT = ("busy-or-cheap", "cancelled")  # whose subscribers are away
FLOW = """space quotes(symbol: string, price: double, volume: int)

quotes -> Trades : [symbol, price, volume] => [symbol, cap := price * volume]
Trades -> Large  : select cap >= 500000
"""


async def begin(parts: Parts) -> None:
    """Make what is missing, and let messages come until the broker stops."""
    if not parts.door.open:
        raise InputError("--demo is for a broker on the loopback without principals")
    caller = Caller(LOCAL, LOCAL_TENANT)
    chance = random.Random(2000)
    sources = {"quotes": _quotes(chance), "flights": _flights()}
    for name, form in CHANNELS.items():
        try:
            channel = await parts.channels.create(caller, name, form)
        except TamisError:  # it is there already
            continue
        for subscription, selector in SUBSCRIPTIONS[name].items():
            session = None if subscription in _ABSENT else _reader(parts)
            await parts.subscribing.durable(caller, channel, subscription, Wish(selector), session)
        await _publish(parts, caller, name, sources[name], _BEGIN)
    await parts.spaces.put(caller, "large-trades", FlowForm(FLOW))
    parts.hub.keep(_go_on(parts, caller, sources))


def _reader(parts: Parts) -> int:
    """A session of a subscriber that takes whatever comes."""

    def sink(action: act.ToSession) -> None:
        if isinstance(action, act.Deliver):
            one, last = action.messages[-1]
            parts.hub.written(session, len(action.messages))
            parts.hub.loop.call_soon(parts.hub.acknowledge, session, one.key, last.sequence)

    session = parts.hub.connect(sink)
    return session


async def _go_on(parts: Parts, caller: Caller, sources: dict[str, Iterator[Message]]) -> None:
    while True:
        await asyncio.sleep(PACE)
        for name, count in (("quotes", _QUOTES), ("flights", _FLIGHTS)):
            try:
                await _publish(parts, caller, name, sources[name], count)
            except TamisError:  # somebody closed it, or made a principal: so be it
                return


async def _publish(
    parts: Parts, caller: Caller, name: str, source: Iterator[Message], count: int
) -> None:
    if not parts.door.open:
        raise InputError("there are principals now")
    channel = parts.channels.get(caller, name)
    messages = [next(source) for _ in range(count)]
    await parts.publishing.publish(caller, channel, "demo", messages, 0)


def _message(subject: str, attributes: dict[str, Any]) -> Message:
    return Message(msgspec.Raw(msgspec.json.encode(attributes)), subject)


def _quotes(chance: random.Random) -> Iterator[Message]:
    prices = {"IBM": 120.0, "LU": 60.0, "T": 35.0, "MSFT": 90.0}
    while True:
        symbol = chance.choice(list(prices))
        prices[symbol] = round(
            min(200.0, max(20.0, prices[symbol] * chance.uniform(0.98, 1.02))), 2
        )
        exchange = "nasdaq" if symbol == "MSFT" else "nyse"
        volume = chance.randrange(100, 10_000, 100)
        yield _message(f"{exchange}.{symbol}",
                       {"symbol": symbol, "price": prices[symbol], "volume": volume})  # fmt: skip


def _flights() -> Iterator[Message]:
    text = (resources.files("tamis.server.demo") / "flights.csv").read_text("utf-8")
    texts = {name for name, kind in CHANNELS["flights"].attributes.items() if kind == "string"}
    for row in cycle(list(csv.DictReader(text.splitlines()))):
        found = {k: v if k in texts else int(v) for k, v in row.items() if v}
        yield _message(f"{row['origin']}.{row['carrier']}", found)
