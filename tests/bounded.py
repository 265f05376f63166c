"""A guard against work that blows up: far more processor time than a busy machine takes for it.

Speed is measured in bench/; here only what would not end is caught.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 60.0


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Fail if the block takes more processor time of this thread than that."""
    start = time.thread_time()
    yield
    taken = time.thread_time() - start
    assert taken < seconds, f"{taken:.1f} s of processor time"
