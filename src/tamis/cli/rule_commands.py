"""`tamis test`, `tamis diff` and `tamis report`: work with a set of subscriptions."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.terminal.options import STANDARD, Language, Semantics, need_schema
from tamis.cli.terminal.progress import counted
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.cli.terminal.progress import Track
    from tamis.engine import Id, Matcher
    from tamis.workbench.rule_differences import Difference, Example
    from tamis.workbench.sample_cases import Failure

FAILED = 1  # the exit code where tests fail or sets differ
Count = Annotated[int, Parameter(validator=Number(gte=0))]
Flag = Annotated[bool, Parameter(negative="")]


def check_samples(
    file: str,
    subscriptions: str | None = None,
    /,
    *,
    semantics: Semantics = "sql",
    language: Language = STANDARD,
) -> int:
    """Match the sample messages of FILE and compare with the ids that it expects.

    The exit code is 1 where a test fails.

    Parameters
    ----------
    file
        TOML with [[test]] tables, or JSON lines: message, and matches, includes or excludes.
    subscriptions
        JSON lines, CSV or Parquet with id and selector; else those that a TOML file has or names.
    semantics
        What undefined attributes mean.
    """
    from tamis.workbench.sample_cases import failures, read_cases

    cases = read_cases(Path(file))
    source = subscriptions or cases.file
    if source is None and not cases.pairs:
        raise InputError(f"{file}: which subscriptions? name them behind the file of tests")
    matcher = _loaded(str(source) if source else None, semantics, language, None)
    matcher.add_many(cases.pairs)
    if not cases.cases:
        raise InputError(f"{file}: there is no test")
    failed = list(failures(matcher, cases.cases))
    for failure in failed:
        _tell(matcher, failure)
    print(f"{len(cases.cases) - len(failed)} passed, {len(failed)} failed")
    return FAILED if failed else 0


def diff(
    old: str,
    new: str,
    messages: str,
    /,
    *,
    examples: Count = 10,
    format: Literal["text", "json"] = "text",
    semantics: Semantics = "sql",
    language: Language = STANDARD,
) -> int:
    """Tell which MESSAGES match other subscriptions under NEW than under OLD.

    The exit code is 1 where some do.

    Parameters
    ----------
    old
        Subscriptions: JSON lines, CSV or Parquet with id and selector.
    new
        Subscriptions that are to take their place.
    messages
        JSON lines, CSV, XML, Parquet or Arrow; - is standard input.
    examples
        Messages and subscriptions that are shown at most.
    format
        A text for people, or one JSON object.
    semantics
        What undefined attributes mean.
    """
    from tamis.cli.terminal.progress import progress
    from tamis.cli.terminal.row_errors import Report
    from tamis.messages.message_files import read
    from tamis.workbench.rule_differences import Difference

    with progress() as track:
        before = _loaded(old, semantics, language, track)
        after = _loaded(new, semantics, language, track)
        found, report, advance = Difference(before, after, examples), Report(False), track(messages)
        columns = tuple(dict.fromkeys((*before.attributes, *after.attributes)))
        schema = before.schema
        for batch in read(messages, schema=schema, columns=columns, on_bad=report.bad):
            found.compare(batch.rows, list(batch.numbers))
            advance(batch.progress, len(batch))
    report.close()
    print(json.dumps(_difference(found)) if format == "json" else _difference_text(found, examples))
    return 0 if found.same else FAILED


def report(
    subscriptions: str,
    /,
    *,
    covered: Flag = False,
    format: Literal["text", "json"] = "text",
    semantics: Semantics = "sql",
    language: Language = STANDARD,
) -> None:
    """Tell which SUBSCRIPTIONS match never, always, or the same messages as another.

    Parameters
    ----------
    subscriptions
        JSON lines, CSV or Parquet with id and selector; - is standard input.
    covered
        Tell of subscriptions that another one covers too; takes some milliseconds for each.
    format
        A text for people, or one JSON object.
    semantics
        What undefined attributes mean.
    """
    from tamis.cli.terminal.progress import progress
    from tamis.workbench.rule_covering import covered as covered_pairs

    with progress() as track:
        matcher = _loaded(subscriptions, semantics, language, track)
        told = matcher.report()
        pairs: list[tuple[Id, Id]] = []
        if covered:
            advance, size = track("covered"), len(matcher)
            pairs = list(covered_pairs(matcher, lambda done: advance((done + 1) / size, 1)))
    found: dict[str, list[Any]] = {
        "never": list(told.unsatisfiable),
        "always": list(told.always_true),
        "equal": [list(group) for group in told.duplicates],
    }
    if covered:
        found["covered"] = [list(pair) for pair in pairs]
    print(json.dumps(found, ensure_ascii=False) if format == "json" else _report_text(found))


def _loaded(
    path: str | None, semantics: Semantics, language: Language, track: Track | None
) -> Matcher:
    """A matcher with the subscriptions of a file. A bad one is an error: results would mislead."""
    from tamis.cli.match_command import Job
    from tamis.cli.terminal.row_errors import Report
    from tamis.engine import Matcher

    schema = language.read_schema()
    need_schema(semantics, schema)
    matcher = Matcher(schema, semantics=semantics, dialect=language.dialect, limits=language.limits)
    if path is not None:
        advance = track(path) if track is not None else lambda part, rows: None
        Job(matcher, Report(strict=True)).subscribe(path, advance)
    return matcher


def _tell(matcher: Matcher, failure: Failure) -> None:
    case = failure.case
    print(f"failed: {case.name}", file=sys.stderr)
    if failure.error:
        print(f"  {failure.error}", file=sys.stderr)
    for word, ids in (("does not match", failure.missing), ("matches", failure.unexpected)):
        for id in ids:
            print(f"  {word} {id!r}:", file=sys.stderr)
            why = str(matcher.explain(id, case.message))
            print("\n".join(f"    {line}" for line in why.splitlines()), file=sys.stderr)


def _difference(found: Difference) -> dict[str, object]:
    def ranked(counts: Counter[Id]) -> list[dict[str, object]]:
        return [{"id": id, "messages": count} for id, count in counts.most_common()]

    return {
        "messages": found.messages,
        "changed": found.changed,
        "added": found.added,
        "removed": found.removed,
        "gained": ranked(found.gained),
        "lost": ranked(found.lost),
        "examples": [_example(e) for e in found.examples],
    }


def _example(example: Example) -> dict[str, object]:
    message = json.loads(json.dumps(example.message, default=str, ensure_ascii=False))
    lists = {"gained": list(example.gained), "lost": list(example.lost)}
    return {"number": example.number, "message": message, **lists}


def _difference_text(found: Difference, most: int) -> str:
    from tamis.workbench.rule_differences import most_changed

    lines = [
        f"{found.changed:,} of {found.messages:,} messages match other subscriptions",
        f"{counted(len(found.added), 'subscription')} added, {len(found.removed):,} removed",
    ]
    for word, counts in (("gained", found.gained), ("lost", found.lost)):
        if counts:
            lines.append(f"{word} messages: {counted(len(counts), 'subscription')}")
            lines += [f"  {id}: {count:,}" for id, count in most_changed(counts, most)]
    for e in found.examples:
        message = json.dumps(e.message, default=str, ensure_ascii=False)
        changes = [f"+{id}" for id in e.gained] + [f"-{id}" for id in e.lost]
        shown = ", ".join(changes[:most]) + (", ..." if len(changes) > most else "")
        lines.append(f"message {e.number}: {shown}\n  {message}")
    return "\n".join(lines)


def _report_text(found: dict[str, list[Any]]) -> str:
    titles = {
        "never": "subscriptions that match no message",
        "always": "subscriptions that match every message",
        "equal": "groups of subscriptions that match the same messages",
        "covered": "subscriptions that another covers (covered, covering)",
    }
    lines = []
    for key, rows in found.items():
        lines.append(f"{titles[key]}: {len(rows):,}")
        lines += [f"  {', '.join(map(str, row)) if isinstance(row, list) else row}" for row in rows]
    return "\n".join(lines)
