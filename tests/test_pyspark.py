"""Which PySpark Tamis works with, and what it says of others."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*map(str, folders), str(ROOT / "src")])
    arguments = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(arguments, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("version", ["4.0.2", "3.5.9", "4.0.0.dev1"])
@pytest.mark.parametrize(
    "code", ["import tamis.spark", "from tamis.cli import main; main(COMMAND)"]
)
def test_an_older_one_is_told_in_a_sentence(version: str, code: str, tmp_path: Path):
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    command = ["run", "--messages", "m", "--subscriptions", "s", "--output", "o"]
    done = run(code.replace("COMMAND", repr(command)), tmp_path)
    said = f"tamis.spark needs PySpark 4.1 or newer, and this is {version}: "
    assert said in done.stderr.splitlines()[-1]
    assert ("Traceback" in done.stderr) is ("cli" not in code)


def test_all_else_needs_no_pyspark(tmp_path: Path):
    code = "import sys; sys.modules['pyspark'] = None; import tamis, tamis.cli, tamis.table; "
    code += "m = tamis.Matcher(); m.add(1, 'x > 1'); print(m.match({'x': 2}))"
    assert run(code).stdout == "[1]\n"


def test_the_extra_asks_for_what_is_needed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "pyspark>=4.1,<5" in project["optional-dependencies"]["spark"]
    assert not any("pyspark" in one for one in project["dependencies"])
