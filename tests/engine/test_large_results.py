"""Results that would not fit are refused with their size, or handed out piece by piece."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest

from tamis import Matcher, ResultError, Schema
from tamis.engine import piecewise
from tamis.engine.live import state

TABLE = pa.table({"a": list(range(300))})


def made(engine: str = "diagram") -> Matcher:
    """Row i has i matches, row 0 none."""
    matcher = Matcher(Schema.of(a=int), engine=engine)  # type: ignore[arg-type]
    matcher.add_many((f"s{i}", f"a > {i}") for i in range(300))
    return matcher


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["diagram", "implication"])
def test_a_result_beyond_the_limit_is_refused(
    engine: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piecewise, "_ROWS", 64)
    matcher = made(engine)
    pairs = 300 * 299 // 2
    assert len(matcher.match_batch(TABLE, limit=pairs).slots) == pairs
    with pytest.raises(ResultError) as refused:
        matcher.match_batch(TABLE, limit=pairs - 1, threads=threads)
    error = refused.value
    assert (error.rows, error.pairs, error.limit) == (300, pairs, pairs - 1)
    assert "300 rows have 44,850 matches" in str(error)
    assert "match_batches" in str(error)


@pytest.mark.parametrize("engine", ["diagram", "implication"])
@pytest.mark.parametrize("pairs", [1, 100, 1000, 10**6])
def test_pieces_are_the_whole(engine: str, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piecewise, "_ROWS", 128)
    matcher = made(engine)
    whole = matcher.match_batch(TABLE).to_pylist()
    pieces = list(matcher.match_batches(TABLE, pairs=pairs))
    assert [row for piece in pieces for row in piece.to_pylist()] == whole
    assert all(len(piece) == 1 or len(piece.slots) <= pairs for piece in pieces)
    assert pairs < 1000 or len(pieces) < 60


def test_many_mappings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few = state.State.matched
    monkeypatch.setattr(state.State, "matched", lambda *given: few(*given, 100))
    with pytest.raises(ResultError):
        made().match_many(TABLE.to_pylist())


def test_sides_that_overlap_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """To count subscriptions with several sides they must be found: not all at once."""
    monkeypatch.setattr(state, "MOST_PAIRS", 600)
    matcher = Matcher(Schema.of(a=int, b=int))
    matcher.add_many((i, f"a BETWEEN {i} AND {i + 40} OR b = {i}") for i in range(300))
    rows = pa.table({"a": list(range(300)), "b": list(range(300))})
    wanted = [min(i, 40) + 1 for i in range(300)]
    assert matcher.count_batch(rows).tolist() == wanted


def test_counts_leave_memory_with_their_last_user() -> None:
    matcher = Matcher()
    matcher.add("a", "a = 1")
    gc.disable()
    try:
        counts = weakref.ref(matcher.count_batch(pa.table({"a": [1, 2]})))
        assert counts() is None
    finally:
        gc.enable()
