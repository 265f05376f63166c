"""The table of walks in docs/tour.md is held to what `tools/hops` counts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MORE = 2  # files that a walk may grow by before its row has to be written anew


@pytest.mark.slow
def test_no_walk_grows_by_more_than_two_files():
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| [^|]+ \| \d+ \| (\d+) \| \d+ \| \d+ \|$", tour, re.MULTILINE)
    stated = {walk: int(files) for walk, files in rows}
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "hops"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    counted = dict(re.findall(r"^(\S+): (\d+) files", done.stdout, re.MULTILINE))
    assert sorted([*counted, "spark.match"]) == sorted(stated)  # that one needs a JVM: by command
    longer = {walk: int(n) for walk, n in counted.items() if int(n) > stated[walk] + MORE}
    assert longer == {}, "shorten the walk, or justify it and change the table"
