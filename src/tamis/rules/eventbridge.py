"""EventBridge rules: patterns, and what the AWS command line lists."""

from __future__ import annotations

from collections.abc import Iterator

from tamis.errors import RuleError
from tamis.language import Condition
from tamis.rules.bounded import read_json
from tamis.rules.event_pattern import EVENTBRIDGE, condition_of
from tamis.rules.json_files import json_rules
from tamis.rules.rule import About, Found, Refusal, text
from tamis.rules.shapes import Shapes

_NAMES = ("Name", "Arn", "name", "id")
_PATTERNS = ("EventPattern", "eventPattern", "event_pattern", "pattern")


def found(path: str) -> Iterator[Found | Refusal]:
    """The rules of a file or a folder; `aws events list-rules` prints such files."""
    yield from json_rules(path, _unwrap, (("Rules", "Name"),))


def condition(body: object, shapes: Shapes) -> Condition:
    """What one event pattern asks for."""
    return condition_of(body, EVENTBRIDGE, shapes)


def _unwrap(value: object, place: str, file: str) -> Found:
    """A pattern alone, or a rule around it: then some of its values are strings."""
    if not isinstance(value, dict) or not any(isinstance(one, str) for one in value.values()):
        return Found(place, value, file)
    name = next((value[key] for key in _NAMES if text(value.get(key))), file)
    if value.get("State") == "DISABLED":
        raise RuleError(f"the rule {name!r} is disabled", construct="disabled")
    pattern = next((value[key] for key in _PATTERNS if key in value), None)
    if pattern is None:
        raise RuleError(f"the rule {name!r} has no event pattern", construct="no pattern")
    if isinstance(pattern, str):
        pattern = read_json(pattern)
    level = text(value.get("EventBusName"))
    tags = (f"bus:{level}",) if level else ()
    about = About(
        title=text(value.get("Description")), tags=tags, owner=text(value.get("ManagedBy"))
    )
    return Found(place, pattern, name, about)
