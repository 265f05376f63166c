"""`check`: what can be said of a condition's types before any message is seen.

A term has a set of possible types. With a schema an attribute has one; without, it may have
any, and only constants can prove a selector wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from tamis.errors import SelectorError
from tamis.language.functions import (
    ANY,
    FUNCTIONS,
    ITEM,
    NUMBERS,
    ONLY,
    QUANTIFIERS,
    SIGNATURES,
    STRINGS,
    TIMESTAMPS,
    Types,
)
from tamis.language.operands import JOINED
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
    quantifier,
)
from tamis.schema import Schema, Shape, Type

_NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_SHAPES: Mapping[str, Shape] = MappingProxyType({})


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
    types, shapes = _types_of(schema)
    checker = Checker(types, text, lookups, schema.unread if schema else _NOTHING, shapes)
    try:
        checker.condition(condition)
    except RecursionError:
        raise SelectorError("the condition is nested too deeply", text=text) from None
    return {name: frozenset(types) for name, types in checker.found.items()}


class Checker:
    """One walk over one condition; `found` collects the types of its attributes."""

    def __init__(
        self,
        schema: dict[str, Types] | None,
        text: str,
        lookups: Collection[str],
        unread: Mapping[str, str] = _NOTHING,
        shapes: Mapping[str, Shape] = _NO_SHAPES,
    ) -> None:
        self.schema, self.text, self.lookups, self.unread = schema, text, lookups, unread
        self.shapes = shapes
        self.each: Call | None = None  # the ANY or ALL that may stand here
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
        if quantifier(node.left) and quantifier(node.right):
            what = "one side of a comparison can ask ANY or ALL of a list"
            self.fail(what, node.right.at, "write two comparisons")
        left = self.main(node.left)
        right = self.main(node.right) if quantifier(node.right) else self.term(node.right)
        if not _comparable(left, right):
            self.fail_to_compare(node.left, left, node.op, node.right, right)
        self.use(node.left, right)
        self.use(node.right, left)

    def between(self, node: Between) -> None:
        types = self.main(node.term)
        for op, bound in ((">=", node.low), ("<=", node.high)):
            of_bound = self.term(bound)
            if not _comparable(types, of_bound):
                self.fail_to_compare(node.term, types, op, bound, of_bound)
            self.use(node.term, of_bound)
            self.use(bound, types)

    def membership(self, node: In) -> None:
        types = self.main(node.term)
        for value in node.values:
            if not _comparable(types, ONLY[value.type]):
                self.fail_to_compare(node.term, types, "=", value, ONLY[value.type])
            self.use(node.term, ONLY[value.type])

    def text_test(self, node: Text) -> None:
        if node.op == "CONTAINS" and isinstance(node.term, Attribute) and self.is_list(node.term):
            self.compare(Compare(Call("any", (node.term,), node.term.at), "=", node.other, node.at))
            return
        self.each = quantifier(node.term)
        self.need(node.term, STRINGS, node.op)
        self.need(node.other, STRINGS, node.op)

    def pattern(self, node: Like | Regex) -> None:
        op = ("ILIKE" if node.any_case else "LIKE") if isinstance(node, Like) else "MATCHES"
        self.each = quantifier(node.term)
        self.need(node.term, STRINGS, op)

    def null_test(self, node: IsNull) -> None:
        if (call := quantifier(node.term)) is not None:
            what = "IS NULL asks for a list as a whole"
            self.fail(what, node.at, f"write {_short(call.arguments[0])} IS NULL")
        if isinstance(node.term, Attribute) and self.container(node.term) is not None:
            return
        self.term(node.term)

    def main(self, node: Term) -> Types:
        """The types of the term that a predicate is about: ANY and ALL stand there alone."""
        self.each = quantifier(node)
        return self.term(node)

    # --- terms ---------------------------------------------------------------

    def attribute(self, node: Attribute) -> Types:
        if self.schema is None:
            self.found.setdefault(node.name, set())
            return ANY
        types = self.schema.get(node.name)
        if types is None:
            self.fail_to_find(node)
        self.found.setdefault(node.name, set(types))
        if (shape := self.shapes.get(node.name)) is not None:
            a_list = shape is Shape.LIST
            what = f"{node.name} is a {shape.value}, not a value"
            hint = f"write ANY({node.name})" if a_list else f"write {node.name}['key']"
            self.fail(what, node.at, hint)
        return types

    def container(self, node: Term) -> Shape | None:
        """Whether the attribute is a list or a map, as far as the schema knows."""
        if not isinstance(node, Attribute) or self.shapes.get(node.name) is None:
            return None
        self.found.setdefault(node.name, set((self.schema or {})[node.name]))
        return self.shapes[node.name]

    def is_list(self, node: Attribute) -> bool:
        return self.shapes.get(node.name) is Shape.LIST

    def elements(self, node: Call, wanted: Shape) -> Types:
        """The types of what stands in the list or map that is the argument of a function."""
        name = {"[]": "a key", "size": "size"}.get(node.name, node.name.upper())
        if len(node.arguments) != (2 if node.name == ITEM else 1):
            self.fail(f"{name} takes one list", node.at, f"it has {len(node.arguments)} arguments")
        inner = node.arguments[0]
        if not isinstance(inner, Attribute):
            self.fail(f"{name} takes the name of a {wanted.value}", inner.at, "put a name here")
        if self.schema is None:
            self.found.setdefault(inner.name, set())
            return ANY
        if self.container(inner) is not wanted:
            own = self.shapes.get(inner.name)
            told = _named(self.attribute(inner)) if own is None else f"a {own.value}"
            self.fail(f"{inner.name} is {told}, not a {wanted.value}", inner.at)
        return self.schema[inner.name]

    def arithmetic(self, node: Arithmetic) -> Types:
        left, right = (
            self.need(node.left, NUMBERS, node.op),
            self.need(node.right, NUMBERS, node.op),
        )
        if node.op == "/" or ONLY[Type.DOUBLE] in (left, right):
            return ONLY[Type.DOUBLE]
        return left if left == right else NUMBERS

    def call(self, node: Call) -> Types:
        if node.name == ITEM:
            return self.elements(node, Shape.MAP)
        if node.name not in FUNCTIONS:
            return self.lookup(node)
        if node.name == "coalesce":
            return self.coalesce(node)
        if node.name == "size":
            self.elements(node, Shape.LIST)
            return ONLY[Type.INT]
        if node.name in QUANTIFIERS:
            if node is not self.each:
                what = f"{node.name.upper()} stands alone on one side of a comparison"
                self.fail(what, node.at, "write ANY(prices) > 10")
            return self.elements(node, Shape.LIST)
        wanted, count = SIGNATURES[node.name], len(node.arguments)
        if not wanted.fewest <= count <= len(wanted.arguments):
            self.fail(f"{node.name} takes {wanted.taken}", node.at, f"it has {count}")
        pairs = zip(node.arguments, wanted.arguments, strict=False)
        found = [self.need(argument, types, node.name) for argument, types in pairs]
        return found[0] if wanted.result is None else ONLY[wanted.result]

    def coalesce(self, node: Call) -> Types:
        """The first argument that is defined: all must be of types that compare."""
        if not node.arguments:
            self.fail("coalesce takes some arguments", node.at, "for example coalesce(price, 0.0)")
        first, *others = node.arguments
        types = self.term(first)
        for other in others:
            found = self.term(other)
            if not _comparable(types, found):
                what = f"coalesce needs values of one type: {_short(first)} is {_named(types)}"
                self.fail(what, other.at, f"{_short(other)} is {_named(found)}")
            types |= found
        return types

    def lookup(self, node: Call) -> Types:
        if node.name not in self.lookups:
            hint = nearest(node.name, (*FUNCTIONS, *self.lookups))
            hint = hint or f"functions are {', '.join(FUNCTIONS)} and registered lookups"
            self.fail(f"there is no function {node.name}", node.at, hint)
        for argument in node.arguments:
            self.term(argument)
        return ANY

    def need(self, node: Term, wanted: Types, op: str) -> Types:
        """The types of `node`, of which one at least must be `wanted` by the operator `op`."""
        types = self.term(node) & wanted
        if not types:
            what = f"{op} needs {_KINDS[wanted]}: {_short(node)} is {_named(self.term(node))}"
            self.fail(what, node.at, _constant_hint(node, wanted))
        self.use(node, wanted)
        return types

    def use(self, node: Term, types: Types) -> None:
        if self.schema is None and isinstance(node, Attribute) and types is not ANY:
            self.found[node.name] |= types

    # --- errors --------------------------------------------------------------

    def fail_to_find(self, node: Attribute) -> NoReturn:
        assert self.schema is not None
        if node.name in self.unread:
            what = f"{node.name} is {self.unread[node.name]}; selectors cannot read it"
            self.fail(what, node.at, "convert it before matching")
        what, hint = f"there is no attribute {node.name}", nearest(node.name, self.schema)
        self.fail(what, node.at, hint or "the schema does not name it")

    def fail_to_compare(
        self, left: Term, of_left: Types, op: str, right: Term, of_right: Types
    ) -> NoReturn:
        if isinstance(right, Literal) and right.value is True and right.at == left.at:
            what = f"{_short(left)} is {_named(of_left)}, not a condition"
            hint = JOINED if "||" in self.text else "compare it with something"
            self.fail(what, left.at, hint)
        outcome = "never equal" if op == "=" else f"{op} never holds"
        what = (
            f"{_short(left)} is {_named(of_left)}, {_short(right)} is {_named(of_right)}: {outcome}"
        )
        constant, wanted = (right, of_left) if isinstance(right, Literal) else (left, of_right)
        self.fail(what, constant.at, _constant_hint(constant, wanted))

    def fail(self, what: str, at: int, hint: str = "") -> NoReturn:
        raise SelectorError(what, text=self.text, at=at, hint=hint)


_KINDS = {
    STRINGS: "strings",
    NUMBERS: "numbers",
    ONLY[Type.INT]: "integers",
    TIMESTAMPS: "timestamps",
}


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
    if isinstance(constant, str) and wanted == TIMESTAMPS:
        return f"write TIMESTAMP {_short(term)}"
    if isinstance(constant, str) and constant[:1].isdigit() and wanted <= NUMBERS:
        return "write the number without quotes"
    return f"put {_named(wanted)} here"


_schemas: dict[int, tuple[Schema, dict[str, Types], dict[str, Shape]]] = {}


def _types_of(schema: Schema | None) -> tuple[dict[str, Types] | None, Mapping[str, Shape]]:
    """A schema's types by name, and which of them are lists or maps; kept for the schemas seen
    last: adding must not cost its width."""
    if schema is None:
        return None, _NO_SHAPES
    kept = _schemas.get(id(schema))
    if kept is None or kept[0] is not schema:
        if len(_schemas) >= 16:
            _schemas.clear()
        types = {a.name: ONLY[a.type] for a in schema.attributes}
        shapes: dict[str, Shape] = {
            a.name: a.shape for a in schema.attributes if a.shape is not Shape.SCALAR
        }
        kept = schema, types, shapes
        _schemas[id(schema)] = kept
    return kept[1], kept[2]


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
