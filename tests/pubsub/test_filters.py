"""Covering, overlapping and merging: nothing is lost, and every change can be taken back."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import strategies as st
from tamis import Matcher
from tamis.errors import SelectorError, SubscriptionError
from tamis.language import canonical, parse
from tamis.logic import finder
from tamis.logic.conjunctions import includes
from tamis.logic.dnf import Filter, dnf, domains
from tamis.pubsub.filters import Interest, Merge, Piece, covers, overlaps
from tamis.pubsub.filters.covering import subject_hull
from tamis.pubsub.filters.maximal import Maximal
from tamis.pubsub.filters.narrowing import Narrowing
from tamis.pubsub.subjects.subject import EVERYTHING, Subject, SubjectFilter
from tamis.schema import Schema

STOCK = Schema.of(symbol=str, price=int, volume=int)
DOMAINS = domains(STOCK)
QUOTES = SubjectFilter.parse("quotes.nyse")


def interest(selector: str, subjects: str = "quotes.nyse") -> Interest:
    return Interest(SubjectFilter.parse(subjects), dnf(parse(selector), STOCK))


def merged(*selectors: str, limit: int | None = None, subjects: str = "quotes.nyse") -> Merge:
    merge: Merge[int] = Merge(limit, DOMAINS)
    merge.add_many(enumerate(interest(text, subjects) for text in selectors))
    return merge


def wanted(*selectors: str, subjects: str = "quotes.nyse") -> set:
    """The conjunctions of selectors that have one each."""
    return {
        (SubjectFilter.parse(subjects), interest(text).filter.disjuncts[0]) for text in selectors
    }


# --- covering ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("price > 5", "price > 7"),
        ("price > 5", "price > 5 AND symbol = 'LU'"),
        ("symbol IN ('LU', 'T')", "symbol = 'T'"),
        ("price < 5 OR price >= 5", "price = 3"),
        ("price < 5 AND volume = 1 OR price >= 5", "volume = 1 AND price IS NOT NULL"),
        ("price IN (1, 2, 3)", "price BETWEEN 1 AND 2"),
        ("symbol <> 'X'", "symbol < 'X'"),
        ("TRUE", "price = 1"),
        ("price = 1", "FALSE"),
    ],
)
def test_covers_what_is_plain_to_see(wide: str, narrow: str) -> None:
    assert covers(interest(wide), interest(narrow), DOMAINS)
    assert not covers(interest(narrow), interest(wide), DOMAINS)
    assert covers(interest(wide, "quotes.>"), interest(narrow), DOMAINS)
    assert not covers(interest(wide), interest("price = 1 OR price = 9", "quotes.*"), DOMAINS)


def test_overlaps() -> None:
    assert overlaps(interest("price > 5"), interest("price < 7"))
    assert not overlaps(interest("price > 5"), interest("price < 5"))
    assert overlaps(interest("price > 5"), interest("symbol = 'LU'"))
    assert overlaps(interest("TRUE", "quotes.*"), interest("TRUE"))
    assert not overlaps(interest("TRUE", "quotes.a"), interest("TRUE"))
    assert not overlaps(interest("TRUE"), interest("FALSE"))


@pytest.mark.parametrize("typed", [False, True])
def test_covers_agrees_with_the_matcher_and_with_messages(typed: bool) -> None:
    rng = random.Random(f"filters {typed}")
    agreed = said = met = 0
    while agreed < 120:
        schema = st.random_schema(rng) if typed else None
        matcher = Matcher(schema)
        texts = [canonical(st.random_condition(rng, schema, depth=1)) for _ in range(2)]
        texts[0] = f"({texts[0]}) OR ({texts[1]})" if rng.random() < 0.3 else texts[0]
        try:
            a, b = (dnf(parse(text), schema) for text in texts)
        except SelectorError:
            continue
        matcher.add_many(enumerate(texts))
        agreed += 1
        left, right = Interest(EVERYTHING, a), Interest(QUOTES, b)
        got = covers(left, right, domains(schema))
        assert got == matcher.covers(0, 1), texts
        said += got
        for _ in range(30):
            find = finder(st.random_message(rng, schema), "sql", schema)
            both = a.matches(find) and b.matches(find)
            met += both
            assert not (got and b.matches(find)) or a.matches(find)
            assert not both or overlaps(left, right)
    assert said > 15
    assert met > 100


# --- merging: what is plain to see -----------------------------------------------------


def test_covered_interests_are_not_forwarded() -> None:
    merge = merged("price > 5", "price > 7", "price > 9 AND symbol = 'LU'", "price > 5")
    assert merge.pieces == wanted("price > 5")
    assert not merge.wider
    assert merge.remove(0).removed == ()  # another one wants the same
    change = merge.remove(3)
    assert set(change.added) == wanted("price > 7")
    assert set(change.removed) == wanted("price > 5")


def test_pieces_that_differ_in_one_attribute_are_joined() -> None:
    assert merged("price BETWEEN 1 AND 5", "price BETWEEN 6 AND 9").pieces == wanted(
        "price BETWEEN 1 AND 9"
    )
    assert merged("symbol = 'LU' AND price < 5", "symbol = 'T' AND price < 5").pieces == wanted(
        "symbol IN ('LU', 'T') AND price < 5"
    )
    grid = [f"price = {x} AND volume = {y}" for x in range(5) for y in range(5)]
    assert merged(*grid).pieces == wanted("price IN (0, 1, 2, 3, 4) AND volume IN (0, 1, 2, 3, 4)")


def test_wider_subjects_cover_narrower_ones() -> None:
    merge: Merge[str] = Merge(None, DOMAINS)
    merge.add("one", interest("price > 5", "quotes.nyse"))
    merge.add("deep", interest("price > 6", "quotes.nyse.>"))
    assert len(merge.pieces) == 2
    merge.add("all", interest("price > 4", "quotes.>"))
    assert merge.pieces == wanted("price > 4", subjects="quotes.>")
    merge.remove("all")
    assert len(merge.pieces) == 2


def test_a_limit_widens_as_little_as_it_can() -> None:
    merge = merged(
        "symbol = 'LU' AND price < 5", "symbol = 'T' AND price < 6", "volume = 9", limit=2
    )
    assert merge.pieces == wanted("symbol IN ('LU', 'T') AND price < 6", "volume = 9")
    assert merge.wider
    assert merged("price < 5", "volume > 3", "symbol = 'X'", limit=1).pieces == {(QUOTES, ())}
    merge = Merge(1, DOMAINS)
    merge.add_many([(1, interest("price = 1", "a.b")), (2, interest("price = 2", "a.c"))])
    assert merge.pieces == wanted("price IN (1, 2)", subjects="a.*")


def test_ids_are_taken_once() -> None:
    merge = merged("price = 1")
    with pytest.raises(SubscriptionError, match="an interest 0 already"):
        merge.add(0, interest("price = 2"))
    with pytest.raises(SubscriptionError, match="no interest 7"):
        merge.remove(7)
    change = merge.replace(0, interest("price = 3"))
    assert (set(change.added), set(change.removed)) == (wanted("price = 3"), wanted("price = 1"))
    with pytest.raises(ValueError, match="one piece at least"):
        Merge(0)


# --- merging: properties -----------------------------------------------------------------

SUBJECTS = ("quotes.nyse", "quotes.*", "quotes.>", "news.a", ">")
ASKED = [
    Subject.parse(text) for text in ("quotes.nyse", "quotes.x", "quotes.nyse.b", "news.a", "z")
]


def make(rng: random.Random, schema) -> Interest:
    condition = st.random_condition(rng, schema, depth=rng.choice((0, 1, 2)))
    filter = dnf(condition, schema, widen=True, limit=20)
    return Interest(SubjectFilter.parse(rng.choice(SUBJECTS)), Filter(filter.disjuncts))


def wants(interests, subject: Subject, find) -> bool:
    return any(i.subjects.matches(subject) and i.filter.matches(find) for i in interests)


@pytest.mark.parametrize("limit", [None, 4, 12])
@pytest.mark.parametrize("typed", [False, True])
def test_merges_lose_nothing_and_depend_on_the_set_alone(limit: int | None, typed: bool) -> None:
    rng = random.Random(f"merge {limit}{typed}")
    for _ in range(6):
        schema = st.random_schema(rng) if typed else None
        known = domains(schema)
        merge: Merge[int] = Merge(limit, known)
        alive: dict[int, Interest] = {}
        for number in range(60):
            before = merge.pieces
            if alive and rng.random() < 0.35:
                gone = rng.choice(list(alive))
                change = merge.remove(gone)
                del alive[gone]
            else:
                alive[number] = make(rng, schema)
                change = merge.add(number, alive[number])
            assert merge.pieces == before - set(change.removed) | set(change.added)
            assert not set(change.removed) & set(change.added)
            if number % 6 == 0:
                afresh: Merge[int] = Merge(limit, known)
                afresh.add_many(alive.items())
                assert afresh.pieces == merge.pieces
                assert limit is None or len(merge.pieces) <= limit
                _agrees(rng, merge, alive, schema)


def _agrees(rng: random.Random, merge: Merge, alive: dict[int, Interest], schema) -> None:
    """Every message that an interest wants, the merge wants; without a limit no other."""
    for _ in range(6):
        find = finder(st.random_message(rng, schema), "sql", schema)
        for subject in ASKED:
            want = wants(alive.values(), subject, find)
            got = wants(merge.interests, subject, find)
            assert got == want or (merge.wider and got)


@settings(max_examples=30)
@given(hs.data())
def test_add_then_remove_leaves_the_merge_as_it_was(data) -> None:
    dice, limit = st.Drawn(data.draw), data.draw(hs.sampled_from((None, 3, 10)))
    merge: Merge[int] = Merge(limit, DOMAINS)

    def one() -> Interest:
        filter = dnf(st.Maker(dice, STOCK, ()).condition(1), STOCK, widen=True, limit=10)
        return Interest(SubjectFilter.parse(dice.pick(SUBJECTS)), filter)

    merge.add_many((i, one()) for i in range(dice.number(0, 12)))
    before = merge.pieces
    added = merge.add(100, one())
    removed = merge.remove(100)
    assert merge.pieces == before
    assert (set(added.added), set(added.removed)) == (set(removed.removed), set(removed.added))


def test_stock_filters_by_the_thousand() -> None:
    """What is kept is not covered, and what is covered is not kept."""
    rng = random.Random("stock")
    texts = [
        f"symbol = 'S{rng.randrange(40)}' AND price < {rng.randrange(100)} "
        f"AND volume > {rng.randrange(100)}"
        for _ in range(1_000)
    ]
    merge = merged(*texts)
    kept = [piece.conjunction for piece in merge.pieces]
    assert len(kept) < 500
    assert not any(includes(a, b) for a in kept for b in kept if a is not b)
    few = merged(*texts, limit=50)
    assert len(few.pieces) == 50
    for text in texts[:200]:
        (one,) = interest(text).filter.disjuncts
        assert any(includes(wide, one) for wide in kept)
        assert any(includes(piece.conjunction, one) for piece in few.pieces)


def test_large_buckets_are_searched_by_their_bounds() -> None:
    rng = random.Random("boxes")
    texts = []
    for _ in range(600):
        a, b = rng.randrange(1000), rng.randrange(1000)
        texts.append(f"price BETWEEN {a} AND {a + 30} AND volume BETWEEN {b} AND {b + 30}")
    texts += [f"price BETWEEN {a} AND {a + 300} AND volume < 500" for a in range(0, 900, 100)]
    merge = merged(*texts)
    ones = [interest(text).filter.disjuncts[0] for text in dict.fromkeys(texts)]
    slow = {one for one in ones if not any(includes(o, one) for o in ones if o is not one)}
    came, _ = Maximal().change([Piece(QUOTES, one) for one in ones], [])
    assert {piece.conjunction for piece in came} == slow
    for one in ones:
        assert any(includes(piece.conjunction, one) for piece in merge.pieces)
    for i in range(0, 600, 3):
        merge.remove(i)
    again = Merge(None, DOMAINS)
    again.add_many((i, interest(t)) for i, t in enumerate(texts) if i >= 600 or i % 3)
    assert again.pieces == merge.pieces


@pytest.mark.parametrize("limit", [1, 2, 7, 40, 150])
def test_narrowing_one_change_at_a_time(limit: int) -> None:
    rng = random.Random(f"narrowing {limit}")

    def piece() -> Piece:
        text = f"symbol = 'S{rng.randrange(9)}' AND price < {rng.randrange(500)}"
        text += rng.choice(("", f" AND volume > {rng.randrange(9)}"))
        return Piece(rng.choice((QUOTES, EVERYTHING)), interest(text).filter.disjuncts[0])

    alive = {piece() for _ in range(120)}
    narrowing, out = Narrowing(limit, DOMAINS), set()
    out |= set(narrowing.change(alive, [])[0])
    for _ in range(60):
        coming = {piece() for _ in range(rng.choice((0, 1, 1, 3)))} - alive
        going = set(rng.sample(sorted(alive, key=repr), rng.choice((0, 1, 1, 3))))
        came, went = narrowing.change(coming, going)
        alive = alive - going | coming
        assert set(went) <= out
        out = out - set(went) | set(came)
        assert out == set(Narrowing(limit, DOMAINS).change(alive, [])[0])
        assert len(out) <= limit


@given(
    hs.lists(hs.sampled_from(("a", "b", "*")), min_size=1, max_size=3),
    hs.lists(hs.sampled_from(("a", "b", "*")), min_size=1, max_size=3),
    hs.booleans(),
    hs.booleans(),
)
def test_subject_hulls_cover_both(a, b, open_a, open_b) -> None:
    first = SubjectFilter((*a, ">") if open_a else tuple(a))
    second = SubjectFilter((*b, ">") if open_b else tuple(b))
    around = subject_hull(first, second)
    assert around.covers(first)
    assert around.covers(second)
