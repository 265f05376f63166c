"""A small dose of `fuzz_sockets.py`; TAMIS_FUZZ=1000000 is the full one."""

from __future__ import annotations

import os

from server.fuzz_sockets import fuzz


def test_damaged_packets_and_frames_are_answered_with_typed_errors():
    tally = fuzz(int(os.environ.get("TAMIS_FUZZ", "3000")), seed=14)
    assert tally["errors"] > tally["sent"] / 4
