"""Which form a summary has (Gryphon, section 4.3), and its table as text."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.scope import EVENT, STATE
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.expansion.exact_numbers import Number, value_of
from tamis.flow.states.expansion.linear import Linear
from tamis.flow.states.expansion.rule_cases import Atom, OutsideError
from tamis.flow.states.expansion.rule_rows import Moves, Row, moves_of
from tamis.schema import Type


@dataclass(frozen=True, slots=True)
class Form:
    """`kind` is `uniform unconstrained`, `unconstrained`, `constrained` or `outside`.

    `k` is how many components each event of the uniform form replaces; `reason` says why a
    summary is outside; `changes` are the kinds of changes: replace, append, increment, other.
    """

    kind: str
    k: int = 0
    reason: str = ""
    changes: frozenset[str] = frozenset()


def form_of(summary: Summary, through: Derived | None = None) -> Form:
    """What expansion can make of the summary."""
    try:
        moves = moves_of(summary, through)
    except OutsideError as why:
        return Form("outside", reason=str(why))
    changes = frozenset(kind for row in moves.rows for kind in _changes(row))
    if changes - {"replace"} or not all(_unconstrained(moves, row) for row in moves.rows):
        return Form("constrained", changes=changes)
    widths = {len(row.sets) for row in moves.rows}
    if len(widths) == 1:
        (k,) = widths
        names = [c.name for c in summary.components]
        replaced = {frozenset(row.changed) for row in moves.rows}
        if all(frozenset(some) in replaced for some in combinations(names, k)):
            return Form("uniform unconstrained", k, changes=changes)
    return Form("unconstrained", changes=changes)


def _changes(row: Row) -> list[str]:
    found = ["append"] * bool(row.appends) + ["clear"] * bool(row.clears)
    for target, told in row.sets.items():
        mine = [c for v, c in told.terms if v == target]
        others = [v for v, _ in told.terms if v != target]
        if mine and others and all(v.name.startswith(EVENT) for v in others):
            found.append("increment")
        elif len(others) <= 1 and not mine and (not others or others[0].name.startswith(EVENT)):
            found.append("replace")
        else:
            found.append("other")
    return found


def _unconstrained(moves: Moves, row: Row) -> bool:
    """Every replaced component has a parameter of its own that nothing else decides.

    A test of a parameter that is replaced nowhere (the kind of event) only names the row.
    """
    values = [told.terms[0][0] for told in row.sets.values() if len(told.terms) == 1]
    if len(values) != len(row.sets) or len(set(values)) != len(values):
        return False
    if any(told.constant or told.terms[0][1] != 1 for told in row.sets.values()):
        return False
    tested = {v for atom in row.guard for v in atom.variables}
    components = any(v.name.startswith(STATE) for v in tested | row.null | row.defined)
    return not components and not tested & set(values)


# --- the table as text -----------------------------------------------------------------


def matrix(summary: Summary, through: Derived | None = None) -> str:
    """The paper's table: a row for each way in which an event changes the state."""
    moves = moves_of(summary, through)
    names = [c.name for c in summary.components]
    cells = [["rule", "when", *names]]
    for row in moves.rows:
        label = row.event or str(row.rule + 1)
        cells.append([label, _guard(summary, row), *(_cell(summary, row, n) for n in names)])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = (" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def _guard(summary: Summary, row: Row) -> str:
    parts = [_atom(summary, atom) for atom in row.guard]
    parts += [f"{_name(v.name)} undefined" for v in sorted(row.null)]
    return ", ".join(parts)


def _cell(summary: Summary, row: Row, name: str) -> str:
    if name in row.clears:
        return "()"
    if name in row.appends:
        return f"+ ({', '.join(_linear(summary, t, None) for t in row.appends[name])})"
    told = next((t for v, t in row.sets.items() if v.name == STATE + name), None)
    return "" if told is None else _linear(summary, told, summary.scalars[name].type)


def _atom(summary: Summary, atom: Atom) -> str:
    """`p <= max` rather than `p - max <= 0`."""
    kind = next((_type(summary, v.name) for v in sorted(atom.variables)), None)
    left = Linear(tuple((v, c) for v, c in atom.linear.terms if c > 0))
    right = Linear(tuple((v, -c) for v, c in atom.linear.terms if c < 0))
    flipped = {"<": ">", "<=": ">="}.get(atom.op, atom.op)
    if not left.terms:
        return f"{_linear(summary, right, kind)} {flipped} {_number(atom.linear.constant, kind)}"
    if not right.terms:
        return f"{_linear(summary, left, kind)} {atom.op} {_number(-atom.linear.constant, kind)}"
    told = _linear(summary, Linear(right.terms, -atom.linear.constant), kind)
    return f"{_linear(summary, left, kind)} {atom.op} {told}"


def _linear(summary: Summary, linear: Linear, kind: Type | None) -> str:
    parts = [
        f"{'' if c == 1 else '-' if c == -1 else f'{c}*'}{_name(v.name)}" for v, c in linear.terms
    ]
    if linear.constant or not parts:
        parts.append(_number(linear.constant, kind))
    return " + ".join(parts).replace("+ -", "- ")


def _number(number: Number, kind: Type | None) -> str:
    value = value_of(number, kind) if kind is not None else number
    if isinstance(value, str):
        return f"'{value}'"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _type(summary: Summary, full: str) -> Type | None:
    known = summary.scope.full
    return known[full].type if full in known else None


def _name(full: str) -> str:
    return full.removeprefix(STATE).removeprefix(EVENT)
