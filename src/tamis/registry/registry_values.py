"""What the registry keeps, as values."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tamis.errors import RegistryError
from tamis.pubsub.broker.recaps import Recap
from tamis.pubsub.broker.stored import Key as Cursor
from tamis.pubsub.broker.stored import Stored, Tally, Version

Verb = Literal["publish", "subscribe", "manage"]
VERBS: tuple[Verb, ...] = ("publish", "subscribe", "manage")
MAIN = "main"  # the tenant whose principals log in by their bare names
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}")

__all__ = ["MAIN", "VERBS", "AuditEntry", "ChannelEntry", "Cursor", "FlowEntry", "Principal",
           "Recap", "Right", "Stored", "Tally", "Token", "Verb", "Version", "check_name",
           "login"]  # fmt: skip


def check_name(what: str, name: str) -> None:
    """Names stand in addresses, headers and files: letters, digits, and `_ . @ -` within."""
    if not _NAME.fullmatch(name):
        raise RegistryError(
            f"{name[:40]!r} is no name of a {what}: use up to 100 letters, digits, _ . @ or -"
        )


class ChannelEntry(msgspec.Struct, frozen=True):
    """A channel of a tenant. `form` is the channel itself as TOML."""

    number: int
    tenant: str
    name: str
    form: str
    sentence: str = ""
    semantics: Literal["sql", "strict", "default", "total"] = "sql"
    dialect: Literal["tamis", "jms"] = "tamis"
    retention_bytes: int = 0  # 0: without end
    version: int = 1  # one more with every change

    def __post_init__(self) -> None:
        check_name("channel", self.name)
        check_name("tenant", self.tenant)


class FlowEntry(msgspec.Struct, frozen=True):
    """A flow of a tenant: its text, the channels of its sources, the tables of its lookups."""

    tenant: str
    name: str
    text: str
    channels: dict[str, str] = {}
    lookups: dict[str, Any] = {}

    def __post_init__(self) -> None:
        check_name("flow", self.name)


def login(tenant: str, name: str) -> str:
    """What a principal is called outside its tenant: no two tenants share a name."""
    return name if tenant == MAIN else f"{tenant}/{name}"


class Principal(msgspec.Struct, frozen=True):
    """Somebody of a tenant who has rights. `password` is an argon2 hash (empty: only tokens).

    Rights, tokens and subscriptions hold its `login`.
    """

    name: str
    tenant: str
    password: str = ""
    selector: str = ""  # what the server ANDs to every selector of this principal
    rate: float = 0.0  # messages a second that it may publish; 0: no limit
    subscriptions: int = 0  # how many it may have; 0: no limit

    def __post_init__(self) -> None:
        check_name("principal", self.name)
        check_name("tenant", self.tenant)

    @property
    def login(self) -> str:
        return login(self.tenant, self.name)


class Right(msgspec.Struct, frozen=True):
    """A principal may do `verb` on the subjects of channels: both are patterns."""

    principal: str
    verb: Verb
    channel: str = "*"  # a name, or * for all
    subjects: str = ">"  # a subject filter


class Token(msgspec.Struct, frozen=True):
    """A secret that stands for a principal; only its SHA-256 is kept."""

    digest: str
    principal: str
    label: str = ""
    verbs: tuple[Verb, ...] = VERBS
    expires: int = 0  # microseconds since 1970; 0: never


class AuditEntry(msgspec.Struct, frozen=True):
    """Who changed what, when."""

    time: int
    principal: str
    action: str
    target: str
    tenant: str = ""
