"""Numeric terms of an index as one flat program, in which equal parts are computed once.

Arithmetic and comparisons of numbers, Booleans and timestamps are nodes; in one batch an attribute
has one type, and so has each node. Terms of other attributes (texts, or values of several types)
are left to derive.py for that batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I4, I8, U1, U8, Words
from tamis.engine.lookup.term_index import Index, TermIndex, bounds_of, double_keys
from tamis.engine.values import term_kernels as k
from tamis.engine.values.typed_columns import AnyColumn, Column
from tamis.language.tree import Arithmetic, Attribute, Call, Compare, Literal, Negate, attributes
from tamis.logic import Derived, Family
from tamis.logic.atoms import plain
from tamis.logic.lists import has_several
from tamis.schema import Type, type_of

FEWEST = 8  # terms that are worth a program
_OPS = {"+": k.ADD, "-": k.SUB, "*": k.MUL, "/": k.OVER, "DIV": k.DIV, "%": k.MOD}
_OPS |= {"=": k.EQ, "<>": k.NE, "<": k.LT, "<=": k.LE, ">": k.GT, ">=": k.GE}
_KINDS = {Type.INT: k.INT, Type.DOUBLE: k.DOUBLE, Type.BOOL: k.BOOL, Type.TIMESTAMP: k.TIMESTAMP}


class Nodes(NamedTuple):
    """Nodes in the order in which they are computed. A slot holds a node's values until the last
    node that needs them; those of terms with points stay."""

    op: npt.NDArray[np.int8]
    left: I4  # slots (of an input: its number)
    right: I4
    slot: I4  # of its own
    over: I4  # rows: the nodes that it is computed from
    constant: I8
    slots: int


class Asked(NamedTuple):
    """The terms of a program, and what their values are looked up in.

    Term t is node[t]; these ascend. Tables 2 * t and 2 * t + 1 are those for integers (and
    Booleans) and for doubles: of bounds, bound[bounds[table]:bounds[table + 1]], of points too.
    """

    node: I4
    column: I4  # of flags
    place: I4  # column of keys, -1: none
    ranked: U1  # whether the key is a rank among the bounds, or the value itself
    bounds: I8
    bound: I8
    pointed: I4  # terms that have points
    points: I8
    point: I8
    firing: I8  # point i fires event[firing[i]:firing[i + 1]]
    event: I4
    active: U1  # written anew for each batch


class Program(NamedTuple):
    names: tuple[str, ...]  # of the inputs
    terms: frozenset[int]  # places of the terms in the index
    uses: dict[str, list[int]]  # attribute -> the terms (of the program) that use it
    nodes: Nodes
    kinds: npt.NDArray[np.int8]  # of constants
    asked: Asked
    places: I4  # of each term of the program in the index
    input_nodes: tuple[int, ...]
    rows: Rows  # none


class Rows(NamedTuple):
    """Terms of which only cluster 0 asks, as words instead of keys and events (`Words` in
    engine/ground/layout.py): rows[t] is the first row of term t, or -1, and it has one for each of
    cut[cuts[table]:cuts[table + 1]], tables as in `Asked`: whether its key is at most that."""

    row: I4
    cuts: I8
    cut: I8
    bits: U8


class TermWords(NamedTuple):
    rows: Rows  # without bits
    pointed: I4  # terms whose events are listed
    below: I4  # as in Words
    event: I4
    height: int  # how many rows

    def of(self, length: int) -> tuple[Rows, Words]:
        """Room for the bits of so many messages, for who writes them and who reads them."""
        bits = np.zeros((self.height, -(-length // 64)), np.uint64)
        return self.rows._replace(bits=bits), Words(self.below, self.event, bits)


def no_rows(terms: int) -> Rows:
    """For so many terms that all have keys and events."""
    cuts, cut = np.zeros(2 * terms + 1, np.int64), np.empty(0, np.int64)
    return Rows(np.full(terms, -1, np.int32), cuts, cut, np.empty((0, 0), np.uint64))


def program_of(index: Index) -> Program | None:
    """The program of an index, None where it is not worth one."""
    if not index.programs:
        index.programs.append(_build(index))
    found: Program | None = index.programs[0]
    return found


def computed_terms(index: Index) -> frozenset[int]:
    """The places of the terms whose values reach the kernels as events alone: those that the
    program of the index computes, and those that have several values."""
    program = program_of(index)
    several = [place for place, term in enumerate(index.terms) if has_several(term.term)]
    return frozenset(several) if program is None else program.terms.union(several)


class _Builder:
    """Numbers nodes; equal ones have one number."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, Any, Any], int] = {}
        self.kinds: list[int] = []
        self.names: dict[str, int] = {}

    def node(self, term: Derived) -> int | None:
        """The number of the term; None where it is no matter of numbers."""
        match term:
            case Attribute(name):
                return self._number(k.INPUT, self.names.setdefault(name, len(self.names)), 0)
            case Literal(kind, constant) if kind in _KINDS:
                return self._number(k.CONSTANT, _bits(plain(constant)), _KINDS[kind])
            case Negate(inner):
                return self._over(k.NEGATE, inner)
            case Call("abs", (inner,)):
                return self._over(k.ABS, inner)
            case Arithmetic(op, left, right) | Compare(left, op, right):
                return self._over(_OPS[op], left, right)
        return None

    def _over(self, op: int, *parts: Derived) -> int | None:
        numbers = [self.node(part) for part in parts]
        if None in numbers:
            return None
        return self._number(op, numbers[0], numbers[-1])

    def _number(self, op: int, left: Any, right: Any) -> int:
        found = self.numbers.get((op, left, right))
        if found is None:
            found = self.numbers[op, left, right] = len(self.numbers)
            self.kinds.append(right if op == k.CONSTANT else k.NOWHERE)
        return found

    def nodes(self, kept: set[int]) -> Nodes:
        """All nodes; the values of those in `kept` are asked for at the end."""
        rows = list(self.numbers)
        last = dict.fromkeys(kept, len(rows))
        for n, (op, left, right) in enumerate(rows):
            if op > k.CONSTANT:
                for over in (left, right):
                    last[over] = max(last.get(over, 0), n)
        slots: list[int] = []
        free: list[int] = []
        used = 0
        over = np.zeros((len(rows), 2), np.int32)
        for n, (op, left, right) in enumerate(rows):
            slots.append(free.pop() if free else used)
            used = max(used, slots[n] + 1)
            gone = {n} if last.get(n, n) == n else set()
            if op > k.CONSTANT:
                over[n] = left, right
                gone |= {part for part in (left, right) if last[part] == n}
            free += [slots[part] for part in gone]
        slot = np.array(slots, np.int32)
        ops = np.array([row[0] for row in rows], np.int8)
        given = np.array([row[1] if row[0] == k.INPUT else 0 for row in rows], np.int32)
        return Nodes(
            ops,
            np.where(ops == k.INPUT, given, slot[over[:, 0]]).astype(np.int32),
            slot[over[:, 1]],
            slot,
            over,
            np.array([row[1] if row[0] == k.CONSTANT else 0 for row in rows], np.int64),
            used,
        )


