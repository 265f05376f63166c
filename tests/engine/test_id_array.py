"""IdNames of slots: made once, added to, and of one type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tamis.engine.live.id_array import IdNames


@pytest.mark.parametrize(
    "steps",
    [
        [[1, 2], [3], []],
        [["a"], ["b", "ä"], [""]],
        [[1], ["a"], [2]],
        [["a"], [1], ["b"]],
        [[1, "a"], [2]],
        [[], [1], []],
    ],
)
def test_names_grow_with_the_ids(steps: list[list[str | int]]) -> None:
    ids: list[str | int] = []
    names = IdNames(ids)
    for step in steps:
        before, then = names.array(), names.array().to_pylist()
        ids += step
        after = names.array()
        strings = any(isinstance(id, str) for id in ids)
        assert after.type == (pa.string() if strings else pa.int64())
        assert after.to_pylist() == [str(id) if strings else id for id in ids]
        assert before.to_pylist() == then
        mixed = strings and any(isinstance(id, int) for id in ids)
        assert names.given == (ids if mixed else None)
        assert names.array() is after
