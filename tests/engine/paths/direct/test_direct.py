"""Clusters that one value leads to: batches agree with the oracle, whatever these ask for."""

from __future__ import annotations

import random
import threading

import pytest

import oracle
from dose import dose
from tamis import Matcher
from tamis.engine.live import state
from tamis.engine.paths.direct import direct_plans as plans
from tamis.engine.paths.direct import direct_rows
from tamis.engine.paths.direct.direct_path import DirectPath
from tamis.language import parse
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import Schema

SCHEMA = Schema.of(key=str, venue=str, lot=int, price=float, size=int)
SETS = {
    "bounds": "price < {n} AND size > {m}",
    "one bound": "price >= {n}.5",
    "values": "venue = 'v{v}' AND lot = {n}",
    "some values": "lot = {n} {or_venue}",
    "values and bounds": "venue = 'v{v}' AND price < {n}",
    "no value": "venue <> 'v{v}' AND price < {n}",
    "lists": "venue IN ('v{v}', 'v1', 'é') AND size < {n}",
    "flags": "venue IS NULL AND price < {n}",
    "nothing": "TRUE",
    "seven bounds": "price < {n} AND size > {m} AND lot > 1 AND lot < 9 AND size < 9 AND price > 1"
    " AND venue < 'v9' AND venue > 'v{v}'",
}


def selector(rng: random.Random, form: str, keys: int) -> str:
    rest = SETS[form].format(
        n=rng.randrange(12),
        m=rng.randrange(12),
        v=rng.randrange(4),
        or_venue=rng.choice(["", f"AND venue = 'v{rng.randrange(4)}'"]),
    )
    return f"key = 'k{rng.randrange(keys)}' AND {rest}"


