"""What rewriting does with conditions and terms: substitute, negate, conjoin, take apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tamis.language import (
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
)
from tamis.language.functions import FUNCTIONS
from tamis.language.measure import children
from tamis.logic import TRUE as ALWAYS
from tamis.logic import reduce
from tamis.schema import Type

Node = Condition | Term
TRUE, FALSE = Constant(True), Constant(False)
ONE = Literal(Type.DOUBLE, 1.0)


# --- terms inside of trees ------------------------------------------------------


def map_terms(condition: Condition, change: Callable[[Term], Term]) -> Condition:
    """The condition with `change` made to every term that stands directly in a predicate."""
    match condition:
        case Constant():
            return condition
        case Not(part):
            return replace(condition, part=map_terms(part, change))
        case And(parts) | Or(parts):
            return replace(condition, parts=tuple(map_terms(p, change) for p in parts))
        case Compare(left, _, right):
            return replace(condition, left=change(left), right=change(right))
        case Between(term, low, high):
            return replace(condition, term=change(term), low=change(low), high=change(high))
        case Text(term, _, other):
            return replace(condition, term=change(term), other=change(other))
        case In(term) | Like(term) | Regex(term) | IsNull(term):
            return replace(condition, term=change(term))


def map_term(term: Term, change: Callable[[Term], Term | None]) -> Term:
    """The term with every part for which `change` gives another replaced by that, from the top."""
    changed = change(term)
    if changed is not None:
        return changed
    match term:
        case Arithmetic(_, left, right):
            return replace(term, left=map_term(left, change), right=map_term(right, change))
        case Negate(inner):
            return _negate(map_term(inner, change), term)
        case Call(_, arguments):
            return replace(term, arguments=tuple(map_term(a, change) for a in arguments))
    return term


def _negate(inner: Term, term: Negate) -> Term:
    """A negative number is a Literal, never the negation of one."""
    if isinstance(inner, Literal) and inner.type.numeric:
        from tamis.language.literals import negated

        return Literal.of(negated(inner.value), term.at)  # type: ignore[arg-type]
    return replace(term, term=inner)


def substitute_term(term: Term, values: Mapping[str, Term]) -> Term:
    """The term with each attribute replaced by what `values` says it is worth."""
    return map_term(term, lambda t: values.get(t.name) if isinstance(t, Attribute) else None)


def substitute(condition: Condition, values: Mapping[str, Term]) -> Condition:
    """The condition before a transform that makes `values`: Gryphon, section 3.1.

    What asks only constants is decided at once.
    """
    return folded(map_terms(condition, lambda term: substitute_term(term, values)))


def folded(condition: Condition) -> Condition:
    """The condition without predicates on constants alone: they are never unknown."""
    match condition:
        case And(parts):
            return all_of(map(folded, parts))
        case Or(parts):
            return any_of(map(folded, parts))
        case Not(part):
            inner = folded(part)
            if isinstance(inner, Constant):
                return FALSE if inner.value else TRUE
            return replace(condition, part=inner)
        case Constant():
            return condition
    if all(isinstance(term, Literal) for term in children(condition)):
        return TRUE if reduce(condition) == ALWAYS else FALSE
    return condition


def parts_of(node: Node) -> Iterator[Node]:
    """Every node of the tree, from the top."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(children(found)))


def lookup_calls(node: Node) -> tuple[Call, ...]:
    """The calls of lookups in the tree, each once, inner ones before those that use them."""
    calls = [n for n in parts_of(node) if isinstance(n, Call) and n.name not in FUNCTIONS]
    return tuple(dict.fromkeys(reversed(calls)))


def as_double(term: Term) -> Term:
    """An int term as a double: there is no cast, but a product with 1.0 is one, and exact."""
    if isinstance(term, Literal) and term.type is Type.INT:
        return Literal(Type.DOUBLE, float(term.value), term.at)  # type: ignore[arg-type]
    return Arithmetic("*", term, ONE, term.at)


# --- conditions -----------------------------------------------------------------


def all_of(conditions: Iterable[Condition]) -> Condition:
    """The conjunction, flat, each part once and TRUE left out."""
    flat: dict[Condition, None] = {}
    for condition in conditions:
        for part in condition.parts if isinstance(condition, And) else (condition,):
            if part == FALSE:
                return FALSE
            if part != TRUE:
                flat.setdefault(part)
    if not flat:
        return TRUE
    first, *more = flat
    return And(tuple(flat), first.at) if more else first


def any_of(conditions: Iterable[Condition]) -> Condition:
    """The disjunction, flat, each part once and FALSE left out."""
    flat: dict[Condition, None] = {}
    for condition in conditions:
        for part in condition.parts if isinstance(condition, Or) else (condition,):
            if part == TRUE:
                return TRUE
            if part != FALSE:
                flat.setdefault(part)
    if not flat:
        return FALSE
    first, *more = flat
    return Or(tuple(flat), first.at) if more else first


def not_true(condition: Condition) -> Condition:
    """True where the condition is false or unknown, and never unknown itself.

    NOT would leave the unknown unknown: what a later rule asks is that no earlier one fired.
    """
    match condition:
        case Constant(value):
            return FALSE if value else TRUE
        case And(parts):
            return any_of(map(not_true, parts))
        case Or(parts):
            return all_of(map(not_true, parts))
        case Not(part):
            return not_false(part)
        case IsNull():
            return Not(condition, condition.at)
        case Between(term, low, high, at):
            bounds = Compare(term, ">=", low, at), Compare(term, "<=", high, at)
            return any_of(map(not_true, bounds))
    return any_of([Not(condition, condition.at), *_unknown(condition)])


def not_false(condition: Condition) -> Condition:
    """True where the condition is true or unknown, and never unknown itself."""
    match condition:
        case Constant() | IsNull():
            return condition
        case And(parts):
            return all_of(map(not_false, parts))
        case Or(parts):
            return any_of(map(not_false, parts))
        case Not(part):
            return not_true(part)
        case Between(term, low, high, at):
            bounds = Compare(term, ">=", low, at), Compare(term, "<=", high, at)
            return all_of(map(not_false, bounds))
    return any_of([condition, *_unknown(condition)])


def _unknown(predicate: Predicate) -> list[Condition]:
    """The ways in which a predicate that is neither Between nor IsNull can be unknown."""
    terms: tuple[Term, ...]
    match predicate:
        case Compare(left, _, right) | Text(left, _, right):
            terms = (left, right)
        case _:
            terms = (predicate.term,)
    return [IsNull(term, term.at) for term in terms if not isinstance(term, Literal)]


# --- questions ------------------------------------------------------------------


def without_calls(
    conditions: Collection[Condition], types: Mapping[str, Type]
) -> tuple[list[Condition], dict[str, Type]]:
    """The conditions with each lookup's value as an attribute of its own, and their types.

    Reasoning knows nothing of a lookup's table; so it may be anything.
    """
    names: dict[Call, str] = {}

    def named(term: Term) -> Term | None:
        if not isinstance(term, Call) or term.name in FUNCTIONS:
            return None
        return Attribute(names.setdefault(term, f"\x01{len(names)}"))

    changed = [map_terms(c, lambda term: map_term(term, named)) for c in conditions]
    return changed, {name: types[call.name] for call, name in names.items()}
