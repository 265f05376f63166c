"""What is wrong with a message, as a Column: the reasons that a worker would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.engine import Matcher
from tamis.schema import Type
from tamis.spark.native.native_values import DAY, FIRST, LAST, Value, attribute, cases, micros

_SECOND = 1_000_000
_HINT = "on_error='report' puts such rows aside"


@dataclass(frozen=True, slots=True)
class Misfit:
    """In which rows something does not fit (NULL: it does), and what is wrong there."""

    where: Column
    told: Column


def misfits(
    messages: DataFrame,
    matcher: Matcher,
    doubts: Mapping[str, Column] | None = None,
    without: str | None = None,
) -> list[Misfit]:
    """What can be wrong with a row: the first that is counts.

    `doubts` say of some attributes in which rows they need to be looked at; `without` is not
    looked at.
    """
    names = [name for name in matcher.attributes if name != without]
    found = []
    for name, wrong in ((name, misfit(messages, matcher, name)) for name in names):
        if wrong is not None:
            where = doubts[name] & wrong.where if doubts and name in doubts else wrong.where
            found.append(Misfit(where, wrong.told))
    if matcher.semantics == "total" and matcher.schema is not None:
        found.append(_missing(messages, matcher, list(matcher.schema)))
    return found


def misfit(messages: DataFrame, matcher: Matcher, name: str) -> Misfit | None:
    """Where and why one attribute does not fit; None where it always does."""
    value = attribute(messages, name, matcher.schema)
    return None if value is None else _misfit(name, value)


def _misfit(name: str, value: Value) -> Misfit | None:
    if value.type is Type.STRING:
        return Misfit(~F.is_valid_utf8(value.column), F.lit(f"{name} holds invalid UTF-8"))
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
    return Misfit(outside, told)


def _missing(messages: DataFrame, matcher: Matcher, names: Sequence[str]) -> Misfit:
    """That the message is not total, with the names that it lacks."""
    values = [attribute(messages, name, matcher.schema) for name in names]
    lacking = [
        F.lit(name) if value is None else F.when(~value.defined, F.lit(name))
        for name, value in zip(names, values, strict=True)
    ]
    every = [F.lit(False) if value is None else value.defined for value in values]
    total = F.forall(F.array(*every), lambda there: there) if every else F.lit(True)
    told = F.concat(F.lit("the message does not define "), F.concat_ws(", ", *lacking))
    return Misfit(~total, told)


def checked(result: Column, wrong: Sequence[Misfit], *, report: bool) -> Column:
    """The result, beside the reason where errors are reported; a job that fails where not.

    One CASE asks for each misfit once: code that stands twice can make a method of Java's too
    long to be compiled.
    """
    if report:
        reasons = [(misfit.where, misfit.told) for misfit in wrong]
        error = cases(reasons) if reasons else F.lit(None).cast("string")
        kept = F.when(error.isNull(), result) if reasons else result
        return F.struct(kept.alias("result"), error.alias("error"))
    failures = [(misfit.where, F.raise_error(_failure(misfit.told))) for misfit in wrong]
    return cases(failures, result) if failures else result


def _failure(told: Column) -> Column:
    """In the words of a worker, so that who reads Spark's report finds the same."""
    before = F.lit("tamis.errors.MessageError: a message does not fit: ")
    return F.concat(before, told, F.lit(f"\n  {_HINT}"))
