"""What users of Spark do today to find out which rules a row satisfies.

Each takes a frame of messages and gives a frame that tells all (row, rule) pairs: as one row per
pair, as a column per rule, or as an array per row. `pairs` counts them, whatever the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from bench.spark.rows import Job
from bench.workloads import mixed

ALERT = "m.symbol = a.symbol AND m.price < a.price AND m.volume > a.volume"
SIMPLE = "m.symbol = a.symbol AND m.price < a.price"


def joined(rules: DataFrame, on: str, hint: str | None = None) -> Job:
    """Join on the symbol, then filter: one row for each pair. Spark plans a hash or merge join."""
    right = (rules.hint(hint) if hint else rules).alias("a")

    def job(messages: DataFrame) -> DataFrame:
        return messages.alias("m").join(right, F.expr(on)).select("m.*", "a.id")

    return job


def gathered(rules: DataFrame) -> Job:
    """The rules of `symbol = S AND price < P` as an array for each symbol, joined and filtered: all
    messages with an array of ids, those without a match too."""

    def job(messages: DataFrame) -> DataFrame:
        pairs = F.collect_list(F.struct("price", "id")).alias("rules")
        right = rules.groupBy(F.col("symbol").alias("of")).agg(pairs)
        joined = messages.join(F.broadcast(right), F.col("symbol") == F.col("of"), "left")
        kept = F.filter("rules", lambda rule: F.col("price") < rule.price)
        ids = F.coalesce(F.transform(kept, lambda rule: rule.id), F.array().cast("array<bigint>"))
        return joined.select(*messages.columns, ids.alias("ids"))

    return job


def nested_loop(rules: DataFrame) -> Job:
    """Join on a condition over all columns of the rules; Spark compares every row with every rule.

    The condition is `(a.low_i1 IS NULL OR m.i1 >= a.low_i1) AND ...`.
    """
    return joined(rules, " AND ".join(map(_bound, mixed.COLUMNS)), "broadcast")


def _bound(column: str) -> str:
    name, op = mixed.COLUMNS[column]
    said = f"contains(m.{name}, a.{column})" if op == "CONTAINS" else f"m.{name} {op} a.{column}"
    return f"(a.{column} IS NULL OR {said})"


def case_when(conditions: Sequence[str]) -> Job:
    """A column for each rule: its number where it holds, else null."""
    columns = [f"CASE WHEN {c} THEN {n} END AS rule_{n}" for n, c in enumerate(conditions)]
    return lambda messages: messages.selectExpr("*", *columns)


def union(conditions: Sequence[str]) -> Job:
    """The messages filtered by each rule, one after the other, all put together."""

    def job(messages: DataFrame) -> DataFrame:
        parts = [messages.where(c).withColumn("id", F.lit(n)) for n, c in enumerate(conditions)]
        return reduce(DataFrame.unionAll, parts)

    return job


def pandas_loop(rules: mixed.Rules) -> Job:
    """A pandas UDF that goes through the rules with numpy and gives an array of ids to each row."""
    bounds = rules.bounds

    @F.pandas_udf("array<bigint>")
    def ids(batches: Iterator[pd.DataFrame]) -> Iterator[pd.Series]:
        for batch in batches:
            yield pd.Series(_lists(_pairs(batch, bounds), len(batch)))

    return lambda messages: messages.withColumn("ids", ids(F.struct(*messages.columns)))


def _pairs(batch: pd.DataFrame, rules: Sequence[Sequence[mixed.Bound]]) -> list[np.ndarray]:
    """For each rule the rows that satisfy it. Each different comparison is made once."""
    columns = {name: batch[name].to_numpy() for name in batch.columns}
    known: dict[mixed.Bound, np.ndarray] = {}
    found = []
    for rule in rules:
        truth = np.ones(len(batch), bool)
        for bound in rule:
            if bound not in known:
                known[bound] = _truth(columns, bound)
            truth &= known[bound]
        found.append(np.flatnonzero(truth))
    return found


def _truth(columns: dict[str, np.ndarray], bound: mixed.Bound) -> np.ndarray:
    name, op, value = bound
    column = columns[name]
    if op == "CONTAINS":
        return np.array([str(value) in text for text in column], bool)
    tests = {">=": np.greater_equal, "<": np.less, "=": np.equal, "<>": np.not_equal}
    return tests[op](column, value).astype(bool)


def _lists(found: list[np.ndarray], rows: int) -> list[np.ndarray]:
    """The ids of each row, ascending."""
    row = np.concatenate([*found, np.empty(0, np.int64)]).astype(np.int64)
    ids = np.repeat(np.arange(len(found)), [len(part) for part in found])
    order = np.argsort(row, kind="stable")
    ends = np.cumsum(np.bincount(row, minlength=rows))[:-1]
    return np.split(ids[order], ends)


def pairs(answer: DataFrame) -> int:
    """How many (row, rule) pairs an answer tells."""
    columns = [name for name in answer.columns if name.startswith("rule_")]
    lists = [name for name in ("ids", "subscriptions") if name in answer.columns]
    if columns:  # counted here: a sum of 1,000 terms is too deep for Spark
        table = answer.select(*columns).toArrow()
        return sum(len(column) - column.null_count for column in table.columns)
    if lists:
        return int(answer.select(F.sum(F.size(lists[0]))).first()[0] or 0)
    return answer.count()
