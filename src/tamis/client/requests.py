"""Requests as JSON. What no broker could read is refused here, with the place and the cure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from tamis.errors import InputError, MessageError

MAX_REQUEST = 16 << 20  # bytes of one WebSocket message that a broker takes
_MAX_DEPTH = 64
_PLAIN = {str, int, bool}
_FIELDS = ("attributes", "subject", "sequence", "id")


def encoded(request: Mapping[str, Any], number: int) -> str:
    """One request, its number last: there a broker finds it even if it cannot read the rest."""
    text = to_json({**request, "request": number})
    if len(text) > MAX_REQUEST:
        raise MessageError(
            f"the request has {len(text):,} bytes, more than the {MAX_REQUEST:,} that a broker "
            "takes: send fewer messages at a time, or smaller ones"
        )
    return text


def to_json(content: Any) -> str:
    try:
        return json.dumps(content, allow_nan=False, default=_mapping)
    except (TypeError, ValueError, RecursionError) as error:
        what = _unreadable(content) or str(error)
    raise InputError(f"the request cannot be sent: {what}")


def _mapping(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):  # of a kind that is not a dict
        return dict(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise InputError(f"{what} must be text, not {value!r:.80}")


def check_subscription(
    channel: object, durable: object, wish: Mapping[str, Any], callback: object
) -> None:
    check_text("channel", channel)
    check_text("durable", durable)
    for name in ("selector", "subjects", "summary"):
        check_text(name, wish[name])
    start, window = wish["start"], wish["window"]
    if not isinstance(start, str | int) or isinstance(start, bool):
        raise InputError(f"start must be 'now', 'all', a sequence or a time, not {start!r:.80}")
    if not isinstance(window, int) or isinstance(window, bool) or window < 0:
        raise InputError(f"window must be a number of messages, not {window!r:.80}")
    if wish["catch_up"] not in ("all", "shortest"):
        raise InputError(f"catch_up must be 'all' or 'shortest', not {wish['catch_up']!r:.80}")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function, not {callback!r:.80}")


def checked_messages(messages: object) -> list[dict[str, Any]]:
    """Mappings with "attributes", perhaps "subject", and "sequence" or "id"."""
    if isinstance(messages, Mapping | str | bytes) or not isinstance(messages, Iterable):
        raise InputError("publish_many takes a list of messages: [{'attributes': {...}}, ...]")
    found = list(messages)
    for number, message in enumerate(found, 1):
        problem = _problem(message)
        if problem:
            raise MessageError(f"message {number}: {problem}", message=number, what=problem)
    return found


def _problem(message: object) -> str:
    """What is wrong with a message; empty: nothing."""
    if not isinstance(message, Mapping):
        return f"it must be a mapping with 'attributes', not {message!r:.80}"
    attributes = message.get("attributes")
    if not isinstance(attributes, Mapping):
        return "it has no 'attributes': write {'attributes': {NAME: VALUE, ...}}"
    if len(message) > 1:
        for name in message:
            if name not in _FIELDS:
                return f"{name!r:.80} is not one of {', '.join(_FIELDS)}: is it an attribute?"
        for name in ("subject", "id"):
            if not isinstance(message.get(name, ""), str):
                return f"the {name} must be text, not {message[name]!r:.80}"
        number = message.get("sequence", 0)
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            return f"the sequence must be a positive integer, not {number!r:.80}"
    for name, value in attributes.items():
        kind = type(value)
        if type(name) is str and (kind in _PLAIN or (kind is float and math.isfinite(value))):
            continue
        problem = _unreadable({name: value})
        if problem:
            return problem
    return ""


def _unreadable(value: Any, place: str = "", depth: int = 0) -> str:
    """What JSON cannot hold in the value, and where; empty: nothing."""
    if depth > _MAX_DEPTH:
        return f"{place.split('.')[0]} is nested deeper than {_MAX_DEPTH}"
    if isinstance(value, float):
        if math.isfinite(value):
            return ""
        cure = "leave it out" if math.isnan(value) else "JSON has no infinity"
        return f"{place} is {value}: {cure}"
    if value is None or isinstance(value, str | int):
        return ""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                return f"names must be text, not {name!r:.80}"
            if problem := _unreadable(inner, f"{place}.{name}" if place else name, depth + 1):
                return problem
        return ""
    if isinstance(value, list | tuple):
        problems = (_unreadable(one, place, depth + 1) for one in value)
        return next(filter(None, problems), "")
    return f"{place} has type {type(value).__name__}, which JSON does not have: {_cure(value)}"


def _cure(value: object) -> str:
    if hasattr(value, "isoformat"):
        return "write value.isoformat()"
    if hasattr(value, "item"):
        return "write value.item()"  # NumPy
    return "convert it to text, a number, a list or a mapping"
