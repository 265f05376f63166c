"""`tamis flow`: check, show, rewrite, explain, test and run information flow graphs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from tamis.cli.flows import state_commands as states_commands
from tamis.cli.flows.flow_options import (
    ENDS,
    FLOW_STREAM,
    Ends,
    FlowStream,
    job_of,
    tables_of,
)
from tamis.cli.jobs.job_options import CLUSTER, Cluster, Many, Maybe, pairs, told
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.flow import Graph
    from tamis.spark.flows import FlowJob, FlowRunning

flow_app = App(name="flow", help="Check, show, rewrite, explain, test and run a flow.")


def _graph(file: str) -> Graph:
    from tamis.flow import check, read_flow

    return check(read_flow(file))


@flow_app.command
def check(file: str, /, *, strict: bool = False) -> None:
    """Print the types of all spaces, or say what is wrong with the flow.

    Parameters
    ----------
    file
        The flow.
    strict
        Take notices for errors: rules that can never fire, paths that no message can take.
    """
    from tamis.flow.showing import notices

    graph = _graph(file)
    for name, schema in graph.schemas.items():
        columns = ", ".join(f"{a.name}: {a.type.value}" for a in schema.attributes)
        print(f"{name}({columns})")
    states_commands.describe(graph)
    found = notices(graph)
    for notice in found:
        line = graph.flow.text.count("\n", 0, notice.at) + 1
        print(f"notice: line {line}, {notice}", file=sys.stderr)
    wrong = sum(notice.strict for notice in found)
    if wrong and strict:
        raise InputError(f"{wrong} notices are errors with --strict")


@flow_app.command
def show(
    file: str,
    /,
    *,
    output: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-",
    after: Maybe = None,
    space: Many = (),
    steps: Maybe = None,
) -> None:
    """Draw the flow, as it is written or as it is rewritten.

    Parameters
    ----------
    file
        The flow.
    output
        A file whose name ends in .svg, or in .mmd for Mermaid; - is Mermaid on standard output.
    after
        Draw what this rule of rewriting leaves, or all of them; see `tamis flow rewrite`.
    space
        A space that somebody subscribes to; may be given again. Else all that arcs lead to.
    steps
        A folder for one SVG after each rule.
    """
    from tamis.flow import stages
    from tamis.flow.showing import mermaid, picture, svg

    if output != "-" and not output.endswith((".svg", ".mmd")):
        raise InputError(f"{output}: the name must end in .svg or .mmd")
    graph = _graph(file)
    shown: Any = graph
    done = list(stages(graph, space or None)) if after or steps else []
    if after is not None:
        known = dict(done) | {"all": done[-1][1]}
        if after not in known:
            raise InputError(f"there is no rule {after}: choose one of {', '.join(known)}")
        shown = known[after]
    for number, (name, plan) in enumerate(done if steps else (), 1):
        _write(str(Path(steps or "") / f"{number:02}-{name}.svg"), svg(picture(plan), name))
    drawn = picture(shown)
    _write(output, svg(drawn) if output.endswith(".svg") else mermaid(drawn))


@flow_app.command
def rewrite(file: str, /, *, space: Many = (), rules: bool = False) -> None:
    """Print one (select; transform) for each path, and the terms that paths share.

    Parameters
    ----------
    file
        The flow.
    space
        A space that somebody subscribes to; may be given again. Else all that arcs lead to.
    rules
        Print what every rule leaves, one after the other.
    """
    from tamis.flow import stages
    from tamis.flow.showing.plan_texts import plan_text

    done = list(stages(_graph(file), space or None))
    for name, plan in done if rules else done[-1:]:
        if rules:
            print(f"# {name}")
        print(plan_text(plan))


@flow_app.command
def lineage(file: str, space: str, /) -> None:
    """Print where each attribute of SPACE comes from.

    Parameters
    ----------
    file
        The flow.
    space
        The space.
    """
    from tamis.flow.showing import lineage

    for name, origins in lineage(_graph(file), space).items():
        print(name)
        for origin in origins:
            asked = f", if {', '.join(origin.depends)} let it pass" if origin.depends else ""
            print(f"  {origin.source}: {origin.term}{asked}")


@flow_app.command
def explain(
    file: str,
    /,
    *,
    space: Many = (),
    source: Maybe = None,
    message: Annotated[str | None, Parameter(allow_leading_hyphen=True, show_default=False)] = None,
    lookup: Many = (),
    ends: Ends = ENDS,
) -> None:
    """Tell why a message did or did not arrive in a space; or print the plan of the flow.

    Parameters
    ----------
    file
        The flow.
    space
        The space that the message should arrive in; without a message, the spaces of the plan.
    source
        The space that the message is published in.
    message
        The message, as JSON. Without one, the rewritten plan is printed, and Spark's beside it
        where --from names sources.
    lookup
        The table of a lookup, as NAME=FILE; may be given again.
    """
    from tamis.flow import rewrite
    from tamis.flow.showing import explain
    from tamis.flow.showing.plan_texts import plan_text
    from tamis.messages.single_messages import one_message

    graph = _graph(file)
    if message is None:
        print(plan_text(rewrite(graph, space or None)))
        if ends.from_:
            _explain_on_spark(file, graph, ends, lookup)
        return
    if source is None or len(space) != 1:
        raise InputError("say where the message is published and looked for: --source, --space")
    row = one_message(message, graph.space(source))
    print(explain(graph, source, row, space[0], tables_of(graph, file, lookup)))


def _explain_on_spark(file: str, graph: Graph, ends: Ends, lookup: tuple[str, ...]) -> None:
    from dataclasses import replace

    from tamis.spark.flows import FlowRunning
    from tamis.spark.jobs.opening import opened

    if not ends.to and not ends.to_format and ends.output is None:
        ends = replace(ends, output_format="noop")  # nothing is written: any sink will do
    with opened(None, {}) as spark:
        made = job_of(file, graph, ends, FLOW_STREAM, lookup, counted=False)
        print(FlowRunning(made, spark).explain())


@flow_app.command(name="test")
def run_samples(file: str, /, *, tests: Maybe = None, lookup: Many = ()) -> None:
    """Run the tests of the flow: those in FILE, and those in the file beside it.

    Parameters
    ----------
    file
        The flow.
    tests
        A file with more tests; else NAME.test.flow beside NAME.flow, if it is there.
    lookup
        The table of a lookup, as NAME=FILE; may be given again. Others are empty, or as the test
        says.
    """
    from tamis.flow import read_flow
    from tamis.flow.testing import run_tests

    graph = _graph(file)
    beside = Path(file).with_suffix(".test.flow")
    place = Path(tests) if tests else beside if beside.exists() else None
    more = [] if place is None else [read_flow(place)]
    outcomes = run_tests(graph, tables_of(graph, file, lookup, needed=False), more)
    for outcome in outcomes:
        print(f"{'FAIL' if outcome.problems else 'ok':5}{outcome.test.name}")
        for problem in outcome.problems:
            print(f"       {problem}")
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    print(f"{len(outcomes)} tests, {failed} failed")
    if failed:
        raise InputError(f"{failed} of {len(outcomes)} tests failed")


@flow_app.command
def run(
    file: str,
    /,
    *,
    ends: Ends = ENDS,
    lookup: Many = (),
    form: Literal["rewritten", "arcs"] = "rewritten",
    counts: bool = True,
    report: Maybe = None,
    states: Maybe = None,
    streaming: FlowStream = FLOW_STREAM,
    cluster: Cluster = CLUSTER,
) -> None:
    """Run the flow on Spark, a batch or a stream.

    Parameters
    ----------
    file
        The flow; or a TOML file with these options, which names it: flow = "stocks.flow".
    lookup
        The table of a lookup, as NAME=FILE; may be given again. Else the flow names its file.
    form
        Rewritten to one select and one transform for each path, or arc by arc as written.
    counts
        Count the messages that pass each arc.
    report
        A file for a report with the drawing: one page of HTML.
    states
        A folder for states and the events that they expand to; else a stream keeps them in its
        checkpoint, and a batch does not keep them.
    """
    from tamis.cli.jobs.run_summary import job_progress
    from tamis.spark.jobs.opening import opened

    graph = _graph(file)
    made = job_of(file, graph, ends, streaming, lookup, counted=counts, form=form)
    stopped = False
    with (
        job_progress() as (say, tell),
        opened(cluster.master, pairs("setting", cluster.setting)) as spark,
    ):
        say("running the flow")
        running = _running(made, spark, states)
        try:
            running.run(tell)
        except KeyboardInterrupt:
            stopped = made.stream is not None
            if not stopped:
                print("stopped: the output is not whole", file=sys.stderr)
                raise
    if report is not None:
        _report(running, report, file, told(ends, streaming, cluster))
    _print(running)
    if stopped:
        raise KeyboardInterrupt


flow_app.command(states_commands.expand)
flow_app.command(states_commands.state)


def _running(job: FlowJob, spark: Any, states: str | None) -> FlowRunning:
    from tamis.spark.flows import FlowRunning
    from tamis.spark.states import StatefulRunning

    if job.graph.states:
        return StatefulRunning(job, spark, states=states)
    return FlowRunning(job, spark)


def _report(running: FlowRunning, path: str, file: str, given: list[tuple[str, str]]) -> None:
    from tamis.spark.flows import flow_page

    title = f"tamis flow run: {Path(file).name}"
    _write(path, flow_page(running, title, [("flow", file), *given]))


def _print(running: FlowRunning) -> None:
    from tamis.spark.flows.flow_page import arcs, spaces

    counted = [*spaces(running), *arcs(running)]
    rows = [*counted, *running.figures()]
    wide = max(len(name) for name, _ in rows)
    for i, (name, value) in enumerate(rows):
        if counted and i in (len(counted), len(spaces(running))):
            print()
        print(f"{name:<{wide}} {value:>14}")


def _write(path: str, text: str) -> None:
    from tamis.cli.jobs.run_command import _write

    _write(path, text.encode("utf-8", "replace"))
