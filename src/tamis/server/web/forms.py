"""Requests about principals, as JSON says them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tamis.registry import VERBS
from tamis.registry.values import Verb

_CENTURY = 3_155_760_000  # seconds


class PrincipalForm(msgspec.Struct, forbid_unknown_fields=True):
    password: str = ""
    tenant: str = ""
    selector: str = ""
    rate: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    subscriptions: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0


class RightForm(msgspec.Struct, forbid_unknown_fields=True):
    verb: Verb
    channel: str = "*"
    subjects: str = ">"


class TokenForm(msgspec.Struct, forbid_unknown_fields=True):
    label: str = ""
    verbs: tuple[Verb, ...] = VERBS
    seconds: Annotated[float, msgspec.Meta(ge=0, le=_CENTURY)] = 0  # 0: for ever
