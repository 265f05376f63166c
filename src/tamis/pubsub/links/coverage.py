"""What the copy of a channel has."""

from __future__ import annotations

from dataclasses import dataclass, field

from tamis.pubsub.links.wants import Want


@dataclass(slots=True)
class Coverage:
    """The copy has been told of every sequence up to `upto` (None: it has not begun), keeps those
    from `oldest` on, and has everything that a want asks for from `since[want]` on.

    `whole`: this is the home's log, which has everything.
    """

    upto: int | None = None
    oldest: int = 1
    whole: bool = False
    since: dict[Want, int] = field(default_factory=dict)

    def of(self, want: Want) -> int | None:
        """From where on the copy has all that is wanted; None: it is not known yet."""
        return 1 if self.whole else self.since.get(want)

    @property
    def next(self) -> int:
        return 1 if self.upto is None else self.upto + 1
