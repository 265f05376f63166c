"""Spark's daemon for Python workers, with Tamis in it: `spark.python.daemon.module` names it.

Workers are forks of the daemon. What it has loaded (numpy, numba, the kernels) they share with it
and with each other, instead of loading a copy each.
"""

from __future__ import annotations

import gc
from typing import Any

import pyspark.worker  # noqa: F401 (what a fork runs)
from pyspark import daemon

import tamis.spark.workers.worker  # noqa: F401
from tamis import warm

_run = daemon.worker
_ENDED = 1  # the daemon takes any code but 0 as the end of the process


def run(sock: Any, authenticated: bool) -> int:
    """Spark closes the connection once it has the rows it wanted, as for `show(3)`: no error."""
    try:
        return _run(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return _ENDED


def main() -> None:
    warm.engine()
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page with an object on it
    daemon.worker = run
    daemon.manager()


if __name__ == "__main__":
    main()
