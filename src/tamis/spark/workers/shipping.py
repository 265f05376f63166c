"""A matcher on its way to the workers: one file, saved once, mapped by every worker of a host."""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from tamis.engine import Details, Matcher
from tamis.errors import SnapshotError
from tamis.logic import Lookups
from tamis.recent import Recent

_KEPT = 4  # matchers, and details, that a worker holds on to
_REMEMBERED = 64  # snapshots that the driver knows to have shipped


@dataclass(frozen=True, slots=True)
class Shipment:
    """A saved matcher that never changes: its name is never used again.

    `path` is where the driver has it, and so has any worker on its host or on a file system that
    they share; elsewhere it is a file of that name which Spark has brought.
    """

    path: str
    name: str

    def opened(self, lookups: Lookups) -> Matcher:
        """On a worker: the matcher, mapped once in each process."""
        return opened(self, lookups)


def ship(spark: SparkSession, matcher: Matcher, saved: Path | None = None) -> Shipment:
    """Save the matcher, or take the snapshot that it was loaded from, and give it to Spark.

    Within one process the same file goes by the same name: workers then map it only once,
    however many calls there are. (Workers do not tell lookups apart, so those get a new one.)
    """
    same = _identity(saved) if saved and not matcher.lookups and is_local(spark) else None
    if same is None:
        return _ship(spark, matcher, saved)
    return _shipped.get(same, lambda: _ship(spark, matcher, saved))


def _ship(spark: SparkSession, matcher: Matcher, saved: Path | None) -> Shipment:
    path = folder() / f"tamis-{uuid.uuid4().hex}.snapshot"
    if saved is None:
        matcher.save(path)
    else:
        _take(saved, path)
    return send(spark, path)


def _identity(saved: Path) -> tuple[int, ...]:
    """What tells a file from all others, and from what it may become."""
    told = saved.stat()
    return told.st_dev, told.st_ino, told.st_mtime_ns, told.st_size


def send(spark: SparkSession, path: Path) -> Shipment:
    """Give a file of a name that is never used again to Spark."""
    if is_connect(spark):
        spark.addArtifacts(str(path), file=True)
    elif not is_local(spark):
        spark.sparkContext.addFile(str(path))
    return Shipment(str(path), path.name)


def _take(saved: Path, path: Path) -> None:
    """Hold on to a snapshot as it is now, though another may be saved under its name later."""
    try:
        os.link(saved, path)
    except OSError:  # another file system, or one without links
        shutil.copyfile(saved, path)


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    if is_connect(spark):
        return False
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


_shipped: Recent[tuple[int, ...], Shipment] = Recent(_REMEMBERED)


@cache
def folder() -> Path:
    """Where this driver saves. It lasts as long as the driver: a frame is run at any later time."""
    made, owner = Path(tempfile.mkdtemp(prefix="tamis-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a fork of the driver leaves it alone
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made


# --- on a worker ---------------------------------------------------------------

_matchers: Recent[str, Matcher] = Recent(_KEPT)
_details: Recent[str, Details] = Recent(_KEPT)


def opened(shipment: Shipment, lookups: Lookups) -> Matcher:
    """The matcher, mapped once in each worker process; the next tasks find it here."""
    return _matchers.get(shipment.name, lambda: load_shipped(shipment, lookups))


def opened_details(shipment: Shipment) -> Details:
    """What matches carry, read once in each worker process."""
    return _details.get(shipment.name, lambda: pickle.loads(located(shipment).read_bytes()))


def load_shipped(shipment: Shipment, lookups: Lookups) -> Matcher:
    """The matcher, mapped anew."""
    here = Path(shipment.path).exists()  # the driver has checked or made it: trust its bytes
    return Matcher.load(located(shipment), lookups=lookups, verify=not here)


def located(shipment: Shipment) -> Path:
    """Where this worker has the file."""
    if Path(shipment.path).exists():
        return Path(shipment.path)
    from pyspark import SparkFiles

    brought = Path(SparkFiles.get(shipment.name))
    if not brought.exists():
        hint = "the driver that saved it has ended: call match again in the new one"
        raise SnapshotError(shipment.path, "is not available on this worker", hint)
    return brought
