"""A condition tree back to text, in the tamis dialect: one text for each tree."""

from __future__ import annotations

from tamis.errors import SelectorError
from tamis.language.addresses import network_text
from tamis.language.lexer import is_plain
from tamis.language.literals import timestamp_text
from tamis.language.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Predicate,
    Regex,
    Term,
    Text,
    quantified,
)
from tamis.schema import Type

_MULTIPLYING = ("*", "/", "DIV", "%")


def canonical(node: Condition | Term) -> str:
    """The text of `node`: `parse(canonical(c)) == c`. Brackets stand only where they are needed."""
    try:
        if isinstance(node, Attribute | Literal | Arithmetic | Negate | Call):
            return term_text(node)
        return condition_text(node)
    except RecursionError:
        raise SelectorError("the condition is nested too deeply to be printed") from None


def condition_text(node: Condition) -> str:
    match node:
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case And(parts):
            return " AND ".join(_bracketed(p, And | Or) for p in parts)
        case Or(parts):
            return " OR ".join(_bracketed(p, Or) for p in parts)
        case Not(part):
            return _negated(part)
        case _:
            return _predicate_text(node, "")


def _negated(part: Condition) -> str:
    if isinstance(part, Constant | Compare | Not | And | Or) or quantified(part):
        return f"NOT {_bracketed(part, And | Or)}"
    return _predicate_text(part, "NOT ")


def _bracketed(node: Condition, needing: object) -> str:
    text = condition_text(node)
    return f"({text})" if isinstance(node, needing) else text  # type: ignore[arg-type]


def _predicate_text(node: Predicate, no: str) -> str:
    match node:
        case Compare(left, op, right):
            return f"{term_text(left)} {op} {term_text(right)}"
        case Between(Call("ipv4", (term,))) if (found := network_text(node)) is not None:
            return f"{term_text(term)} {no}IN CIDR '{found}'"
        case Between(term, low, high):
            return f"{term_text(term)} {no}BETWEEN {term_text(low)} AND {term_text(high)}"
        case In(term, values):
            return f"{term_text(term)} {no}IN ({', '.join(map(term_text, values))})"
        case Text(term, op, other):
            return f"{term_text(term)} {no}{op} {term_text(other)}"
        case Like(term, pattern, escape):
            tail = "" if escape is None else f" ESCAPE {_quoted(escape)}"
            like = "ILIKE" if node.any_case else "LIKE"
            return f"{term_text(term)} {no}{like} {_quoted(pattern)}{tail}"
        case Regex(term, pattern):
            return f"{term_text(term)} {no}MATCHES {_quoted(pattern)}"
        case IsNull(term):
            return f"{term_text(term)} IS {no}NULL"


def term_text(term: Term) -> str:
    match term:
        case Attribute(name):
            return _name(name)
        case Literal(kind, value):
            return _constant(kind, value)
        case Negate(part):
            text = term_text(part)
            return f"-({text})" if isinstance(part, Arithmetic | Negate) else f"-{text}"
        case Call("[]", (inner, key)):
            return f"{term_text(inner)}[{term_text(key)}]"
        case Call(name, arguments):
            return f"{_name(name)}({', '.join(map(term_text, arguments))})"
        case Arithmetic(op, left, right):
            return f"{_operand(left, op, right=False)} {op} {_operand(right, op, right=True)}"


def _operand(term: Term, op: str, *, right: bool) -> str:
    """An operand of `op`; all operators group to the left."""
    text = term_text(term)
    if not isinstance(term, Arithmetic):
        return text
    looser = op in _MULTIPLYING and term.op not in _MULTIPLYING
    equal = (op in _MULTIPLYING) == (term.op in _MULTIPLYING)
    return f"({text})" if looser or (right and equal) else text


def _name(name: str) -> str:
    return name if is_plain(name) else "`" + name.replace("`", "``") + "`"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _constant(kind: Type, value: object) -> str:
    if kind is Type.STRING:
        return _quoted(str(value))
    if kind is Type.BOOL:
        return "TRUE" if value else "FALSE"
    if kind is Type.TIMESTAMP:
        return f"TIMESTAMP '{timestamp_text(value)}'"  # type: ignore[arg-type]
    return repr(value)
