"""What a run came to: figures for a terminal, facts for a page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tamis.language import canonical
from tamis.spark.jobs.job_running import Running
from tamis.spark.jobs.page import Facts, spread
from tamis.spark.jobs.rule_counts import costly, rules, versions
from tamis.spark.live_questions import LiveQuestion
from tamis.spark.workers.tally import TICKS

_TOP, _REFUSED = 25, 100  # rows of the page's tables


def figures(running: Running, refused: int) -> list[tuple[str, str]]:
    """What the run came to, in the order of interest."""
    totals, seconds = running.totals, running.seconds
    found = [
        ("subscriptions", f"{running.subscriptions:,}"),
        ("rows", f"{totals.rows:,}"),
        ("matched rows", f"{totals.matched:,}"),
        ("matches", f"{totals.matches:,}"),
        ("seconds", f"{seconds:,.1f}"),
        ("compile time", f"{running.compiled:,.1f} s"),
        ("rows/s", f"{running.rate:,.0f}"),
        ("bad selectors", f"{refused:,}"),
        ("bad rows", f"{totals.bad:,}"),
    ]
    if running.job.stream is not None:
        found.insert(1, ("micro-batches", f"{running.batches:,}"))
    return found


def top(running: Running, count: int = _TOP) -> list[tuple[str, str, int]]:
    """The subscriptions with most matches: id, selector, matches."""
    counts = running.totals.counts
    if counts is None or not counts.num_rows:
        return []
    order = counts.sort_by([("count", "descending"), ("id", "ascending")]).slice(0, count)
    selectors = _selectors(running, order["id"])
    rows = zip(order["id"].to_pylist(), selectors, order["count"].to_pylist(), strict=True)
    return [(str(id), selector, matches) for id, selector, matches in rows]


def never(running: Running) -> int:
    """How many subscriptions matched nothing."""
    counts = running.totals.counts
    # Of subscriptions that change, some that have matched may be gone.
    return max(0, running.subscriptions - (0 if counts is None else counts.num_rows))


def silent(running: Running) -> list[tuple[str, str]]:
    """Some of the subscriptions that matched nothing: id and selector."""
    if running.job.result not in ("match", "deliveries") or not running.job.named:
        return []
    table = rules(running)
    none = table.filter(pc.equal(table["matches"], 0)).slice(0, _TOP)
    return [
        (str(id), text)
        for id, text in zip(none["id"].to_pylist(), none["selector"].to_pylist(), strict=True)
    ]


def histogram(running: Running) -> list[tuple[str, int]] | None:
    """How many subscriptions have how many matches; None where that was not counted."""
    counts = _counts(running)
    return None if counts is None else spread(counts, never(running))


def facts(running: Running, settings: Sequence[tuple[str, str]], refused: list[Any]) -> Facts:
    """All that the page tells."""
    totals = running.totals
    step, first = totals.width / TICKS, running.started
    return Facts(
        title=f"tamis run: {running.job.result}",
        when=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        figures=figures(running, len(refused)),
        settings=[*settings, *versions(running)],
        # Clocks of other hosts may be behind.
        pace=[
            (max(0.0, at / TICKS - first), rows / step) for at, rows in sorted(totals.pace.items())
        ],
        step=step,
        counts=_counts(running),
        never=never(running),
        silent=silent(running),
        costly=[(str(id), text, n) for id, text, n in costly(running)[:_TOP]],
        costly_in_all=len(costly(running)),
        top=top(running),
        refused=[
            (str(bad["id"]), str(bad["selector"]), bad["reason"]) for bad in refused[:_REFUSED]
        ],
        refused_in_all=len(refused),
        bad_rows=totals.bad,
    )


def _counts(running: Running) -> list[int] | None:
    if running.job.result not in ("match", "deliveries") or not running.job.named:
        return None
    counts = running.totals.counts
    return [] if counts is None else counts["count"].to_pylist()


def _selectors(running: Running, ids: pa.ChunkedArray) -> list[str]:
    """As they were written where that is known, else in canonical form."""
    question, table = running.question, running.question.table
    if isinstance(question, LiveQuestion):
        now = question.subscriptions
        return [now[id][0] if id in now else "(gone)" for id in ids.to_pylist()]
    if table is None:
        return [canonical(question.matcher._condition(id)) for id in ids.to_pylist()]
    rows = table.rows.filter(pc.is_in(table.rows["id"], ids.combine_chunks()))
    written: dict[object, str] = {}
    for id, selector in zip(rows["id"].to_pylist(), rows["selector"].to_pylist(), strict=True):
        written.setdefault(id, selector)  # an id that stands twice is good where it stands first
    return [written[id] for id in ids.to_pylist()]
