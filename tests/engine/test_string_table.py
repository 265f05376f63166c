"""Tables that kernels look strings and keys up in."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tamis.engine.lookup.string_table import entries_of, find_words, table_of
from tamis.engine.values.typed_columns import Texts, from_arrow
from tamis.schema import Type

LENGTHS = (0, 1, 6, 7, 8, 9, 15, 16, 17, 40)


def some_text(rng: random.Random) -> str:
    """Few letters, so that many strings are alike up to their last bytes or their length."""
    return "".join(rng.choice("aab\0é") for _ in range(rng.choice(LENGTHS)))


@pytest.mark.parametrize("count", [1, 20, 3000])
def test_strings_are_found_as_a_dictionary_finds_them(count: int) -> None:
    rng = random.Random(count)
    known = list(dict.fromkeys(some_text(rng) for _ in range(count)))
    asked = [rng.choice([rng.choice(known), some_text(rng), None]) for _ in range(2000)]
    column = from_arrow(pa.array(["not asked", *asked], pa.string()).slice(1), Type.STRING)
    assert isinstance(column, Texts)
    number = {text: i for i, text in enumerate(known)}
    assert column.find(table_of(known)).tolist() == [number.get(text, -1) for text in asked]


@pytest.mark.parametrize("count", [0, 1, 10, 3000])
def test_keys_are_found_as_a_dictionary_finds_them(count: int) -> None:
    rng = np.random.default_rng(count)
    known = np.unique(rng.integers(-(2**63), 2**63, count) >> rng.integers(0, 63, count))
    asked = np.concatenate([known, known + 1, np.array([0, -1, -(2**63), 2**63 - 1])])
    valid = rng.random(len(asked)) < 0.9
    words, found = asked.view(np.uint64), np.empty(len(asked), np.int32)
    words.flags.writeable = False
    find_words(entries_of(known.astype(np.uint64)), words, valid, found)
    number = {key: i for i, key in enumerate(known.tolist())}
    wanted = [
        number.get(key, -1) if ok else -1 for key, ok in zip(asked.tolist(), valid, strict=True)
    ]
    assert found.tolist() == wanted
