"""What paths share: what events touch, what messages must define, and blocks of messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]
U8 = npt.NDArray[np.uint64]


FLAG_COLUMN, FLAG_BIT, FLAG_SET = range(3)  # set (of trees only): whether the bit must be


class Access(NamedTuple):
    """Which clusters an event touches: `clusters[offsets[e]:offsets[e + 1]]`."""

    offsets: I8
    clusters: I4


class Requirements(NamedTuple):
    """Requirement r: the columns `columns[offsets[r]:offsets[r + 1]]` are defined."""

    offsets: I8
    columns: I4


class Block(NamedTuple):
    """Encoded messages: what kernels know of a batch."""

    keys: I8  # column x message: where the value stands among the thresholds
    flags: U1  # column x message: bit 0 defined, bit 1 + family
    offsets: I8  # message -> its events; where `asks` has rows only those of cluster 0, and
    events: I4  # those that `asks` does not know
    way_offsets: I8  # message -> those of its events that give access
    ways: I4
    defined: U8  # message -> bit c: column c (of the first 64) is defined
    codes: I4  # feature x message: which value of the feature the message has, or -1
    asks: I8  # a row for each event: EVENT_...; no rows: not known
    fires: U8  # one bit for each code and event of a feature
    words: Words


EVENT_FEATURE, EVENT_WORD, EVENT_BIT, EVENT_WORDS = range(4)  # the feature (or -1) that decides the
# event; its first word in `fires`, its bit there, and how many words a code has


class Words(NamedTuple):
    """What only cluster 0 asks about computed terms, 64 messages to the word: these have neither
    keys nor listed events. Empty arrays: nothing."""

    below: I4  # column of keys -> row of its first threshold in cluster 0, or -1
    event: I4  # event -> its row, or -1
    bits: U8  # row x word: bit m % 64 of word m // 64 is message m


NO_WORDS = Words(np.empty(0, np.int32), np.empty(0, np.int32), np.empty((0, 0), np.uint64))
