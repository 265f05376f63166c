"""The commands of `tamis`."""

from __future__ import annotations

import contextlib
import csv
import errno
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from tamis import __version__
from tamis.cli.broker import COMMANDS
from tamis.cli.broker.trying import try_selectors
from tamis.cli.flows import flow_app
from tamis.cli.jobs.run_command import from_job_file, run
from tamis.cli.rule_commands import check_samples, diff, report
from tamis.cli.rule_import import import_rules
from tamis.cli.terminal.options import STANDARD, Language, Semantics, argument, need_schema
from tamis.cli.wire_command import wire
from tamis.errors import InputError, SelectorError, TamisError

if TYPE_CHECKING:
    from tamis.drawing.pictures import Picture
    from tamis.language import Condition
    from tamis.schema import Schema

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141

app = App(
    name="tamis",
    version=__version__,
    help="Sieve messages through standing queries.",
    suppress_keyboard_interrupt=False,
    config=from_job_file,
)
app.command(run)
app.command(check_samples, name="test")
app.command(diff)
app.command(report)
app.command(import_rules, name="import")
app.command(try_selectors, name="try")
app.command(wire)
app.command(flow_app)
for _command in COMMANDS:
    app.command(_command)
Word = Annotated[str, Parameter(allow_leading_hyphen=True)]  # "-" or "-1 < price"


@app.command
def check(
    selector: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    file: Word | None = None,
    semantics: Semantics = "sql",
    language: Language = STANDARD,
) -> None:
    """Print SELECTOR in canonical form and its attributes, or say what is wrong with it.

    Parameters
    ----------
    selector
        The selector; - reads it from standard input.
    file
        Check all subscriptions of this file instead: JSON lines, CSV or Parquet.
    semantics
        What undefined attributes mean: it decides which selectors match never, or always.
    """
    from tamis.cli.check_command import check_file, check_one

    if (selector is None) == (file is None):
        raise InputError("check what? give one selector, or a file of them with --file")
    if file is not None:
        check_file(file, language, semantics)
    elif selector is not None:
        check_one(argument(selector, "selector"), language)


@app.command
def match(
    subscriptions: Word,
    messages: Word,
    /,
    *,
    output: Word = "-",
    format: Literal["jsonl", "csv", "parquet"] | None = None,
    all: Annotated[bool, Parameter(negative="")] = False,
    with_messages: Annotated[bool, Parameter(negative="")] = False,
    semantics: Semantics = "sql",
    messages_format: Literal["auto", "jsonl", "csv", "parquet", "arrow", "xml"] = "auto",
    strict_input: Annotated[bool, Parameter(negative="")] = False,
    batch_rows: Annotated[int, Parameter(validator=Number(gte=1))] = 65_536,
    language: Language = STANDARD,
) -> None:
    """Match every message against all subscriptions.

    Parameters
    ----------
    subscriptions
        JSON lines, CSV or Parquet with id and selector; - is standard input.
    messages
        JSON lines, CSV, XML, Parquet or Arrow; - is standard input.
    output
        Where matches go; a file appears only when it is whole.
    format
        The format of the output; else its name decides.
    all
        Write messages that match nothing too.
    with_messages
        Write what each message holds beside its number.
    semantics
        What undefined attributes mean.
    messages_format
        The format of the messages; else their name or their first bytes decide.
    strict_input
        Stop at the first bad row or selector.
    batch_rows
        Messages that are matched at a time.
    """
    from tamis.cli.match_command import Job
    from tamis.cli.terminal.progress import progress
    from tamis.cli.terminal.result_files import id_type, writer
    from tamis.cli.terminal.row_errors import Report
    from tamis.engine import Matcher

    if subscriptions == messages == "-":
        raise InputError("only one of SUBSCRIPTIONS and MESSAGES can be standard input")
    schema = language.read_schema()
    need_schema(semantics, schema)
    matcher = Matcher(schema, semantics=semantics, dialect=language.dialect, limits=language.limits)
    report = Report(strict_input)
    job = Job(matcher, report, contents=with_messages)
    start = time.perf_counter()
    try:
        with progress() as track:
            job.subscribe(subscriptions, track("subscriptions"))
            with writer(output, format, all, id_type(job.id_types), with_messages) as sink:
                job.match(messages, messages_format, batch_rows, sink, track("messages"))
    finally:
        report.close()
    if sys.stderr.isatty():
        print(job.summary(time.perf_counter() - start), file=sys.stderr)


@app.command
def explain(
    selector: Word,
    message: Word,
    /,
    *,
    semantics: Semantics = "sql",
    language: Language = STANDARD,
) -> None:
    """Tell predicate by predicate why SELECTOR matches MESSAGE or not.

    Parameters
    ----------
    selector
        The selector; - reads it from standard input.
    message
        The message as JSON or flat XML; @FILE reads it from a file, - from standard input.
    semantics
        What undefined attributes mean.
    """
    from tamis.logic import explain
    from tamis.messages.single_messages import one_message

    if selector == message == "-":
        raise InputError("only one of SELECTOR and MESSAGE can be standard input")
    schema = language.read_schema()
    need_schema(semantics, schema)
    condition, _ = language.parse(argument(selector, "selector"))
    text = _file_text(message[1:]) if message.startswith("@") else argument(message, "message")
    print(explain(condition, one_message(text, schema), schema, semantics))


