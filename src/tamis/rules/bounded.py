"""JSON and files from strangers: bounded in size and depth, with one kind of error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

from tamis.errors import InputError, RuleError

MAX_FILE = 64 * 2**20  # bytes
MAX_DEPTH = 64
MAX_NODES = 20_000_000  # lists and objects of one file
MAX_FILES = 1_000_000


def read_json(text: str) -> object:
    """A JSON text. Of two equal keys the last one counts; NaN and Infinity are no JSON."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise RuleError(what, construct="JSON") from None
    except ValueError as error:  # a number with more digits than Python converts
        raise RuleError(f"not JSON: {str(error)[:80]}", construct="JSON") from None
    check_depth(value)
    return value


def check_depth(value: object, most: int = MAX_NODES) -> None:
    """Refuse what is nested deeper than any rule is, or has too many lists and objects."""
    level, count = [value], 1
    for _ in range(MAX_DEPTH):
        below = (inner for one in level for inner in _inside(one))
        level = list(islice((one for one in below if isinstance(one, dict | list)), most))
        count += len(level)
        if count > most:
            what = f"more than {most:,} lists and objects"
            raise RuleError(what, construct="limit size")
        if not level:
            return
    raise _too_deep()


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _no_constant(name: str) -> NoReturn:
    raise RuleError(f"not JSON: {name} is no number", construct="JSON")


def _too_deep() -> RuleError:
    return RuleError(f"nested deeper than {MAX_DEPTH}", construct="limit depth")


def files(path: str, endings: tuple[str, ...]) -> Iterator[Path]:
    """The file, or those of a folder and its folders that end so, in the order of their names."""
    root = Path(path)
    if not root.is_dir():
        if not root.exists():
            raise InputError(f"{path}: there is no such file or folder")
        yield root
        return
    found = sorted(one for one in root.rglob("*") if one.suffix.lower() in endings)
    if not found:
        raise InputError(f"{path}: it holds no file that ends in {', '.join(endings)}")
    if len(found) > MAX_FILES:
        raise InputError(f"{path}: {len(found):,} files, the limit is {MAX_FILES:,}")
    yield from (one for one in found if one.is_file())


def read_text(file: Path) -> str:
    """The text of a file of rules."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise RuleError(error.strerror or str(error), construct="file") from None
    if len(data) > MAX_FILE:
        raise RuleError(f"larger than {MAX_FILE:,} bytes", construct="limit size")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RuleError(f"invalid UTF-8 at byte {error.start + 1}", construct="UTF-8") from None
