"""Subjects, subject filters, and the index of very many of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from bounded import bounded
from tamis.errors import SubjectError, SubscriptionError
from tamis.pubsub.subjects.subject import EVERYTHING, Subject, SubjectFilter
from tamis.pubsub.subjects.subject_index import SubjectIndex

FIELDS = ("a", "b", "c", "#", "Straße")
subjects = hs.lists(hs.sampled_from(FIELDS), min_size=1, max_size=5).map(
    lambda fields: Subject.parse(".".join(fields))
)
filters = hs.builds(
    lambda fields, tail: SubjectFilter.parse(".".join([*fields, *tail])),
    hs.lists(hs.sampled_from((*FIELDS, "*")), min_size=1, max_size=4),
    hs.sampled_from(((), (">",))),
) | hs.just(EVERYTHING)


def matches(filter: tuple[str, ...], subject: tuple[str, ...]) -> bool:
    """The obvious meaning, field by field."""
    if not filter or not subject:
        return not filter and not subject
    if filter[0] == ">":
        return True
    return filter[0] in ("*", subject[0]) and matches(filter[1:], subject[1:])


# --- US 6,910,033 -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "rule"),
    [
        ("a.b", 'subject.length == 2 & subject[0] == "a" & subject[1] == "b"'),
        ("C.*.D", 'subject.length == 3 & subject[0] == "C" & subject[2] == "D"'),
        ("foo.>", 'subject.length > 1 & subject[0] == "foo"'),
        ("*.*.b.*.c.>", 'subject.length > 5 & subject[2] == "b" & subject[4] == "c"'),
    ],
)
def test_us6910033_table_23(filter: str, rule: str) -> None:
    assert str(SubjectFilter.parse(filter).rule) == rule


def test_us6910033_wildcards_mean_what_the_text_says() -> None:
    """ "a.>" can mean a.b, a.c, a.d, etc. and all their sub-subjects at all levels."""
    wanted = SubjectFilter.parse("a.>")
    for text in ("a.b", "a.c", "a.b.x", "a.c.x", "a.b.x.y"):
        assert wanted.matches(Subject.parse(text))
    assert not wanted.matches(Subject.parse("a"))
    assert not wanted.matches(Subject.parse("b.a"))


# --- texts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty field"),
        ("a..b", "empty field"),
        (".a", "empty field"),
        ("a.", "empty field"),
        ("a b", "no field"),
        ("a\0", "no field"),
        ("a\ud800", "no field"),
        ("a*", "no field"),
        (".".join("a" * 65), "too many fields"),
        ("a" * 1025, "too long"),
    ],
)
def test_bad_subjects_say_why(text: str, what: str) -> None:
    for parse in (Subject.parse, SubjectFilter.parse):
        with pytest.raises(SubjectError, match=what):
            parse(text)


def test_wildcards_have_their_places() -> None:
    with pytest.raises(SubjectError, match="wildcards belong into filters"):
        Subject.parse("a.*")
    with pytest.raises(SubjectError, match="only the last may be >"):
        SubjectFilter.parse("a.>.b")
    assert SubjectFilter.parse("*.>").wild
    assert not SubjectFilter.parse("a.b").wild


# --- properties ------------------------------------------------------------------------


@given(filters, subjects)
def test_rules_match_what_filters_mean(filter, subject) -> None:
    assert filter.matches(subject) == matches(filter.fields, subject.fields)
    assert SubjectFilter.parse(str(filter)) == filter
    assert Subject.parse(str(subject)) == subject


def universe(depth: int) -> list[Subject]:
    """All subjects of few fields: enough to tell filters of fewer fields apart."""
    found: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        found += [(*one, field) for one in found for field in ("a", "b", "z") if len(one) < depth]
    return [Subject(one) for one in set(found) if one]


SMALL = hs.builds(
    lambda fields, tail: SubjectFilter((*fields, *tail)),
    hs.lists(hs.sampled_from(("a", "b", "*")), min_size=1, max_size=3).map(tuple),
    hs.sampled_from(((), (">",))),
) | hs.just(EVERYTHING)
UNIVERSE = universe(5)


@given(SMALL, SMALL)
def test_covers_and_overlaps_agree_with_all_subjects(a, b) -> None:
    of_a, of_b = ({s for s in UNIVERSE if f.matches(s)} for f in (a, b))
    assert a.covers(b) == (of_b <= of_a)
    assert a.overlaps(b) == bool(of_a & of_b) == b.overlaps(a)


@given(hs.lists(filters, max_size=30), hs.lists(subjects, max_size=5), hs.data())
def test_the_index_finds_what_a_scan_finds(given_filters, asked, data) -> None:
    index: SubjectIndex[int] = SubjectIndex()
    index.add_many(enumerate(given_filters))
    gone = data.draw(hs.sets(hs.sampled_from(range(len(given_filters))))) if given_filters else ()
    for id in gone:
        index.remove(id)
    kept = {i: f for i, f in enumerate(given_filters) if i not in gone}
    expected = [[i for i, f in kept.items() if f.matches(s)] for s in asked]
    assert [sorted(index.match(s)) for s in asked] == expected
    assert [sorted(found) for found in index.match_many(asked)] == expected
    assert dict.fromkeys(index) == dict.fromkeys(kept)


def test_the_index_outlives_many_changes() -> None:
    rng, index = random.Random(5), SubjectIndex()
    alive: dict[int, SubjectFilter] = {}
    for number in range(6_000):
        filter = SubjectFilter((f"f{rng.randrange(50)}", rng.choice(("*", "x", f"y{number}"))))
        index.add(number, filter)
        alive[number] = filter
        if len(alive) > 20:
            gone = rng.choice(list(alive))
            index.remove(gone)
            del alive[gone]
    for text in ("f1.x", "f2.y3", "f3.unknown"):
        subject = Subject.parse(text)
        assert sorted(index.match(subject)) == [i for i, f in alive.items() if f.matches(subject)]
    assert len(index) == len(alive) == 20
    assert int(index._used[0]) < 5_000  # what was removed is gone


def test_ids_are_taken_once() -> None:
    index: SubjectIndex[str] = SubjectIndex()
    index.add("x", EVERYTHING)
    with pytest.raises(SubscriptionError, match="already"):
        index.add_many([("y", EVERYTHING), ("x", EVERYTHING)])
    with pytest.raises(SubscriptionError, match="no subject filter 'y'"):
        index.remove("y")
    assert index.match(Subject.parse("a")) == ["x"]


def test_many_matches_of_one_subject() -> None:
    index: SubjectIndex[int] = SubjectIndex()
    texts = [".".join("a" if n >> i & 1 else "*" for i in range(8)) for n in range(256)]
    index.add_many(enumerate(map(SubjectFilter.parse, texts)))
    with bounded(10):
        assert len(index.match(Subject.parse(".".join("a" * 8)))) == 256
        assert index.match(Subject.parse(".".join("b" * 8))) == [0]
