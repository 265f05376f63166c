"""One Spark session for all tests; starting one takes longer than any test."""

from __future__ import annotations

import os

import pytest

from tamis.errors import TamisError

pytest.importorskip("pyspark", reason="PySpark is not installed: requirements/spark.txt")


@pytest.fixture(scope="session")
def spark():
    from tamis.spark.spark_session import check_java, session

    try:
        check_java()
    except TamisError as error:
        if "TAMIS_NEEDS_JAVA" in os.environ:  # ./test gets one: without it, nothing was tested
            raise
        pytest.skip(str(error))
    # The tests are many small plans: quick to compile matters, well compiled does not.
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xshare:auto"}
    running = session(cores=2, memory="1g", settings=quick)
    yield running
    running.stop()
