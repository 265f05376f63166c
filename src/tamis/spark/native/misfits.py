"""What is wrong with a message, as a Column: the reasons that a worker would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.engine import Matcher
from tamis.schema import Type
from tamis.spark.native.values import DAY, FIRST, LAST, Value, attribute, micros

_SECOND = 1_000_000
_HINT = "on_error='report' puts such rows aside"


def reasons(
    messages: DataFrame,
    matcher: Matcher,
    doubts: Mapping[str, Column] | None = None,
    without: str | None = None,
) -> Column | None:
    """Why a row does not fit, NULL where it does; None where every row fits.

    `doubts` say of some attributes in which rows they need to be looked at; `without` is not
    looked at.
    """
    found = []
    for name in matcher.attributes:
        wrong = None if name == without else reason(messages, matcher, name)
        if wrong is not None:
            found.append(F.when(doubts[name], wrong) if doubts and name in doubts else wrong)
    if matcher.semantics == "total" and matcher.schema is not None:
        found.append(_missing(messages, matcher, list(matcher.schema)))
    return F.coalesce(*found) if found else None


def reason(messages: DataFrame, matcher: Matcher, name: str) -> Column | None:
    """Why one attribute does not fit."""
    value = attribute(messages, name, matcher.schema)
    return None if value is None else _reason(name, value)


def _reason(name: str, value: Value) -> Column | None:
    if value.type is Type.STRING:
        broken = ~F.is_valid_utf8(value.column)
        return F.when(broken, F.lit(f"{name} holds invalid UTF-8"))
    if value.type is not Type.TIMESTAMP:
        return None
    shown = micros(value)
    if value.clock == "date":  # as a worker sees it, in seconds
        days = F.unix_date(value.column)
        outside = (days < FIRST // DAY) | (days > LAST // DAY)
        shown = days.cast("long") * F.lit(DAY // _SECOND).cast("long")
    else:
        outside = (shown < F.lit(FIRST)) | (shown > F.lit(LAST))
    told = F.concat(F.lit(f"{name} = "), shown, F.lit(" is outside the years 1 to 9999"))
    return F.when(outside, told)


def _missing(messages: DataFrame, matcher: Matcher, names: Sequence[str]) -> Column:
    """That the message is not total, with the names that it lacks."""
    values = [attribute(messages, name, matcher.schema) for name in names]
    lacking = [
        F.lit(name) if value is None else F.when(~value.defined, F.lit(name))
        for name, value in zip(names, values, strict=True)
    ]
    every = [F.lit(False) if value is None else value.defined for value in values]
    total = F.forall(F.array(*every), lambda there: there) if every else F.lit(True)
    told = F.concat(F.lit("the message does not define "), F.concat_ws(", ", *lacking))
    return F.when(~total, told)


def checked(result: Column, wrong: Column | None, *, report: bool) -> Column:
    """The result, beside the reason where errors are reported; a job that fails where not."""
    if report:
        error = F.lit(None).cast("string") if wrong is None else wrong
        kept = result if wrong is None else F.when(wrong.isNull(), result)
        return F.struct(kept.alias("result"), error.alias("error"))
    if wrong is None:
        return result
    # In the words of a worker, so that who reads Spark's report finds the same.
    told = F.concat(
        F.lit("tamis.errors.MessageError: a message does not fit: "), wrong, F.lit(f"\n  {_HINT}")
    )
    return F.when(wrong.isNull(), result).otherwise(F.raise_error(told))
