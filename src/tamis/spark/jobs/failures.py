"""What Spark reports of a failure, without the pages around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tamis.errors import TamisError

# Of an error of ours in a worker Spark shows the stack; the error itself ends it.
_OURS = re.compile(r"tamis\.errors\.\w++: (.+?)(?=\n(?:\n|[ \t]++at |-)|\Z)", re.DOTALL)
_STACK = re.compile(r"(?<!\s)\s++SQLSTATE: |\n[ \t]*+(?:JVM stacktrace|at |Traceback)")


@contextmanager
def told_simply() -> Iterator[None]:
    """Raise TamisError instead of what Spark raises, with the reason alone."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise TamisError(reason(str(error))) from error


def reason(text: str) -> str:
    """The part of the text that a user can act on."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    return _STACK.split(text)[0].strip()
