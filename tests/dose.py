"""How many cases of a kind a test tries: few in CI, many with HYPOTHESIS_PROFILE=deep."""

from __future__ import annotations

import os

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def dose(ci: int, deep: int) -> int:
    return deep if DEEP else ci
