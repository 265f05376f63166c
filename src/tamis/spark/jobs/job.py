"""A job: where messages and subscriptions come from, what is asked, and where the answer goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from tamis.engine.snapshot.file import MAGIC
from tamis.errors import InputError
from tamis.spark.broker import use_broker
from tamis.spark.jobs.column_types import (
    MALFORMED,
    SAMPLE,
    csv_types,
    json_types,
    retyped,
    texts,
    with_numbers,
)
from tamis.spark.message_questions import Options
from tamis.table import Subscriptions

Result = Literal["match", "counts", "semi", "deliveries"]
COLUMNS: dict[Result, str] = {
    "match": "subscriptions",
    "counts": "matches",
    "semi": "",
    "deliveries": "subscription",
}
BROKER = "tamis"  # the format of channels
TABLE, SNAPSHOT, VERSIONS = "table", "snapshot", "versions"  # formats that are not Spark's
_FORMATS = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}
FILES = frozenset(_FORMATS.values()) | {"avro", "text", "xml"}
_PACKED = {".gz", ".bz2", ".zst", ".xz"}
# What everybody means by CSV: a header, and a quote inside quotes is written twice.
_CSV = {"header": "true", "escape": '"'}
NO_OPTIONS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Source:
    """Something that Spark reads. `select` are SQL expressions that make the columns from it."""

    path: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    select: tuple[str, ...] = ()

    def messages(self, spark: SparkSession, *, stream: bool) -> DataFrame:
        """The rows; malformed ones of CSV and JSON with their text in column MALFORMED."""
        schema = self._schema(spark) if self._keeps_malformed else self.schema
        loaded = self._load(spark, stream, schema=schema)
        if not self.select:
            return loaded
        kept = [MALFORMED] if MALFORMED in loaded.columns else []
        return loaded.selectExpr(*self.select, *kept)

    @property
    def _keeps_malformed(self) -> bool:
        """Unless the options say what becomes of malformed rows."""
        own = {name.lower(): value.lower() for name, value in self.options.items()}
        usual = own.get("mode", "permissive") == "permissive"
        return self.kind in ("csv", "json") and usual and "columnnameofcorruptrecord" not in own

    def _schema(self, spark: SparkSession) -> StructType:
        """The given schema, or the types that most rows have."""
        if self.schema is not None:
            return retyped(spark.createDataFrame([], self.schema).schema, {})
        inferred = self._load(spark, False, {"inferSchema": "true"}).schema
        names = texts(inferred)
        if self.kind == "csv":
            return retyped(inferred, csv_types(self._load(spark, False), names))
        if str(self.options.get("multiLine", "false")).lower() == "true":
            return retyped(inferred, {})
        lines = replace(self, format="text")._load(spark, False).limit(SAMPLE).collect()
        return retyped(inferred, json_types((line[0] for line in lines), names))

    def subscriptions(self, spark: SparkSession) -> DataFrame | Subscriptions | str:
        """A frame with id and selector, a versioned table, or the path of a snapshot."""
        if self.kind == SNAPSHOT:
            return self._place()
        if self.kind == VERSIONS:
            return Subscriptions.open(self._place())
        if self.kind != "csv":
            return self._load(spark, False)
        # Ids are text in CSV, and a selector in quotes may go over several lines.
        whole = {"multiLine": "true"}
        inferred = self._load(spark, False, {**whole, "inferSchema": "true"}).schema
        return self._load(spark, False, whole, schema=with_numbers(inferred))

    @property
    def kind(self) -> str:
        if self.format is not None:
            return self.format
        if self.path is not None and _is_snapshot(Path(self.path)):
            return SNAPSHOT
        if self.path is not None and _is_versioned(Path(self.path)):
            return VERSIONS
        return format_of(self.path)

    def _load(
        self,
        spark: SparkSession,
        stream: bool,
        defaults: Mapping[str, str] = NO_OPTIONS,
        *,
        schema: Any = None,
    ) -> DataFrame:
        if self.kind == BROKER:
            use_broker(spark)
        reader: Any = spark.readStream if stream else spark.read
        options = {**(_CSV if self.kind == "csv" else {}), **defaults, **self.options}
        if self.kind == TABLE:
            return reader.options(**options).table(self._place())  # type: ignore[no-any-return]
        reader = reader.format(self.kind).options(**options)
        if schema is None and stream and self.kind in FILES:
            # Spark needs the schema of a stream of files; the files that exist have it.
            schema = self._load(spark, False, defaults).schema
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load(self.path) if self.path else reader.load()  # type: ignore[no-any-return]

    def _place(self) -> str:
        if not self.path:
            raise InputError(f"format {self.kind} needs a path or a name")
        return self.path


@dataclass(frozen=True, slots=True)
class Sink:
    """Something that Spark writes. `mode` is that of a batch or of a stream."""

    path: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None

    @property
    def kind(self) -> str:
        return self.format or format_of(self.path)

    def write(self, frame: DataFrame, partition_by: str | None = None) -> None:
        # What writes nothing has nothing to protect, refuses to look, and has no partitions.
        usual = {"noop": "overwrite", BROKER: "append"}.get(self.kind, "error")
        if self.kind == BROKER:
            use_broker(frame.sparkSession)
        writer = frame.write.options(**self.all_options()).mode(self.mode or usual)
        if partition_by is not None and self.kind != "noop":
            writer = writer.partitionBy(partition_by)
        if self.kind == TABLE:
            writer.saveAsTable(self.path or "")
        else:
            writer.format(self.kind).save(self._target())

    def start(
        self,
        frame: DataFrame,
        every: float | None,
        checkpoint: str,
        partition_by: str | None = None,
    ) -> StreamingQuery:
        """Start a stream; `every` so many seconds, or once over all that is there (None)."""
        if self.kind == BROKER:
            use_broker(frame.sparkSession)
        writer = frame.writeStream.options(**self.all_options()).outputMode(self.mode or "append")
        writer = writer if partition_by is None else writer.partitionBy(partition_by)
        writer = writer.option("checkpointLocation", checkpoint)
        if every is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(every * 1000)} milliseconds")
        if self.kind == TABLE:
            return writer.toTable(self.path or "")
        return writer.format(self.kind).start(self._target())

    def all_options(self) -> dict[str, str]:
        named = {"channel": self.path} if self.kind == BROKER and self.path else {}
        return {**(_CSV if self.kind == "csv" else {}), **named, **self.options}

    def _target(self) -> str | None:
        return None if self.kind == BROKER else self.path  # channels are no paths


@dataclass(frozen=True, slots=True)
class Stream:
    """A job that goes on: where it remembers how far it has come, and how often it looks."""

    checkpoint: str
    every: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    messages: Source
    subscriptions: Source
    output: Sink
    result: Result = "match"
    column: str | None = None
    options: Options = field(default_factory=Options)
    stream: Stream | None = None
    named: bool = False  # matches are counted for each subscription, not only in all

    def __post_init__(self) -> None:
        if self.result not in get_args(Result):
            raise InputError(f"result is one of {', '.join(get_args(Result))}, not {self.result}")
        modes = ("append", "update") if self.stream else ("error", "append", "overwrite", "ignore")
        if self.output.mode not in (None, *modes):
            what = "stream" if self.stream else "batch"
            raise InputError(
                f"a {what} has no output mode {self.output.mode}: choose {', '.join(modes)}"
            )
        if self.column and self.result == "semi":
            raise InputError("semi adds no column")

    def rows(self) -> int | None:
        """How many messages there are, where that can be told at no cost."""
        local = self.messages.path and "://" not in self.messages.path
        if self.stream or not local or self.messages.kind != "parquet":
            return None
        return _parquet_rows(Path(str(self.messages.path)))


def format_of(path: str | None) -> str:
    """The format that a name tells; Parquet where it tells nothing."""
    suffixes = PurePosixPath(path or "").suffixes
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return _FORMATS.get(suffixes[-1].lower() if suffixes else "", "parquet")


def _is_snapshot(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _is_versioned(path: Path) -> bool:
    return (path / "versions").is_dir() and (path / "settings").is_file()


def _parquet_rows(path: Path) -> int | None:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_metadata

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    try:
        return sum(int(read_metadata(file).num_rows) for file in files)
    except (OSError, ArrowException):
        return None
