"""What a router asks for is what its subscriptions ask for, no more and no less."""

from __future__ import annotations

import random

import msgspec
import pytest

import strategies as st
from dose import dose
from tamis.language import canonical
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.records import Record
from tamis.pubsub.links.interests import Interests
from tamis.pubsub.links.sieve import Sieve
from tamis.pubsub.links.wants import Want
from tamis.schema import Schema

SCHEMA = Schema.of(price=float, symbol=str, count=int, open=bool)
SELECTORS = (
    "", "price > 5", "price > 7 AND symbol = 'A'", "price <= 5", "symbol IN ('A', 'B')", "open",
    "symbol LIKE '%B%'", "price * count > 20", "lower(symbol) = 'a'", "NOT (price > 3 OR open)",
    "symbol <> 'A' AND price BETWEEN 2 AND 8", "price IS NULL", "extra = 1 OR extra = 'x'",
    "symbol > 'A'", "count <> 3 AND count <> 5", "NOT (symbol = 'C' AND price < 4)",
)  # fmt: skip
SUBJECTS = (">", "q.*", "q.>", "q.ny", "news")
MESSAGES = [
    {},
    *(
        {"price": price, "symbol": symbol, "count": count, "open": price > 5}
        for price, symbol, count in ((1.0, "A", 3), (4.5, "B", 5), (8.0, "C", 9), (9.0, "a", 0))
    ),
    {"price": 6.0, "extra": 1},
    {"symbol": "AB", "extra": "x"},
    {"count": 5, "open": None},
]
RECORDS = [
    Record(n, n, "", 0, "", subject, msgspec.json.encode(message))
    for n, (subject, message) in enumerate(
        ((s, m) for s in ("q.ny", "news", "q", "q.a.b") for m in MESSAGES), 1
    )
]


def hits(language, filters):
    """The sequences that any of the filters matches."""
    judge = Judge(language)
    assert not judge.add_many((n, *filter) for n, filter in enumerate(filters))
    return [record.sequence for record in judge.hits(RECORDS)] if filters else []


@pytest.mark.parametrize("semantics", ["sql", "strict", "default", "total"])
@pytest.mark.parametrize("dialect", ["tamis", "jms"])
def test_wants_ask_for_what_subscriptions_ask_for(semantics, dialect):
    rng = random.Random(f"interests {semantics} {dialect}")
    language = Language(SCHEMA, semantics, dialect)
    jms = ("", "price > 5", "symbol = 'A'", "price < 3 OR symbol IN ('B', 'C')", "open = TRUE")
    selectors = SELECTORS if dialect == "tamis" else jms
    interests, held, wants = Interests(language), {}, set()
    for _ in range(dose(14, 1_000)):
        key = rng.randrange(8)
        if key in held and rng.random() < 0.4:
            del held[key]
            changed = interests.remove(key)
        else:
            held[key] = rng.choice(SUBJECTS), rng.choice(selectors), rng.choice(("", selectors[1]))
            changed = interests.put(key, *held[key])
        assert wants.isdisjoint(changed.came)
        assert wants.issuperset(changed.gone)
        wants = wants.union(changed.came).difference(changed.gone)
        assert wants == set(interests.wants)
        told = [(want.subjects, want.selector, "") for want in wants]
        assert hits(language, told) == hits(language, list(held.values())), (held, wants)
    for key in list(held):
        interests.remove(key)
    assert interests.wants == []


def test_random_selectors_are_merged_exactly():
    rng = random.Random("random interests")
    for _ in range(dose(12, 1_000)):
        schema = st.random_schema(rng)
        language = Language(schema)
        interests = Interests(language)
        held = []
        for key in range(4):
            text = canonical(st.random_condition(rng, schema, 2))
            held.append((">", text, ""))
            interests.put(key, *held[-1])
        judges = [Judge(language), Judge(language)]
        judges[0].add_many((n, *one) for n, one in enumerate(held))
        judges[1].add_many((n, *want, "") for n, want in enumerate(interests.wants))
        messages = [("q", st.random_message(rng, schema)) for _ in range(10)]
        asked, told = ([bool(found) for found in judge.match(messages)] for judge in judges)
        assert asked == told, (held, interests.wants, messages)


def test_a_limit_widens_and_loses_nothing():
    language = Language(SCHEMA)
    interests = Interests(language, limit=3)
    held = [(">", f"symbol = '{c}' AND price > {n}", "") for n, c in enumerate("ABCDEFGH")]
    interests.put_many((n, *one) for n, one in enumerate(held))
    assert len(interests.wants) == 3
    told = hits(language, [(*want, "") for want in interests.wants])
    assert set(told) >= set(hits(language, held))


def test_a_sieve_gives_each_child_what_its_wants_match():
    rng = random.Random("sieve")
    language = Language(SCHEMA)
    sieve, held, bounds = Sieve(language), {}, {}
    for _ in range(dose(14, 1_000)):
        child = rng.randrange(1, 4)
        if child not in held:
            held[child], bounds[child] = set(), rng.choice(("", "price > 2"))
            sieve.open(child, bounds[child])
        elif rng.random() < 0.1:
            sieve.close(child)
            del held[child]
            continue
        want = Want(rng.choice(SUBJECTS), rng.choice(SELECTORS))
        if want in held[child]:
            held[child].remove(want)
            sieve.remove(child, [want])
        else:
            held[child].add(want)
            sieve.put(child, [want])
        found = sieve.sift(RECORDS)
        for child, wants in held.items():
            expected = hits(language, [(*want, bounds[child]) for want in wants])
            assert [r.sequence for r in found.get(child, [])] == expected
            assert sieve.sift_by(wants, child, RECORDS) == found.get(child, [])
