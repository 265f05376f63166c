"""What became of each subscription in a run: matches of each, those without any, costly ones."""

from __future__ import annotations

import json
import platform
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tamis
from tamis.engine import Id, Matcher
from tamis.engine.paths.everywhere.everywhere_path import EverywherePath
from tamis.language.tree import And, Not, Or
from tamis.spark.jobs.job_running import Running
from tamis.spark.live_questions import LiveQuestion

_READ = 20_000  # selectors that are read again to see which are costly


def rules(running: Running) -> pa.Table:
    """`id`, `selector` and `matches` of each subscription, most matches first."""
    known = _known(running)
    counts = running.totals.counts
    if counts is None:
        matches = pa.array(np.zeros(len(known), np.int64))
        return known.append_column("matches", matches)
    ids = known["id"].combine_chunks()
    counted = counts["id"].combine_chunks().cast(ids.type)
    found = pc.index_in(ids, value_set=counted)
    matches = pc.fill_null(counts["count"].combine_chunks().take(found), 0)
    whole = known.append_column("matches", matches.cast(pa.int64()))
    gone = pc.invert(pc.is_in(counted, value_set=ids))  # removed while the stream ran
    if pc.any(gone).as_py():
        left = counts.filter(gone)
        texts = pa.array(["(gone)"] * len(left), pa.string())
        columns = [left["id"].cast(ids.type), texts, left["count"].cast(pa.int64())]
        whole = pa.concat_tables([whole, pa.table(columns, schema=whole.schema)])
    return whole.sort_by([("matches", "descending")])


def _known(running: Running) -> pa.Table:
    question = running.question
    if isinstance(question, LiveQuestion):
        rows = question.subscriptions.view().rows()
        return rows.select(["id", "selector"])
    if question.table is not None:
        table = question.table
        rows = table.rows.select(["id", "selector"]).take(pa.array(table.good()))
        return rows.cast(pa.schema({"id": rows.schema.field("id").type, "selector": pa.string()}))
    pairs = question.matcher.items()
    ids = [id for id, _ in pairs]
    kind = pa.int64() if all(isinstance(id, int) for id in ids) and ids else pa.string()
    names = ids if kind == pa.int64() else list(map(str, ids))
    return pa.table(
        {"id": pa.array(names, kind), "selector": pa.array([s for _, s in pairs], pa.string())}
    )


def costly(running: Running) -> list[tuple[Id, str, int]]:
    """Subscriptions that every message is asked for, with how many predicates they have.

    No equality, membership, text or range of theirs tells which messages are worth asking. Empty
    where subscriptions are in shards or may change.
    """
    question = running.question
    if isinstance(question, LiveQuestion) or question.sharding is not None:
        return []
    matcher = question.matcher
    found = [(id, text, _predicates(matcher, id)) for id, text in _everywhere(matcher)[:_READ]]
    return sorted(found, key=lambda one: -one[2])


def _everywhere(matcher: Matcher) -> list[tuple[Id, str]]:
    inside = matcher._contents
    slots = list[int]()
    for part in inside.merging.state.parts:
        own = part.segment.path(EverywherePath).subscriptions
        slots += part.segment.source.slot[own[part.alive[own] != 0]].tolist()
    return [(inside.ids[slot], inside.texts[slot]) for slot in sorted(slots)]


def _predicates(matcher: Matcher, id: Id) -> int:
    count, left = 0, [matcher._condition(id)]
    while left:
        match left.pop():
            case And(parts) | Or(parts):
                left += parts
            case Not(part):
                left.append(part)
            case _:
                count += 1
    return count


def versions(running: Running) -> list[tuple[str, str]]:
    """Of what took part."""
    return [
        ("tamis", tamis.__version__),
        ("spark", str(running.spark.version)),
        ("python", platform.python_version()),
        ("pyarrow", pa.__version__),
    ]


def as_json(running: Running, table: pa.Table) -> bytes:
    """Figures of the run and all rules, as one object."""
    totals = running.totals
    told: dict[str, Any] = {
        "result": running.job.result,
        "rows": totals.rows,
        "matched_rows": totals.matched,
        "matches": totals.matches,
        "bad_rows": totals.bad,
        "seconds": round(running.seconds, 3),
        "compile_seconds": round(running.compiled, 3),
        "versions": dict(versions(running)),
        "never_matched": int(pc.sum(pc.equal(table["matches"], 0)).as_py() or 0),
        "asked_of_every_message": [id for id, _, _ in costly(running)],
        "rules": table.to_pylist(),
    }
    if running.job.stream is not None:
        told["micro_batches"] = running.batches
    return json.dumps(told, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def as_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
