"""`tamis import`: rules of other languages become a file of subscriptions."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from tamis.cli.terminal.options import STANDARD, Language
from tamis.errors import InputError

SHOWN = 20


def import_rules(
    language_of_rules: Literal["eventbridge", "sns", "sigma", "sql", "elastic"],
    path: str,
    /,
    *,
    output: Annotated[str, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)] = "-",
    refused: str | None = None,
    keywords: str | None = None,
    sql_dialect: str | None = None,
    collation: Literal["binary", "nocase"] | None = None,
    strict_input: Annotated[bool, Parameter(negative="")] = False,
    language: Language = STANDARD,
) -> None:
    """Translate the rules of PATH into subscriptions, or tell why one cannot be said exactly.

    Parameters
    ----------
    language_of_rules
        What the rules are written in.
    path
        A file, or a folder with files.
    output
        Where the subscriptions go, as JSON lines; - is standard output.
    refused
        A file for what was refused: JSON lines with source, name, construct and reason.
    keywords
        The attribute that values of Sigma without a field are looked for in.
    sql_dialect
        The dialect of SQL, as sqlglot names it: postgres, spark, duckdb and others.
    collation
        Whether texts of SQL compare with case (binary) or without (nocase).
    strict_input
        Write nothing where a rule was refused.
    """
    from tamis.cli.terminal.result_files import opened
    from tamis.rules import import_rules as imported_from

    if language.dialect != "tamis":
        raise InputError("--dialect: what is imported becomes selectors of the tamis dialect")
    schema, limits = language.read_schema(), language.limits
    imported = imported_from(
        language_of_rules,
        path,
        schema=schema,
        limits=limits,
        keywords=keywords,
        dialect=sql_dialect,
        collation=collation,
    )
    for one in imported.refused[:SHOWN]:
        print(f"refused: {one}", file=sys.stderr)
    if len(imported.refused) > SHOWN:
        print(f"... and {len(imported.refused) - SHOWN:,} more", file=sys.stderr)
    if refused is not None:
        with opened(refused) as file:
            file.write(_lines(one.row() for one in imported.refused))
    print(imported.summary(), file=sys.stderr)
    if strict_input and imported.refused:
        raise InputError(f"{len(imported.refused):,} rules were refused: nothing is written")
    with opened(output) as file:
        file.write(_lines(one.row() for one in imported.rules))


def _lines(rows: object) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)  # type: ignore[attr-defined]
