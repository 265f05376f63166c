"""What the project promises about itself: commands, first page, layers, pins, quick import."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = "\n".join(README.splitlines()[:45])
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("examples/*/*.md")]


# --- the first page and the two commands --------------------------------------


def test_readme_names_exactly_two_commands_that_set_up():
    fenced = re.findall(r"^```\w*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\./\S+", "\n".join(fenced), re.MULTILINE)
    assert commands == ["./run", "./test"]


@pytest.mark.parametrize("command", ["run", "test", ".ci/run", "tools/set-up", "tools/lock"])
def test_commands_can_be_executed(command):
    assert os.access(ROOT / command, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / command], check=True)


def test_first_screen_shows_code_and_commands():
    assert ">>> from tamis import" in FIRST_SCREEN
    assert "./run" in FIRST_SCREEN
    assert "./test" in FIRST_SCREEN


def test_readme_example_prints_what_it_says():
    code = re.search(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    example = doctest.DocTestParser().get_doctest(code, {}, "README.md", "README.md", 0)
    assert len(example.examples) == 6
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


# --- the rooms ----------------------------------------------------------------


def test_every_layer_exists_or_is_optional():
    needed = [name for name in _layers("tamis") if not name.startswith("(")]
    assert needed, "no room exists?"
    assert [name for name in needed if not _exists(name)] == []


TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


def test_tour_shows_every_room_in_order():
    shown = _shown(_section("The rooms"))
    rooms = [name.strip("()") for name in reversed(_layers("tamis"))]
    assert shown == [name for name in rooms if name in shown]
    assert [name for name in rooms if _exists(name) and name not in shown] == []


INNER = {
    "engine": "The rooms of the engine",
    "flow": "The rooms of flows",
    "pubsub": "The rooms of publish and subscribe",
    "spark": "The rooms on Spark",
    "server": "The rooms of the server",
}


@pytest.mark.parametrize("room", INNER)
def test_tour_shows_the_rooms_inside(room):
    inside = ROOT / "src" / "tamis" / room
    shown = list(dict.fromkeys(_shown(_section(INNER[room]))))
    rows = reversed(_layers(f"tamis.{room}"))
    layers = [name for row in rows for name in re.split(r" [|:] ", row)]
    folders = [name for name in layers if (inside / name).is_dir()]
    assert sorted(name for name in shown if name in folders) == sorted(folders)
    assert [name for name in shown if name not in layers] == []
    if room == "engine":  # the whole order, and modules as well
        assert sorted(shown) == sorted(layers)
        assert [name for name in shown if name in folders] == folders


def test_modules_that_the_tour_names_exist():
    named = re.findall(r"`([\w./]+(?:\.py|/))`", TOUR)
    tops = [ROOT / "src", ROOT / "tests", ROOT / "tools"]
    paths = [*tops, *(path for top in tops for path in top.rglob("*"))]
    tree = [f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in paths]
    ends = {path[slash.start() :] for path in tree for slash in re.finditer("/", path)}
    assert len(named) > 100
    assert [name for name in named if f"/{name}" not in ends] == []


def _section(title: str) -> str:
    """What the tour says from this heading to the next."""
    return re.search(rf"^#+ {title}$(.*?)(?=^#)", TOUR, re.MULTILINE | re.DOTALL)[1]


def _shown(table: str) -> list[str]:
    """The names in the first column of a table."""
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)[./]", row)]


def _layers(container: str) -> list[str]:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c.get("containers") == [container])
    return layers


def _exists(name: str) -> bool:
    room = ROOT / "src" / "tamis" / name
    return room.with_suffix(".py").is_file() or (room / "__init__.py").is_file()


# --- the pins -----------------------------------------------------------------


def _pins(part: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{part}.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def _wanted(part: str) -> list[str]:
    if part == "run":
        return PROJECT["project"]["dependencies"]
    return (PROJECT["project"]["optional-dependencies"] | PROJECT["dependency-groups"])[part]


PARTS = ["run", "build", "broker", "dev", "spark"]


@pytest.mark.parametrize("part", PARTS)
def test_pins_are_what_pyproject_asks_for(part):
    pins = _pins("run") | _pins(part)
    for wanted in map(Requirement, _wanted(part)):
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), wanted


@pytest.mark.parametrize("part", PARTS)
def test_what_a_pinned_package_needs_is_pinned(part):
    pins = _pins("run") | _pins(part)
    for name in pins:
        for needed in map(Requirement, _needs(name)):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                found = pins.get(canonicalize_name(needed.name), "")
                assert needed.specifier.contains(found, prereleases=True), f"{name}: {needed}"


def _needs(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # spark.txt is installed only where there is tamis.spark
        return []


@pytest.mark.parametrize("part", PARTS)
def test_parts_agree_on_versions(part):
    mine = _pins(part)
    for other in map(_pins, PARTS):
        assert {n: v for n, v in other.items() if n in mine and mine[n] != v} == {}


# --- import -------------------------------------------------------------------

TIMED_IMPORT = """
import sys, time
start = time.process_time()
import tamis
print(time.process_time() - start, *{"numba", "pyarrow", "pyspark"} & set(sys.modules))
"""


def test_import_is_quick_and_light():
    command = [sys.executable, "-c", TIMED_IMPORT]
    runs = [
        subprocess.run(command, cwd=ROOT / "src", capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    seconds, *heavy = min((run.stdout.split() for run in runs), key=lambda found: float(found[0]))
    assert heavy == []
    assert float(seconds) < 0.2