@app.command
def draw(
    *selectors: Word,
    output: Annotated[str, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)] = "-",
    unrestricted: Annotated[bool, Parameter(negative="")] = False,
    implications: Annotated[bool, Parameter(negative="")] = False,
    compiled: Annotated[bool, Parameter(negative="")] = False,
    semantics: Semantics = "sql",
    language: Language = STANDARD,
) -> None:
    """Draw the shared decision diagram of the SELECTORS.

    Parameters
    ----------
    selectors
        One selector or more; - reads one from standard input.
    output
        A file whose name ends in .svg, or in .mmd for Mermaid; - is Mermaid on standard output.
    unrestricted
        Keep tests that earlier tests on the same path decide.
    implications
        Draw a tree for each selector, and the implications from tree to tree.
    compiled
        Print what the engine makes of the selectors, as text: indexes, access, clusters, trees.
    semantics
        What undefined attributes mean.
    """
    from tamis.cli.terminal.result_files import opened
    from tamis.diagram.conditions import diagram_of
    from tamis.diagram.draw import picture
    from tamis.drawing import mermaid, svg

    if not selectors:
        raise InputError("draw what? give one selector or more")
    for text in selectors:
        if text.startswith("--"):  # selectors may start with a hyphen, so nobody else refuses it
            raise InputError(f"draw has no option {text}: see tamis draw --help")
    if selectors.count("-") > 1:
        raise InputError("only one of the SELECTORS can be standard input")
    if output != "-" and not compiled and not output.endswith((".svg", ".mmd")):
        raise InputError(f"{output}: the name must end in .svg or .mmd")
    schema = language.read_schema()
    need_schema(semantics, schema)
    texts = [argument(text, "selector") for text in selectors]
    conditions = [language.parse(text)[0] for text in texts]
    if compiled:
        drawn = _compiled(texts, schema, semantics, language)
    else:
        shown = (
            _implications(conditions, schema, semantics)
            if implications
            else picture(diagram_of(conditions, schema, semantics, restricting=not unrestricted))
        )
        drawn = svg(shown) if output.endswith(".svg") else mermaid(shown)
    with opened(output) as file:
        file.write(drawn.encode())


@app.command
def warm() -> None:
    """Compile all kernels for this machine, so that no first use does it. Takes a minute or two."""
    import subprocess

    raise SystemExit(subprocess.call([sys.executable, "-m", "tamis.warm"]))


def _compiled(
    texts: list[str], schema: Schema | None, semantics: Semantics, language: Language
) -> str:
    from tamis.engine import Matcher

    limits = language.limits
    matcher = Matcher(schema, semantics=semantics, dialect=language.dialect, limits=limits)
    matcher.add_many(enumerate(texts, 1))
    return matcher.compiled()


def _implications(
    conditions: list[Condition], schema: Schema | None, semantics: Semantics
) -> Picture:
    from tamis.engine.implications.tree_pictures import picture

    if len(conditions) < 2:
        raise InputError("--implications are drawn between trees: give two selectors or more")
    return picture(conditions, schema, semantics)


def _file_text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None


def _interrupt(number: int, frame: object) -> None:
    sys.unraisablehook = _after_interrupt
    raise KeyboardInterrupt


def _after_interrupt(ignored: sys.UnraisableHookArgs) -> None:
    """Ctrl-C may hit an object that is half made; what its end says then is not worth telling. It
    may also hit a callback or a `__del__`, where Python drops what is raised: then it comes again,
    a moment later, as this function is such a place too."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0, what the command says, or 2 where the input or its
    use is bad."""
    from tamis.messages.byte_sources import MAX_LINE

    csv.field_size_limit(MAX_LINE)  # of the whole process, so set here and not by the library
    _open_closed()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not the main thread: its owner handles signals
            signal.signal(signal.SIGINT, _interrupt)
    try:
        _check_text(sys.argv[1:] if arguments is None else arguments)
        code = app(arguments, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        return BAD_INPUT  # told already
    except TamisError as error:
        print(_told(error), file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return BROKEN_PIPE
    except OverflowError as error:  # of a conversion, or of the system's clock
        print(f"a number among the options is too large: {error}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        if error.filename is not None:
            print(f"{str(error.filename)[:200]}: {error.strerror}", file=sys.stderr)
            return BAD_INPUT
        closed = error.errno == errno.EBADF  # without a name it is the output
        _abandon_output()
        told = "standard output is closed" if closed else error.strerror
        print(f"cannot write: {told}", file=sys.stderr)
        return BAD_INPUT
    return code if isinstance(code, int) else 0


def _check_text(arguments: list[str]) -> None:
    """What is not text could neither be sent, nor printed, nor name a file everywhere."""
    for place, text in enumerate(arguments, 1):
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"argument {place} is not UTF-8 text: {text[:60]!a}")


def _open_closed() -> None:
    """Whoever started us may have closed standard output or error. Then no file may get their
    numbers, and what is written there fails, or goes nowhere."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _abandon_output() -> None:
    """Nobody takes the output. Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(error: TamisError) -> str:
    limit = error.limit if isinstance(error, SelectorError) else None
    return f"{error}\n  (--limit-{limit} raises it)" if limit else str(error)
