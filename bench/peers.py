"""The same work done by others: numpy bitmaps, Python's compile and eval, a DuckDB join.

They take conditions of well-typed comparisons (the ICSE and the stock workloads) under total, sql
or strict semantics. NOT is pushed down to the atoms, so an undefined attribute makes a literal
false on either side of a NOT: SQL's logic in two values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CodeType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.language import And, Attribute, Compare, Condition, Literal, Not, Or, Text, attributes

_PYTHON = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_ARROW: dict[str, Callable[..., pa.Array]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
Atom = Compare | Text
Bits = np.ndarray  # a bit per message, packed into bytes


def _plain(atom: Atom) -> tuple[str, str, object]:
    """The atom as (attribute, operator, constant)."""
    right = atom.right if isinstance(atom, Compare) else atom.other
    left = atom.left if isinstance(atom, Compare) else atom.term
    assert isinstance(left, Attribute)
    assert isinstance(right, Literal)
    return left.name, atom.op, right.value


# --- numpy bitmaps -----------------------------------------------------------


class Bitmaps:
    """A table's atoms as packed bits, each computed once; conditions are ANDs and ORs of them."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._known: dict[tuple[Atom, bool], Bits] = {}
        self._defined: dict[str, Bits] = {}

    def counts(self, conditions: Iterable[Condition], *, strict: bool = False) -> np.ndarray:
        """For each row, how many of the conditions it satisfies."""
        rows = len(self.table)
        total = np.zeros(rows, np.int64)
        recent = np.zeros(rows, np.uint8)  # at most 255 conditions are added up in bytes
        for number, condition in enumerate(conditions, start=1):
            bits = self.bits(condition)
            if strict:
                bits = self._adequate(condition, bits)
            recent += np.unpackbits(bits, count=rows)
            if number % 255 == 0:
                total += recent
                recent[:] = 0
        return total + recent

    def bits(self, condition: Condition, positive: bool = True) -> Bits:
        """Where the condition is true, or, if not `positive`, where it is false."""
        match condition:
            case Not(part):
                return self.bits(part, not positive)
            case And(parts) | Or(parts):
                join = np.bitwise_and if isinstance(condition, And) == positive else np.bitwise_or
                result = self.bits(parts[0], positive)
                for part in parts[1:]:
                    result = join(result, self.bits(part, positive))
                return result
            case Compare() | Text():
                return self._atom(condition, positive)
        raise NotImplementedError(f"not in these workloads: {condition}")

    def _adequate(self, condition: Condition, bits: Bits) -> Bits:
        for name in attributes(condition):
            if name not in self._defined:
                self._defined[name] = _packed(self.table[name].is_valid())
            bits = bits & self._defined[name]
        return bits

    def _atom(self, atom: Atom, positive: bool) -> Bits:
        found = self._known.get((atom, positive))
        if found is None:
            truth = _truth(self.table, atom)
            found = _packed(truth if positive else pc.invert(truth))
            self._known[atom, positive] = found
        return found


def _packed(truth: pa.ChunkedArray) -> Bits:
    """Null is false."""
    return np.packbits(pc.fill_null(truth, False).to_numpy())


def _truth(table: pa.Table, atom: Atom) -> pa.ChunkedArray:
    name, op, constant = _plain(atom)
    column = table[name]
    if op == "CONTAINS":
        return pc.match_substring(column, constant)
    if op == "WITHIN":
        parts = [constant[i:j] for j in range(len(constant) + 1) for i in range(j + 1)]
        return pc.if_else(pc.is_valid(column), pc.is_in(column, pa.array(parts)), None)
    return _ARROW[op](column, constant)


# --- compile and eval --------------------------------------------------------


def expression(condition: Condition, positive: bool = True) -> str:
    """The condition (or its negation) as a Python expression over the attributes' names."""
    match condition:
        case Not(part):
            return expression(part, not positive)
        case And(parts) | Or(parts):
            joint = " and " if isinstance(condition, And) == positive else " or "
            return "(" + joint.join(expression(part, positive) for part in parts) + ")"
        case Compare() | Text():
            return _literal(condition, positive)
    raise NotImplementedError(f"not in these workloads: {condition}")


def _literal(atom: Atom, positive: bool) -> str:
    name, op, constant = _plain(atom)
    test = {
        "CONTAINS": f"{constant!r} in {name}",
        "WITHIN": f"{name} in {constant!r}",
    }.get(op) or f"{name} {_PYTHON[op]} {constant!r}"
    return f"({name} is not None and {'' if positive else 'not '}{test})"


def compiled(conditions: Iterable[Condition], *, strict: bool = False) -> list[CodeType]:
    """One code object for each condition."""
    return [compile(_guarded(c) if strict else expression(c), "", "eval") for c in conditions]


def _guarded(condition: Condition) -> str:
    guards = [f"{name} is not None" for name in attributes(condition)]
    return " and ".join([*guards, expression(condition)])


def eval_counts(codes: Sequence[CodeType], table: pa.Table) -> np.ndarray:
    """For each row, how many of the compiled conditions it satisfies."""
    return np.array([sum(eval(code, row) for code in codes) for row in table.to_pylist()], np.int64)


# --- DuckDB ------------------------------------------------------------------

INEQUALITIES = "m.symbol = a.symbol AND m.price < a.price AND m.volume > a.volume"
EQUALITIES = "m.symbol = a.symbol AND m.venue = a.venue AND m.lot = a.lot"


class Join:
    """Alerts in a table of DuckDB; a batch of messages is joined with it."""

    def __init__(self, alerts: pa.Table, on: str = INEQUALITIES, *, threads: int = 1) -> None:
        self.on = on
        import duckdb  # here alone: the other experiments run without it

        self.database = duckdb.connect(config={"threads": threads})
        self.database.register("given", alerts)
        self.database.execute("CREATE TABLE alerts AS SELECT * FROM given")
        self.database.unregister("given")

    def counts(self, messages: pa.Table) -> np.ndarray:
        """For each message, how many alerts it sets off."""
        found = self._ask("SELECT m.row, count(*) AS n", messages, "GROUP BY m.row")
        counts = np.zeros(len(messages), np.int64)
        counts[found["row"].to_numpy()] = found["n"].to_numpy()
        return counts

    def pairs(self, messages: pa.Table) -> pa.Table:
        """The (row, id) pairs, in no particular order."""
        return self._ask("SELECT m.row, a.id", messages)

    def close(self) -> None:
        self.database.close()

    def _ask(self, select: str, messages: pa.Table, rest: str = "") -> pa.Table:
        numbered = messages.append_column("row", pa.array(np.arange(len(messages))))
        self.database.register("messages", numbered)
        query = f"{select} FROM messages m JOIN alerts a ON {self.on} {rest}"
        return self.database.sql(query).to_arrow_table()
