"""Notifications of stock trades, subject filters, and interests in trades."""

from __future__ import annotations

import random

import msgspec
import pyarrow as pa

from bench.workloads import stock
from tamis.logic import sets
from tamis.logic.dnf import Filter
from tamis.logic.sets import Line
from tamis.pubsub.filters import Interest
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.pubsub.subjects.typecodes import TypeCode
from tamis.pubsub.wire import Notification

SUBJECT = "quotes.nyse"
CHANNEL = Channel(
    2,
    (
        ChannelAttribute("symbol", TypeCode.STRING),
        ChannelAttribute("price", TypeCode.DOUBLE),
        ChannelAttribute("volume", TypeCode.LONG),
        ChannelAttribute("venue", TypeCode.STRING),
    ),
).with_subject(SUBJECT)


class Peer(msgspec.Struct):
    """The same content, for MessagePack."""

    channel: int
    publisher: int
    session: int
    sequence: int
    subject: str
    attributes: dict[str, str | float | int]


def trades(count: int) -> pa.Table:
    table = stock.trades(count)
    rng = random.Random(11)
    venues = pa.array([rng.choice(stock.VENUES) for _ in range(count)])
    return table.append_column("venue", venues)


def notifications(table: pa.Table) -> list[Notification]:
    return [
        Notification(CHANNEL.id, 3001, 9509384, i, SUBJECT, row)
        for i, row in enumerate(table.to_pylist())
    ]


def peers(told: list[Notification]) -> list[Peer]:
    return [Peer(*one) for one in told]


# --- subjects -------------------------------------------------------------------


def subject_filters(count: int) -> list[SubjectFilter]:
    """`exchange.symbol.kind`: nine of ten without wildcards, the others with `*` or `>`."""
    rng = random.Random(count)
    found = []
    for _ in range(count):
        fields = list(_subject(rng, count))
        if rng.random() < 0.1:
            fields[rng.choice((0, 2))] = "*"
        elif rng.random() < 0.03:
            fields[2] = ">"
        found.append(SubjectFilter(tuple(fields)))
    return found


def subjects(asked: int, filters: int) -> list[Subject]:
    rng = random.Random(asked + filters)
    return [Subject(_subject(rng, filters)) for _ in range(asked)]


def _subject(rng: random.Random, filters: int) -> tuple[str, str, str]:
    symbols = max(2, filters // 20)
    return f"e{rng.randrange(20)}", f"S{rng.randrange(symbols)}", f"k{rng.randrange(8)}"


# --- interests ------------------------------------------------------------------


def interests(count: int, symbols: int = 5000) -> list[Interest]:
    """Stock alerts, as `logic.dnf` would make them of their texts."""
    alerts, subject = stock.alerts(count, symbols), SubjectFilter.parse(SUBJECT)
    columns = (alerts.symbol.tolist(), alerts.price.tolist(), alerts.volume.tolist())
    return [
        Interest(subject, Filter((_conjunction(symbol, price, volume),)))
        for symbol, price, volume in zip(*columns, strict=True)
    ]


def _conjunction(symbol: str, price: float, volume: int):
    return (
        ("price", sets.below(Line.DOUBLE, price)),
        ("symbol", sets.among(Line.STRING, [symbol])),
        ("volume", sets.span(Line.INT, volume + 1)),
    )


def boxes(count: int) -> list[Interest]:
    """Ranges of two attributes and no symbol: few cover another, and all are in one bucket."""
    rng, subject = random.Random(5), SubjectFilter.parse(SUBJECT)
    found = []
    for _ in range(count):
        price, volume = rng.uniform(1, 100), rng.randrange(100_000)
        found.append(
            Interest(
                subject,
                Filter(
                    (
                        (
                            ("price", sets.span(Line.DOUBLE, price, price + rng.uniform(0, 2))),
                            ("volume", sets.span(Line.INT, volume, volume + rng.randrange(2000))),
                        ),
                    )
                ),
            )
        )
    return found
