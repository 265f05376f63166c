"""`fold_table`: a table of events into a table of states, by the kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tamis.flow.states.definitions.keyed import LAST, arrow_schema
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.fold import fold_kernels as kernels
from tamis.flow.states.fold.fold_columns import (
    I8,
    Mask,
    Strings,
    flat,
    input_column,
    key_rows,
    to_arrow,
    to_numbers,
)
from tamis.flow.states.fold.fold_programs import Program, program_of
from tamis.schema import Type

NONE = np.zeros(0, np.int64)


@dataclass(slots=True)
class Folded:
    """The states after a batch: those that were there first, then new ones as they appeared.

    `rows` has the row of each event's key, `turn` the order of events (empty: as they came),
    `known` how many keys there were before.
    """

    table: pa.Table
    rows: I8
    turn: I8
    known: int
    late: int


def fold_table(summary: Summary, states: pa.Table, events: pa.Table) -> Folded:
    """Raises UnsupportedError where the summary has parts that the kernel lacks."""
    program = program_of(summary)
    rows, keys = key_rows(states, events, summary.key)
    count = keys.num_rows if summary.key else 1
    inputs = [flat(input_column(n, k, events, summary.scope.full)) for n, k in program.inputs]
    strings = _strings(summary, program, states, inputs)
    held, defined = _held(summary, program, states, count, strings)
    turn, late, last = _order(summary, states, events, rows, count)
    _run(program, inputs, strings, rows, turn, held, defined)
    columns = [keys[n] for n in summary.key]
    columns += [to_arrow(held[:, i], defined[:, i], kind, strings)
                for i, (_, kind) in enumerate(program.components)]  # fmt: skip
    table = pa.table([*columns, *last], schema=arrow_schema(summary))
    return Folded(table, rows, turn, states.num_rows, late)


def _strings(
    summary: Summary, program: Program, states: pa.Table, inputs: list[pa.Array]
) -> Strings:
    used = [flat(states[n]) for n, kind in program.components if kind is Type.STRING]
    used += [a for a, (_, kind) in zip(inputs, program.inputs, strict=True) if kind is Type.STRING]
    texts = [v for kind, v in program.constants if kind is Type.STRING]
    texts += [summary.initial[n] for n, kind in program.components
              if kind is Type.STRING and summary.initial[n] is not None]  # fmt: skip
    return Strings([*used, pa.array(texts, pa.string())]) if used or texts else Strings([])


def _held(
    summary: Summary, program: Program, states: pa.Table, count: int, strings: Strings
) -> tuple[I8, Mask]:
    """The components of all keys; new keys have the initial values."""
    held = np.zeros((count, len(program.components)), np.int64)
    defined = np.zeros((count, len(program.components)), np.bool_)
    known = states.num_rows
    for i, (name, kind) in enumerate(program.components):
        held[:known, i], defined[:known, i] = to_numbers(flat(states[name]), kind, strings)
        first = summary.initial[name]
        if first is not None and known < count:
            held[known:, i], defined[known:, i] = bits(first, kind, strings), True
    return held, defined


def bits(value: object, kind: Type, strings: Strings) -> int:
    """The 64 bits of one constant."""
    if kind is Type.STRING:
        return Strings.rank(strings, str(value)) if len(strings.sorted) else 0
    from tamis.messages.typed_tables import arrow_type

    return int(to_numbers(pa.array([value], arrow_type(kind)), kind, strings)[0][0])


def _run(
    program: Program, inputs: list[pa.Array], strings: Strings, rows: I8, turn: I8,
    held: I8, defined: Mask,
) -> None:  # fmt: skip
    registers = np.zeros(program.registers + 1, np.int64)
    first = len(program.components)
    for i, (kind, told) in enumerate(program.constants):
        registers[first + i] = bits(told, kind, strings)
    columns = np.zeros((len(inputs), len(rows)), np.int64)
    given = np.zeros((len(inputs), len(rows)), np.bool_)
    for i, (array, (_, kind)) in enumerate(zip(inputs, program.inputs, strict=True)):
        columns[i], given[i] = to_numbers(array, kind, strings)
    if len(turn):
        rows = rows[turn]
        columns, given = np.take(columns, turn, axis=1), np.take(given, turn, axis=1)
    first += len(program.constants)
    code = np.array(program.code, np.int64)
    kernels.fold(code, registers, first, rows, columns, given, held, defined)


def _order(
    summary: Summary, states: pa.Table, events: pa.Table, rows: I8, count: int
) -> tuple[I8, int, list[pa.Array]]:
    """The turn of each event (empty: as they come), how many are late, the last orders by key."""
    if not summary.order:
        return NONE, 0, []
    ranks, ordered, before, seen = _ranks(summary, states, events, count)
    turn = NONE
    # The rank of several columns has a place for what is undefined in one of them.
    placed = ordered if len(summary.order) == 1 else np.ones_like(ordered)
    if not kernels.ascending(rows, ranks, placed, count):
        turn = np.lexsort((ranks, placed)).astype(np.int64)
    winner = np.full(count, -1, np.int64)
    late = kernels.latest(rows, ranks, ordered, before, seen, winner)
    return turn, int(late), [_last(states, events, n, winner) for n in summary.order]


def _ranks(
    summary: Summary, states: pa.Table, events: pa.Table, count: int
) -> tuple[I8, Mask, I8, Mask]:
    """Orders as numbers: of the events, and of the last event of each key before them."""
    known = states.num_rows
    before, seen = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    columns = []
    for name in summary.order:
        kind = summary.events[name].type
        parts = flat(states[LAST + name]), flat(events[name])
        strings = Strings(list(parts)) if kind is Type.STRING else Strings([])
        columns.append([_sortable(*to_numbers(part, kind, strings), kind) for part in parts])
    (of_states, had), (of_events, ordered) = columns[0]
    if len(columns) > 1:
        of_states, of_events = _joint(columns)
    before[:known], seen[:known] = of_states, had
    return of_events, ordered, before, seen


def _sortable(numbers: I8, known: Mask, kind: Type) -> tuple[I8, Mask]:
    """Doubles as integers that sort alike (-0.0 as 0.0)."""
    if kind is Type.DOUBLE:
        doubles = np.ascontiguousarray(numbers).view(np.float64) + 0.0
        numbers = np.where(
            doubles < 0, -(doubles.view(np.int64) & 0x7FFFFFFFFFFFFFFF), doubles.view(np.int64)
        )
    return np.ascontiguousarray(numbers), known


def _joint(columns: list[list[tuple[I8, Mask]]]) -> tuple[I8, I8]:
    """One dense rank for several columns; within a column undefined comes first."""
    whole = [np.concatenate([numbers for numbers, _ in parts]) for parts in columns]
    known = [np.concatenate([mask for _, mask in parts]) for parts in columns]
    pairs = zip(reversed(whole), reversed(known), strict=True)
    order = np.lexsort([key for pair in pairs for key in pair])
    change = np.zeros(len(order), np.bool_)
    for key in (*whole, *known):
        change[1:] |= key[order][1:] != key[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(change)
    split = len(columns[0][0][0])
    return ranks[:split], ranks[split:]


def _last(states: pa.Table, events: pa.Table, name: str, winner: I8) -> pa.Array:
    """The order attribute of each key's last event: from this batch, or as it was."""
    old, new = flat(states[LAST + name]), flat(events[name])
    places = np.where(winner >= 0, winner + len(old), np.arange(len(winner)))
    missing = places >= len(old) + len(new)
    missing |= (winner < 0) & (np.arange(len(winner)) >= len(old))
    joined = pa.concat_arrays([old, new.cast(old.type)])
    return joined.take(pa.array(np.where(missing, 0, places), mask=missing))
