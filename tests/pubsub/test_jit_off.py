"""The kernels are plain Python too: with the JIT off they say the same, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow
def test_packets_and_subjects_without_the_jit() -> None:
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    chosen = "index or columns or damaged or bad_packet or many_matches"
    files = [str(TESTS / name) for name in ("test_subject.py", "test_wire.py")]
    run = subprocess.run(
        [*command, "-k", chosen, *files],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "TAMIS_FUZZ_PACKETS": "300"},
        cwd=TESTS.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
