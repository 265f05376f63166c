"""LIKE patterns as atoms: most are a prefix, a suffix, a substring or a plain text."""

from __future__ import annotations

from tamis.language.patterns import folded, like_parts
from tamis.language.tree import Call, Literal, Term
from tamis.logic.atoms import Atom, Family, Kind, member
from tamis.logic.wildcards import pattern_of


def case_free(term: Term) -> Term:
    """The term whose LIKE is the ILIKE of this one."""
    if isinstance(term, Literal):
        return Literal.of(folded(term.value)) if isinstance(term.value, str) else term
    return Call("casefold", (term,))


def like_atom(term: Term, pattern: str, escape: str | None, *, any_case: bool = False) -> Atom:
    """The atom that holds just where `term LIKE pattern ESCAPE escape` is true.

    `any_case`: the pattern, too, is without its case.
    """
    read = like_parts(pattern, escape)
    match [[folded(text) for text in part] for part in read] if any_case else read:
        case [[text]]:
            return member(term, Family.STRING, [text])
        case [[""], [""]]:
            return Atom(term, Kind.TYPED, Family.STRING)
        case [[text], [""]]:
            return Atom(term, Kind.PREFIX, Family.STRING, text)
        case [[""], [text]]:
            return Atom(term, Kind.SUFFIX, Family.STRING, text)
        case [[""], [text], [""]]:
            return Atom(term, Kind.CONTAINS, Family.STRING, text)
        case parts:
            return Atom(term, Kind.LIKE, Family.STRING, pattern_of(parts))