def some_message(rng: random.Random) -> dict[str, object]:
    message = {
        "key": f"k{rng.randrange(24)}",
        "venue": rng.choice(["v0", "v1", "v2", "é", "other, and long"]),
        "lot": rng.randrange(12),
        "price": rng.randrange(24) / 2,
        "size": rng.randrange(12),
    }
    for name in rng.sample(list(message), rng.choice([0, 0, 1, 2])):
        del message[name]
    return message


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("semantics", ["sql", "strict"])
@pytest.mark.parametrize("form", [*SETS, "all"])
def test_batches_agree_with_the_oracle(
    form: str, semantics: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`large`: messages are sorted by value, and there is no room to keep what is found."""
    if large:
        monkeypatch.setattr(plans, "_LARGE", -1)
        for limit in ("_FEW_PAIRS", "_MANY_PAIRS"):
            monkeypatch.setattr(state, limit, 30)
        monkeypatch.setattr(state, "_memory", threading.local())
    rng = random.Random(f"{form}{semantics}")
    keys = 16 if large else 20
    forms = list(SETS) if form == "all" else [form]
    selectors = [selector(rng, rng.choice(forms), keys) for _ in range(60)]
    selectors += [f"key = 'k0' AND {SETS['values']}".format(v=i % 4, n=i % 11) for i in range(90)]
    selectors += [f"key = 'k{i}' AND price < {i}" for i in range(1, keys)]
    matcher = Matcher(SCHEMA, semantics=semantics)
    matcher.add_many(enumerate(selectors))
    for id in rng.sample(range(len(selectors)), 3) if large else ():
        matcher.remove(id)
    messages = [some_message(rng) for _ in range(130)]
    messages[0] = {**messages[0], "key": "k0", "venue": "v1", "lot": 1}
    conditions = {id: parse(selectors[id]) for id in matcher}
    wanted = [
        [id for id, c in conditions.items() if oracle.matches(c, m, semantics, SCHEMA)]
        for m in messages
    ]
    batch, _ = to_batch(messages, SCHEMA, list(SCHEMA), from_value)
    assert matcher.match_batch(batch).to_pylist() == wanted
    assert matcher.match_many(messages).to_pylist() == wanted
    assert matcher.count_batch(batch).tolist() == [len(row) for row in wanted]
    ids, bits = matcher.bitmap_batch(batch)
    found = [[i for i, row in zip(ids, bits, strict=True) if _bit(row, m)] for m in range(130)]
    assert found == wanted


def _bit(row, m: int) -> int:
    return int(row[m // 64]) >> m % 64 & 1


@pytest.mark.parametrize(
    ("form", "others"),
    [
        *[(form, 0) for form in SETS if form not in ("no value", "lists", "seven bounds")],
        *[(form, 20) for form in ("no value", "lists", "seven bounds")],
    ],
)
def test_what_has_a_place_in_the_signature_is_direct(form: str, others: int) -> None:
    rng = random.Random(form)
    matcher = Matcher(SCHEMA, semantics="sql" if form == "flags" else "strict")
    matcher.add_many((i, f"key = 'k{i % 20}' {selector(rng, form, 1)[10:]}") for i in range(400))
    matcher.settle()
    (segment,) = matcher._contents.merging.state.segments
    made = segment.path(DirectPath).plan
    assert (len(made.rows.row), len(made.access.clusters)) == (20 - others, others)


def test_fields_that_do_not_fit_into_a_signature_are_left_to_others() -> None:
    """Fourteen attributes of 16 values each need 70 bits."""
    names = [f"a{i}" for i in range(14)]
    schema = Schema.of(key=str, **dict.fromkeys(names, int))
    matcher = Matcher(schema)
    matcher.add_many(
        (f"{key}.{i}", f"key = 'k{key}' AND {name} = {(key + i) % 16}")
        for key in range(40)
        for i, name in enumerate(names)
    )
    (segment,) = matcher._contents.merging.state.segments
    made = segment.path(DirectPath).plan
    assert 0 < len(made.shifts) < 14
    assert len(made.access.clusters) == 40
    messages = [{"key": f"k{m % 50}", **dict.fromkeys(names, m % 16)} for m in range(200)]
    batch, _ = to_batch(messages, schema, list(schema), from_value)
    assert matcher.match_batch(batch).to_pylist() == [matcher.match(m) for m in messages]


@pytest.mark.parametrize("semantics", ["sql", "strict", "default"])
def test_more_attributes_than_a_signature_has_bits(semantics: str, monkeypatch) -> None:
    """What must be defined beside the value that leads there is asked column by column."""
    monkeypatch.setattr("tamis.engine.choosing.claims.MIN_POINTS", 3)
    rng = random.Random(3)
    names = {f"k{i}": str for i in range(40)} | {f"p{i}": float for i in range(40)}
    schema = Schema.of(names)
    forms = ("p{i} < {n}", "p{i} > {n}", "p{i} < {n} AND p{j} >= {m}", "NOT p{i} < {n}", "TRUE")
    texts = [
        f"k{rng.randrange(40)} = 'v{rng.randrange(20)}' AND "
        + rng.choice(forms).format(
            i=rng.randrange(40), j=rng.randrange(40), n=rng.randrange(9), m=rng.randrange(9)
        )
        for _ in range(600)
    ]
    matcher = Matcher(schema, semantics=semantics)
    matcher.add_many(enumerate(texts))
    matcher.settle()
    messages = [
        {
            name: f"v{rng.randrange(20)}" if kind is str else float(rng.randrange(9))
            for name, kind in names.items()
            if rng.random() < 0.8
        }
        for _ in range(dose(80, 120))
    ]
    conditions = [parse(text) for text in texts]
    expected = [
        [i for i, c in enumerate(conditions) if oracle.matches(c, m, semantics, schema)]
        for m in messages
    ]
    assert matcher.match_many(messages).to_pylist() == expected
    assert [matcher.match(m) for m in messages] == expected
    made = matcher._contents.merging.state.parts[0].segment.path(DirectPath).plan
    assert made.rows.shape[:, direct_rows.NEEDS].any()
    assert len(made.lone.owner) > 100
    assert (made.lone.column < 0).any()
    gone = set(rng.sample(range(len(texts)), 50))
    for id in gone:
        matcher.remove(id)
    expected = [[i for i in row if i not in gone] for row in expected]
    batch, _ = to_batch(messages, schema, list(schema), from_value)
    assert matcher.match_batch(batch).to_pylist() == expected
    assert matcher.count_batch(batch).tolist() == [len(row) for row in expected]
    ids, bits = matcher.bitmap_batch(batch)
    held = [
        [i for i, row in zip(ids, bits, strict=True) if _bit(row, m)] for m in range(len(batch))
    ]
    assert held == expected
