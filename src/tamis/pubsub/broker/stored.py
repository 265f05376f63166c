"""Subscriptions as they are stored, with all filters that messages may still be judged by."""

from __future__ import annotations

import msgspec

Tally = tuple[int, int]  # how many messages matched, and how many were sent
Key = tuple[int, str]  # the number of a channel, and the name of a subscription


class Version(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message with a sequence of `since` or more is judged by this, until the next version."""

    since: int
    subjects: str
    selector: str


class Stored(msgspec.Struct, frozen=True):
    """A durable subscription. `delivery` is empty where sessions fetch what it matches."""

    channel: int
    name: str
    principal: str
    versions: tuple[Version, ...]
    cursor: int = 0  # the sequence up to which everything was acknowledged
    paused: bool = False
    delivery: dict[str, str | int] = {}
    summary: str = ""  # a state that its messages are collapsed to
    begun: int = 0  # the cursor that it was made with
    number: int = 0  # what the channel's matcher calls it; 0: none was given yet

    @property
    def key(self) -> Key:
        return self.channel, self.name


def in_force(versions: tuple[Version, ...], sequence: int) -> Version:
    """The version that judges the message: the last one whose time has come."""
    for version in reversed(versions):
        if version.since <= sequence:
            return version
    return versions[0]


def changed(versions: tuple[Version, ...], new: Version, cursor: int) -> tuple[Version, ...]:
    """With one more version, and without those that judge only messages up to the cursor."""
    kept = [v for v in versions if v.since < new.since]
    later = [i for i, version in enumerate([*kept, new]) if version.since > cursor + 1]
    first = (later[0] if later else len(kept) + 1) - 1
    return (*kept, new)[max(first, 0) :]
