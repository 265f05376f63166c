"""Epochs: which log a sequence belongs to, so that a replaced or restored one is noticed.

A home begins an epoch, with a random name, each time it opens a log. Whoever holds a copy knows the
epochs of its messages. If the home was restored from a backup, the copy's last message lies beyond
the end of its epoch: the two agree only up to there. If the log was replaced, its epochs are other
ones altogether.
"""

from __future__ import annotations

from typing import NamedTuple

KEPT = 1_000  # epochs of a log that are remembered


class Epoch(NamedTuple):
    """A name, and the first sequence of the epoch."""

    name: str
    first: int


Epochs = tuple[Epoch, ...]  # ascending by `first`; the oldest may be forgotten


def begun(epochs: Epochs, name: str, following: int) -> Epochs:
    """With one more epoch, whose first message will be `following`.

    Epochs without messages are forgotten, and so are those of messages that a restored log does
    not have.
    """
    kept = [epoch for epoch in epochs if epoch.first < following]
    return (*kept, Epoch(name, following))[-KEPT:]


def epoch_of(epochs: Epochs, sequence: int) -> str:
    """The name of the epoch that a message belongs to; empty if it is not known."""
    for epoch in reversed(epochs):
        if epoch.first <= sequence:
            return epoch.name
    return ""


def agreed(epochs: Epochs, epoch: str, upto: int) -> int:
    """The last sequence up to which a copy agrees with the log that has these epochs.

    `epoch` is that of the copy's last message, `upto`; at `upto` itself, all is well. 0: they have
    nothing in common.
    """
    for i, (name, _) in enumerate(epochs):
        if name == epoch:
            return min(upto, epochs[i + 1].first - 1) if i + 1 < len(epochs) else upto
    return 0
