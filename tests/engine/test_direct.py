"""Clusters that one value leads to: batches agree with the oracle, whatever these ask for."""

from __future__ import annotations

import random
import threading

import pytest

import oracle
from tamis import Matcher
from tamis.engine import plan, state
from tamis.language import parse
from tamis.messages.table import to_batch
from tamis.messages.texts import from_value
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
        monkeypatch.setattr(plan, "_LARGE", -1)
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
    (segment,) = matcher._contents.folding.state.segments
    made = plan.plan_of(segment)
    assert (len(made.rows.row), len(made.access.clusters)) == (20 - others, others)
    assert made.alone == (others == 0)


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
    (segment,) = matcher._contents.folding.state.segments
    made = plan.plan_of(segment)
    assert 0 < len(made.shifts) < 14
    assert len(made.access.clusters) == 40
    messages = [{"key": f"k{m % 50}", **dict.fromkeys(names, m % 16)} for m in range(200)]
    batch, _ = to_batch(messages, schema, list(schema), from_value)
    assert matcher.match_batch(batch).to_pylist() == [matcher.match(m) for m in messages]
