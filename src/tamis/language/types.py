"""`check`: what can be said of a condition's types before any message is seen.

A term has a set of possible types. With a schema an attribute has one; without, it may have
any, and only constants can prove a selector wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn

from tamis.errors import SelectorError
from tamis.language.operands import FUNCTIONS
from tamis.language.printer import canonical
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
    Regex,
    Term,
    Text,
)
from tamis.schema import Schema, Type

Types = frozenset[Type]
ANY: Types = frozenset(Type)
NUMBERS: Types = frozenset((Type.INT, Type.DOUBLE))
ONLY: dict[Type, Types] = {t: frozenset((t,)) for t in Type}
STRINGS = ONLY[Type.STRING]


def check(
    condition: Condition,
    schema: Schema | None = None,
    *,
    text: str = "",
    lookups: Collection[str] = (),
) -> dict[str, Types]:
    """Each attribute of `condition` with its type (by the schema) or the types it is used as.

    Raises SelectorError for what can never work; `text` is the selector that it shows. Without a
    schema an attribute of which nothing is known has the empty set.
    """
    checker = Checker(_types_of(schema), text, lookups)
    try:
        checker.condition(condition)
    except RecursionError:
        raise SelectorError("the condition is nested too deeply", text=text) from None
    return {name: frozenset(types) for name, types in checker.found.items()}


class Checker:
    """One walk over one condition; `found` collects the types of its attributes."""

    def __init__(
        self, schema: dict[str, Types] | None, text: str, lookups: Collection[str]
    ) -> None:
        self.schema, self.text, self.lookups = schema, text, lookups
        self.found: dict[str, set[Type]] = {}

    def condition(self, node: Condition) -> None:
        CONDITIONS[type(node)](self, node)

    def term(self, node: Term) -> Types:
        return TERMS[type(node)](self, node)

    # --- conditions ----------------------------------------------------------

    def parts(self, node: And | Or) -> None:
        for part in node.parts:
            CONDITIONS[type(part)](self, part)

    def compare(self, node: Compare) -> None:
        left, right = self.term(node.left), self.term(node.right)
        if not _comparable(left, right):
            self.fail_to_compare(node.left, left, node.op, node.right, right)
        self.use(node.left, right)
        self.use(node.right, left)

    def between(self, node: Between) -> None:
        types = self.term(node.term)
        for op, bound in ((">=", node.low), ("<=", node.high)):
            of_bound = self.term(bound)
            if not _comparable(types, of_bound):
                self.fail_to_compare(node.term, types, op, bound, of_bound)
            self.use(node.term, of_bound)
            self.use(bound, types)

    def membership(self, node: In) -> None:
        types = self.term(node.term)
        for value in node.values:
            if not _comparable(types, ONLY[value.type]):
                self.fail_to_compare(node.term, types, "=", value, ONLY[value.type])
            self.use(node.term, ONLY[value.type])

    def text_test(self, node: Text) -> None:
        self.need(node.term, STRINGS, node.op)
        self.need(node.other, STRINGS, node.op)

    def pattern(self, node: Like | Regex) -> None:
        self.need(node.term, STRINGS, "LIKE" if isinstance(node, Like) else "MATCHES")

    def null_test(self, node: IsNull) -> None:
        self.term(node.term)

    # --- terms ---------------------------------------------------------------

    def attribute(self, node: Attribute) -> Types:
        if self.schema is None:
            self.found.setdefault(node.name, set())
            return ANY
        types = self.schema.get(node.name)
        if types is None:
            what, hint = f"there is no attribute {node.name}", nearest(node.name, self.schema)
            self.fail(what, node.at, hint or "the schema does not name it")
        self.found.setdefault(node.name, set(types))
        return types

    def arithmetic(self, node: Arithmetic) -> Types:
        left, right = (
            self.need(node.left, NUMBERS, node.op),
            self.need(node.right, NUMBERS, node.op),
        )
        if node.op == "/" or ONLY[Type.DOUBLE] in (left, right):
            return ONLY[Type.DOUBLE]
        return left if left == right else NUMBERS

    def call(self, node: Call) -> Types:
        if node.name not in FUNCTIONS:
            return self.lookup(node)
        if len(node.arguments) != 1:
            self.fail(f"{node.name} takes one argument", node.at, f"it has {len(node.arguments)}")
        if node.name == "abs":
            return self.need(node.arguments[0], NUMBERS, "abs")
        self.need(node.arguments[0], STRINGS, node.name)
        return ONLY[Type.INT] if node.name == "length" else STRINGS

    def lookup(self, node: Call) -> Types:
        if node.name not in self.lookups:
            hint = nearest(node.name, (*FUNCTIONS, *self.lookups))
            hint = hint or "functions are abs, lower, upper, length and registered lookups"
            self.fail(f"there is no function {node.name}", node.at, hint)
        for argument in node.arguments:
            self.term(argument)
        return ANY

    def need(self, node: Term, wanted: Types, op: str) -> Types:
        """The types of `node`, of which one at least must be `wanted` by the operator `op`."""
        types = self.term(node) & wanted
        if not types:
            kind = "strings" if wanted is STRINGS else "numbers"
            what = f"{op} needs {kind}: {_short(node)} is {_named(self.term(node))}"
            self.fail(what, node.at, _constant_hint(node, wanted))
        self.use(node, wanted)
        return types

    def use(self, node: Term, types: Types) -> None:
        if self.schema is None and isinstance(node, Attribute) and types is not ANY:
            self.found[node.name] |= types

    # --- errors --------------------------------------------------------------

    def fail_to_compare(
        self, left: Term, of_left: Types, op: str, right: Term, of_right: Types
    ) -> NoReturn:
        if isinstance(right, Literal) and right.value is True and right.at == left.at:
            what = f"{_short(left)} is {_named(of_left)}, not a condition"
            self.fail(what, left.at, "compare it with something")
        outcome = "never equal" if op == "=" else f"{op} never holds"
        what = (
            f"{_short(left)} is {_named(of_left)}, {_short(right)} is {_named(of_right)}: {outcome}"
        )
        constant, wanted = (right, of_left) if isinstance(right, Literal) else (left, of_right)
        self.fail(what, constant.at, _constant_hint(constant, wanted))

    def fail(self, what: str, at: int, hint: str = "") -> NoReturn:
        raise SelectorError(what, text=self.text, at=at, hint=hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names what the writer may have meant; empty if nothing is near."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower()[:100], by_lower, 1)
    return f"did you mean {by_lower[close[0]]}?" if close else ""


def _comparable(left: Types, right: Types) -> bool:
    return bool(left & right) or bool(left & NUMBERS and right & NUMBERS)


def _short(term: Term) -> str:
    text = canonical(term)
    return text if len(text) <= 40 else text[:37] + "..."


def _named(types: Types) -> str:
    if types == NUMBERS:
        return "a number"
    (only,) = types
    return f"an {only.value}" if only is Type.INT else f"a {only.value}"


def _constant_hint(term: Term, wanted: Types) -> str:
    """What to write in place of `term`, so that it has a wanted type."""
    constant = term.value if isinstance(term, Literal) else None
    if constant is not None and wanted == STRINGS:
        return f"write '{_short(term)}'"
    if isinstance(constant, str) and wanted == ONLY[Type.TIMESTAMP]:
        return f"write TIMESTAMP {_short(term)}"
    if isinstance(constant, str) and constant[:1].isdigit() and wanted <= NUMBERS:
        return "write the number without quotes"
    return f"put {_named(wanted)} here"


_schemas: dict[int, tuple[Schema, dict[str, Types]]] = {}


def _types_of(schema: Schema | None) -> dict[str, Types] | None:
    """A schema's types by name, kept for the schemas seen last: adding must not cost its width."""
    if schema is None:
        return None
    kept = _schemas.get(id(schema))
    if kept is None or kept[0] is not schema:
        if len(_schemas) >= 16:
            _schemas.clear()
        kept = schema, {a.name: ONLY[a.type] for a in schema.attributes}
        _schemas[id(schema)] = kept
    return kept[1]


CONDITIONS: dict[type, Callable[[Checker, Any], None]] = {
    And: Checker.parts,
    Or: Checker.parts,
    Not: lambda checker, node: checker.condition(node.part),
    Constant: lambda checker, node: None,
    Compare: Checker.compare,
    Between: Checker.between,
    In: Checker.membership,
    Text: Checker.text_test,
    Like: Checker.pattern,
    Regex: Checker.pattern,
    IsNull: Checker.null_test,
}
TERMS: dict[type, Callable[[Checker, Any], Types]] = {
    Attribute: Checker.attribute,
    Literal: lambda checker, node: ONLY[node.type],
    Negate: lambda checker, node: checker.need(node.term, NUMBERS, "-"),
    Arithmetic: Checker.arithmetic,
    Call: Checker.call,
}
