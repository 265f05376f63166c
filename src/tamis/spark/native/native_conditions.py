"""Conditions and terms over the columns of one frame, as Columns of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce as fold

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.language.functions import SIGNATURES
from tamis.language.tree import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    In,
    Like,
    Literal,
    Negate,
    Regex,
    Term,
    Text,
)
from tamis.logic import FUNCTIONS, Derived, Semantics, numbers, reduce
from tamis.logic.atoms import All, Atom, Family, Formula, Kind
from tamis.logic.atoms import Literal as Lit
from tamis.schema import Schema, Type
from tamis.spark.native import native_terms as terms
from tamis.spark.native.native_atoms import atom_column, denied
from tamis.spark.native.native_values import NotNative, Value, attribute, literal, micros, undefined

Find = Callable[[str], Value | None]
_COMPARED = (Family.NUMBER, Family.STRING, Family.ANY)  # what a number or a text must be
_UNARY = (Kind.DEFINED, Kind.TYPED)  # atoms that compare with nothing
_FUNCTIONS = frozenset((*SIGNATURES, "coalesce"))
_PREDICATES = (Compare, Text, Between, In, Like, Regex)  # comparisons are no values


@dataclass(slots=True)
class Translation:
    """Translates selectors under one semantics and schema. Raises NotNative where it cannot.

    `find` gives attributes by name (None: no such column, so never defined). `calls` are lookups
    that were joined already: `NYSEdb(issue)`, as a tree, and its value. With `python`, what Spark
    cannot do exactly (MATCHES, lower, upper) is done by a Python worker instead.
    """

    find: Find
    semantics: Semantics = "sql"
    schema: Schema | None = None
    calls: Mapping[Call, Value] = field(default_factory=dict)
    python: bool = False
    _values: dict[Term, Value] = field(default_factory=dict)
    _atoms: dict[Atom, Column | None] = field(default_factory=dict)
    _denials: dict[Atom, Column] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        messages: DataFrame,
        semantics: Semantics = "sql",
        schema: Schema | None = None,
        calls: Mapping[Call, Value] | None = None,
        *,
        python: bool = False,
    ) -> Translation:
        """Over the columns of `messages`."""

        def find(name: str) -> Value | None:
            return attribute(messages, name, schema)

        return cls(find, semantics, schema, calls or {}, python)

    def condition(self, condition: Condition) -> Column:
        """True in the rows that the condition matches, and false or NULL in all others: as good
        for `where` and `when`, and Spark can push it down to a file. See `sure`."""
        return self.formula(reduce(condition, self.semantics, self.schema))

    def term(self, term: Term) -> Column:
        """The value of the term, NULL where it is undefined."""
        return self.value(term).settled

    def value(self, term: Term) -> Value:
        found = self._values.get(term)
        if found is None:
            found = self._values[term] = self._value(term)
        return found

    def _value(self, term: Term) -> Value:
        match term:
            case Attribute(name):
                return self._attribute(name)
            case Literal(_, constant):
                return literal(constant)
            case Arithmetic(op, left, right):
                return terms.arithmetic(op, self.value(left), self.value(right))
            case Negate(inner):
                return terms.negate(self.value(inner))
            case Call(name) if name not in _FUNCTIONS and name in FUNCTIONS:
                raise NotNative("lists and maps are asked by the matcher")
            case Call(name, arguments) if name in FUNCTIONS:
                return terms.call(name, list(map(self.value, arguments)), python=self.python)
            case Call(name):
                if term in self.calls:
                    return self.calls[term]
                raise NotNative(f"the lookup {name} is a function of Python")

    def _attribute(self, name: str) -> Value:
        known = self.schema is not None and name in self.schema
        declared = self.schema[name] if self.schema is not None and known else None
        found = self.find(name)
        if found is None:
            found = undefined(declared.type if declared is not None else None)
        if declared is None or declared.default is None or self.semantics != "default":
            return found
        stand_in = literal(declared.default)
        return Value(F.coalesce(_plain(found), stand_in.column), declared.type)

    def derived(self, term: Derived) -> Value:
        """The value of what an atom asks about; a comparison of two terms is true or undefined."""
        if not isinstance(term, _PREDICATES):
            return self.value(term)
        raise NotNative("a comparison of two terms is no value")

    # --- formulas ----------------------------------------------------------------

    def formula(self, formula: Formula) -> Column:
        """True where the formula is, false or NULL elsewhere."""
        if isinstance(formula, Lit):
            return self._literal(formula, frozenset())
        if isinstance(formula, All):
            known = frozenset(map(_defined_where, formula.parts))
            kept = [part for part in formula.parts if not self._implied(part, formula.parts)]
            parts = [
                self._literal(part, known) if isinstance(part, Lit) else self.formula(part)
                for part in kept
            ]
            return _joined(parts + self._not_nan(formula.parts), Column.__and__, True)
        return _joined([self.formula(part) for part in formula.parts], Column.__or__, False)

    def _implied(self, part: Formula, others: Sequence[Formula]) -> bool:
        """Whether a part asks only that a number or a text be defined, and another one compares it:
        in Spark a comparison is NULL where the value is. See `_not_nan`."""
        term = _defined_by(part)
        if term is None or not isinstance(part, Lit) or part.atom.family not in _COMPARED:
            return False
        family = part.atom.family  # a comparison of texts does not tell that it is a number
        return any(
            self._compared_by(other) == term
            for other in others
            if isinstance(other, Lit) and family in (other.atom.family, Family.ANY)
        )

    def _not_nan(self, parts: Sequence[Formula]) -> list[Column]:
        """What keeps NaN, for Spark the largest number, out of what is implied; nothing where a
        part asks that the number be below something."""
        found = dict.fromkeys(_defined_by(part) for part in parts if self._implied(part, parts))
        below = [p.atom.term for p in parts if isinstance(p, Lit) and p.positive
                 and self._compared_by(p) is not None]  # fmt: skip
        values = [self.derived(term) for term in found if term is not None and term not in below]
        return [~F.isnan(value.column) for value in values if value.may_be_nan]

    def _compared_by(self, part: Formula) -> Derived | None:
        """The number or text that the part compares with a constant, if it does just that."""
        if not isinstance(part, Lit) or part.atom.kind in _UNARY:
            return None
        term, constant = part.atom.term, part.atom.constant
        if isinstance(term, _PREDICATES):
            return None
        if part.atom.family is Family.STRING:
            return term if self.value(term).type is Type.STRING and constant != () else None
        if part.atom.kind is not Kind.BELOW or part.atom.family is not Family.NUMBER:
            return None
        line = self.value(term).type
        if line is None or not line.numeric:
            return None
        limit = numbers.at_least(constant, line)  # type: ignore[arg-type]
        settled = numbers.never_below(limit, line) or numbers.always_below(limit, line)
        return None if settled else term

    def _literal(self, literal: Lit, known: frozenset[Derived | None]) -> Column:
        """`known` are terms that are defined where anybody looks at this."""
        if not literal.positive and literal.atom.term in known:
            return self._denied(literal.atom)
        column = self.atom(literal.atom)
        if column is None:
            return F.lit(not literal.positive)
        return column if literal.positive else ~sure(column)

    def _denied(self, atom: Atom) -> Column:
        """Where the atom does not hold, of a term that is defined."""
        found = self._denials.get(atom)
        if found is None:
            if not isinstance(atom.term, _PREDICATES):
                found = denied(atom, self.value(atom.term))
            if found is None:
                column = self.atom(atom)
                found = F.lit(True) if column is None else ~column
            self._denials[atom] = found
        return found

    def atom(self, atom: Atom) -> Column | None:
        """True where the atom holds; None where it never can."""
        if atom not in self._atoms:
            self._atoms[atom] = self._atom(atom)
        return self._atoms[atom]

    def _atom(self, atom: Atom) -> Column | None:
        match atom.term:
            case Compare(left, op, right):
                return terms.compare(self.value(left), op, self.value(right))
            case Text(left, op, right):
                return terms.text_test(self.value(left), op, self.value(right))
            case Between() | In() | Like() | Regex():
                raise NotNative("lists and maps are asked by the matcher")
            case term:
                return atom_column(atom, self.value(term), python=self.python)


def sure(condition: Column) -> Column:
    """The condition with false for NULL."""
    return F.coalesce(condition, F.lit(False))


def _defined_by(part: Formula) -> Derived | None:
    """The term that must be defined where this holds, if the part says just that."""
    return _defined_where(part) if isinstance(part, Lit) and part.atom.kind in _UNARY else None


def _defined_where(part: Formula) -> Derived | None:
    """The term that is defined wherever this holds: that of an atom that must be true."""
    return part.atom.term if isinstance(part, Lit) and part.positive else None


def _joined(parts: list[Column], join: Callable[[Column, Column], Column], empty: bool) -> Column:
    """As a balanced tree: Spark goes down trees by recursion."""
    if not parts:
        return F.lit(empty)
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [fold(join, pair) for pair in pairs]
    return parts[0]


def _plain(value: Value) -> Column:
    """The settled column in the form that literals of the type have."""
    return value.settled if value.clock == "timestamp" else F.timestamp_micros(micros(value))
