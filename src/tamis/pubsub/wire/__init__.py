"""The binary packets of US 6,910,033: bytes in, values out. docs/wire.md is the definition."""

from tamis.pubsub.wire.attribute_tests import disjuncts_of, filter_of
from tamis.pubsub.wire.codec import MAX_PACKET, Codec
from tamis.pubsub.wire.stream import Decoder
from tamis.pubsub.wire.wire_messages import (
    Acknowledgement,
    AddSubject,
    AttributeTest,
    ErrorReport,
    GetCache,
    Message,
    Notification,
    Operator,
    Resubscription,
    Subscription,
    Unsubscription,
)

__all__ = [
    "MAX_PACKET",
    "Acknowledgement",
    "AddSubject",
    "AttributeTest",
    "Codec",
    "Decoder",
    "ErrorReport",
    "GetCache",
    "Message",
    "Notification",
    "Operator",
    "Resubscription",
    "Subscription",
    "Unsubscription",
    "disjuncts_of",
    "filter_of",
]