def _bits(constant: Any) -> int:
    """A constant as 64 bits."""
    if isinstance(constant, float):
        return int(np.array([constant]).view(np.int64)[0])
    return int(constant)


def _build(index: Index) -> Program | None:
    chosen = [
        place
        for place, term in enumerate(index.terms)
        if isinstance(term.term, Arithmetic | Compare | Negate) or _is_abs(term.term)
    ]
    if len(chosen) < FEWEST:
        return None
    builder = _Builder()
    numbered: dict[int, int] = {}  # node -> place of its term
    for place in chosen:
        node = builder.node(index.terms[place].term)
        if node is not None:
            numbered.setdefault(node, place)
    if len(numbered) < FEWEST:
        return None
    nodes = {numbered[node]: node for node in sorted(numbered)}
    uses: dict[str, list[int]] = {}
    for t, place in enumerate(nodes):
        for name in attributes(index.terms[place].term):
            uses.setdefault(name, []).append(t)
    asked = _asked(index, nodes)
    kinds = np.array(builder.kinds, np.int8)
    names, places = tuple(builder.names), np.array(list(nodes), np.int32)
    kept = {node for place, node in nodes.items() if index.terms[place].points}
    made = builder.nodes(kept)
    inputs = tuple(builder.numbers[k.INPUT, i, 0] for i in range(len(names)))
    rows = no_rows(len(nodes))
    return Program(names, frozenset(nodes), uses, made, kinds, asked, places, inputs, rows)


def _is_abs(term: Derived) -> bool:
    return isinstance(term, Call) and term.name == "abs" and len(term.arguments) == 1


def _asked(index: Index, nodes: dict[int, int]) -> Asked:
    bounds, points = _Tables(), _Tables()
    places, ranked, pointed = [], [], []
    firing: list[I4] = []
    for t, place in enumerate(nodes):
        term = index.terms[place]
        own = term.below.get(Family.NUMBER)
        places.append(own[0] if own else -1)
        ranked.append(bool(own and own[1]))
        for kind in (Type.INT, Type.DOUBLE):
            bounds.add(bounds_of(own[1], kind) if own and own[1] else np.empty(0, np.int64))
            keys, events = points_of(term, kind)
            points.add(keys)
            firing += events
        if term.points:
            pointed.append(t)
    sizes = np.array([0, *map(len, firing)], np.int64)
    return Asked(
        np.array(list(nodes.values()), np.int32),
        np.array(list(nodes), np.int32),
        np.array(places, np.int32),
        np.array(ranked, np.uint8),
        *bounds.arrays(),
        np.array(pointed, np.int32),
        *points.arrays(),
        np.cumsum(sizes),
        np.concatenate([np.empty(0, np.int32), *firing]),
        np.ones(len(nodes), np.uint8),
    )


