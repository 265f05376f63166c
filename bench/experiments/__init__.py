"""The experiments by name, in the order in which they run and stand on the page."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from bench.report import Result

_NAMES = (
    *(
        "icse",
        "stock",
        "relevance",
        "relevance_texts",
        "lists",
        "networks",
        "general",
        "updates",
        "memory",
        "rules",
    ),
    *(
        "implications",
        "frames",
        "spark",
        "native",
        "carry",
        "flow",
        "flow_growth",
        "states",
        "wire",
        "subjects",
        "filters",
        "links",
        "broker",
        "network",
    ),
)


def _runner(name: str) -> Callable[[str], Result]:
    """Imported when it runs: a subprocess that measures memory must not carry the others."""

    def run(scale: str) -> Result:
        result: Result = import_module(f"bench.experiments.{name}").run(scale)
        return result

    return run


EXPERIMENTS: dict[str, Callable[[str], Result]] = {name: _runner(name) for name in _NAMES}
