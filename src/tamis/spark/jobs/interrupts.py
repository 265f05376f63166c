"""Work on Spark that Ctrl-C can end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark.sql import SparkSession

_PATIENCE = 20.0  # seconds that cancelled work has to come to its end
T = TypeVar("T")


class Apart(Generic[T]):
    """Work in a thread of its own, whose Spark jobs can be cancelled.

    A call into Java that is interrupted leaves its thread's connection unusable. So the thread
    that gets the interrupt only waits, and then has a connection that can cancel.
    """

    def __init__(self, spark: SparkSession, work: Callable[[], T]) -> None:
        self.context, self.work = spark.sparkContext, work
        self.group = f"tamis-{uuid.uuid4().hex}"
        self.done = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def result(self) -> T:
        """Do it. An interrupt cancels it, waits until it has ended, and goes on up."""
        doing = threading.Thread(target=self._do, daemon=True)
        doing.start()
        try:
            self.done.wait()
        except KeyboardInterrupt:
            self.context.cancelJobGroup(self.group)
            doing.join(_PATIENCE)
            raise
        finally:
            self.done.set()
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _do(self) -> None:
        try:
            self.context.setJobGroup(self.group, "tamis run", interruptOnCancel=True)
            self._result.append(self.work())
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()
