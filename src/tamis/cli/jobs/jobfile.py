"""A job in one TOML file: the options of `tamis run` under the same names."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tamis.errors import InputError

Value = str | bool | tuple[str, ...] | list[str]


def options(path: str, known: Iterable[str]) -> dict[str, Value]:
    """What the file says: a text, true or false, several texts, or a list of KEY=VALUE."""
    names = sorted(known)
    found: dict[str, Value] = {}
    for name, value in _read(path).items():
        if name not in names:
            near = difflib.get_close_matches(name.replace("_", "-"), names, 1, 0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{path}: there is no option {name}{hint}")
        found[name] = _value(path, name, value)
    return found


def _read(path: str) -> dict[str, object]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None


def _value(path: str, name: str, value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return [f"{key}={_text(path, f'{name}.{key}', one)}" for key, one in _flat(value)]
    if isinstance(value, list):
        return tuple(_text(path, name, one) for one in value)
    return _text(path, name, value)


def _flat(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """TOML reads `spark.sql.x = 1` as tables in tables; Spark means one name."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(path: str, name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f"{path}: {name} must be text, a number, true or false")
