"""SNS filter policies: alone, or as the attributes of a subscription that AWS prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tamis.errors import RuleError
from tamis.language import Condition
from tamis.rules.bounded import read_json
from tamis.rules.event_pattern import SNS_ATTRIBUTES, SNS_BODY, condition_of
from tamis.rules.json_files import json_rules
from tamis.rules.rule import About, Found, Refusal, text
from tamis.rules.shapes import Shapes

_NAMES = ("SubscriptionArn", "Arn", "Name", "name", "id")
_SCOPES = {"MessageAttributes": SNS_ATTRIBUTES, "MessageBody": SNS_BODY}


@dataclass(frozen=True, slots=True)
class Policy:
    """A filter policy, and what of a message it looks at."""

    policy: object
    scope: str


def found(path: str) -> Iterator[Found | Refusal]:
    """The policies of a file or a folder.

    A policy alone may be of either scope: with an object in it, it is one of the body.
    """
    yield from json_rules(path, _unwrap, (("Subscriptions", "SubscriptionArn"),))


def condition(body: object, shapes: Shapes) -> Condition:
    """What one filter policy asks for."""
    if not isinstance(body, Policy):
        body = Policy(body, _scope(body))
    if body.scope not in _SCOPES:
        raise RuleError(f"there is no scope {body.scope!r}", construct="FilterPolicyScope")
    return condition_of(body.policy, _SCOPES[body.scope], shapes)


def _scope(policy: object) -> str:
    values = policy.values() if isinstance(policy, dict) else ()
    return "MessageBody" if any(isinstance(one, dict) for one in values) else "MessageAttributes"


def _unwrap(value: object, place: str, file: str) -> Found:
    if isinstance(value, dict) and isinstance(value.get("Attributes"), dict):
        value = value["Attributes"]
    if not isinstance(value, dict) or not any(isinstance(one, str) for one in value.values()):
        return Found(place, value, file)
    name = next((value[key] for key in _NAMES if text(value.get(key))), file)
    policy = value.get("FilterPolicy", value.get("policy"))
    if policy is None:
        raise RuleError(f"the subscription {name!r} has no filter policy", construct="no policy")
    if isinstance(policy, str):
        policy = read_json(policy)
    scope = text(value.get("FilterPolicyScope")) or _scope(policy)
    tags = tuple(f"topic:{topic}" for topic in (text(value.get("TopicArn")),) if topic)
    about = About(tags=tags, owner=text(value.get("Owner")))
    return Found(place, Policy(policy, scope), name, about)
