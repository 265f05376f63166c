"""Formulas become programs and come back with the same meaning."""

from __future__ import annotations

import math
import random

import pytest

import strategies as st
from tamis.diagram.questions import Terms, Vocabulary, double_key, double_of
from tamis.errors import MessageError
from tamis.logic import SEMANTICS, finder, reduce, satisfied


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_the_way_back_from_a_program(semantics, typed):
    rng = random.Random(f"programs {semantics} {typed}")
    for _ in range(200):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        vocabulary = Vocabulary(Terms(schema))
        condition = st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS))
        formula = reduce(condition, semantics, schema)
        program = vocabulary.program(formula, whole=semantics == "total")
        back = vocabulary.formula(program.words, program.keys, program.required)
        for _ in range(5):
            message = st.random_message(rng, schema)
            assert truth(back, message, semantics, schema) == truth(
                formula, message, semantics, schema
            ), (condition, message)


def truth(formula, message, semantics, schema) -> object:
    try:
        return satisfied(formula, finder(message, semantics, schema), st.LOOKUPS)
    except MessageError as error:
        return type(error)


@pytest.mark.parametrize("number", [0.0, 1.5, -1.5, math.inf, -math.inf, 5e-324, -1e308])
def test_doubles_come_back(number):
    assert double_of(double_key(number)) == number
