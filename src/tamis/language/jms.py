"""The jms dialect: the message selector of Jakarta Messaging 3.1, section 3.8.1, to the letter.

It shares the parser. What differs is here: the tokens (its keywords only, Java's names, numbers
and white space), and what the specification refuses although the grammar could read it.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata

from tamis.errors import SelectorError
from tamis.language import literals
from tamis.language.lexer import RESERVED, Tokens, describe, is_digit, is_letter
from tamis.language.literals import ConstantError
from tamis.language.measure import Node, children
from tamis.language.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Term,
    flat,
)
from tamis.schema import Type

_DIGITS = r"[0-9](?:_*+[0-9])*+"
_HEX = r"[0-9a-fA-F](?:_*+[0-9a-fA-F])*+"
_EXPONENT = rf"[eE][+-]?{_DIGITS}"
_NUMBER = rf"""(?:
    0[xX](?:{_HEX}\.?(?:{_HEX})?|\.{_HEX})[pP][+-]?{_DIGITS}[fFdD]?
  | 0[xX]{_HEX}[lL]?
  | 0[bB][01](?:_*+[01])*+[lL]?
  | (?:{_DIGITS}\.(?:{_DIGITS})?(?:{_EXPONENT})?|\.{_DIGITS}(?:{_EXPONENT})?)[fFdD]?
  | {_DIGITS}(?:{_EXPONENT}[fFdD]?|[fFdD])
  | {_DIGITS}[lL]?
)(?![\w.$])"""
_IGNORED = r"\x01-\x08\x0e-\x1b\x7f"  # Java allows control characters inside a name
_TOKEN = re.compile(
    rf"""[ \t\f\r\n]*+(?:
        (?P<name>(?:[A-Za-z_$]|[^\x00-\x7f])(?:[A-Za-z0-9_${_IGNORED}]|[^\x00-\x7f])*+)
      | (?P<number>{_NUMBER})
      | (?P<string>'[^']*+(?:''[^']*+)*+')
      | (?P<mistake>==|--(?![0-9.(]))
      | (?P<operator><>|<=|>=|[-=<>+*/(),])
      | (?P<end>\Z)
      | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_MISTAKES = {
    "==": ("JMS has no ==", "write ="),
    "--": ("JMS has no comments", "write - - for two signs"),
    '"': ("JMS strings stand in single quotes", "write '...'"),
    "!": ("JMS has no !", "write <> or NOT"),
    "&": ("JMS has no &", "write AND"),
    "|": ("JMS has no |", "write OR"),
    ".": ("JMS names have no dots", 'use dialect="tamis" for nested attributes'),
    "[": ("JMS has no [ ]", "write ( )"),
    "{": ("JMS has no { }", "write ( )"),
    "'": ("this string is not closed", "add a closing '; inside it is written ''"),
}
HIDDEN_HEADERS = frozenset(
    ("JMSDestination", "JMSReplyTo", "JMSRedelivered", "JMSExpiration", "JMSDeliveryTime")
)


def tokenize(text: str) -> Tokens:
    """All tokens of `text`; `/` has the kind DIV, since Java divides integers so."""
    tokens = Tokens([], [], [])
    for found in _TOKEN.finditer(text):
        group = found.lastgroup or ""
        value, at = found[group], found.start(group)
        kind = group
        if group == "name":
            kind = _name_kind(text, value, at)
        elif group == "operator":
            kind = "DIV" if value == "/" else value
        elif group in ("mistake", "other"):
            raise _bad_token(text, at)
        tokens.kinds.append(kind)
        tokens.values.append(value)
        tokens.places.append(at)
    return tokens


def _name_kind(text: str, value: str, at: int) -> str:
    if value.isascii():
        return upper if (upper := value.upper()) in RESERVED else "name"
    for i, c in enumerate(value):
        if not (is_letter(c) or (i and (is_digit(c) or unicodedata.category(c) in ("Cc", "Cf")))):
            raise _bad_token(text, at + i)
    return "name"


def _bad_token(text: str, at: int) -> SelectorError:
    c = text[at]
    what, hint = f"{describe(c)} means nothing here", "remove it"
    if c.isdigit() or text[at : at + 2].strip(".").isdigit():
        what, hint = "this is no number", "write it as Java does: 7, 7., .5, 1E3, 0x1D, 5L"
    else:
        what, hint = _MISTAKES.get(text[at : at + 2]) or _MISTAKES.get(c) or (what, hint)
    return SelectorError(what, text=text, at=at, hint=hint)


# --- numbers as Java writes them ---------------------------------------------


def number(text: str) -> int | float:
    """The value of a Java literal. Hexadecimal, octal and binary give 64 bits, sign included."""
    plain = text.replace("_", "").lower()
    if plain.startswith("0x"):
        return _floating(plain) if "p" in plain else _bits(plain.removesuffix("l"), 16)
    if plain.startswith("0b"):
        return _bits(plain.removesuffix("l"), 2)
    if any(c in plain for c in ".efd"):
        return _floating(plain)
    digits = plain.removesuffix("l")
    if digits[0] == "0" and len(digits) > 1:
        return _bits(digits, 8)
    return literals.number(digits)


def _bits(digits: str, base: int) -> int:
    try:
        value = int(digits, base)
    except ValueError:
        what, hint = "a number that starts with 0 is octal", "its digits are 0 to 7; remove the 0"
        raise ConstantError(what, hint) from None
    if value >= 1 << 64:
        raise literals.too_big()
    return value - (1 << 64) if value >= 1 << 63 else value


def _floating(text: str) -> float:
    digits = text.rstrip("fd")
    try:
        value = float.fromhex(digits) if digits.startswith("0x") else float(digits)
        if text.endswith("f"):
            (value,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        value = math.inf
    if value == 0 and _mantissa(digits).strip("0."):
        raise ConstantError("this number is too small for its type", "write 0.0")
    return literals.finite(value)


def _mantissa(digits: str) -> str:
    return digits[2:].split("p")[0] if digits.startswith("0x") else digits.split("e")[0]


# --- what the specification means --------------------------------------------

_ORDER = ("<", "<=", ">", ">=")
_ANYTHING = "%"


def settled(condition: Condition, *, negated: bool = False) -> Condition:
    """The same, where the specification means something else than Tamis does.

    Only numbers have an order: `a < b` of two strings or two Booleans is false. IN and LIKE of
    anything but a string are unknown. That shows where they are `negated`: there they hold of it.
    """
    match condition:
        case Not(part, at):
            return Not(settled(part, negated=not negated), at)
        case And(parts, at):
            return And(flat(And, (settled(part, negated=negated) for part in parts)), at)
        case Or(parts, at):
            return Or(flat(Or, (settled(part, negated=negated) for part in parts)), at)
        case In(term, at=at) | Like(term, at=at) if negated:
            return Or((condition, Not(Like(term, _ANYTHING, None, at), at)), at)
        case Between(term, low, high, at) if Attribute in map(type, (low, high)):
            bounds = Compare(term, ">=", low, at), Compare(term, "<=", high, at)
            return And(flat(And, map(settled, bounds)), at)
        case Compare(Attribute() as left, op, Attribute() as right, at) if op in _ORDER:
            zero = Literal(Type.INT, 0, at)
            number = Compare(left, "<=", zero, at), Compare(left, ">", zero, at)
            return And((condition, Or((*number, IsNull(right, at)), at)), at)
    return condition


# --- what the specification refuses ------------------------------------------


def refuse(condition: Condition, text: str) -> None:
    """Raise SelectorError for the first part of `condition` that JMS does not allow."""
    waiting: list[Node] = [condition]
    while waiting:
        node = waiting.pop()
        _refuse_node(node, text)
        waiting.extend(reversed(children(node)))


def _refuse_node(node: Node, text: str) -> None:
    match node:
        case Compare(left, op, right) if op not in ("=", "<>"):
            _need_numbers(text, f"{op} compares numbers only", left, right)
        case Between(term, low, high):
            _need_numbers(text, "BETWEEN compares numbers only", term, low, high)
        case Arithmetic(op, left, right):
            _need_numbers(text, f"{'/' if op == 'DIV' else op} needs numbers", left, right)
        case Negate(term):
            _need_numbers(text, "- needs a number", term)
        case In(term, values):
            _need_name(text, "IN", term)
            _need_strings(text, values)
        case Like(term):
            _need_name(text, "LIKE", term)
        case IsNull(term):
            _need_name(text, "IS NULL", term)
        case Call(name):
            raise _refusal("JMS has no functions", text, node, f"remove {name}(...)")
        case Attribute(name) if name in HIDDEN_HEADERS:
            what = f"a JMS selector cannot refer to the header {name}"
            raise _refusal(what, text, node, "the specification names the six that it can")


def _need_numbers(text: str, what: str, *terms: Term) -> None:
    for term in terms:
        if isinstance(term, Literal) and not term.type.numeric:
            raise _refusal(what, text, term, f"this is a {term.type.value}")


def _need_name(text: str, op: str, term: Term) -> None:
    if not isinstance(term, Attribute):
        raise _refusal(f"{op} needs a name on its left", text, term, "put a property's name here")


def _need_strings(text: str, values: tuple[Literal, ...]) -> None:
    for value in values:
        if value.type is not Type.STRING:
            raise _refusal("a JMS IN list holds strings only", text, value, "write x = 1 OR x = 2")


def _refusal(what: str, text: str, node: Node, hint: str) -> SelectorError:
    return SelectorError(what, text=text, at=node.at, hint=hint)
