"""Numbers with parts: questions, and the words of programs.

A *question* says what is asked of which term: the term's number, a family of values, and a kind
of atom, from the highest bits to the lowest.

A *word* of a program, in postfix order, is a literal (not negative: a question or, once atoms are
numbered, a variable, and whether it is negated) or a connective: AND or OR of the last n operands.
AND of nothing is TRUE, OR of nothing FALSE.

These functions work on numbers and on arrays of them, in Python and inside kernels.
"""

from __future__ import annotations

from typing import Any

from tamis.jit.kernel import shared

_KIND_BITS = 4
_FAMILY_BITS = 4
_TERM_SHIFT = _KIND_BITS + _FAMILY_BITS
_KIND_MASK = (1 << _KIND_BITS) - 1
_FAMILY_MASK = (1 << _FAMILY_BITS) - 1
_REST_MASK = (1 << _TERM_SHIFT) - 1
TRUE, FALSE = -1, -2  # words


def question(term: int, family: int, kind: int) -> int:
    return term << _TERM_SHIFT | family << _KIND_BITS | kind


@shared
def term(question: Any) -> Any:
    return question >> _TERM_SHIFT


@shared
def family(question: Any) -> Any:
    return (question >> _KIND_BITS) & _FAMILY_MASK


@shared
def kind(question: Any) -> Any:
    return question & _KIND_MASK


@shared
def line(question: Any) -> Any:
    """The term and the family together: atoms of one line are compared with the same values."""
    return question >> _KIND_BITS


@shared
def line_term(line: Any) -> Any:
    return line >> _FAMILY_BITS


@shared
def line_family(line: Any) -> Any:
    return line & _FAMILY_MASK


def with_kind(question: int, kind: int) -> int:
    """The same question but for its kind."""
    return question & ~_KIND_MASK | kind


@shared
def with_term(question: Any, term: Any) -> Any:
    """The same question of another term."""
    return (question & _REST_MASK) | (term << _TERM_SHIFT)


@shared
def literal(asked: Any, negated: Any) -> Any:
    return 2 * asked + negated


@shared
def is_literal(word: Any) -> Any:
    return word >= 0


@shared
def asked(word: Any) -> Any:
    """The question, or the variable, of a literal."""
    return word >> 1


@shared
def negated(word: Any) -> Any:
    """1 where a literal is negated, else 0."""
    return word & 1


@shared
def conjunction(width: Any) -> Any:
    return -2 * width - 1


@shared
def disjunction(width: Any) -> Any:
    return -2 * width - 2


@shared
def is_or(word: Any) -> Any:
    """1 where a connective is OR, 0 where it is AND."""
    return (-word - 1) & 1


@shared
def width(word: Any) -> Any:
    """The number of operands of a connective."""
    return (-word - 1) >> 1
