r"""Simple predicates (`name op constant`) without the parser: a regex finds their parts.

A selector is mostly simple predicates joined by AND, OR, NOT and brackets. One regular expression
cuts them out; what is left, with `\0` for each, is the skeleton.

Why a cut cannot be wrong: a skeleton may hold nothing but holes, white space, brackets and
connectives. Had the regex cut inside a string or a longer term, then a quote, a digit, an
operator or a word would be left over. Whatever looks odd raises Unusual, and the parser takes
over, which alone raises errors. What is made here equals what the parser makes.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from tamis.language.functions import QUANTIFIERS
from tamis.language.jms import HIDDEN_HEADERS
from tamis.language.lexer import OPERATORS, RESERVED, unquote
from tamis.language.limits import Limits
from tamis.language.literals import MAGNITUDE, in_range, negated, number
from tamis.language.tree import (
    Attribute,
    Between,
    Call,
    Compare,
    CompareOp,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Term,
    Text,
    TextOp,
)
from tamis.schema import Type

_WORD = r"[A-Za-z_$][\w$]*+"
_PART = rf"(?:{_WORD}|`{_WORD}`)"
_NAME = rf"{_PART}(?:\.{_PART})*+"
_NUMBER = r"(?:-\s*+)?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w.$])"
_SINGLE = r"'[^']*+(?:''[^']*+)*+'"
_DOUBLE = r'"[^"]*+(?:""[^"]*+)*+"'
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
GROUPS = 10


def _pattern(
    term: str, operator: str, constant: str, item: str, bound: str, no: str = ""
) -> re.Pattern[str]:
    """Groups: the whole; the term; operator, constant; IN, items; BETWEEN, low, high; IS NULL.

    re.ASCII: else the Kelvin sign would be a K, and words would match that no lexer knows.
    """
    return re.compile(
        rf"""(
            (?<![\w$.`]) ({term}) \s*+
            (?: ({operator}) \s*+ ({constant})
              | ({no}IN) \s*+\(\s*+ ({item}(?:\s*+,\s*+{item})*+) \s*+\)
              | ({no}BETWEEN)\b \s*+ ({bound}) \s*+AND\b\s*+ ({bound})
              | (IS\s++(?:NOT\s++)?NULL)\b(?![\w.$])
            )
        )""",
        re.VERBOSE | re.ASCII | re.IGNORECASE,
    )


_CONSTANT = rf"(?:{_SINGLE}|{_DOUBLE}|{_NUMBER})"
_TAMIS = _pattern(
    rf"(?:lower|upper|casefold|any|all|size)\s*+\(\s*+{_NAME}\s*+\)|{_NAME}",
    r"==?|<[=>]?|>=?|!=|(?:NOT\s++)?(?:CONTAINS|WITHIN|LIKE|(?:STARTS|ENDS)\s++WITH)\b",
    rf"(?:{_CONSTANT}|(?:TRUE|FALSE)(?![\w.$]))",
    _CONSTANT,
    _CONSTANT,
    no=r"(?:NOT\s++)?",
)
_JMS_NUMBER = rf"(?!-?\s*+0[0-9]){_NUMBER}"  # a zero in front may make it octal
_JMS = _pattern(
    rf"(?!(?:{'|'.join(sorted(HIDDEN_HEADERS))})\b){_WORD}",
    r"=(?!=)|<>|<=?(?=\s*+[-.0-9])|>=?(?=\s*+[-.0-9])|LIKE\b",
    rf"(?:{_SINGLE}|{_JMS_NUMBER})",
    _SINGLE,
    _JMS_NUMBER,
)


class Cutter(NamedTuple):
    """How one dialect's selectors are cut."""

    predicate: re.Pattern[str]
    skeleton: re.Pattern[str]


def _skeletons(connectives: str, words: str) -> re.Pattern[str]:
    pattern = rf"(?:[\0\s{connectives}]|\b(?:{words})\b)++"
    return re.compile(pattern, re.ASCII | re.IGNORECASE)


CUTTERS = {
    "tamis": Cutter(_TAMIS, _skeletons(r"()\[\]&|!∧∨¬", "AND|OR|NOT")),
    "jms": Cutter(_JMS, _skeletons("()", "AND|OR")),  # NOT: see `jms.settled`
}
_ITEM = re.compile(_CONSTANT, re.ASCII)
TEXTS = re.compile(rf"{_SINGLE}|{_DOUBLE}|[^\s,'\"]++", re.ASCII)  # and whatever is none
_CALL = re.compile(rf"(\w++)\s*+\(\s*+({_NAME})\s*+\)", re.ASCII)

# What a spelling means, kept for the spellings seen. A full store is emptied; long texts stay out.
_KEPT, _LONGEST = 4_096, 200
_terms: dict[str, tuple[str, str, int]] = {}
_operators: dict[str, tuple[str, bool]] = {}


class Unusual(Exception):  # noqa: N818 - no error: the full parser takes over
    """Something that only the full parser can judge."""


def predicate(pieces: list[str], i: int, at: int, limits: Limits) -> Condition:
    """The node of the predicate whose groups start at `pieces[i]`; it stands at `at`."""
    whole, op_text = pieces[i], pieces[i + 2]
    term = _term(pieces[i + 1], at)
    if op_text:
        op, negative = _operators.get(op_text) or _operator(op_text)
        text = pieces[i + 3]
        node = _simple(term, op, constant(text, at + len(whole) - len(text)), at)
        if isinstance(node, Like) and len(node.pattern) > limits.pattern:
            raise Unusual
    elif pieces[i + 4]:
        _, negative = _operator(pieces[i + 4])
        node = In(term, _items(whole, pieces[i + 5], at, limits), at)
    elif pieces[i + 9]:
        negative = len(pieces[i + 9].split()) == 3
        node = IsNull(term, at)
    else:
        _, negative = _operator(pieces[i + 6])
        node = _between(term, whole, pieces[i + 7], pieces[i + 8], at)
    if negative and isinstance(term, Call) and term.name in QUANTIFIERS:
        raise Unusual  # some are not: not all are
    return Not(node, at) if negative else node


def _simple(term: Term, op: str, value: Literal, at: int) -> Condition:
    if op in _COMPARISONS:
        return Compare(term, cast("CompareOp", op), value, at)
    if op != "LIKE":
        return Text(term, cast("TextOp", op), value, at)
    if value.type is not Type.STRING:
        raise Unusual
    return Like(term, cast("str", value.value), None, at)


def _items(whole: str, items: str, at: int, limits: Limits) -> tuple[Literal, ...]:
    start = at + len(whole[:-1].rstrip()) - len(items)
    found = tuple(constant(m[0], start + m.start()) for m in _ITEM.finditer(items))
    if len(found) > limits.items:
        raise Unusual
    return found


def _between(term: Term, whole: str, low: str, high: str, at: int) -> Condition:
    before_high = len(whole) - len(high)
    end_of_low = len(whole[:before_high].rstrip()[: -len("AND")].rstrip())
    bounds = constant(low, at + end_of_low - len(low)), constant(high, at + before_high)
    return Between(term, *bounds, at)


def _operator(text: str) -> tuple[str, bool]:
    """The operator that is spelled `text`, and whether NOT stood before it."""
    words = text.upper().split()
    negative = words[0] == "NOT"
    op = " ".join(words[negative:])
    found = OPERATORS.get(op, op), negative
    if len(text) <= _LONGEST:
        if len(_operators) >= _KEPT:
            _operators.clear()
        _operators[text] = found
    return found


def _term(text: str, at: int) -> Term:
    function, name, offset = read_term(text)
    if not function:
        return Attribute(name, at)
    return Call(function, (Attribute(name, at + offset),), at)


def read_term(text: str) -> tuple[str, str, int]:
    """The function (or nothing), the attribute's name, and the place of the name in `text`."""
    if known := _terms.get(text):
        return known
    call = _CALL.fullmatch(text)
    found = (call[1].lower(), call[2], call.start(2)) if call else ("", text, 0)
    if found[1].upper() in RESERVED:
        raise Unusual
    found = found[0], found[1].replace("`", ""), found[2]
    if len(text) <= _LONGEST:
        if len(_terms) >= _KEPT:
            _terms.clear()
        _terms[text] = found
    return found


def constant(text: str, at: int) -> Literal:
    """The literal that is spelled `text` and stands at `at`."""
    first = text[0]
    if first in "'\"":
        return Literal(Type.STRING, unquote(text), at)
    if first in "tTfF":
        return Literal(Type.BOOL, first in "tT", at)
    if first != "-":
        value = in_range(number(text))
    else:
        value = number(text[1:].lstrip())
        value = negated(value if value == MAGNITUDE else in_range(value))
    if value == 0 and text.strip("-0. \t\r\n\f"):
        raise Unusual  # too small for a double, which JMS refuses
    return Literal(Type.INT if isinstance(value, int) else Type.DOUBLE, value, at)