class _Tables:
    """Arrays one behind the other."""

    def __init__(self) -> None:
        self.parts: list[I8] = [np.empty(0, np.int64)]

    def add(self, part: I8) -> None:
        self.parts.append(part)

    def arrays(self) -> tuple[I8, I8]:
        return np.cumsum([len(part) for part in self.parts]), np.concatenate(self.parts)


def points_of(term: TermIndex, kind: Type) -> tuple[I8, list[I4]]:
    """The constants of the term that a value of `kind` may be, ascending, with their events."""
    boolean = kind is Type.INT and term.type is Type.BOOL
    points = term.points.get(Family.BOOL if boolean else Family.NUMBER)
    if points is None or (term.type is not None and term.type is not kind and not boolean):
        return np.empty(0, np.int64), []
    if points.numbers:
        held = points.held(kind)
        numbers = np.array([i for _, i in held], np.int64)
        values = [v for v, _ in held]
        keys = (
            double_keys(np.array(values, float))
            if kind is Type.DOUBLE
            else np.array(values, np.int64)
        )
    else:
        keys, numbers = points.keys, np.arange(len(points.keys))
    order = np.argsort(keys)
    spans = [slice(*points.offsets[i : i + 2]) for i in numbers[order].tolist()]
    return keys[order].astype(np.int64), [points.events[span] for span in spans]


class Evaluated(NamedTuple):
    left: frozenset[int]  # places in the index of terms that were left to others
    offsets: I8  # message -> its events
    events: I4


class Inputs(NamedTuple):
    """What a batch has of the attributes of a program."""

    kind: npt.NDArray[np.int8]  # of each node that is one, or a constant
    values: I8
    defined: U1
    foreign: set[int]  # terms that are left to others


def inputs_of(program: Program, length: int, column_of: Callable[[str], AnyColumn]) -> Inputs:
    kind = program.kinds.copy()
    inputs = np.zeros((len(program.names), length), np.int64)
    defined = np.zeros((len(program.names), length), np.uint8)
    foreign: set[int] = set()
    for i, name in enumerate(program.names):
        column = column_of(name)
        if not isinstance(column, Column) or column.type is Type.STRING:
            foreign.update(program.uses.get(name, ()))
            continue
        kind[program.input_nodes[i]] = k.UNLIKE if column.type is None else _KINDS[column.type]
        inputs[i] = column.data.view(np.int64)
        defined[i] = column.valid
    return Inputs(kind, inputs, defined, foreign)


def evaluate_one(
    program: Program, value_of: Callable[[str], object], keys: I8, flags: U1
) -> Evaluated:
    """The same of one message."""
    kind = program.kinds.copy()
    inputs = np.zeros((len(program.names), 1), np.int64)
    defined = np.zeros((len(program.names), 1), np.uint8)
    foreign: set[int] = set()
    for i, name in enumerate(program.names):
        value = value_of(name)
        if value is None:
            continue
        found = type_of(value)
        if found is Type.STRING:
            foreign.update(program.uses.get(name, ()))
            continue
        kind[program.input_nodes[i]] = k.UNLIKE if found is None else _KINDS[found]
        defined[i, 0] = 1
        if found is not None:
            inputs[i, 0] = _bits(plain(value))
    given = Inputs(kind, inputs, defined, foreign)
    return evaluate(program, program.asked.pointed, program.rows, given, keys, flags)


def evaluate(
    program: Program, pointed: I4, rows: Rows, given: Inputs, keys: I8, flags: U1
) -> Evaluated:
    """Write keys, flags and rows of the program's terms, and find the events of those that are
    `pointed`."""
    kind, inputs, defined, foreign = given
    asked, others = program.asked._replace(pointed=pointed), frozenset[int]()
    if foreign:
        active = np.ones(len(asked.active), np.uint8)
        active[list(foreign)] = 0
        asked = asked._replace(active=active)
        others = frozenset(program.places[list(foreign)].tolist())
    k.kinds_of(program.nodes.op, program.nodes.over, kind)
    length = inputs.shape[1]
    offsets = np.zeros(length + 1, np.int64)
    out = np.empty(64 + 4 * len(asked.pointed), np.int32)
    first = 0
    while True:
        fired = offsets, out
        values = kind, inputs, defined
        first = k.encode_terms(program.nodes, asked, rows, values, first, keys, flags, fired)
        if first == length:
            return Evaluated(others, offsets, out[: offsets[-1]])
        grown = np.empty(4 * len(out), np.int32)
        grown[: offsets[first]] = out[: offsets[first]]
        out = grown
