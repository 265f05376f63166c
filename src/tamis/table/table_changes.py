"""What one version of a table changes, and what several versions change together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tamis.engine.ground.ids import Id
from tamis.errors import SnapshotError
from tamis.table.atomic_files import AGAIN, signed, unsigned

IdKind = Literal["string", "int"]

# PUT adds, or replaces what was there; BAD puts a problem aside; CLEAR forgets all problems.
# Whether an id was free or taken has been checked before: a version says what is to be done.
PUT, DROP, BAD, CLEAR = "put", "drop", "bad", "clear"


class Row(NamedTuple):
    """One change. The id of a BAD one is whatever it was given as, as a text."""

    op: str
    id: Id | None = None
    selector: str | None = None
    subscriber: str | None = None
    reason: str | None = None


class Problem(NamedTuple):
    """A subscription that could not be taken."""

    id: str | None
    selector: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """One version: its number, the type that ids have from now on, and its rows in order."""

    version: int
    ids: IdKind | None
    rows: Sequence[Row]


@dataclass(slots=True)
class Net:
    """What is left to do after some versions: `gone` goes first, then `put` comes, in order.

    `gone` holds every id that was touched: it may or may not have been there before.
    """

    put: dict[Id, tuple[str, str | None]] = field(default_factory=dict)
    gone: set[Id] = field(default_factory=set)
    bad: list[Problem] = field(default_factory=list)
    cleared: bool = False
    ids: IdKind | None = None

    def take(self, changes: Changes) -> None:
        """Take one further version into account."""
        self.ids = changes.ids
        for op, id, selector, subscriber, reason in changes.rows:
            if op == BAD:
                self.bad.append(Problem(id, selector, reason or ""))  # type: ignore[arg-type]
            elif op == CLEAR:
                self.bad, self.cleared = [], True
            else:
                self._touch(id)  # type: ignore[arg-type]
                if op == PUT:
                    self.put[id] = selector, subscriber  # type: ignore[index, assignment]

    def _touch(self, id: Id) -> None:
        self.gone.add(id)
        self.put.pop(id, None)  # it moves to the end
        if self.bad:
            self.bad = [problem for problem in self.bad if problem.id != str(id)]

    def problems(self, before: Sequence[Problem]) -> list[Problem]:
        """All problems, given those before the changes. A touched id has none of the old."""
        gone = set(map(str, self.gone)) if before else ()
        kept = [] if self.cleared else [p for p in before if p.id not in gone]
        return kept + self.bad

    def rows(self) -> Iterable[Row]:
        """The rows that make all this at once, where nothing was before."""
        yield from (Row(PUT, id, *said) for id, said in self.put.items())
        yield from (Row(BAD, p.id, p.selector, None, p.reason) for p in self.bad)


# --- as a file -----------------------------------------------------------------


def encode(changes: Changes) -> bytes:
    """A line about the version, and one for each row."""
    lines = [json.dumps({"version": changes.version, "ids": changes.ids})]
    lines += map(json.dumps, changes.rows)
    return signed("changes", "\n".join(lines).encode() + b"\n")


def decode(path: Path, data: bytes, version: int) -> Changes:
    """The changes back; SnapshotError where the file is not whole, or not of this version."""
    body = unsigned(path, "changes", data)
    try:
        said, *rows = json.loads(b"[" + body[:-1].replace(b"\n", b",") + b"]")
        changes = Changes(said["version"], said["ids"], [_row(said["ids"], *row) for row in rows])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SnapshotError(path, f"holds what no table has: {error}", AGAIN) from error
    if changes.version != version:
        what = f"is of version {changes.version}, and its name says {version}"
        raise SnapshotError(path, what, AGAIN)
    return changes


def _row(ids: IdKind | None, op: str, id: Any, selector: Any, subscriber: Any, reason: Any) -> Row:
    texts = (selector, subscriber, reason)
    if op not in (PUT, DROP, BAD, CLEAR) or not all(t is None or type(t) is str for t in texts):
        raise ValueError(f"{op!r} is no change")
    if op in (PUT, DROP) and type(id) is not (int if ids == "int" else str):
        raise ValueError(f"{id!r} is no id of this table")
    if op == PUT and selector is None:
        raise ValueError(f"{id!r} has no selector")
    return Row(op, id, selector, subscriber, reason)
