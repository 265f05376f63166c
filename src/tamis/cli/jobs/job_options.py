"""The options of `tamis run`, and the job that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.terminal.options import Language, Semantics
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.spark.jobs.job import Stream
    from tamis.spark.message_questions import Options

_SHOWN = ("messages-select", "carry", "order-by")  # lists that hold no secrets
Many = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
Count = Annotated[int | None, Parameter(validator=Number(gte=1), show_default=False)]
Maybe = Annotated[str | None, Parameter(show_default=False)]


def _group(name: str) -> Any:
    return Parameter(name="*", group=name)


@_group("Messages")
@dataclass(frozen=True)
class Messages:
    """Where messages come from."""

    messages: Maybe = None
    "A path, or the name of a table; some formats have only options."

    messages_format: Maybe = None
    "Any format of Spark, or table; else the name decides, and else it is parquet."

    messages_option: Many = ()
    "An option of that format, as KEY=VALUE; may be given again."

    messages_schema: Maybe = None
    "The columns, as Spark writes them: 'price DOUBLE, company STRING'."

    messages_select: Many = ()
    "A column as a Spark SQL expression; may be given again. Without any, all columns."


@_group("Subscriptions")
@dataclass(frozen=True)
class Rules:
    """Where subscriptions come from."""

    subscriptions: Maybe = None
    "Rows with id, selector and perhaps subscriber; a saved matcher; a folder of Subscriptions."

    subscriptions_format: Maybe = None
    "As for messages; also snapshot, and versions for a folder of Subscriptions."

    subscriptions_option: Many = ()
    "An option of that format, as KEY=VALUE; may be given again."

    shards: Count = None
    "Into how many parts they are cut, so that a worker need not hold them all."

    shard_size: Count = None
    "How many of them a worker should hold, where the number of shards is not given."


@_group("Output")
@dataclass(frozen=True)
class Output:
    """Where the result goes."""

    output: Maybe = None
    "A path, or the name of a table."

    output_format: Maybe = None
    "Any format of Spark, or table; else the name decides, and else it is parquet."

    output_option: Many = ()
    "An option of that format, as KEY=VALUE; may be given again."

    output_mode: Maybe = None
    "error (the default of a batch), overwrite, append, ignore; streams: append, update."

    column: Maybe = None
    "The name of the column with the result."

    carry: Many = ()
    "A column of the subscriptions that comes along with a match; may be given again."

    order_by: Many = ()
    "A column of the subscriptions that says which matches come first, also 'priority DESC'."

    limit: Count = None
    "How many matches of each message are kept."

    first: bool = False
    "Keep the first match of each message alone."

    valid_at: Maybe = None
    "The time by which valid_from and valid_to count: an attribute, or now() for the clock."

    version_column: Maybe = None
    "A name for a column with the version of Subscriptions that was used."

    problems: Maybe = None
    "A file for the bad selectors: JSON lines with id, selector and reason."

    report: Maybe = None
    "A file for a report with plots: one page of HTML."


@_group("Stream")
@dataclass(frozen=True)
class Streaming:
    """Whether it goes on."""

    stream: bool = False
    "Read the messages as a stream."

    trigger: str = "available-now"
    "available-now: all that is there, then end. Or every so many seconds: 10."

    checkpoint: Maybe = None
    "A folder where the stream remembers how far it has come."


@_group("Spark")
@dataclass(frozen=True)
class Cluster:
    """Where it runs."""

    master: Maybe = None
    "The cluster; else all cores of this machine."

    setting: Many = ()
    "A setting of Spark, as KEY=VALUE; may be given again."


MESSAGES, RULES, OUTPUT = Messages(), Rules(), Output()
STREAMING, CLUSTER = Streaming(), Cluster()


def need(messages: Messages, subscriptions: Rules, output: Output) -> None:
    """The three ends of a job; a format may be enough, as for kafka or noop."""
    for given in (messages, subscriptions, output):
        name = fields(given)[0].name
        if getattr(given, name) is None and getattr(given, f"{name}_format") is None:
            raise InputError(f"--{name} is missing: see tamis run --help")


def options_of(
    semantics: Semantics,
    on_error: Literal["report", "raise"],
    language: Language,
    rules: Rules,
    output: Output,
) -> Options:
    """Only what was chosen: a saved matcher has most of it already."""
    from tamis.language import Limits

    options: Options = {"on_error": on_error}
    if semantics != "sql":
        options["semantics"] = semantics
    if language.dialect != "tamis":
        options["dialect"] = language.dialect
    if language.limits != Limits():
        options["limits"] = language.limits
    if (schema := language.read_schema()) is not None:
        options["schema"] = schema
    if rules.shards is not None:
        options["shards"] = rules.shards
    if rules.shard_size is not None:
        options["shard_size"] = rules.shard_size
    if output.version_column is not None:
        options["version"] = output.version_column
    if output.carry:
        options["carry"] = output.carry
    if output.order_by:
        options["order_by"] = output.order_by
    if output.limit is not None:
        options["limit"] = output.limit
    if output.first:
        options["first"] = True
    if output.valid_at is not None:
        options["valid_at"] = output.valid_at
    return options


def stream_of(streaming: Streaming) -> Stream | None:
    from tamis.spark.jobs.job import Stream

    if not streaming.stream:
        return None
    if streaming.checkpoint is None:
        raise InputError("a stream needs a folder to remember how far it is: give --checkpoint")
    return Stream(streaming.checkpoint, _every(streaming.trigger))


def _every(trigger: str) -> float | None:
    if trigger == "available-now":
        return None
    try:
        seconds = float(trigger)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"--trigger is available-now or a number of seconds, not {trigger}")
    return seconds


def pairs(name: str, given: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE texts as a mapping; the last one of a key wins."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InputError(f"--{name} is given as KEY=VALUE, not {text}")
        found[key] = value
    return found


def told(*groups: Any) -> list[tuple[str, str]]:
    """The options that were given, for the report. Values may be secrets, so pairs show keys."""
    found = []
    for group in groups:
        for option in fields(group):
            value = getattr(group, option.name)
            if value in (None, (), False):
                continue
            name = option.name.rstrip("_").replace("_", "-")
            if isinstance(value, tuple) and name not in _SHOWN:
                value = [text.partition("=")[0] for text in value]
            found.append(
                (name, ", ".join(value) if isinstance(value, list | tuple) else str(value))
            )
    return found
