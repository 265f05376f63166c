"""What changes for messages when one set of subscriptions takes the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions

from tamis.errors import InputError
from tamis.spark.message_questions import Options, match

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame

    from tamis.spark.message_questions import Source

_OLD, _NEW = "_tamis_old", "_tamis_new"


def diff(messages: DataFrame, old: Source, new: Source, **options: Unpack[Options]) -> DataFrame:
    """The messages that match other subscriptions under `new` than under `old`.

    Two columns more: the ids that each `gained` and `lost`. Takes what `match` takes.
    """
    taken = {"gained", "lost", _OLD, _NEW} & {name.lower() for name in messages.columns}
    if taken:
        raise InputError(f"the messages have a column {min(taken)!r} already: rename it")
    both = match(match(messages, old, column=_OLD, **options), new, column=_NEW, **options)
    gained = functions.array_except(_NEW, _OLD).alias("gained")
    lost = functions.array_except(_OLD, _NEW).alias("lost")
    changed = both.select(*(functions.col(f"`{name}`") for name in messages.columns), gained, lost)
    return changed.where((functions.size("gained") > 0) | (functions.size("lost") > 0))
