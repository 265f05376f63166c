"""The types of terms and conditions in a flow: those of selectors, and of declared lookups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NoReturn

from tamis.errors import FlowError, SelectorError
from tamis.flow.model.elements import Lookup
from tamis.flow.model.expressions import as_double, map_term
from tamis.language import Attribute, Call, Condition, Term
from tamis.language.functions import ONLY, Types
from tamis.language.types import Checker, nearest
from tamis.schema import Schema, Shape, Type

_MIXED = "this may be an int or a double"
_ONE_TYPE = "write whole numbers with .0 where others are doubles"


class FlowChecker(Checker):
    """Checks what stands in one statement; `place` names where its attributes are taken from."""

    def __init__(
        self,
        schema: Schema,
        lookups: Mapping[str, Lookup],
        text: str = "",
        where: str = "",
        place: str = "the space before",
    ) -> None:
        if not schema.scalar:
            listed = next(a for a in schema.attributes if a.shape is not Shape.SCALAR)
            what = f"{listed.name} is a {listed.kind}: flows carry plain values only"
            raise FlowError(what, where=where)
        types = {a.name: ONLY[a.type] for a in schema.attributes}
        super().__init__(types, text, tuple(lookups))
        self.made: frozenset[str] = frozenset()  # names that the rule assigns
        self.declared, self.where, self.place = lookups, where, place

    def check(self, condition: Condition) -> None:
        try:
            self.condition(condition)
        except SelectorError as error:
            raise self.error(error) from None
        except RecursionError:
            raise FlowError("the condition is nested too deeply", where=self.where) from None

    def type_of(self, term: Term) -> Type:
        try:
            found = self.term(term)
        except SelectorError as error:
            raise self.error(error) from None
        except RecursionError:
            raise FlowError("the term is nested too deeply", where=self.where) from None
        if len(found) > 1:
            self.fail_here(_MIXED, term, _ONE_TYPE)
        (only,) = found
        return only

    def fail_here(self, what: str, term: Term, hint: str) -> NoReturn:
        raise self.error(SelectorError(what, text=self.text, at=term.at, hint=hint))

    def coalesce(self, node: Call) -> Types:
        """Of one type: a column of Spark has but one."""
        found = super().coalesce(node)
        if len(found) > 1:
            self.fail(_MIXED, node.at, _ONE_TYPE)
        return found

    def lookup(self, node: Call) -> Types:
        lookup = self.declared.get(node.name)
        if lookup is None:
            hint = nearest(node.name, self.declared) or "declare it: lookup NAME(string) -> string"
            self.fail(f"there is no lookup {node.name}", node.at, hint)
        if len(node.arguments) != 1:
            self.fail(f"{node.name} takes one key", node.at, f"it has {len(node.arguments)}")
        (found,) = self.term(node.arguments[0])
        if found is not lookup.key and not (lookup.key is Type.DOUBLE and found is Type.INT):
            what = f"the key of {node.name} is {_a(lookup.key)}, this is {_a(found)}"
            self.fail(what, node.arguments[0].at, f"give it {_a(lookup.key)}")
        return ONLY[lookup.value]

    def term(self, node: Term) -> Types:
        if isinstance(node, Attribute) and node.name not in (self.schema or ()):
            self.fail_unknown(node)
        return super().term(node)

    def fail_unknown(self, node: Attribute) -> NoReturn:
        known = tuple(self.schema or ())
        if node.name in self.made:
            what = f"{node.name} is made by this rule: it stands on the other side of =>"
            self.fail(what, node.at, "terms and guards use the names of the pattern")
        what = f"{node.name} is not in {self.place}; it has {_some(known)}"
        self.fail(what, node.at, nearest(node.name, known))

    def error(self, error: SelectorError) -> FlowError:
        return FlowError(error.what, where=self.where, text=self.text, at=error.at, hint=error.hint)


def _a(kind: Type) -> str:
    return f"an {kind.value}" if kind is Type.INT else f"a {kind.value}"


def _some(names: Collection[str]) -> str:
    shown = list(names)[:12]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "nothing"


def keyed(term: Term, lookups: Mapping[str, Lookup], schema: Schema) -> Term:
    """The term with an int key written as a double where a lookup's keys are doubles."""

    def change(part: Term) -> Term | None:
        if not isinstance(part, Call) or part.name not in lookups:
            return None
        argument = keyed(part.arguments[0], lookups, schema)
        of_argument = FlowChecker(schema, lookups).type_of(argument)
        if lookups[part.name].key is Type.DOUBLE and of_argument is Type.INT:
            argument = as_double(argument)
        return Call(part.name, (argument,), part.at)

    return map_term(term, change)
