"""The kernels are plain Python too: with the JIT off they say the same, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CHOSEN = (
    "test_agreement.py",
    "paths/direct/test_direct.py",
    "test_ranks.py",
    "test_string_table.py",
)
CHOSEN += ("test_text_index.py", "test_plain_columns.py")
# What is slow without the JIT and runs no other kernels.
SLOW = "not total and not default and not (wide and not strict) and not large and not long"
SLOW += " and not (many_columns and not (strict and None)) and not more_attributes"
SLOW += " and not (test_direct and batches_agree and (sql or False))"


@pytest.mark.slow
def test_the_engine_agrees_with_the_oracle_without_the_jit() -> None:
    """A number that overflows is wrapped in silence by compiled code; here it is a warning."""
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "-k", SLOW, *(str(TESTS / name) for name in CHOSEN)],
        env={
            **os.environ,
            "NUMBA_DISABLE_JIT": "1",
            "TAMIS_ROUNDS": "1",
            "HYPOTHESIS_PROFILE": "few",
        },
        cwd=TESTS.parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
