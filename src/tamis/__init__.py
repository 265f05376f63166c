"""Tamis sieves messages through a very large set of standing queries.

Names are imported where they are first used, so that `import tamis` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tamis.engine import Details, Matcher, Matches
    from tamis.errors import (
        ChannelError,
        FlowError,
        InputError,
        MessageError,
        ResultError,
        RuleError,
        SchemaError,
        SelectorError,
        SnapshotError,
        SubjectError,
        SubscriptionError,
        TamisError,
        WireError,
    )
    from tamis.language import Limits
    from tamis.schema import Schema

__version__ = "0.1.0"

_HOMES = {
    "Details": "engine",
    "Matcher": "engine",
    "Matches": "engine",
    "ChannelError": "errors",
    "FlowError": "errors",
    "InputError": "errors",
    "MessageError": "errors",
    "ResultError": "errors",
    "RuleError": "errors",
    "SchemaError": "errors",
    "SelectorError": "errors",
    "SnapshotError": "errors",
    "SubjectError": "errors",
    "SubscriptionError": "errors",
    "TamisError": "errors",
    "WireError": "errors",
    "Limits": "language",
    "Schema": "schema",
}

__all__ = [
    "ChannelError",
    "Details",
    "FlowError",
    "InputError",
    "Limits",
    "Matcher",
    "Matches",
    "MessageError",
    "ResultError",
    "RuleError",
    "Schema",
    "SchemaError",
    "SelectorError",
    "SnapshotError",
    "SubjectError",
    "SubscriptionError",
    "TamisError",
    "WireError",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    return getattr(import_module(f"tamis.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
