"""What packets say, as values. All begin with the same four numbers of the header."""

from __future__ import annotations

import datetime
import enum
from typing import Any, NamedTuple

from tamis.pubsub.subjects.typecodes import TypeCode


class Operator(enum.IntEnum):
    """Table 22; the last two are ours."""

    LEFT_OPEN = 0  # value <= operand
    RIGHT_OPEN = 1  # value >= operand
    CLOSED = 2  # between two operands, both included
    EQUAL = 3
    IN = 4
    NOT_IN = 5  # a value of the type that is not among the operands
    ABSENT = 6  # the notification has no such attribute
    PRESENT = 7  # it has one, of the type


class AttributeTest(NamedTuple):
    """A test of one attribute: a place of the channel, or the name of a discretionary one."""

    attribute: int | str
    type: TypeCode
    operator: Operator
    operands: tuple[Any, ...]


Disjuncts = tuple[tuple[AttributeTest, ...], ...]


class Notification(NamedTuple):
    """A message that somebody publishes. Undefined attributes are left out."""

    channel: int
    publisher: int
    session: int
    sequence: int
    subject: str
    attributes: dict[str, Any]


class Subscription(NamedTuple):
    """`#.SUBSCRIPTION`: `id` and `port` name the subscription at the subscriber's edge router.

    `disjuncts` without any disjunct mean: every notification of the subjects.
    """

    channel: int
    publisher: int
    session: int
    sequence: int
    port: int
    id: int
    subjects: str
    disjuncts: Disjuncts


class Resubscription(NamedTuple):
    """`#.RESUBSCRIPTION`: another filter for a subscription."""

    channel: int
    publisher: int
    session: int
    sequence: int
    port: int
    id: int
    subjects: str
    disjuncts: Disjuncts


class Unsubscription(NamedTuple):
    """`#.UNSUBSCRIPTION`: the end of a subscription."""

    channel: int
    publisher: int
    session: int
    sequence: int
    port: int
    id: int


class AddSubject(NamedTuple):
    """`#.ADD_SUBJECT` (table 9): the channel gets a subject; `mapping` numbers its fields."""

    channel: int
    publisher: int
    session: int
    sequence: int
    to: int  # the id of the channel that gets it
    subject: str
    mapping: str = ""  # such as 102.103; empty where it is left to the channel manager


class GetCache(NamedTuple):
    """`#.getCache`: send again what was published, from `since` until before `until`.

    `subscription` is what the packets that come name as theirs.
    """

    channel: int
    publisher: int
    session: int
    sequence: int
    subjects: str
    since: datetime.datetime
    until: datetime.datetime
    selector: str = ""
    subscription: int = 0


class Acknowledgement(NamedTuple):
    """`#.ACKNOWLEDGEMENT`: everything up to and with this sequence number has arrived.

    `subscription` (port * 2^16 + id): of a durable subscription, from its subscriber.
    """

    channel: int
    publisher: int
    session: int
    sequence: int
    upto: int
    subscription: int = 0


class ErrorReport(NamedTuple):
    """`#.ERROR`: the packet with this sequence number was refused, and why."""

    channel: int
    publisher: int
    session: int
    sequence: int
    refused: int
    reason: str


Control = AddSubject | GetCache | Acknowledgement | ErrorReport
Message = Notification | Subscription | Resubscription | Unsubscription | Control

# The attributes of control messages: in a packet they are discretionary. Those that have a default
# are left out where they have just this value.
CONTROLS: dict[str, tuple[Any, dict[str, tuple[str, type]]]] = {
    "ADD_SUBJECT": (
        AddSubject,
        {"to": ("ChannelId", int), "subject": ("Subject", str), "mapping": ("Mapping", str)},
    ),
    "getCache": (
        GetCache,
        {
            "subjects": ("Subject", str),
            "since": ("Since", datetime.datetime),
            "until": ("Until", datetime.datetime),
            "selector": ("Selector", str),
            "subscription": ("Subscription", int),
        },
    ),
    "ACKNOWLEDGEMENT": (
        Acknowledgement,
        {"upto": ("Sequence", int), "subscription": ("Subscription", int)},
    ),
    "ERROR": (ErrorReport, {"refused": ("Sequence", int), "reason": ("Reason", str)}),
}
