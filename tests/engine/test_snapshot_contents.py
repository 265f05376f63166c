"""Files with right checksums and wrong contents never reach a kernel."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from engine.snapshots import MESSAGES, answers, small
from tamis import Matcher, SnapshotError
from tamis.engine.paths.clusters.cubes import BIT, BOUND, CUBE, TEST
from tamis.engine.snapshot import file as container
from tamis.engine.snapshot.codecs import LINK, STRING
from tamis.engine.snapshot.saving import arrays_of, segment_arrays
from tamis.schema import INT_MAX, INT_MIN

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "2"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.tamis"


EDGES = (-1, 0, 1, 2, 7, 127, 255, 2**31 - 1, -(2**31), 2**62, INT_MAX, INT_MIN)


def tampered(
    rng: random.Random, arrays: dict[str, np.ndarray], names: list[str]
) -> dict[str, np.ndarray]:
    """Change, cut or lengthen one of the named arrays; sometimes two."""
    changed = dict(arrays)
    for _ in range(rng.choice((1, 1, 1, 2))):
        name = rng.choice(names)
        array = changed[name].copy()
        way = rng.random()
        if way < 0.1 and len(array):
            array = array[: rng.randrange(len(array))]
        elif way < 0.2:
            array = np.concatenate([array, array[-1:]])
        elif way < 0.25:
            array = array.astype(rng.choice((np.int32, np.int64, np.uint8)))
        elif array.size:
            at = rng.randrange(array.size)
            value = rng.choice(
                (*EDGES, int(array.flat[at]) + 1, int(array.flat[at]) - 1, array.size)
            )
            array.flat[at] = np.array(value % 2**64, np.uint64).astype(array.dtype)
        changed[name] = array
    return changed


@pytest.mark.parametrize(("begin", "rounds"), [("", 150), ("cube_", 50)])
def test_wrong_contents_never_reach_a_kernel(begin: str, rounds: int, path: Path):
    """What is loaded all the same has every number within its bounds: it can be used."""
    rng = random.Random(5)
    matcher = small()
    matcher.settle()
    arrays = {name: np.concatenate(parts) for name, parts in arrays_of(matcher)}
    names = [name for name in arrays if name.startswith(begin)]
    refusals = 0
    for _ in range(rounds * ROUNDS):
        container.write(path, [(n, [a]) for n, a in tampered(rng, arrays, names).items()])
        try:
            loaded = Matcher.load(path)
        except SnapshotError:
            refusals += 1
            continue
        answers(loaded)
        loaded.match_many(MESSAGES * 30)
    assert rounds * ROUNDS > refusals > rounds * ROUNDS // 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node", 10_000),
        ("node", -1),
        ("event", 10_000),
        ("group", 99),
        ("root", 500),
        ("slot", 500),
        ("template", 500),
        ("literal", 500),
        ("literal", -1),
        ("literal", 0),
        ("cube_starts", 10**12),
        ("cube_test", 99),
        ("cube_test", -99),
        ("cube_subscription", 500),
        ("cube_bit", 500),
        ("cube_bit", -1),
        ("access_clusters", 0),
        ("access_clusters", 500),
        ("requirement_columns", 500),
        ("words", 2**30),
        ("words", -9),
        ("question", 2**30),
        ("starts", 10**12),
        ("bounds", -1),
        ("item_starts", 10**12),
        ("links", 10_000),
        ("links", -1),
        ("family", 77),
        ("selector_bytes", 0xFF),
    ],
)
def test_numbers_out_of_bounds_are_refused(name: str, value: int, path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    assert arrays[name].size
    arrays[name] = np.full_like(arrays[name], value)
    container.write(path, [(n, [a]) for n, a in arrays.items()])
    for verify in (True, False):
        with pytest.raises(SnapshotError, match="no matcher has"):
            Matcher.load(path, verify=verify)


@pytest.mark.parametrize("value", ["S1", ("S1", "S2"), 3.5])
def test_a_list_holds_scalars_of_its_family_and_no_lists(value: object, path: Path):
    """A link of an IN that leads to a scalar of its family is any other IN; all else is refused."""
    matcher = small()
    pool = matcher._contents.intake.vocabulary.pool
    wanted = next(i for i in range(len(pool.values)) if value in (pool.values[i], _listed(pool, i)))
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(matcher)}
    assert len(arrays["links"]) == 2
    arrays["links"] = np.array([wanted, arrays["links"][1]], np.int32)
    container.write(path, [(n, [a]) for n, a in arrays.items()])
    if value == "S1":
        assert Matcher.load(path).match({"symbol": "S1"}) == ["ü", 7]
        return
    with pytest.raises(SnapshotError, match="no matcher has"):
        Matcher.load(path)


def _listed(pool, number: int) -> tuple | None:
    return pool.listed(number) if isinstance(pool.values[number], bytes) else None


def test_a_list_is_all_links_or_none(path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    at = np.flatnonzero(arrays["kind"] == LINK)[0]
    arrays["kind"][at] = STRING
    arrays["links"] = arrays["links"][1:]
    arrays["item_offsets"] = np.append(arrays["item_offsets"], arrays["item_offsets"][-1])
    container.write(path, [(n, [a]) for n, a in arrays.items()])
    with pytest.raises(SnapshotError, match="no matcher has"):
        Matcher.load(path)


def change(name: str, at: tuple, value: int):
    """A change to one number, named by its place."""
    return pytest.param(name, at, value, id=f"{name}{at} = {value}")


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        change("cube_starts", (-1, TEST), 0),
        change("cube_starts", (-1, BOUND), 2),
        change("cube_starts", (3, BOUND), 1),
        change("cube_starts", (3, CUBE), 1),
        change("cube_starts", (3, TEST), 4),
        change("cube_starts", (2, BIT), -1),
        change("cube_starts", (-2, BIT), 10**6),
    ],
)
def test_cubes_without_their_bounds_are_refused(name: str, at: tuple, value: int, path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    arrays[name] = arrays[name].copy()
    assert arrays[name][at] != value
    arrays[name][at] = value
    container.write(path, [(n, [a]) for n, a in arrays.items()])
    with pytest.raises(SnapshotError, match="no matcher has"):
        Matcher.load(path)


def test_bounds_that_are_read_ahead_must_be_there(path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    arrays["cube_bound"] = arrays["cube_bound"][:-1]
    arrays["bounds"][-1, list(segment_arrays()).index("cube_bound")] -= 1
    container.write(path, [(n, [a]) for n, a in arrays.items()])
    with pytest.raises(SnapshotError, match="cubes do not fit"):
        Matcher.load(path)


def test_arrays_that_are_missing(path: Path):
    arrays = {n: np.concatenate(parts) for n, parts in arrays_of(small())}
    for name in arrays:
        container.write(path, [(n, [a]) for n, a in arrays.items() if n != name])
        with pytest.raises(SnapshotError, match=f"there is no {name}"):
            Matcher.load(path)
