"""The options of `tamis flow run`, and the job that they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from tamis.cli.jobs.job_options import Many, Maybe, _every, pairs
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.flow import Graph
    from tamis.spark.flows import FlowJob


@Parameter(name="*", group="Ends")
@dataclass(frozen=True)
class Ends:
    """Where messages come from, and where the spaces go."""

    from_: Annotated[
        tuple[str, ...], Parameter(name="--from", negative="", show_default=False)
    ] = ()
    "The source of a space, as SPACE=PATH; may be given again."

    from_format: Many = ()
    "The format of a source, as SPACE=FORMAT: any of Spark, or table; else the name decides."

    from_option: Many = ()
    "An option of a source's format, as SPACE.KEY=VALUE."

    from_select: Many = ()
    "A column of a source as a Spark SQL expression, as SPACE=EXPRESSION; may be given again."

    to: Many = ()
    "The sink of a space, as SPACE=PATH; may be given again."

    to_format: Many = ()
    "The format of a sink, as SPACE=FORMAT."

    to_option: Many = ()
    "An option of a sink's format, as SPACE.KEY=VALUE."

    to_mode: Maybe = None
    "error (the default of a batch), overwrite, append, ignore; streams: append, update."

    output: Maybe = None
    "One sink for all spaces without their own: a folder in it for each."

    output_format: Maybe = None
    "The format of that sink; else parquet."

    errors: Maybe = None
    "Where rows go that do not fit their space, with space, reason and row; else only counted."

    subscriptions: Many = ()
    "Subscriptions on a space, as SPACE=PATH; may be given again."

    result: Literal["match", "counts", "semi", "deliveries"] = "match"
    "What subscriptions add to the messages of their space; see tamis run."


@Parameter(name="*", group="Stream")
@dataclass(frozen=True)
class FlowStream:
    """Whether it goes on."""

    stream: bool = False
    "Read the sources as streams."

    trigger: str = "available-now"
    "available-now: all that is there, then end. Or every so many seconds: 10."

    checkpoint: Maybe = None
    "A folder where the stream remembers how far it has come."


ENDS, FLOW_STREAM = Ends(), FlowStream()


def job_of(
    file: str,
    graph: Graph,
    ends: Ends,
    streaming: FlowStream,
    lookup: Iterable[str],
    *,
    counted: bool,
    form: Any = "rewritten",
) -> FlowJob:
    from tamis.cli.jobs.run_command import _spark

    spark = _spark()  # tells of PySpark that is missing
    from tamis.spark.flows import FlowJob, Subscribed

    froms = pairs("from", ends.from_)
    if not froms and not ends.from_format:
        raise InputError("a flow needs sources: give --from SPACE=PATH")
    formats, options = pairs("from-format", ends.from_format), _nested(ends.from_option)
    selects: dict[str, list[str]] = {}
    for text in ends.from_select:
        ((space, expression),) = pairs("from-select", [text]).items()
        selects.setdefault(space, []).append(expression)
    sources = {
        space: spark.Source(
            froms.get(space),
            formats.get(space),
            options.get(space, {}),
            select=tuple(selects.get(space, ())),
        )
        for space in {**froms, **formats}
    }
    to, to_formats, to_options = (
        pairs("to", ends.to),
        pairs("to-format", ends.to_format),
        _nested(ends.to_option),
    )
    sinks = {
        space: spark.Sink(
            to.get(space), to_formats.get(space), to_options.get(space, {}), ends.to_mode
        )
        for space in {**to, **to_formats}
    }
    together = None
    if ends.output is not None or ends.output_format is not None:
        together = spark.Sink(ends.output, ends.output_format, mode=ends.to_mode)
    subscribed = {
        space: Subscribed(spark.Source(path), ends.result)
        for space, path in pairs("subscriptions", ends.subscriptions).items()
    }
    nowhere = spark.Sink(format="noop")
    return FlowJob(
        graph,
        sources,
        sinks,
        together,
        nowhere if ends.errors is None else spark.Sink(ends.errors, mode=ends.to_mode),
        pairs("lookup", tuple(lookup)),
        subscribed,
        stream=_stream(streaming),
        form=form,
        counted=counted,
        folder=Path(file).parent,
    )


def _nested(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """SPACE.KEY=VALUE texts as options by space."""
    found: dict[str, dict[str, str]] = {}
    for name, value in pairs("option", tuple(given)).items():
        space, dot, key = name.partition(".")
        if not dot:
            raise InputError(f"an option is given as SPACE.KEY=VALUE, not {name}={value}")
        found.setdefault(space, {})[key] = value
    return found


def _stream(streaming: FlowStream) -> Any:
    from tamis.spark.jobs.job import Stream

    if not streaming.stream:
        return None
    if streaming.checkpoint is None:
        raise InputError("a stream needs a folder to remember how far it is: give --checkpoint")
    return Stream(streaming.checkpoint, _every(streaming.trigger))


def tables_of(graph: Graph, file: str, lookup: Iterable[str], *, needed: bool = True) -> Any:
    """The tables of the flow's lookups; those that are not needed may be missing."""
    from tamis.flow import tables

    given = pairs("lookup", tuple(lookup))
    wanted = {
        name: found
        for name, found in graph.lookups.items()
        if needed or name in given or found.source is not None
    }
    return tables(wanted, given, Path(file).parent, graph.flow.text)
