"""A summary as a program of typed instructions on registers, for the fold kernel.

Registers, in this order: components, constants, inputs (attributes of the event and columns that
are computed from one attribute alone), temporaries. Each holds 64 bits and whether it is
defined. Strings are numbers by rank among all strings of the batch. What has no instruction
(lists, text tests of components) raises UnsupportedError: such summaries fold in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from tamis.flow.states.definitions.scope import EVENT, STATE
from tamis.flow.states.definitions.summary import Assign, Rule, Summary
from tamis.flow.states.fold.instructions import Op
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
    Regex,
    Term,
    Text,
    attributes,
)
from tamis.logic import static_type
from tamis.schema import Type

Input = Term | Condition  # over one attribute of the event, names in full
_LISTED = 8  # values of an IN that are compared one by one
_ARITHMETIC = {"+": Op.ADD_I, "-": Op.SUB_I, "*": Op.MUL_I, "DIV": Op.DIV_I, "%": Op.MOD_I}
_DOUBLE = {"+": Op.ADD_D, "-": Op.SUB_D, "*": Op.MUL_D, "DIV": Op.DIV_D, "%": Op.MOD_D}
_DOUBLE |= {"/": Op.DIV_D}
_SWAPPED = {">": "<", ">=": "<="}


class UnsupportedError(Exception):
    """The kernel has no instruction for a part of the summary."""


@dataclass(slots=True)
class Program:
    """`code` has rows (op, target, a, b); register numbers say where everything stands."""

    components: list[tuple[str, Type]]
    constants: list[tuple[Type, object]] = field(default_factory=list)
    inputs: list[tuple[Input, Type]] = field(default_factory=list)
    code: list[list[int]] = field(default_factory=list)
    registers: int = 0


@lru_cache(maxsize=64)
def program_of(summary: Summary) -> Program:
    """The program, or UnsupportedError."""
    if summary.lists:
        raise UnsupportedError("lists are folded in Python")
    return _Compiler(summary).program()


class _Compiler:
    def __init__(self, summary: Summary) -> None:
        self.summary, self.schema = summary, summary.scope.full
        self.components = {STATE + a.name: i for i, a in enumerate(summary.scalars.attributes)}
        self.constants: dict[tuple[Type, object], int] = {}
        self.inputs: dict[Input, tuple[int, Type]] = {}
        self.code: list[list[int]] = []
        self.temporaries = 0

    def program(self) -> Program:
        for rule in self.summary.rules:
            self.rule(rule)
        self.emit(Op.STOP, 0)
        return self.laid_out()

    # --- rules -----------------------------------------------------------------

    def rule(self, rule: Rule) -> None:
        qualified = self.summary.scope.qualified
        jumps = self.guard(qualified(rule.condition))
        worth = []
        for change in rule.changes:
            if not isinstance(change, Assign):
                raise UnsupportedError("lists")
            target = STATE + change.component
            kind = self.schema[target].type
            worth.append((self.components[target], self.as_type(qualified(change.term), kind)))
        self.assign(worth)
        self.emit(Op.STOP, 1)
        for place in jumps:
            self.code[place][3] = len(self.code)

    def guard(self, condition: Condition) -> list[int]:
        """Jumps, to be aimed behind the rule, that are taken unless the condition is true."""
        if isinstance(condition, Constant) and condition.value:
            return []
        parts = condition.parts if isinstance(condition, And) else (condition,)
        jumps = []
        for part in parts:
            truth = self.condition(part)
            jumps.append(len(self.code))
            self.emit(Op.UNLESS, 0, truth)
        return jumps

    def assign(self, worth: list[tuple[int, int]]) -> None:
        """All at once: a component that is read after it was set is saved first."""
        safe = []
        for i, (target, source) in enumerate(worth):
            if any(source == earlier for earlier, _ in worth[:i]) and source != target:
                saved = self.temporary()
                self.emit(Op.MOVE, saved, source)
                source = saved
            safe.append((target, source))
        for target, source in safe:
            if target != source:
                self.emit(Op.MOVE, target, source)

    # --- conditions --------------------------------------------------------------

    def condition(self, node: Condition) -> int:
        """The register of a three-valued truth."""
        match node:
            case Constant(value):
                return self.constant(Type.BOOL, value)
            case Not(part):
                return self.computed(Op.NOT, self.condition(part))
            case And(parts) | Or(parts):
                op = Op.AND if isinstance(node, And) else Op.OR
                found = self.condition(parts[0])
                for part in parts[1:]:
                    found = self.computed(op, found, self.condition(part))
                return found
            case Between(term, low, high):
                both = And((Compare(term, ">=", low), Compare(term, "<=", high)))
                return self.condition(both)
            case In(term, values) if len(values) <= _LISTED:
                each = tuple(Compare(term, "=", v) for v in values)
                return self.condition(Or(each) if len(each) > 1 else each[0])
            case IsNull(term):
                return self.computed(Op.IS_NULL, self.term(term)[0])
            case Compare(left, op, right):
                return self.compare(left, op, right)
            case Text() | Like() | Regex() | In():
                return self.input(node, Type.BOOL)

    def compare(self, left: Term, op: str, right: Term) -> int:
        (a, of_a), (b, of_b) = self.term(left), self.term(right)
        if op in _SWAPPED:
            a, of_a, b, of_b, op = b, of_b, a, of_a, _SWAPPED[op]
        if not of_a.like(of_b):
            return self.computed(Op.UNLIKE, a, b)
        kinds = ("D" if of_a is Type.DOUBLE else "I") + ("D" if of_b is Type.DOUBLE else "I")
        if kinds == "DI" and op in ("=", "<>"):
            a, b, kinds = b, a, "ID"
        name = {"=": "EQ", "<>": "NE", "<": "LT", "<=": "LE"}[op]
        return self.computed(Op[f"{name}_{kinds}"], a, b)

    # --- terms ---------------------------------------------------------------------

    def term(self, node: Term) -> tuple[int, Type]:
        """The register of a value, and its type."""
        match node:
            case Literal(kind, value):
                return self.constant(kind, value), kind
            case Attribute(name) if name in self.components:
                return self.components[name], self.schema[name].type
            case Attribute(name):
                return self.input(node, self.schema[name].type), self.schema[name].type
            case Negate(part):
                a, kind = self.number(part)
                return self.computed(Op.NEG_D if kind is Type.DOUBLE else Op.NEG_I, a), kind
            case Call("abs", (part,)):
                a, kind = self.number(part)
                return self.computed(Op.ABS_D if kind is Type.DOUBLE else Op.ABS_I, a), kind
            case Call(name, _):
                known = static_type(node, self.schema)
                if known is None:
                    raise UnsupportedError(name)
                return self.input(node, known), known
            case Arithmetic(op, left, right):
                return self.arithmetic(op, left, right)

    def arithmetic(self, op: str, left: Term, right: Term) -> tuple[int, Type]:
        (a, of_a), (b, of_b) = self.number(left), self.number(right)
        if of_a is of_b is Type.INT and op != "/":
            return self.computed(_ARITHMETIC[op], a, b), Type.INT
        a = a if of_a is Type.DOUBLE else self.computed(Op.TO_D, a)
        b = b if of_b is Type.DOUBLE else self.computed(Op.TO_D, b)
        return self.computed(_DOUBLE[op], a, b), Type.DOUBLE

    def number(self, node: Term) -> tuple[int, Type]:
        found, kind = self.term(node)
        if not kind.numeric:
            raise UnsupportedError("arithmetic of what is no number")
        return found, kind

    def as_type(self, node: Term, wanted: Type) -> int:
        found, kind = self.term(node)
        if kind is wanted:
            return found
        if kind is Type.INT and wanted is Type.DOUBLE:
            return self.computed(Op.TO_D, found)
        raise UnsupportedError(f"{kind} for {wanted}")

    # --- registers: numbers below 0 until all are known -------------------------------

    def constant(self, kind: Type, value: object) -> int:
        place = self.constants.setdefault((kind, value), len(self.constants))
        return -1 - 3 * place

    def input(self, node: Input, kind: Type) -> int:
        names = attributes(node)
        if len(names) != 1 or not names[0].startswith(EVENT):
            raise UnsupportedError("a text test or a function of more than one attribute")
        place, _ = self.inputs.setdefault(node, (len(self.inputs), kind))
        return -2 - 3 * place

    def temporary(self) -> int:
        self.temporaries += 1
        return -3 - 3 * (self.temporaries - 1)

    def computed(self, op: Op, a: int, b: int = 0) -> int:
        target = self.temporary()
        self.emit(op, target, a, b)
        return target

    def emit(self, op: Op, target: int, a: int = 0, b: int = 0) -> None:
        self.code.append([int(op), target, a, b])

    def laid_out(self) -> Program:
        """The code with every register's final number."""
        first = len(self.components)
        bases = (first, first + len(self.constants),
                 first + len(self.constants) + len(self.inputs))  # fmt: skip

        def final(register: int) -> int:
            return register if register >= 0 else bases[(-1 - register) % 3] + (-1 - register) // 3

        code = [[op, final(t), final(a), b if op == Op.UNLESS else final(b)]
                for op, t, a, b in self.code]  # fmt: skip
        kinds = [(a.name, a.type) for a in self.summary.scalars.attributes]
        inputs = [(node, kind) for node, (_, kind) in self.inputs.items()]
        return Program(kinds, list(self.constants), inputs, code, bases[2] + self.temporaries)
