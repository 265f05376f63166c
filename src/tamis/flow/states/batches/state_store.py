"""States on disk, by bucket and micro-batch: what makes a replayed batch exact.

A bucket holds the keys of one hash. Batch n reads the newest version before n and writes version
n, each as one Arrow file that appears whole or not at all. So a batch that is done again starts
from the states that it started from before, and writes the same file once more.

    meta.json                     key, order and number of buckets
    bucket-00003/000000000017.arrow
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import StateError
from tamis.flow.states.definitions.keyed import States, arrow_schema
from tamis.flow.states.definitions.summary import Summary

if TYPE_CHECKING:
    import pyarrow as pa

KEPT = 2  # versions of a bucket; one for the batch that may be done again, one for readers
_FORMAT = 1


@dataclass(frozen=True)
class Counters:
    """What a bucket has seen since it began, replays not counted twice."""

    events: int = 0
    late: int = 0
    emitted: int = 0
    failed: int = 0

    def plus(self, other: Counters) -> Counters:
        own, more = vars(self), vars(other)
        return Counters(**{name: own[name] + more[name] for name in own})


@dataclass(frozen=True)
class StateFiles:
    """The versions of one state in a folder that all workers see."""

    folder: str
    kept: int = KEPT

    # --- the folder ----------------------------------------------------------------

    def open(self, summary: Summary, buckets: int) -> int:
        """Make the folder, or check that it fits; the number of buckets that it has."""
        path = Path(self.folder) / "meta.json"
        wanted = {"format": _FORMAT, "state": summary.name, "key": list(summary.key),
                  "order": list(summary.order)}  # fmt: skip
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, json.dumps(wanted | {"buckets": buckets}).encode())
            return buckets
        found = self.meta()
        for name, value in wanted.items():
            if found.get(name) != value:
                what = f"{self.folder} holds states with {name} {found.get(name)}, not {value}"
                raise StateError(what, hint="use another folder: these states cannot be continued")
        return int(found["buckets"])

    def meta(self) -> dict[str, Any]:
        path = Path(self.folder) / "meta.json"
        try:
            found = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise StateError(
                f"{path}: {error.strerror}", hint="no states were kept there"
            ) from None
        except ValueError:
            raise StateError(f"{path} is not whole", hint="restore it from a copy") from None
        return dict(found)

    # --- one bucket ------------------------------------------------------------------

    def before(self, bucket: int, batch: int) -> tuple[pa.Table | None, Counters]:
        """The newest version of a bucket before the batch; None where there is none."""
        older = [n for n in self.versions(bucket) if n < batch]
        return self._read(bucket, older[-1]) if older else (None, Counters())

    def write(self, bucket: int, batch: int, states: pa.Table, counters: Counters) -> None:
        """Keep the version of the batch, and drop those that no replay can ask for."""
        import pyarrow as pa

        told = {name: str(count) for name, count in vars(counters).items()}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, states.schema.with_metadata(told)) as writer:
            writer.write_table(states)
        path = self._path(bucket, batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, sink.getvalue())
        for old in [n for n in self.versions(bucket) if n <= batch][: -self.kept]:
            self._path(bucket, old).unlink(missing_ok=True)

    def versions(self, bucket: int) -> list[int]:
        """The batches of which the bucket has a version, oldest first."""
        found = self._bucket(bucket).glob("[0-9]*.arrow")
        return sorted(int(path.stem) for path in found if path.stem.isdecimal())

    # --- all of it ---------------------------------------------------------------------

    def read(self, summary: Summary | None = None) -> tuple[pa.Table, Counters]:
        """The newest states of all buckets as one table, and what they have seen."""
        import pyarrow as pa

        tables, counters = [], Counters()
        for bucket in self.buckets():
            newest = self.versions(bucket)[-1]
            table, own = self._read(bucket, newest)
            counters = counters.plus(own)
            tables.append(
                table if summary is None else States.from_table(summary, table).to_table()
            )
        if not tables:
            empty = arrow_schema(summary).empty_table() if summary else pa.table({})
            return empty, counters
        return pa.concat_tables(tables, promote_options="default"), counters

    def buckets(self) -> Iterator[int]:
        for path in sorted(Path(self.folder).glob("bucket-*")):
            number = int(path.name.removeprefix("bucket-"))
            if self.versions(number):
                yield number

    def _read(self, bucket: int, batch: int) -> tuple[pa.Table, Counters]:
        import pyarrow as pa

        path = self._path(bucket, batch)
        try:
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
            told = table.schema.metadata or {}
            found = Counters(*(int(told[name.encode()]) for name in vars(Counters())))
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            hint = "restore it from a copy, or begin with a new checkpoint"
            raise StateError(f"{path} cannot be read: {str(error)[:200]}", hint=hint) from None
        return table.replace_schema_metadata(None), found

    def _bucket(self, bucket: int) -> Path:
        return Path(self.folder) / f"bucket-{bucket:05d}"

    def _path(self, bucket: int, batch: int) -> Path:
        return self._bucket(bucket) / f"{batch:012d}.arrow"


def _write(path: Path, data: bytes | pa.Buffer) -> None:
    """The file appears whole: written beside, flushed to the disk, and renamed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def write_events(path: Path, events: pa.Table) -> None:
    """A Parquet file of events, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(events, sink)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, sink.getvalue())
