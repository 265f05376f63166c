"""Conditions of few paths under access events are cubes, and nothing else is kept of them."""

from __future__ import annotations

import numpy as np
import pytest

from tamis import Matcher, Schema
from tamis.engine.paths.clusters.cluster_path import ClusterPath
from tamis.engine.paths.everywhere import straight_line as s
from tamis.engine.paths.everywhere.everywhere_path import EverywherePath
from tamis.engine.paths.segment import Segment

pytestmark = pytest.mark.slow

SCHEMA = Schema.of(symbol=str, price=float, volume=int, kind=str)


def compiled(selectors: list[str], **options) -> tuple[Matcher, Segment]:
    matcher = Matcher(SCHEMA, **options)
    matcher.add_many(enumerate(selectors))
    (segment,) = matcher._contents.merging.state.segments
    return matcher, segment


def alerts(count: int) -> list[str]:
    return [f"symbol = 'S{i % 20}' AND price < {i}.5 AND volume > {i % 7}" for i in range(count)]


def wide(i: int, paths: int = 6) -> str:
    """A condition of more paths than a root of cubes may have."""
    parts = [f"price < {n + 0.5} AND volume = {n + i}" for n in range(paths)]
    return f"symbol = 'S{i}' AND ({' OR '.join(parts)})"


def test_alerts_leave_no_nodes_behind() -> None:
    _, segment = compiled(alerts(200))
    assert len(segment.path(ClusterPath).cubes.subscription) == 200
    clusters = segment.path(EverywherePath).clusters
    assert [len(a) for a in (clusters.root, clusters.node, clusters.threshold, clusters.group)] == (
        [0, 0, 0, 0]
    )
    assert segment.path(EverywherePath).longest == 0


def test_other_roots_of_a_cluster_stay() -> None:
    selectors = [*alerts(100), wide(3), *alerts(20), wide(7), wide(3), "price > 50", "volume < 3"]
    matcher, segment = compiled(selectors)
    starts = segment.path(EverywherePath).clusters.starts
    assert len(segment.path(ClusterPath).cubes.subscription) == 120
    assert segment.path(EverywherePath).clusters.root[:, 2].tolist() == [123, 124, 100, 122, 121]
    assert starts[1, s.ROOT] == 2
    assert np.flatnonzero(np.diff(starts[:, s.ROOT])).tolist() == [
        0,
        *np.flatnonzero(np.diff(starts[:, s.NODE]))[1:].tolist(),
    ]
    for column, field in zip(
        (s.GROUP, s.THRESHOLD, s.EVENT, s.FLAG, s.NEED, s.HOIST, s.NODE, s.ROOT),
        segment.path(EverywherePath).clusters[1:],
        strict=True,
    ):
        assert (np.diff(starts[:, column]) >= 0).all()
        assert starts[-1, column] == len(field)
    for price in (0.2, 3.1, 60.0):
        for volume in range(12):
            for symbol in ("S3", "S7", "S1"):
                message = {"symbol": symbol, "price": price, "volume": volume}
                found = matcher.match(message)
                assert found == [i for i in range(125) if matcher.explain(i, message).matches]


def test_bits_of_cubes_name_events_flags_and_needs_that_stay() -> None:
    selectors = [
        f"symbol = 'S{i % 20}' AND kind {'=' if i % 3 else '<>'} 'k{i % 5}' AND price < {i}"
        for i in range(100)
    ]
    for semantics in ("sql", "strict"):
        matcher, segment = compiled(selectors, semantics=semantics)
        assert len(segment.path(EverywherePath).clusters.root) == 0
        assert len(segment.path(ClusterPath).cubes.bit) > 20
        for n in range(60):
            message = {"symbol": f"S{n % 20}", "kind": f"k{n % 6}", "price": n * 1.5}
            if n % 7 == 0:
                del message["kind"]
            found = matcher.match(message)
            assert found == [i for i in range(100) if matcher.explain(i, message).matches]


def test_folding_and_saving_need_no_nodes(tmp_path) -> None:
    matcher = Matcher(SCHEMA)
    for i, text in enumerate(alerts(150)):
        matcher.add(i, text)
    for i in range(0, 150, 7):
        matcher.remove(i)
    matcher.settle()
    matcher.save(tmp_path / "saved")
    loaded = Matcher.load(tmp_path / "saved")
    loaded.add("one more", alerts(1)[0])
    loaded.settle()
    message = {"symbol": "S3", "price": 20.0, "volume": 5}
    wanted = [i for i in range(150) if i % 7 and i % 20 == 3 and i >= 20 and i % 7 < 5]
    assert matcher.match(message) == wanted
    assert loaded.match(message) == wanted
    first = {"symbol": "S0", "price": 0.0, "volume": 1}
    assert matcher.match(first) == []
    assert loaded.match(first) == ["one more"]
