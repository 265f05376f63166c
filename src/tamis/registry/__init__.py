"""What a broker keeps besides messages: channels, principals, rights, subscriptions."""

from tamis.registry.protocol import Registry
from tamis.registry.sqlite_registry import SqliteRegistry
from tamis.registry.values import (
    VERBS,
    AuditEntry,
    ChannelEntry,
    Cursor,
    FlowEntry,
    Principal,
    Recap,
    Right,
    Stored,
    Token,
    Version,
)

__all__ = [
    "VERBS",
    "AuditEntry",
    "ChannelEntry",
    "Cursor",
    "FlowEntry",
    "Principal",
    "Recap",
    "Registry",
    "Right",
    "SqliteRegistry",
    "Stored",
    "Token",
    "Version",
]
