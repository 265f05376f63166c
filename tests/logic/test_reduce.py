"""The reduction to canonical atoms means what the oracle says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

import oracle
import strategies as st
from dose import dose
from tamis.errors import MessageError
from tamis.language.tree import Condition
from tamis.logic import SEMANTICS, Semantics, finder, reduce, satisfied
from tamis.schema import Schema


def outcome(
    condition: Condition, message: dict, semantics: Semantics, schema: Schema | None
) -> object:
    try:
        find = finder(message, semantics, schema)
        return satisfied(reduce(condition, semantics, schema), find, st.LOOKUPS)
    except MessageError as error:
        return type(error)


def expected(
    condition: Condition, message: dict, semantics: Semantics, schema: Schema | None
) -> object:
    try:
        return oracle.matches(condition, message, semantics, schema, st.LOOKUPS)
    except MessageError as error:
        return type(error)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_reduced_formulas_agree_with_the_oracle(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"{semantics}{typed}")
    for _ in range(dose(1_000, 5_000)):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        condition = st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS))
        for _ in range(5):
            message = st.random_message(rng, schema)
            got = outcome(condition, message, semantics, schema)
            assert got == expected(condition, message, semantics, schema), (
                condition,
                message,
                schema,
            )


@given(st.conditions(), st.partial_messages(), st.semantics(total=False))
def test_reduced_conditions_agree_with_the_oracle(condition, message, semantics) -> None:
    assert outcome(condition, message, semantics, None) == expected(
        condition, message, semantics, None
    )
