"""`tamis run`: a job on Spark, from options or from one TOML file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App, ArgumentCollection, Token

from tamis.cli.jobs import jobfile
from tamis.cli.jobs.job_options import (
    CLUSTER,
    MESSAGES,
    OUTPUT,
    RULES,
    STREAMING,
    Cluster,
    Messages,
    Output,
    Rules,
    Streaming,
    need,
    options_of,
    pairs,
    stream_of,
    told,
)
from tamis.cli.terminal.options import STANDARD, Language, Semantics
from tamis.cli.terminal.progress import counted
from tamis.errors import InputError, TamisError

if TYPE_CHECKING:
    from tamis.spark.jobs.job import Job
    from tamis.spark.jobs.job_running import Running, Tell

SHOWN = 20  # bad selectors that are told in full


def run(
    job: str | None = None,
    /,
    *,
    messages: Messages = MESSAGES,
    subscriptions: Rules = RULES,
    output: Output = OUTPUT,
    result: Literal["match", "counts", "semi", "deliveries"] = "match",
    semantics: Semantics = "sql",
    on_error: Literal["report", "raise"] = "report",
    streaming: Streaming = STREAMING,
    cluster: Cluster = CLUSTER,
    language: Language = STANDARD,
) -> None:
    """Match messages on Spark, a batch or a stream.

    Parameters
    ----------
    job
        A TOML file with the options, under the same names; what is given here wins.
    result
        Ids for each message, their number, only the messages that match, or a row for each match.
    semantics
        What undefined attributes mean.
    on_error
        Put what is bad aside, or stop at the first.
    """
    need(messages, subscriptions, output)
    spark = _spark()
    options = options_of(semantics, on_error, language, subscriptions, output)
    made: Job = spark.Job(
        messages=spark.Source(
            messages.messages,
            messages.messages_format,
            pairs("messages-option", messages.messages_option),
            messages.messages_schema,
            messages.messages_select,
        ),
        subscriptions=spark.Source(
            subscriptions.subscriptions,
            subscriptions.subscriptions_format,
            pairs("subscriptions-option", subscriptions.subscriptions_option),
        ),
        output=spark.Sink(
            output.output,
            output.output_format,
            pairs("output-option", output.output_option),
            output.output_mode,
        ),
        result=result,
        column=output.column,
        options=options,
        stream=stream_of(streaming),
        named=output.report is not None,
    )
    of_stream = [streaming] if streaming.stream else []
    given = told(messages, subscriptions, output, *of_stream, cluster)
    _do(made, cluster, output, [("result", result), ("semantics", semantics), *given])


def _do(job: Job, cluster: Cluster, output: Output, given: Sequence[tuple[str, str]]) -> None:
    from tamis.cli.jobs.run_summary import job_progress, print_summary
    from tamis.spark.jobs.job_running import Running
    from tamis.spark.jobs.opening import opened

    with (
        job_progress() as (say, tell),
        opened(cluster.master, pairs("setting", cluster.setting)) as spark,
    ):
        say("reading the subscriptions")
        running = Running.prepare(job, spark)
        refused = running.problems()
        _tell_problems(refused, output.problems)
        say("matching")
        stopped, rules = _stopped(running, tell), None
        if output.report is not None:
            _write(output.report, _page(running, given, refused).encode("utf-8", "replace"))
            rules = _write_counts(running, output.report)
    _tell_bad_rows(running)
    places = [("output", output.output), ("report", output.report), ("rules", rules)]
    print_summary(running, refused, places)
    if stopped:
        raise KeyboardInterrupt


def _stopped(running: Running, tell: Tell) -> bool:
    """Run it; whether it was a stream that someone stopped, which is the usual end of one."""
    try:
        running.run(tell)
    except KeyboardInterrupt:
        if running.job.stream is not None:
            return True
        print("stopped: the output is not whole", file=sys.stderr)
        raise
    return False


def _page(running: Running, given: Sequence[tuple[str, str]], refused: list[Any]) -> str:
    from tamis.spark.jobs.page import page
    from tamis.spark.jobs.run_report import facts

    return page(facts(running, given, refused))


def _write_counts(running: Running, report: str) -> str | None:
    """The matches of each rule beside the report; where, if they were counted."""
    from tamis.spark.jobs.rule_counts import as_json, as_parquet, rules

    if running.job.result not in ("match", "deliveries"):
        return None
    table, base = rules(running), str(Path(report).with_suffix(""))
    _write(f"{base}.rules.json", as_json(running, table))
    _write(f"{base}.rules.parquet", as_parquet(table))
    return f"{base}.rules.json, {base}.rules.parquet"


def _spark() -> Any:
    try:
        from tamis.spark.jobs import job
    except ImportError as error:
        if error.name != "pyspark":
            raise
        raise TamisError(str(error)) from None
    return job


def _tell_problems(refused: list[dict[str, Any]], path: str | None) -> None:
    for bad in refused[:SHOWN]:
        print(f"subscription {bad['id']!r}: {bad['reason']}", file=sys.stderr)
    if len(refused) > SHOWN:
        print(f"... and {len(refused) - SHOWN:,} more; {len(refused):,} in all", file=sys.stderr)
    if path is not None:
        lines = "".join(json.dumps(bad, ensure_ascii=False) + "\n" for bad in refused)
        _write(path, lines.encode("utf-8", "replace"))


def _tell_bad_rows(running: Running) -> None:
    if count := running.totals.bad:
        print(
            f"{counted(count, 'bad row')}: column _error says why; --on-error raise stops at the "
            "first, --messages-schema chooses the types",
            file=sys.stderr,
        )


def _write(path: str, data: bytes) -> None:
    from tamis.cli.terminal.result_files import opened

    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    with opened(path) as file:
        file.write(data)


def from_job_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give `run` the options of its TOML file, where the command line does not say otherwise."""
    if commands not in (("run",), ("flow", "run")):
        return
    known = {name[2:]: found for found in arguments for name in found.names if name[:2] == "--"}
    first = next(found for found in arguments if found.name in ("JOB", "FILE"))
    if not first.tokens:
        return
    path = first.tokens[0].value
    options = options_in(arguments)
    if commands == ("flow", "run"):
        if not path.endswith(".toml"):
            return  # the flow itself
        told = jobfile.options(path, options | {"flow"})
        first.tokens[:] = [_token(path, "flow", _flow_of(path, told))]
    else:
        told = jobfile.options(path, options)
    for name, values in told.items():
        found = known[name]
        if isinstance(values, list):  # those of the command line come last, and win key by key
            found.tokens[:0] = [_token(path, name, value) for value in values]
        elif not found.tokens:
            several = values if isinstance(values, tuple) else (values,)
            found.tokens += [_token(path, name, value) for value in several]


def _flow_of(path: str, told: dict[str, jobfile.Value]) -> str:
    """The file of the flow that a job names, from where the job's file is."""
    flow = told.pop("flow", None)
    if not isinstance(flow, str):
        raise InputError(f"{path}: say which flow to run: flow = 'stocks.flow'")
    return str(Path(path).parent / flow)


def _token(path: str, name: str, value: str | bool) -> Token:
    if isinstance(value, bool):
        return Token(keyword=f"--{name}", source=path, implicit_value=value)
    return Token(keyword=f"--{name}", value=value, source=path)


def options_in(arguments: ArgumentCollection) -> set[str]:
    """The names of all options, without hyphens and without their negations."""
    found = (name for one in arguments for name in one.names if name.startswith("--"))
    return {name[2:] for name in found if not name.startswith("--no-")}
