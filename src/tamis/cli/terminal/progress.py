"""A progress bar on a terminal, silence elsewhere; numbers in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Track = Callable[[str], Callable[[float | None, int], None]]


@contextmanager
def progress() -> Iterator[Track]:
    """`track(label)` begins a bar and returns the function that moves it on."""
    if not sys.stderr.isatty():
        yield lambda label: lambda part, rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,}"),
        TimeElapsedColumn(),
    )
    # Lines that are printed meanwhile go above the bar, and the bar goes when all is done.
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def track(label: str) -> Callable[[float | None, int], None]:
            bar = bars.add_task(label, total=None, rows=0)

            def advance(part: float | None, rows: int) -> None:
                seen = bars.tasks[bar].fields["rows"] + rows
                bars.update(bar, total=None if part is None else 1.0, completed=part, rows=seen)

            return advance

        yield track


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things: `1 match`, `2 matches`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
