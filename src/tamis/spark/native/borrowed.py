"""What only Python does exactly, as Columns that a Python worker computes: case and RE2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from tamis.logic.atoms import compiled
from tamis.logic.terms import CHANGES_CASE

CASES: dict[str, Callable[[str], str]] = CHANGES_CASE


def cased(name: str, texts: Column) -> Column:
    """`lower` or `upper` by the Unicode of Python."""
    return _by_value(CASES[name], pa.string(), "string")(texts)


def matches(pattern: str, texts: Column) -> Column:
    """Whether each text contains a match of an RE2 pattern."""

    def found(text: str) -> bool:
        return compiled(pattern).search(text) is not None

    return _by_value(found, pa.bool_(), "boolean")(texts)


def _by_value(work: Callable[[str], Any], kind: pa.DataType, shown: str) -> Callable[..., Column]:
    """A function of Spark that does the work once for each distinct text of a batch."""

    def run(texts: pa.Array) -> pa.Array:
        known = texts.dictionary_encode()
        values = [None if text is None else work(text) for text in known.dictionary.to_pylist()]
        return pa.array(values, kind).take(known.indices)

    run.__annotations__.update({"texts": pa.Array, "return": pa.Array})
    return arrow_udf(run, shown)  # type: ignore[call-overload,no-any-return]
