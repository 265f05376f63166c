"""`tamis check`: one selector, or all of a file of subscriptions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.cli.terminal.options import Language, Semantics, need_schema
from tamis.errors import InputError, TamisError

if TYPE_CHECKING:
    from tamis.cli.terminal.row_errors import Report
    from tamis.engine import Matcher

SHOWN = 5  # ids that match the same messages as another and are named
NOT_YET = """subscriptions that match never, always or the same as others are not listed: that
  takes kernels, which are being compiled for this machine (once, a minute or two);
  check again then"""


def check_one(selector: str, language: Language) -> None:
    """Print the selector in canonical form, and its attributes."""
    from tamis.cli.terminal.row_errors import is_bare
    from tamis.language import Attribute, canonical

    condition, types = language.parse(selector)
    bare = language.schema is None and is_bare(selector)
    if bare and Path(selector).is_file():
        raise InputError(
            f"{selector} is a file: tamis check --file {selector} checks its selectors"
        )
    print(canonical(condition))
    for name, kinds in types.items():
        shown = " or ".join(sorted(kind.value for kind in kinds)) or "any type"
        print(f"  {canonical(Attribute(name))}: {shown}")
    if bare:
        print("note: a name alone asks for a Boolean attribute that is TRUE", file=sys.stderr)


def check_file(path: str, language: Language, semantics: Semantics) -> None:
    """Tell what is wrong with the subscriptions of a file, and what is odd about them."""
    from tamis.cli.match_command import Job
    from tamis.cli.terminal.progress import progress
    from tamis.cli.terminal.row_errors import Report
    from tamis.engine import Matcher
    from tamis.engine.linting import lint_only

    schema = language.read_schema()
    need_schema(semantics, schema)
    matcher = Matcher(schema, semantics=semantics, dialect=language.dialect, limits=language.limits)
    lint_only(matcher)
    report = Report(strict=False)
    with progress() as track:
        Job(matcher, report).subscribe(path, track("subscriptions"))
    _note_oddities(matcher, report)
    report.close()
    good = f"{path}: {len(matcher):,} good subscriptions"
    if report.count:
        raise TamisError(f"{good}, {report.count:,} bad ones")
    print(good)


def _note_oddities(matcher: Matcher, report: Report) -> None:
    from tamis.engine.linting import report_now

    found = report_now(matcher)
    if found is None:
        report.note(NOT_YET)
        return
    for id in found.unsatisfiable:
        report.note(f"subscription {id!r}: no message can match it")
    for id in found.always_true:
        report.note(f"subscription {id!r}: it matches every message")
    for first, *others in found.duplicates:
        same = ", ".join(map(repr, others[:SHOWN])) + (", ..." if len(others) > SHOWN else "")
        report.note(f"subscription {first!r}: the same messages match {same}")
