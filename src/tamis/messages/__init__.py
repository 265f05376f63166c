"""Messages: what their attributes are worth, and how files of them are read.

Only `lookup` is imported at once: it is all that matching a single message needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tamis.messages.message_values import lookup

if TYPE_CHECKING:
    from tamis.messages.message_files import Format, read
    from tamis.messages.row_batches import BadRow, Batch, OnBad, refuse
    from tamis.messages.schemas import arrow_schema, read_schema
    from tamis.messages.subscription_files import Subscriptions, read_subscriptions
    from tamis.messages.xml import parse_xml

_HOMES = {
    "Format": "message_files",
    "read": "message_files",
    "BadRow": "row_batches",
    "Batch": "row_batches",
    "OnBad": "row_batches",
    "refuse": "row_batches",
    "arrow_schema": "schemas",
    "read_schema": "schemas",
    "Subscriptions": "subscription_files",
    "read_subscriptions": "subscription_files",
    "parse_xml": "xml",
}

__all__ = [
    "BadRow",
    "Batch",
    "Format",
    "OnBad",
    "Subscriptions",
    "arrow_schema",
    "lookup",
    "parse_xml",
    "read",
    "read_schema",
    "read_subscriptions",
    "refuse",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tamis.messages' has no attribute {name!r}")
    return getattr(import_module(f"tamis.messages.{_HOMES[name]}"), name)
