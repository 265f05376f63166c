"""Charts as SVG. The same data always gives the same file."""

from __future__ import annotations

from pathlib import Path

from bench import progress
from bench.report import Chart


def draw(chart: Chart, folder: Path) -> Path | None:
    """Write `<chart.name>.svg` and say where it is; None where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        progress.say(f"no plot {chart.name}: pip install matplotlib draws it")
        return None
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{chart.name}.svg"
    with plt.rc_context({"svg.hashsalt": chart.name, "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
        for label, points in chart.lines.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y, xscale="log", yscale="log")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()
        figure.savefig(target, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return target
