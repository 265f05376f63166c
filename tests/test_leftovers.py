"""What a process has left after it opened and closed every kind of our objects: nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_no_file_thread_or_warning_is_left():
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here.parent / "src"), str(here)])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(here / "leftovers.py")],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    left = json.loads(done.stdout.splitlines()[-1])
    assert left == {"files": [], "threads": [], "unraisable": []}
