"""Conditions as filters: the patent's examples, and what the oracle says of all others."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

import oracle
import strategies as st
from bounded import bounded
from tamis.errors import MessageError, SelectorError
from tamis.language import And, Compare, Or, parse
from tamis.logic import SEMANTICS, Semantics, finder
from tamis.logic.conjunctions import covered, difference, hull, includes, narrowed_to
from tamis.logic.dnf import Filter, SubExpressions, dnf, domains
from tamis.logic.sets import ANY, Line, Values
from tamis.reasoning import covers
from tamis.schema import INT_MAX, Schema

STOCK = Schema.of(price=int, symbol=str, volume=int, rate=float)
LU, T = Values(Line.STRING, members=("LU",)), Values(Line.STRING, members=("T",))


def stock(selector: str, **options) -> tuple:
    return dnf(parse(selector), STOCK, **options).disjuncts


def ints(low=None, high=None, members=None) -> Values:
    return Values(Line.INT, low, high, members)


# --- US 6,910,033 -----------------------------------------------------------------


def test_us6910033_not_equal_in_positive_form() -> None:
    assert stock("price != 80") == ((("price", ints(high=79)),), (("price", ints(low=81)),))


def test_us6910033_ranges_of_one_attribute_become_one() -> None:
    text = "price>=10 AND price<=80 AND price>=20 AND price<=100"
    assert stock(text) == ((("price", ints(20, 80)),),)
    assert stock("price>=20") == ((("price", ints(low=20)),),)
    assert stock("price<=80") == ((("price", ints(high=80)),),)
    assert stock("price==50") == ((("price", ints(members=(50,))),),)
    assert stock("price>=50 AND price<=50") == stock("price==50")


def test_us6910033_a_contradiction_is_never_true() -> None:
    found = dnf(parse("price>=50 AND price<=20"), STOCK)
    assert found.never
    assert found == Filter(())
    assert stock("price>=50 AND price<=20 OR price = 7") == stock("price = 7")


def test_us6910033_dnf_of_two_symbols() -> None:
    tenner = ("price", ints(low=10))
    assert stock('price>=10 AND (symbol=="LU" OR symbol=="T")') == (
        (tenner, ("symbol", LU)),
        (tenner, ("symbol", T)),
    )


FIGURE_19 = 'price >= 10 and (symbol == "LU" or (volume >= 1000 and volume <= 10000))'


def test_us6910033_figure_19_objects() -> None:
    """The AND 392 holds a simple filter and the OR 396, that a simple filter and the AND 400."""
    match parse(FIGURE_19):
        case And((Compare(op=">="), Or((Compare(op="="), And((Compare(op=">="), Compare())))))):
            pass
        case other:
            pytest.fail(f"{other}")


def test_us6910033_figure_18_dnf() -> None:
    tenner = ("price", ints(low=10))
    assert stock(FIGURE_19) == (
        (tenner, ("symbol", LU)),
        (tenner, ("volume", ints(1000, 10000))),
    )


def test_us6910033_claim_2_subscriptions_share_sub_expressions() -> None:
    shared = SubExpressions()
    first = shared.share(dnf(parse(FIGURE_19), STOCK))
    alone = len(shared)
    second = shared.share(dnf(parse('price >= 10 AND symbol = "LU" OR rate < 1'), STOCK))
    assert second.disjuncts[0] is first.disjuncts[0]
    assert shared.uses(first.disjuncts[0]) == 2
    assert len(shared) == alone + 2  # rate < 1, as a test and as a conjunction
    shared.release(first)
    shared.release(second)
    assert len(shared) == 0


# --- forms --------------------------------------------------------------------------


def test_not_equal_of_doubles_and_strings() -> None:
    below, above = stock("rate <> 0.5")
    assert below[0][1].high < 0.5 < above[0][1].low
    assert stock("symbol <> 'LU'") == ((("symbol", Values(Line.STRING, without=("LU",))),),)
    assert stock("symbol NOT IN ('LU', 'T')")[0][0][1].without == ("LU", "T")


def test_many_exclusions_stay_a_negative_membership() -> None:
    text = f"price NOT IN ({', '.join(map(str, range(0, 60, 2)))})"
    ((test,),) = stock(text)
    assert test[1].without == tuple(range(0, 60, 2))


def test_what_is_always_true_is_said_so() -> None:
    assert dnf(parse("price < 5 OR price >= 5 OR price IS NULL"), STOCK).always
    assert dnf(parse("price < 5 OR price >= 5"), STOCK, "total").always
    assert not dnf(parse("price < 5 OR price >= 5"), STOCK).always
    assert stock("price < 5 OR price >= 5") == ((("price", Values(Line.INT)),),)
    assert dnf(parse("TRUE")).always


def test_prefixes_are_ranges() -> None:
    assert stock("symbol LIKE 'ab%'") == stock("symbol STARTS WITH 'ab'")
    ((test,),) = stock("symbol STARTS WITH 'ab'")
    assert test[1] == Values(Line.STRING, "ab", "ac", None, ("ac",))
    assert dnf(parse("s STARTS WITH '\U0010ffff'")).disjuncts[0][0][1].high is None
    assert dnf(parse("s STARTS WITH 'a\ud7ff'")).disjuncts[0][0][1].high == "a\ue000"


def test_subsumed_terms_are_dropped() -> None:
    assert stock("price > 5 OR price > 7 AND volume = 3") == stock("price > 5")


def test_without_a_schema_types_are_alternatives() -> None:
    lines = {one[0][1].line for one in dnf(parse("NOT x = 5")).disjuncts}
    assert lines == {Line.NUMBER, Line.STRING, Line.BOOL, Line.TIMESTAMP, Line.OTHER}
    assert dnf(parse("x IS NOT NULL")).disjuncts == ((("x", ANY),),)


# --- limits and widening ----------------------------------------------------------------

EXPLODING = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(36))  # 7 * 10^10 terms


def test_an_explosion_is_refused_by_name() -> None:
    with bounded(), pytest.raises(SelectorError, match="the limit is 500") as refused:
        dnf(parse(EXPLODING))
    assert refused.value.limit == "terms"
    with pytest.raises(SelectorError, match="the limit is 2 "):
        dnf(parse("a = 1 OR b = 1 OR c = 1"), limit=2)


def test_an_explosion_is_widened_on_request() -> None:
    found = dnf(parse(EXPLODING), widen=True, limit=50)
    assert found.wider
    assert 1 < len(found.disjuncts) <= 50
    assert found.matches({f"a{i}": 1 for i in range(36)}.get)
    assert not found.matches({f"a{i}": 3 for i in range(36)}.get)


def test_hostile_conditions_take_bounded_time() -> None:
    wide = " OR ".join(f"(x{i % 7} < {i} AND y{i % 5} > {i} AND z <> {i})" for i in range(1500))
    both = " AND ".join(f"({wide[:9000].rpartition(' OR ')[0]})" for _ in range(8))
    for text in (wide, both):
        with bounded():
            found = dnf(parse(text), widen=True, limit=100)
        assert len(found.disjuncts) <= 100


@pytest.mark.parametrize(
    ("selector", "refused", "wider"),
    [
        ("symbol CONTAINS 'a' AND price = 1", "symbol", "symbol >= '' AND price = 1"),
        ("symbol LIKE 'ab%c'", "symbol", "symbol STARTS WITH 'ab'"),
        ("symbol LIKE 'a_c'", "symbol", "symbol STARTS WITH 'a'"),
        ("price * volume > 10", r"price \* volume", "price IS NOT NULL AND volume IS NOT NULL"),
        ("price < volume", "price < volume", "price IS NOT NULL AND volume IS NOT NULL"),
        ("NOT symbol MATCHES 'a+'", "symbol", "symbol IS NOT NULL"),
    ],
)
def test_what_ranges_cannot_say(selector: str, refused: str, wider: str) -> None:
    with pytest.raises(SelectorError, match=f"cannot say what is asked of {refused}"):
        stock(selector)
    found = dnf(parse(selector), STOCK, widen=True)
    assert found.wider
    assert found.disjuncts == stock(wider)


def test_narrowing_unites_what_is_near() -> None:
    texts = ["price = 1", "price = 2", "symbol = 'LU' AND price < 5"]
    given = [stock(text)[0] for text in texts]
    known = domains(STOCK)
    assert narrowed_to(given, 2, known) == [(("price", ints(members=(1, 2))),), given[2]]
    assert narrowed_to(given, 1, known) == [(("price", ints(high=4)),)]


# --- properties ---------------------------------------------------------------------------


def expected(condition, message, semantics, schema):
    try:
        return oracle.matches(condition, message, semantics, schema, st.LOOKUPS)
    except MessageError:
        return None


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("limit", [500, 3])
def test_filters_mean_what_conditions_mean(semantics: Semantics, typed: bool, limit: int) -> None:
    """Exact ones match the same; wider ones never lose a message."""
    rng = random.Random(f"dnf {semantics}{typed}{limit}")
    exact = wider = 0
    for _ in range(120):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        condition = st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS))
        try:
            found = dnf(condition, schema, semantics, limit=limit)
        except SelectorError:
            found = dnf(condition, schema, semantics, limit=limit, widen=True)
            assert found.wider
        assert len(found.disjuncts) <= limit
        exact, wider = exact + (not found.wider), wider + found.wider
        for _ in range(10):
            message = st.random_message(rng, schema)
            want = expected(condition, message, semantics, schema)
            if want is not None:
                got = found.matches(finder(message, semantics, schema))
                assert got == want or (found.wider and got), (condition, message, schema)
    assert exact > 30
    assert wider > 10


@given(st.conditions(), st.partial_messages(), st.semantics(total=False))
def test_wider_filters_never_lose_a_message(condition, message, semantics) -> None:
    found = dnf(condition, None, semantics, widen=True, limit=4)
    got, want = found.matches(finder(message, semantics, None)), None
    want = expected(condition, message, semantics, None)
    assert got == want or (found.wider and got)


@pytest.mark.parametrize("typed", [False, True])
def test_covered_agrees_with_reasoning_and_with_messages(typed: bool) -> None:
    rng = random.Random(f"covered {typed}")
    agreed = said = 0
    while agreed < 150:
        schema = st.random_schema(rng) if typed else None
        a, b = (st.random_condition(rng, schema, depth=2) for _ in range(2))
        a = Or((a, b)) if rng.random() < 0.3 else a
        try:
            left, right = dnf(a, schema), dnf(b, schema)
        except SelectorError:
            continue
        known = domains(schema)
        got = all(covered(one, left.disjuncts, known) for one in right.disjuncts)
        assert got == covers(a, b, schema), (a, b, schema)
        agreed, said = agreed + 1, said + got
        for _ in range(20):
            find = finder(st.random_message(rng, schema), "sql", schema)
            assert not (got and right.matches(find)) or left.matches(find)
    assert said > 20


def test_parts_of_a_difference_are_disjoint_and_complete() -> None:
    rng = random.Random("difference")
    for _ in range(300):
        schema = st.random_schema(rng)
        made = [dnf(st.random_condition(rng, schema, 2), schema, widen=True) for _ in range(2)]
        if any(f.never for f in made):
            continue
        one, other = (rng.choice(f.disjuncts) for f in made)
        parts = difference(one, other, domains(schema))
        around = hull(one, other, domains(schema))
        assert includes(around, one)
        assert includes(around, other)
        for _ in range(20):
            find = finder(st.random_message(rng, schema), "sql", schema)
            inside = [Filter((part,)).matches(find) for part in parts]
            left_out = Filter((one,)).matches(find) and not Filter((other,)).matches(find)
            assert sum(inside) == left_out
            assert not Filter((other,)).matches(find) or Filter((around,)).matches(find)


def test_the_edges_of_integers() -> None:
    assert dnf(parse(f"price > {INT_MAX}"), STOCK).never
    assert stock(f"price >= {INT_MAX}") == ((("price", ints(low=INT_MAX)),),)
    assert stock(f"price <> {INT_MAX}") == ((("price", ints(high=INT_MAX - 1)),),)
