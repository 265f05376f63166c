r"""The short cut for selectors whose shape was seen before, whatever their constants.

A selector is mostly simple predicates (`name op constant`) joined by AND, OR, NOT and brackets.
One regular expression cuts them out; what is left, with `\0` for each, is the skeleton. A
skeleton is parsed once, by the real parser, and kept; after that a selector costs one regex pass
and the making of its nodes.

Why a cut cannot be wrong: a skeleton may hold nothing but holes, white space, brackets and
connectives. Had the regex cut inside a string or a longer term, then a quote, a digit, an
operator or a word would be left over. Whatever looks odd goes to the full parser, which alone
raises errors.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tamis.errors import SelectorError
from tamis.language.lexer import Tokens, tokenize
from tamis.language.limits import Limits
from tamis.language.literals import ConstantError, number
from tamis.language.measure import height
from tamis.language.parser import Parser
from tamis.language.predicates import GROUPS, JMS_PREDICATE, TAMIS_PREDICATE, Unusual, predicate
from tamis.language.tree import And, Condition, Constant, Not, Or

# A hole's number, or ("and" | "or", part, ...), or ("not", part, place of NOT, holes before it).
Shape = int | tuple[Any, ...]

_STEP = GROUPS + 1  # pieces that re.split makes for each predicate
_LONGEST = 1_000  # characters of a skeleton worth keeping
_KEPT = 2_048  # skeletons; a full store is emptied


class Plan(NamedTuple):
    """A skeleton read once: its shape, how deep it is, and whether it is one flat AND."""

    shape: Shape
    depth: int
    flat: bool


class Cutter:
    """How one dialect's selectors are cut, and the skeletons that were seen."""

    def __init__(self, predicate: re.Pattern[str], connectives: str) -> None:
        self.predicate = predicate
        self.skeleton = re.compile(
            rf"(?:[\0\s{connectives}]|\b(?:AND|OR|NOT)\b)++", re.ASCII | re.IGNORECASE
        )
        self.plans: dict[str, Plan] = {}

    def plan(self, skeleton: str) -> Plan | None:
        """The plan of a skeleton, or None if only the full parser can read it."""
        if len(skeleton) > _LONGEST or not self.skeleton.fullmatch(skeleton):
            return None
        if len(self.plans) >= _KEPT:
            self.plans.clear()
        plan = self.plans[skeleton] = _read(skeleton)
        return plan


CUTTERS = {
    "tamis": Cutter(TAMIS_PREDICATE, r"()\[\]&|!∧∨¬"),
    "jms": Cutter(JMS_PREDICATE, "()"),
}


def split(text: str) -> tuple[str, list[str]] | None:
    r"""The skeleton of `text` (`\0` for each simple predicate) and the predicates' texts.

    None where the skeleton holds anything that only the full parser can read.
    """
    pieces = TAMIS_PREDICATE.split(text)
    skeleton = "\0".join(pieces[::_STEP])
    cutter = CUTTERS["tamis"]
    if skeleton not in cutter.plans and not cutter.skeleton.fullmatch(skeleton):
        return None
    return skeleton, pieces[1::_STEP]


def shape(skeleton: str) -> Shape:
    r"""The parsed skeleton: `"\0 AND (\0 OR \0)"` is `("and", 0, ("or", 1, 2))`."""
    cutter = CUTTERS["tamis"]
    plan = cutter.plans.get(skeleton) or cutter.plan(skeleton) or _read(skeleton)
    return plan.shape


def parse_by_shape(text: str, limits: Limits, dialect: str = "tamis") -> Condition | None:
    """What the full parser would say of `text`, or None where only it can know."""
    if dialect == "jms" and "\v" in text:  # white space to the regex, but not to Java
        return None
    cutter = CUTTERS[dialect]
    pieces = cutter.predicate.split(text)
    if len(pieces) == 1:
        return None
    skeleton = "\0".join(pieces[::_STEP])
    try:
        plan = cutter.plans.get(skeleton) or cutter.plan(skeleton)
        if plan is None or plan.depth > limits.depth:
            return None
        return _build(plan, pieces, limits)
    except (SelectorError, ConstantError, Unusual):
        return None


def _read(skeleton: str) -> Plan:
    """Parse a skeleton with the real parser: a hole is read as TRUE, which no skeleton holds."""
    kinds, values, places = tokenize(skeleton.replace("\0", "⊥"))
    kinds = ["TRUE" if kind == "⊥" else kind for kind in kinds]
    tree = Parser(skeleton, Tokens(kinds, values, places), Limits(), number).selector()
    shape = _shape_of(tree, skeleton)
    holes = skeleton.count("\0")
    return Plan(shape, _nesting(kinds) + height(tree)[0] + 3, shape == ("and", *range(holes)))


def _shape_of(node: Condition, skeleton: str) -> Shape:
    match node:
        case Constant(_, at):
            return skeleton.count("\0", 0, at)
        case Not(part, at):
            return "not", _shape_of(part, skeleton), at, skeleton.count("\0", 0, at)
        case And(parts):
            return "and", *(_shape_of(part, skeleton) for part in parts)
        case Or(parts):
            return "or", *(_shape_of(part, skeleton) for part in parts)
    raise AssertionError(f"{node} cannot stand in a skeleton")


def _nesting(kinds: list[str]) -> int:
    deepest = now = 0
    for kind in kinds:
        now += (kind in ("(", "[")) - (kind in (")", "]"))
        deepest = max(deepest, now)
    return deepest


def _build(plan: Plan, pieces: list[str], limits: Limits) -> Condition:
    nodes: list[Condition] = []
    at = 0
    for i in range(1, len(pieces), _STEP):
        at += len(pieces[i - 1])
        nodes.append(predicate(pieces, i, at, limits))
        at += len(pieces[i])
    if plan.flat:
        return And(tuple(nodes), nodes[0].at)
    return _join(plan.shape, nodes, pieces)


def _join(shape: Shape, nodes: list[Condition], pieces: list[str]) -> Condition:
    if isinstance(shape, int):
        return nodes[shape]
    if shape[0] == "not":
        _, part, place, before = shape
        at = place + sum(len(text) - 1 for text in pieces[1 : before * _STEP : _STEP])
        return Not(_join(part, nodes, pieces), at)
    parts = tuple(_join(part, nodes, pieces) for part in shape[1:])
    return And(parts, parts[0].at) if shape[0] == "and" else Or(parts, parts[0].at)
