"""A local Spark session: quick to start, quiet, and with the Python that runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tamis.errors import TamisError

_LOGGING = Path(__file__).with_name("log4j2.properties")
_OLDEST_JAVA = 17
_JAVA = "spark.driver.extraJavaOptions"
# Java's optimising compiler waits for ten times as many calls as usual: what Spark does to plan a
# job is not worth it. Loops over many rows get there within a moment (docs/decisions/034).
_PATIENT = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
_ADVICE = (
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "elsewhere install any Java runtime from 17 on, and set JAVA_HOME to it"
)


def session(
    *,
    cores: int | None = None,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new local one on `cores` cores (all, if not said).

    `settings` are further settings of Spark, and win over those made here; options for Java are
    added to ours.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    check_java()
    # The workers' Python is read from the environment: "python3" of the PATH may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("tamis")
    given = dict(settings or {})
    tuned = _tuned(cores or _cores(), memory)
    tuned[_JAVA] = f"{tuned[_JAVA]} {given.pop(_JAVA, '')}".strip()
    for name, value in (tuned | given).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _tuned(cores: int, memory: str) -> dict[str, str]:
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        _JAVA: f'"-Dlog4j2.configurationFile={_LOGGING.as_uri()}" {_PATIENT}',
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        # A timestamp literal without a zone is in UTC for Tamis; so it is for Spark SQL too.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # PySpark notes the Python stack with every Column; plans of many Columns cost twice so.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Workers are forks of a daemon that has loaded Tamis: they start at once and share it.
        "spark.python.daemon.module": "tamis.spark.workers.daemon",
        # The engine sorts a batch into blocks that are alike: larger batches have more of them.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    }


def check_java() -> None:
    """Raise TamisError, with what to do, where Spark would find no Java that it can use."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    found = _java_version(java) if java else None
    if found is None:
        place = f"JAVA_HOME={home}" if home else "the PATH"
        raise TamisError(f"Spark needs Java {_OLDEST_JAVA} or newer: none in {place}. {_ADVICE}")
    if found < _OLDEST_JAVA:
        raise TamisError(f"Spark needs Java {_OLDEST_JAVA} or newer: {java} is {found}. {_ADVICE}")


def _java_version(java: str) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(version[1]) if version else None
