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
from typing import Any, NamedTuple, cast

from tamis.errors import SelectorError
from tamis.language.lexer import OPERATORS, RESERVED, Tokens, tokenize, unquote
from tamis.language.limits import Limits
from tamis.language.literals import MAGNITUDE, ConstantError, in_range, negated, number
from tamis.language.measure import height
from tamis.language.parser import Parser
from tamis.language.tree import (
    And,
    Attribute,
    Between,
    Call,
    Compare,
    CompareOp,
    Condition,
    Constant,
    In,
    Like,
    Literal,
    Not,
    Or,
    Term,
    Text,
    TextOp,
)
from tamis.schema import Type

# A hole's number, or ("and" | "or", part, ...), or ("not", part, place of NOT, holes before it).
Shape = int | tuple[Any, ...]

_NAME = r"[A-Za-z_$][\w$]*+(?:\.[A-Za-z_$][\w$]*+)*+"
_NUMBER = r"(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w.$])"
_STRING = r"""'[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+\""""
_CONSTANT = rf"(?:{_STRING}|(?:-\s*+)?{_NUMBER})"
# re.ASCII: else the Kelvin sign would be a K, and words could match that the lexer does not know.
_PREDICATE = re.compile(
    rf"""(
        (?<![\w$.])
        ((?:lower|upper)\s*+\(\s*+{_NAME}\s*+\)|{_NAME})
        \s*+
        (?: (==?|<[=>]?|>=?|!=|(?:NOT\s++)?(?:CONTAINS|LIKE|(?:STARTS|ENDS)\s++WITH)\b)
            \s*+({_CONSTANT})
          | ((?:NOT\s++)?IN)\s*+\(\s*+({_CONSTANT}(?:\s*+,\s*+{_CONSTANT})*+)\s*+\)
          | ((?:NOT\s++)?BETWEEN)\b\s*+({_CONSTANT})\s*+AND\b\s*+({_CONSTANT})
        )
    )""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_STEP = _PREDICATE.groups + 1  # pieces that re.split makes for each predicate
_ITEM = re.compile(_CONSTANT, re.ASCII)
_CALL = re.compile(rf"(\w+)\s*\(\s*({_NAME})\s*\)", re.ASCII)
_SKELETON = re.compile(r"(?:[\0\s()\[\]&|!∧∨¬]|\b(?:AND|OR|NOT)\b)++", re.ASCII | re.IGNORECASE)
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_LONGEST = 2_000  # characters of a skeleton worth keeping
_KEPT = 4_096  # entries of each cache; a full one is emptied


class Plan(NamedTuple):
    """A skeleton read once: its shape, how deep it is, and whether it is one flat AND."""

    shape: Shape
    depth: int
    flat: bool


_plans: dict[str, Plan] = {}
_terms: dict[str, tuple[str, str, int]] = {}
_operators: dict[str, tuple[str, bool]] = {}


def split(text: str) -> tuple[str, list[str]] | None:
    r"""The skeleton of `text` (`\0` for each simple predicate) and the predicates' texts.

    None where the skeleton holds anything that only the full parser can read.
    """
    pieces = _PREDICATE.split(text)
    skeleton = "\0".join(pieces[::_STEP])
    if skeleton not in _plans and not _is_usable(skeleton):
        return None
    return skeleton, pieces[1::_STEP]


def shape(skeleton: str) -> Shape:
    r"""The parsed skeleton: `"\0 AND (\0 OR \0)"` is `("and", 0, ("or", 1, 2))`."""
    return _plan(skeleton).shape


def parse_by_shape(text: str, limits: Limits) -> Condition | None:
    """What the full parser would say of `text`, or None where only it can know."""
    pieces = _PREDICATE.split(text)
    if len(pieces) == 1:
        return None
    skeleton = "\0".join(pieces[::_STEP])
    plan = _plans.get(skeleton)
    try:
        if plan is None:
            if not _is_usable(skeleton):
                return None
            plan = _plan(skeleton)
        if plan.depth > limits.depth:
            return None
        return _build(plan, pieces, limits)
    except (SelectorError, ConstantError, _Unusual):
        return None


class _Unusual(Exception):  # noqa: N818 - no error: the full parser takes over
    """Something that the short cut leaves to the full parser."""


# --- skeletons ---------------------------------------------------------------


def _is_usable(skeleton: str) -> bool:
    return len(skeleton) <= _LONGEST and _SKELETON.fullmatch(skeleton) is not None


def _plan(skeleton: str) -> Plan:
    plan = _plans.get(skeleton)
    if plan is None:
        if len(_plans) >= _KEPT:
            _plans.clear()
        plan = _plans[skeleton] = _read(skeleton)
    return plan


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


# --- conditions --------------------------------------------------------------


def _build(plan: Plan, pieces: list[str], limits: Limits) -> Condition:
    nodes: list[Condition] = []
    at = 0
    for i in range(1, len(pieces), _STEP):
        at += len(pieces[i - 1])
        nodes.append(_predicate(pieces, i, at, limits))
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


def _predicate(pieces: list[str], i: int, at: int, limits: Limits) -> Condition:
    """The node of the predicate whose groups start at `pieces[i]`; it stands at `at`."""
    whole, op_text = pieces[i], pieces[i + 2]
    term = _term(pieces[i + 1], at)
    if op_text:
        op, negative = _operators.get(op_text) or _operator(op_text)
        constant = pieces[i + 3]
        node = _simple(term, op, _constant(constant, at + len(whole) - len(constant)), at)
    elif pieces[i + 4]:
        _, negative = _operator(pieces[i + 4])
        node = In(term, _items(whole, pieces[i + 5], at, limits), at)
    else:
        _, negative = _operator(pieces[i + 6])
        node = _between(term, whole, pieces[i + 7], pieces[i + 8], at)
    return Not(node, at) if negative else node


def _simple(term: Term, op: str, value: Literal, at: int) -> Condition:
    if op in _COMPARISONS:
        return Compare(term, cast("CompareOp", op), value, at)
    if op != "LIKE":
        return Text(term, cast("TextOp", op), value, at)
    if value.type is not Type.STRING:
        raise _Unusual
    return Like(term, cast("str", value.value), None, at)


def _items(whole: str, items: str, at: int, limits: Limits) -> tuple[Literal, ...]:
    start = at + len(whole[:-1].rstrip()) - len(items)
    found = tuple(_constant(m[0], start + m.start()) for m in _ITEM.finditer(items))
    if len(found) > limits.items:
        raise _Unusual
    return found


def _between(term: Term, whole: str, low: str, high: str, at: int) -> Condition:
    before_high = len(whole) - len(high)
    end_of_low = len(whole[:before_high].rstrip()[: -len("AND")].rstrip())
    bounds = _constant(low, at + end_of_low - len(low)), _constant(high, at + before_high)
    return Between(term, *bounds, at)


def _operator(text: str) -> tuple[str, bool]:
    """The operator that is spelled `text`, and whether NOT stood before it."""
    words = text.upper().split()
    negative = words[0] == "NOT"
    op = " ".join(words[negative:])
    if len(_operators) >= _KEPT:
        _operators.clear()
    found = _operators[text] = OPERATORS.get(op, op), negative
    return found


def _term(text: str, at: int) -> Term:
    function, name, offset = _terms.get(text) or _read_term(text)
    if not function:
        return Attribute(name, at)
    return Call(function, (Attribute(name, at + offset),), at)


def _read_term(text: str) -> tuple[str, str, int]:
    """The function (or nothing), the attribute's name, and the place of the name in `text`."""
    call = _CALL.fullmatch(text)
    found = (call[1].lower(), call[2], call.start(2)) if call else ("", text, 0)
    if found[1].upper() in RESERVED:
        raise _Unusual
    if len(_terms) >= _KEPT:
        _terms.clear()
    _terms[text] = found
    return found


def _constant(text: str, at: int) -> Literal:
    first = text[0]
    if first in "'\"":
        return Literal(Type.STRING, unquote(text), at)
    if first != "-":
        value = in_range(number(text))
    else:
        value = number(text[1:].lstrip())
        value = negated(value if value == MAGNITUDE else in_range(value))
    return Literal(Type.INT if isinstance(value, int) else Type.DOUBLE, value, at)
