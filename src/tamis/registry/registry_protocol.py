"""What a registry promises. `tests/registry/test_conformance.py` holds each form to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from tamis.registry.registry_values import (
    AuditEntry,
    ChannelEntry,
    Cursor,
    FlowEntry,
    Principal,
    Recap,
    Right,
    Stored,
    Tally,
    Token,
)


class Registry(Protocol):
    """Every change survives a crash once its call returned; several threads may call."""

    def channels(self) -> list[ChannelEntry]: ...
    def create_channel(self, make: Callable[[int], ChannelEntry]) -> ChannelEntry:
        """With a number that was never used, which `make` gets; in one step. RegistryError if its
        tenant has a channel of this name."""

    def change_channel(self, entry: ChannelEntry) -> None:
        """RegistryError if there is none with its number, tenant and name."""

    def remove_channel(self, number: int) -> None:
        """With its subscriptions."""

    def flows(self) -> list[FlowEntry]: ...
    def put_flow(self, entry: FlowEntry) -> None:
        """Make it or change it, by tenant and name."""

    def remove_flow(self, tenant: str, name: str) -> None: ...
    def principals(self) -> list[Principal]: ...
    def put_principal(self, principal: Principal) -> None: ...
    def change_principal(
        self, login: str, change: Callable[[Principal | None], Principal]
    ) -> Principal:
        """Make of it, or of None, another one, in one step."""

    def remove_principal(self, login: str) -> None:
        """With its rights, tokens and subscriptions."""

    def rights(self, principal: str) -> list[Right]: ...
    def put_right(self, right: Right) -> None: ...
    def remove_right(self, right: Right) -> None: ...
    def token(self, digest: str) -> Token | None: ...
    def tokens(self, principal: str) -> list[Token]: ...
    def put_token(self, token: Token) -> None: ...
    def remove_token(self, digest: str) -> None: ...
    def subscriptions(self, channel: int) -> Iterable[Stored]:
        """In the order in which they were made."""

    def change_subscriptions(
        self, put: Iterable[Stored] = (), remove: Iterable[Cursor] = ()
    ) -> None:
        """All, or none."""

    def recaps(self, channel: int) -> Mapping[str, Recap]:
        """By the name of their subscription."""

    def put_recap(self, key: Cursor, recap: Recap) -> None:
        """Of a subscription that exists; it goes with it."""

    def put_cursors(self, cursors: Mapping[Cursor, int]) -> None:
        """Of those that exist; the others are passed over."""

    def tallies(self, channel: int) -> Mapping[str, Tally]:
        """By the name of their subscription."""

    def put_tallies(self, tallies: Mapping[Cursor, Tally]) -> None:
        """Of those that exist; a tally goes with its subscription."""

    def audit(self, *entries: AuditEntry) -> None: ...
    def audits(self, limit: int = 100, tenant: str | None = None) -> list[AuditEntry]:
        """The newest first; of one tenant, or of all."""

    def scrub(self) -> None:
        """Leave nothing in the files of what was replaced or removed."""

    def version(self) -> int:
        """A number that is another one after another process has changed something."""

    def close(self) -> None: ...
