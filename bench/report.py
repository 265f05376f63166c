"""Results as values: tables and charts; shown on a terminal, kept as JSON, written as a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a title. A `note` says how to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines (label -> points) to be drawn on logarithmic axes into `<name>.svg`."""

    name: str
    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Result:
    """What one experiment found. `about` says what was done, in a sentence or two."""

    name: str
    about: str
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that was asked for, and what was seen. `unit` stands behind all three."""

    what: str
    must: float
    aim: float | None
    seen: float
    unit: str = ""
    at_most: bool = False  # small is good

    @property
    def verdict(self) -> str:
        if self.aim is not None and self._reaches(self.aim):
            return "aim"
        return "yes" if self._reaches(self.must) else "NO"

    def _reaches(self, bound: float) -> bool:
        return self.seen <= bound if self.at_most else self.seen >= bound

    def row(self) -> tuple[Cell, ...]:
        sign = "≤" if self.at_most else "≥"
        must, aim, seen = (
            "-" if value is None else f"{shown(float(value))}{self.unit}"
            for value in (self.must, self.aim, self.seen)
        )
        return self.what, f"{sign} {must}", aim, seen, self.verdict


def verdicts(goals: Iterable[Goal]) -> Table:
    """What was asked for beside what was seen."""
    columns = ("asked for", "must", "aim", "seen", "met")
    return Table("Asked for and seen", columns, [goal.row() for goal in goals])


def shown(cell: Cell) -> str:
    """Three digits are enough for what is measured; counts are written in full."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def show(result: Result, console: Console) -> None:
    console.rule(result.name)
    console.print(result.about)
    for table in result.tables:
        grid = Grid(title=table.title, caption=table.note or None)
        for i, column in enumerate(table.columns):
            grid.add_column(column, justify="right" if i else "left")
        for row in table.rows:
            grid.add_row(*map(shown, row))
        console.print(grid)


def save(result: Result, machine: dict[str, object], scale: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "scale": scale, **asdict(result)}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (folder / f"{result.name}.json").write_text(text, encoding="utf-8")


def load(path: Path) -> tuple[Result, dict[str, object]]:
    """A saved result, and the machine that it was measured on."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    tables = [Table(**table) for table in content["tables"]]
    charts = [Chart(**chart) for chart in content["charts"]]
    return Result(content["name"], content["about"], tables, charts), content["machine"]


# --- the page ----------------------------------------------------------------

_OPENING = """# Benchmarks

Made by `python -m bench` from `bench/results`. How to run and read them: [bench](../bench).
"""


def page(results: Iterable[tuple[Result, dict[str, object]]]) -> str:
    """All results as Markdown, with the charts from docs/plots."""
    return "\n".join([_OPENING, *(_section(result, machine) for result, machine in results)])


def _section(result: Result, machine: dict[str, object]) -> str:
    measured = ", ".join(f"{name} {value}" for name, value in machine.items())
    parts = [f"## {result.name}", result.about]
    parts += [f"Reproduce: `python -m bench {result.name}`. Measured with {measured}."]
    parts += [_markdown(table) for table in result.tables]
    parts += [f"![{chart.title}](plots/{chart.name}.svg)" for chart in result.charts]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", _line(table.columns)]
    lines += ["|" + "|".join("---" if i == 0 else "---:" for i in range(len(table.columns))) + "|"]
    lines += [_line([shown(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines + (["", table.note] if table.note else []))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
