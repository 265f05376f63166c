"""WHERE conditions of SQL, in any dialect that sqlglot reads. Needs `pip install 'tamis[sql]'`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import InputError, RuleError
from tamis.language import Condition, Constant
from tamis.rules.bounded import files, read_json, read_text
from tamis.rules.rule import About, Found, Refusal, text, texts
from tamis.rules.shapes import Shapes

if TYPE_CHECKING:
    from sqlglot import exp

ENDINGS = (".sql", ".csv", ".json", ".jsonl", ".ndjson")
MAX_TEXT = 1_000_000  # characters of one condition
_CONDITIONS = ("where", "condition", "sql", "query", "selector", "filter")
_IDS = ("id", "name", "rule")
_CLAUSES = {"expressions", "from", "from_", "where", "kind"}


def found(path: str) -> Iterator[Found | Refusal]:
    """The conditions of files: .sql has one to a statement, the others a column with them."""
    root = Path(path)
    for file in files(path, ENDINGS):
        place = str(file)
        name = file.relative_to(root).with_suffix("").as_posix() if root.is_dir() else file.stem
        try:
            content = read_text(file)
            if file.suffix.lower() == ".sql":
                yield Found(place, content, name)
                continue
            rows = list(_rows(content, file.suffix.lower()))
        except RuleError as error:
            yield Refusal(place, "", error.construct, str(error))
            continue
        for where, row in rows:
            yield _found(f"{place}, {where}", row)


def condition(body: object, shapes: Shapes) -> Condition:
    """What one condition asks for, or a SELECT of one table with such a WHERE."""
    _need()
    from sqlglot.errors import SqlglotError

    from tamis.rules.sql_conditions import Reader

    if not isinstance(body, str):
        raise RuleError("a condition is a text", construct="form")
    if len(body) > MAX_TEXT:
        raise RuleError(f"longer than {MAX_TEXT:,} characters", construct="limit length")
    dialect = shapes.dialect or ""
    try:
        node, table = _parsed(body, dialect)
        return Constant(True) if node is None else Reader(shapes, dialect, table).condition(node)
    except SqlglotError as error:
        what = " ".join(str(error).split())[:200]
        raise RuleError(f"not read by sqlglot: {what}", construct="SQL") from None
    except RecursionError:
        raise RuleError("nested too deeply", construct="limit depth") from None


def _parsed(body: str, dialect: str) -> tuple[exp.Expression | None, frozenset[str]]:
    """The condition, and the names of the table that its columns may begin with."""
    import sqlglot
    from sqlglot import exp

    try:
        read = sqlglot.Dialect.get_or_raise(dialect or None)
    except ValueError as error:
        raise InputError(str(error)) from None
    tokens = read.tokenize(body)
    if tokens and tokens[0].text.upper() in ("SELECT", "WITH", "FROM"):
        (statement, *more) = sqlglot.parse(body, dialect=dialect or None)
        if more or not isinstance(statement, exp.Select):
            raise RuleError("one SELECT of one table", construct="statement")
        return _where(statement)
    if not tokens:
        raise RuleError("an empty condition", construct="form")
    parsed: Any = sqlglot.maybe_parse(
        body.rstrip().rstrip(";"), into=exp.Condition, dialect=dialect or None
    )
    return parsed, frozenset()


def _where(statement: exp.Select) -> tuple[exp.Expression | None, frozenset[str]]:
    from sqlglot import exp

    more = [name for name, value in statement.args.items() if value and name not in _CLAUSES]
    if more:
        what = f"a SELECT with {', '.join(more)}"
        raise RuleError(f"{what} is no condition on one row", construct=what)
    source = statement.args.get("from_") or statement.args.get("from")
    table = source.this if source is not None else None
    if table is not None and (not isinstance(table, exp.Table) or table.args.get("joins")):
        raise RuleError("one SELECT of one table", construct="statement")
    where = statement.args.get("where")
    names = frozenset() if table is None else frozenset((table.alias_or_name.lower(),))
    return (None if where is None else where.this), names


def _rows(content: str, ending: str) -> Iterator[tuple[str, object]]:
    if ending == ".csv":
        try:
            for number, row in enumerate(csv.DictReader(io.StringIO(content), strict=True), 2):
                yield f"row {number}", row
        except csv.Error as error:
            raise RuleError(f"not CSV: {error}", construct="CSV") from None
    elif ending == ".json":
        value = read_json(content)
        for number, one in enumerate(value if isinstance(value, list) else [value], 1):
            yield f"item {number}", one
    else:
        for number, line in enumerate(content.split("\n"), 1):
            if line.strip():
                yield f"line {number}", read_json(line)


def _found(place: str, row: object) -> Found | Refusal:
    if not isinstance(row, dict):
        return Refusal(place, "", "form", "a rule is an object with a condition")
    names = {str(key).lower(): value for key, value in row.items()}
    body = next((names[key] for key in _CONDITIONS if isinstance(names.get(key), str)), None)
    id = next((str(names[key]) for key in _IDS if isinstance(names.get(key), str | int)), "")
    if body is None:
        what = f"no column with a condition: {', '.join(_CONDITIONS)}"
        return Refusal(place, id, "no condition", what)
    title = text(names.get("title")) or text(names.get("description"))
    level = text(names.get("level")) or text(names.get("severity"))
    author, owner = text(names.get("author")), text(names.get("owner"))
    return Found(place, body, id, About(title, author, level, texts(names.get("tags")), owner))


def _need() -> None:
    try:
        import sqlglot  # noqa: F401
    except ImportError:
        raise InputError("SQL needs sqlglot: pip install 'tamis[sql]'") from None
