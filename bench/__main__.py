"""`python -m bench [NAME ...] [--quick]`: measure, print, and keep what was found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import cyclopts
from rich.console import Console

from bench import charts, progress, report
from bench.experiments import EXPERIMENTS
from bench.measure import machine

ROOT = Path(__file__).parents[1]
app = cyclopts.App(name="bench", help="Benchmarks of the filtering engine.")


@app.default
def main(*names: Literal[tuple(EXPERIMENTS)], quick: bool = False) -> None:
    """Run the named experiments, or all.

    Results go to bench/results, docs/plots and docs/benchmarks.md. With --quick sizes are small
    and everything goes to out/bench instead: such numbers are for a look, not for the record.
    """
    console = Console(width=None if sys.stdout.isatty() else 140)
    results, plots = (ROOT / "bench/results", ROOT / "docs/plots")
    if quick:
        results = plots = ROOT / "out/bench"
    scale = "quick" if quick else "full"
    for name in names or EXPERIMENTS:
        progress.begin(name)
        result = EXPERIMENTS[name](scale)
        progress.say("done")
        report.show(result, console)
        report.save(result, machine(), scale, results)
        for chart in result.charts:
            charts.draw(chart, plots)
        if not quick:  # after each, so that an interrupt loses only what was not yet measured
            write_page(results, ROOT / "docs/benchmarks.md")


def write_page(results: Path, target: Path) -> None:
    """All that was ever kept, newest run of each experiment, in the order of EXPERIMENTS."""
    paths = [results / f"{name}.json" for name in EXPERIMENTS]
    found = [report.load(path) for path in paths if path.exists()]
    target.write_text(report.page(found), encoding="utf-8")


if __name__ == "__main__":
    app()
