"""One channel, chosen from a file of channels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tamis.errors import ChannelError, InputError

if TYPE_CHECKING:
    from tamis.pubsub.subjects.channel import Channel


def channel_of(path: str, number: int | None) -> Channel:
    """The channel of a file; `number` chooses where it has several."""
    from tamis.pubsub.subjects.channel_files import read_channels

    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None
    channels = read_channels(text)
    if number is None and len(channels) == 1:
        return next(iter(channels.values()))
    if number not in channels:
        shown = ", ".join(map(str, channels)) or "none"
        raise ChannelError(f"{path} has the channels {shown}: choose one with --number")
    return channels[number]
