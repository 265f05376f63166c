"""Files with rules in JSON: one rule, a list of them, or a rule to a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tamis.errors import RuleError
from tamis.rules.bounded import files, read_json, read_text
from tamis.rules.rule import Found, Refusal

ENDINGS = (".json", ".jsonl", ".ndjson")
Unwrap = Callable[[object, str, str], Found]  # a value, its place, the name of its file

Lists = tuple[tuple[str, str], ...]


def json_rules(path: str, unwrap: Unwrap, listed: Lists) -> Iterator[Found | Refusal]:
    """The rules of a file or a folder. `listed`: where an export lists its rules, and a key
    that each of them has.

    A rule alone in its file has the name of the file, below the folder.
    """
    root = Path(path)
    for file in files(path, ENDINGS):
        place = str(file)
        name = file.relative_to(root).with_suffix("").as_posix() if root.is_dir() else file.stem
        try:
            values = list(_values(file, listed))
        except RuleError as error:
            yield Refusal(place, "", error.construct, str(error))
            continue
        alone = len(values) == 1
        for inner, value in values:
            where = f"{place}, {inner}" if inner else place
            try:
                if isinstance(value, RuleError):
                    raise value
                yield unwrap(value, where, name if alone and not inner else "")
            except RuleError as error:
                yield Refusal(where, "", error.construct, str(error))


def _values(file: Path, listed: Lists) -> Iterator[tuple[str, object]]:
    text = read_text(file)
    if file.suffix.lower() in (".jsonl", ".ndjson"):
        yield from _lines(text)
        return
    value = read_json(text)
    if isinstance(value, dict):
        for path, needed in listed:
            rules = _inside(value, path)
            if isinstance(rules, list) and all(type(r) is dict and needed in r for r in rules):
                yield from _items(rules)
                return
    if isinstance(value, list):
        yield from _items(value)
    else:
        yield "", value


def _inside(value: object, path: str) -> object:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _items(values: list[object]) -> Iterator[tuple[str, object]]:
    yield from ((f"item {number}", value) for number, value in enumerate(values, 1))


def _lines(text: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", read_json(line)
            except RuleError as error:
                yield f"line {number}", error
