"""Conditions made to blow up: each is added in bounded time and memory, and means what it says."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import oracle
from bounded import bounded
from tamis import Matcher, SelectorError
from tamis.language import Limits
from tamis.language.tree import Condition

pytestmark = pytest.mark.slow

LIMITS = Limits(length=1_000_000, depth=3_000)
MEGABYTES = 11.0  # 10.2 are used for one condition of 2,000 attributes
Message = dict[str, object]
MakeMessage = Callable[[random.Random], Message]


@dataclass(frozen=True)
class Case:
    selector: str
    message: MakeMessage
    messages: int = 100


def words(rng: random.Random, size: int) -> str:
    return "".join(rng.choices("abcdefgh -/.", k=size))


def any_of(parts: list[str]) -> str:
    return " OR ".join(parts)


def pairs_of_attributes() -> Case:
    names = [f"{letter}{i}" for i in range(40) for letter in "ab"]

    def message(rng: random.Random) -> Message:
        return {name: rng.random() < 0.1 for name in names if rng.random() < 0.9}

    return Case(any_of([f"(a{i} AND b{i})" for i in range(40)]), message)


def pairs_of_attributes_far_apart() -> Case:
    """All a before all b in the order of variables: a diagram of 2^40 nodes."""
    names = [f"{letter}{i}" for i in range(40) for letter in "ab"]

    def message(rng: random.Random) -> Message:
        return {name: rng.choice((1, 2, 3, 9, None)) for name in names if rng.random() < 0.7}

    return Case(any_of([f"(a{i} = 1 AND b{i} > 7)" for i in range(40)]), message)


def pairs_of_texts() -> Case:
    def message(rng: random.Random) -> Message:
        chosen = [f"{rng.choice('ab')}{rng.randrange(40)};" for _ in range(rng.randrange(16))]
        return {"s": "".join(chosen)}

    parts = [f"(s CONTAINS 'a{i};' AND s CONTAINS 'b{i};')" for i in range(40)]
    return Case(any_of(parts), message)


def many_integers() -> Case:
    values = ", ".join(str(7 * i) for i in range(10_000))
    return Case(f"n IN ({values})", lambda rng: {"n": rng.randrange(-7, 70_010)}, 40)


def many_strings() -> Case:
    values = ", ".join(f"'v{7 * i}'" for i in range(10_000))
    return Case(f"s NOT IN ({values})", lambda rng: {"s": f"v{rng.randrange(70)}"}, 40)


def many_substrings() -> Case:
    rng = random.Random(1)
    parts = [f"s CONTAINS '{words(rng, 4)}'" for _ in range(1_000)]
    return Case(any_of(parts), lambda rng: {"s": words(rng, rng.randrange(60))}, 50)


def thousands_of_atoms() -> Case:
    rng = random.Random(2)
    texts = [words(rng, 43) for _ in range(4_400)]
    operators = [rng.choice(("CONTAINS", "STARTS WITH", "ENDS WITH")) for _ in texts]
    parts = [f"lower(command_line) {op} '{t}'" for op, t in zip(operators, texts, strict=True)]

    def message(rng: random.Random) -> Message:
        pieces = [rng.choice(texts) if rng.random() < 0.4 else words(rng, 20) for _ in range(2)]
        return {"command_line": "".join(pieces).upper()} if rng.random() < 0.9 else {}

    return Case(any_of(parts), message, 12)


def forty_billion_terms(attributes: int) -> Case:
    """An AND of 10 ORs of 12: 12^10 terms when multiplied out."""

    def message(rng: random.Random) -> Message:
        return {
            f"s{j}": ";".join(f"w{rng.randrange(12)}x{rng.randrange(10)}" for _ in range(30))
            for j in range(attributes)
        }

    parts = [
        "(" + any_of([f"s{j % attributes} CONTAINS 'w{i}x{j}'" for i in range(12)]) + ")"
        for j in range(10)
    ]
    return Case(" AND ".join(parts), message)


def sixty_negations() -> Case:
    def message(rng: random.Random) -> Message:
        return {"n": rng.choice((1, 2, None, "1"))}

    return Case("NOT " * 61 + "n = 1", message)


def deep_brackets() -> Case:
    opened = "".join(
        f"(n {'<>' if i % 2 else '='} {i} {'AND' if i % 2 else 'OR NOT'} " for i in range(50)
    )
    return Case(
        opened + "m = 1" + ")" * 50, lambda rng: {"n": rng.randrange(-9, 60), "m": rng.randrange(2)}
    )


def many_ranges() -> Case:
    parts = [f"(n < {10 * i} OR n > {10 * i + 4})" for i in range(600)]
    return Case(
        " AND ".join(parts), lambda rng: {"n": rng.choice((1, 0.5)) * rng.randrange(7_000)}, 25
    )


def many_attributes() -> Case:
    def message(rng: random.Random) -> Message:
        return {f"q{rng.randrange(600)}": rng.randrange(600) for _ in range(300)}

    return Case(any_of([f"q{i} = {i}" for i in range(600)]), message, 25)


def two_thousand(selector: str, joint: str, make: MakeMessage) -> Case:
    return Case(joint.join(selector.format(i=i) for i in range(2_000)), make, 8)


def long_constant(operator: str) -> Case:
    text = "x" * 300_000

    def message(rng: random.Random) -> Message:
        return {"s": rng.choice((text, text + "x", text[:-1], "y" + text, "x"))}

    return Case(f"s {operator} '{text}'", message, 20)


def long_pattern() -> Case:
    pattern = "x_" * 5_000
    return Case(f"s LIKE '{pattern}'", lambda rng: {"s": "xy" * (4_999 + rng.randrange(3))}, 5)


def many_wild_cards() -> Case:
    def message(rng: random.Random) -> Message:
        return {"s": "x" * rng.choice((999, 1_000, 1_001, 2_000)) + rng.choice("xy")}

    return Case("s LIKE '" + "%x" * 1_000 + "'", message, 6)


def wild_cards_between_wild_cards() -> Case:
    """Every place of the value looks like the pattern for a long time."""
    text = "x" * 900

    def message(rng: random.Random) -> Message:
        return {"s": text + "x" + text + rng.choice("xy")}

    return Case("s ILIKE '%" + "x_" * 449 + "xy%'", message, 8)


CASES = {
    "pairs of attributes": pairs_of_attributes(),
    "pairs of attributes far apart": pairs_of_attributes_far_apart(),
    "pairs of texts": pairs_of_texts(),
    "IN 10,000 integers": many_integers(),
    "NOT IN 10,000 strings": many_strings(),
    "1,000 CONTAINS": many_substrings(),
    "4,400 atoms": thousands_of_atoms(),
    "6 * 10^10 terms over ten attributes": forty_billion_terms(10),
    "6 * 10^10 terms over one attribute": forty_billion_terms(1),
    "61 NOT": sixty_negations(),
    "50 brackets": deep_brackets(),
    "600 holes in a range": many_ranges(),
    "600 attributes": many_attributes(),
    "2,000 BETWEEN": two_thousand(
        "n NOT BETWEEN {i}1 AND {i}4.5", " AND ", lambda rng: {"n": rng.choice((13, 14.75))}
    ),
    "2,000 <>": two_thousand("n <> {i}", " AND ", lambda rng: {"n": rng.choice((7, -7))}),
    "2,000 attributes": two_thousand(
        "a{i} = 'x{i}'", " OR ", lambda rng: {"a7": rng.choice(("x7", "x8"))}
    ),
    "2,000 undefined": two_thousand(
        "lower(a{i}) IS NULL", " AND ", lambda rng: {"a7": rng.choice(("x7", 8, None))}
    ),
    "2,000 derived": two_thousand(
        "n * {i} > 7000", " OR ", lambda rng: {"n": rng.choice((-9, 8, None))}
    ),
    "2,000 LIKE": two_thousand(
        "s LIKE '%x{i}%y_'", " OR ", lambda rng: {"s": rng.choice(("x77..yz", "x77..y"))}
    ),
    "a long text is equal": long_constant("="),
    "a long text is contained": long_constant("CONTAINS"),
    "a long text begins": long_constant("STARTS WITH"),
    "a long LIKE": long_pattern(),
    "1,000 %": many_wild_cards(),
    "_ between %": wild_cards_between_wild_cards(),
}


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    """Loading kernels is not part of adding."""
    matcher = Matcher(limits=LIMITS)
    for i, case in enumerate(CASES.values()):
        if len(case.selector) < 5_000:
            matcher.add(i, case.selector)
    matcher.match_many([case.message(random.Random(0)) for case in CASES.values()] * 5)


def added(case: Case) -> Matcher:
    matcher = Matcher(limits=LIMITS)
    matcher.add("before", "n = 1")
    with bounded():
        matcher.add("it", case.selector)
    return matcher


def peak(case: Case) -> float:
    """Megabytes at the worst moment of adding."""
    matcher = Matcher(limits=LIMITS)
    matcher.add("before", "n = 1")
    tracemalloc.start()
    try:
        matcher.add("it", case.selector)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CASES)
def test_large_conditions_are_added_and_agree_with_the_oracle(name: str) -> None:
    case = CASES[name]
    matcher = added(case)
    assert peak(case) < MEGABYTES
    rng = random.Random(name)
    messages = [case.message(rng) for _ in range(case.messages)]
    condition = matcher._contents.intake.condition(case.selector)
    wanted = [oracle.matches(condition, m) for m in messages]
    assert len(set(wanted)) == 2  # some match and some do not
    found = matcher.match_many(messages).to_pylist()
    assert ["it" in ids for ids in found] == wanted
    assert ["it" in matcher.match(m) for m in messages[:20]] == wanted[:20]
    assert matcher.explain("it", messages[0]).matches == wanted[0]


def agree(matcher: Matcher, selectors: list[str], messages: list[Message]) -> int:
    """Compare with the oracle; how many matches there were."""
    wanted: list[list[int]] = [[] for _ in messages]
    for i, selector in enumerate(selectors):
        condition: Condition = matcher._contents.intake.condition(selector)
        for ids, message in zip(wanted, messages, strict=True):
            if oracle.matches(condition, message):
                ids.append(i)
    assert matcher.match_many(messages).to_pylist() == wanted
    assert [matcher.match(m) for m in messages[:5]] == wanted[:5]
    return sum(map(len, wanted))


def test_five_thousand_regexes_in_one_matcher() -> None:
    rng = random.Random(5)
    selectors = [rf"s MATCHES '(?i)k{i}[0-9]*\.(dll|exe)$|^{words(rng, 3)}'" for i in range(5_000)]
    matcher = Matcher()
    with bounded():
        matcher.add_many(enumerate(selectors))
    messages: list[Message] = [{"s": f"K{rng.randrange(5_000)}7.exe"} for _ in range(7)]
    messages += [{"s": words(rng, 9)} for _ in range(5)]
    assert agree(matcher, selectors, messages) >= 7


def test_a_thousand_substrings_in_a_thousand_subscriptions() -> None:
    rng = random.Random(6)
    selectors = [
        f"lower(s) CONTAINS '{words(rng, 3)}' AND NOT s ENDS WITH '{words(rng, 1)}'"
        for _ in range(1_000)
    ]
    matcher = Matcher()
    with bounded():
        matcher.add_many(enumerate(selectors[:800]))
        for i, selector in enumerate(selectors[800:], 800):
            matcher.add(i, selector)
    messages: list[Message] = [{"s": words(rng, 50).upper()} for _ in range(25)]
    assert agree(matcher, selectors, messages) > 100


@pytest.mark.parametrize(
    ("selector", "limit"),
    [
        ("n = 1 OR " * 20_000 + "n = 1", "length"),
        ("n IN (" + "1, " * 20_000 + "1)", "items"),
        ("(" * 200 + "n = 1" + ")" * 200, "depth"),
        ("NOT (" * 101 + "n = 1" + ")" * 101, "depth"),
        ("s MATCHES '" + "x" * 1_001 + "'", "pattern"),
        ("s LIKE '%" + "x_" * 501 + "y%'", "pattern"),
        ("s NOT ILIKE '" + "x_" * 501 + "%" + "x_" * 501 + "y%'", "pattern"),
    ],
)
def test_a_crossed_limit_is_named_and_nothing_is_added(selector: str, limit: str) -> None:
    matcher = Matcher()
    matcher.add("before", "n = 1")
    with pytest.raises(SelectorError) as caught:
        matcher.add("it", selector)
    assert caught.value.limit == limit
    assert list(matcher) == matcher.match({"n": 1}) == ["before"]


def test_a_raised_depth_ends_in_an_error_not_in_a_crash() -> None:
    matcher = Matcher(limits=Limits(length=10**6, depth=10**6))
    nested = "(" * 90_000 + "n = 1" + ")" * 90_000, "NOT (" * 9_000 + "n = 1" + ")" * 9_000
    for text in (*nested, "NOT " * 1_001 + "n = 1"):
        with pytest.raises(SelectorError) as caught:
            matcher.add("it", text)
        assert caught.value.limit == "depth"
    assert len(matcher) == 0


HOSTILE_LIKES = {
    "%x": ("%x" * 10_000, "x" * 20_000, "x" * 9_999 + "y" * 10_000),
    "%x_": ("%x_" * 10_000, "xy" * 10_000, "xy" * 9_999),
    "_%": ("_%" * 10_000, "x" * 20_000, "x" * 9_999),
    "_": ("_" * 20_000, "x" * 20_000, "x" * 19_999),
    "%xx...y": ("%" + "x" * 9_999 + "y%", "x" * 19_999 + "y", "x" * 20_000),
    "%x_x_...y": ("%" + "x_" * 499 + "y%", "x" * 19_999 + "y", "x" * 20_000),
    "escapes": ("!%%" * 10_000, "%" * 20_000, "%" * 9_999),
}


@pytest.mark.parametrize("operator", ["LIKE", "NOT LIKE", "ILIKE"])
@pytest.mark.parametrize("name", HOSTILE_LIKES)
def test_like_is_quick_whatever_the_pattern(name: str, operator: str) -> None:
    """Within default limits; a regular expression took seconds to minutes."""
    pattern, like, unlike = HOSTILE_LIKES[name]
    matcher = Matcher()
    selector = f"s {operator} '{pattern}'" + (" ESCAPE '!'" if "!" in pattern else "")
    messages: list[Message] = [{"s": like}, {"s": unlike}]
    matcher.add("it", selector)
    wanted = [["it"], []] if operator != "NOT LIKE" else [[], ["it"]]
    with bounded():
        assert [matcher.match(m) for m in messages] == wanted
        assert matcher.match_many(messages).to_pylist() == wanted
        assert [matcher.explain("it", m).matches for m in messages] == [bool(ids) for ids in wanted]


@pytest.mark.parametrize("operator", ["LIKE", "ILIKE", "MATCHES"])
def test_half_a_million_characters_work_or_are_refused(operator: str) -> None:
    matcher = Matcher(limits=Limits(length=10**6, pattern=10**6))
    text = "ab%c_" * 100_000
    if operator == "MATCHES":
        with pytest.raises(SelectorError, match="RE2 needs more than") as caught:
            matcher.add("it", f"s MATCHES '{text}'")
        assert "OR" in caught.value.hint
        assert len(matcher) == 0
        return
    matcher.add("it", f"s {operator} '{text}'")
    assert matcher.match({"s": "ab__c%" * 100_000}) == ["it"]
    assert matcher.match({"s": "ab__c%" * 99_999}) == []
