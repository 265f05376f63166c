"""What a broker keeps besides messages: channels, principals, rights, subscriptions."""

from tamis.registry.registry_protocol import Registry
from tamis.registry.registry_values import (
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
from tamis.registry.sqlite_registry import SqliteRegistry

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
