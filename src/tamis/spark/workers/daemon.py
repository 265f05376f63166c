"""Spark's daemon for Python workers, with Tamis in it: `spark.python.daemon.module` names it.

Workers are forks of the daemon. What it has loaded (numpy, numba, the kernels) they share with it
and with each other, instead of loading a copy each.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401 (what a fork runs)
from pyspark.daemon import manager

import tamis.spark.workers.worker  # noqa: F401
from tamis import warm


def main() -> None:
    warm.main()
    gc.collect()
    gc.freeze()  # a collection in a fork would touch, and so copy, every page with an object on it
    manager()


if __name__ == "__main__":
    main()
