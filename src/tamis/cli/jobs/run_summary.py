"""What `tamis run` shows: a bar while it runs, a table and a chart when it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tamis.cli.terminal.progress import counted

if TYPE_CHECKING:
    from tamis.spark.jobs.job_running import Progress, Running, Tell

Say = Callable[[str], None]
_BAR = 40  # the longest bar of a chart, in letters
_TOP = 5


@contextmanager
def job_progress() -> Iterator[tuple[Say, Tell]]:
    """`say` what begins now, `tell` how far it has come. On a terminal only."""
    if not sys.stderr.isatty():
        yield (lambda text: None), (lambda progress: None)
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[told]}"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("starting Spark", total=None, told="")

        def say(text: str) -> None:
            bars.reset(bar, total=None, description=text, told="")

        def tell(now: Progress) -> None:
            seconds = bars.tasks[bar].elapsed or 0.0
            done, all = _part(now)
            bars.update(bar, completed=done, total=all, told=_progress_text(now, seconds))

        yield say, tell


def _part(now: Progress) -> tuple[int, int | None]:
    if now.of_rows and now.rows:
        return now.rows, now.of_rows
    return now.tasks or 0, now.of_tasks or None


def _progress_text(now: Progress, seconds: float) -> str:
    rows = f"{now.rows:,}" + (f" of {now.of_rows:,}" if now.of_rows else "") + " rows"
    rate = f"{now.rows / seconds if seconds else 0:,.0f} rows/s"
    batches = "" if now.batches is None else f", {now.batches:,} micro-batches"
    return f"{rows}, {rate}, {counted(now.matches, 'match', 'matches')}{batches}"


def print_summary(
    running: Running, refused: list[Any], places: Sequence[tuple[str, str | None]]
) -> None:
    """The figures and where all went; a chart where matches were counted by subscription."""
    from tamis.spark.jobs.run_report import figures, histogram, top

    if spread := histogram(running):
        print("matches   subscriptions with so many, up to the next line")
        print("\n".join(chart(spread)))
    if best := top(running, _TOP):
        print("\nmost matches")
        wide = max(len(id) for id, _, _ in best)
        for id, selector, matches in best:
            print(f"{matches:>9,}   {id:<{wide}}   {_short(selector)}")
        print()
    found = figures(running, len(refused))
    width = max(len(value) for _, value in found)
    for name, value in found:
        print(f"{name:<14} {value:>{width}}")
    for name, place in places:
        if place is not None:
            print(f"{name:<14} {place}")


def chart(named: list[tuple[str, int]]) -> Iterator[str]:
    """A line with a bar for each name."""
    most = max(1, *(count for _, count in named))
    for name, count in named:
        bar = "█" * -(-count * _BAR // most)
        yield f"{name:>7}   {bar}{' ' * bool(bar)}{count:,}"


def _short(selector: str) -> str:
    line = " ".join(selector.split())
    return line if len(line) <= 100 else line[:99] + "…"
