"""A small dose of `hostile_inputs.py`; TAMIS_HOSTILE=0 is all of it."""

from __future__ import annotations

import os

from server.hostile_inputs import walk


def test_hostile_values_are_answered_with_typed_errors():
    tally = walk(int(os.environ.get("TAMIS_HOSTILE", "300")), seed=14)
    assert not [outcome for outcome in tally if "FAILED" in outcome]
    assert {"PUT 422", "WebSocket error", "STOMP ERROR", "packet refused"} <= tally.keys()
