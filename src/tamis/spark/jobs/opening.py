"""The session of a command: quiet, ours to stop, and on the cluster that was asked for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tamis.spark.spark_session import session

# Rules make a row costly however small it is: a small file is worth several tasks.
_TUNED = {"spark.sql.files.openCostInBytes": "65536"}
_ELSEWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.ui.showConsoleProgress": "false",
}
# What Java says of itself at its start. Spark asks for that module, and nobody can do without.
_CHATTER = (b"WARNING: Using incubator modules",)


@contextmanager
def opened(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for one command; one that runs already is used, and stays."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with _no_interrupt() as interrupted, _without_chatter():
        spark = _start(master, settings)
    try:
        if interrupted:
            raise KeyboardInterrupt
        yield spark
    finally:
        spark.stop()


def _start(master: str | None, settings: Mapping[str, str]) -> SparkSession:
    # spark-submit has chosen the cluster, and started the Java side, before we came.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and (master is None or master.startswith("local")):
        chosen = {} if master is None else {"spark.master": master}
        return session(settings={**_TUNED, **chosen, **settings})
    builder = SparkSession.builder.appName("tamis")
    if master is not None:
        builder = builder.master(master)
    for name, value in {**_TUNED, **_ELSEWHERE, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _no_interrupt() -> Iterator[list[int]]:
    """Put Ctrl-C off, and have our own handler of it in place afterwards.

    A Java that loses its Python while it starts stays behind for ever. And Spark puts a handler in
    place that calls Java from wherever the interrupt hits.
    """
    before, came = signal.getsignal(signal.SIGINT), list[int]()
    main = threading.current_thread() is threading.main_thread()

    def put_off(number: int, frame: object) -> None:
        came.append(number)
        os.write(2, b"stopping as soon as Spark has started\n")

    if main:
        signal.signal(signal.SIGINT, put_off)
    try:
        yield came
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Give what is started here a standard error that leaves out what nobody can act on."""
    read, write = os.pipe()
    true = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_pass_on, args=(read, true), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(true, 2)  # `true` itself stays open for the thread


def _pass_on(read: int, true: int) -> None:
    with os.fdopen(read, "rb") as lines, os.fdopen(true, "wb", buffering=0) as told:
        for line in lines:
            if not line.startswith(_CHATTER):
                told.write(line)
