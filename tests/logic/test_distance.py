"""How far a message is from a condition, compared with all ways to change predicates."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tamis.language import And, Not, Or, parse
from tamis.logic.distance import distance

LEAVES = st.sampled_from(["a = 1", "b = 1", "c = 1", "d = 1"]).map(parse)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
        inner.map(Not),
    ),
    max_leaves=6,
)


def leaves(node):
    if isinstance(node, Not):
        return leaves(node.part)
    return [x for p in node.parts for x in leaves(p)] if isinstance(node, And | Or) else [node]


def truth(node, values):
    """With the leaves' values given one after the other."""
    if isinstance(node, And | Or):
        found = [truth(part, values) for part in node.parts]
        return all(found) if isinstance(node, And) else any(found)
    return not truth(node.part, values) if isinstance(node, Not) else next(values)


@given(TREES, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1), min_size=4))
def test_it_is_the_fewest_predicates_that_turn_out_otherwise(condition, message):
    values = [message[leaf.left.name] == 1 for leaf in leaves(condition)]
    fewest = next(
        (
            size
            for size in range(len(values) + 1)
            for some in combinations(range(len(values)), size)
            if truth(condition, iter([v != (i in some) for i, v in enumerate(values)]))
        ),
    )
    assert distance(condition, message) == fewest


def test_unknown_is_not_true():
    assert distance(parse("a = 1 AND NOT b = 1"), {}) == 2
    assert distance(parse("a = 1 AND b = 1"), {"a": 1}, semantics="strict") == 2
    assert distance(parse("a = 1"), {"a": 1}) == 0
    assert distance(parse("FALSE"), {}) > 1_000_000
