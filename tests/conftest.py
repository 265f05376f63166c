"""Settings that all tests share: how hard hypothesis searches, which tests share a worker."""

from __future__ import annotations

import os

os.environ.setdefault("TAMIS_KERNELS", "now")  # before anything imports a kernel

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SPARK = Path(__file__).parent / "spark"

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("ci"), derandomize=False,
                          max_examples=5000)  # fmt: skip
settings.register_profile("few", parent=settings.get_profile("ci"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups for --dist=loadgroup: tests that share a costly fixture share a worker.

    All tests of Spark are one group, so that one JVM starts; a module whose fixtures last as long
    as the module is a group as well. All others go one by one to the worker that is free.
    """
    for item in items:
        if item.path.is_relative_to(SPARK):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif any(_lasts(definitions) for definitions in _fixtures(item)):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def _fixtures(item: pytest.Item) -> Iterable[Sequence[pytest.FixtureDef[object]]]:
    return item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]


def _lasts(definitions: Sequence[pytest.FixtureDef[object]]) -> bool:
    return definitions[-1].scope in ("module", "class")
