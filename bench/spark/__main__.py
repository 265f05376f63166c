"""`python -m bench.spark FOLDER SCALE CORES PART...`: measure, and print the figures as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench import progress
from bench.spark.parts import PARTS, Place
from bench.spark.scale import SCALES
from tamis.spark import session


def main(folder: str, scale: str, cores: str, *parts: str) -> None:
    progress.begin(f"spark on {cores}")
    plain = {"spark.python.daemon.module": "pyspark.daemon"} if "plain" in parts else {}
    spark = session(cores=int(cores), settings=plain)
    spark.sparkContext.setLogLevel("OFF")
    at = Place(spark, Path(folder), SCALES[scale])
    found = {part: PARTS[part](at) for part in parts}
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
