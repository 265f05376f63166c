"""JSON lines to and from a broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import InputError
from tamis.messages.jsonlines import parse_object

if TYPE_CHECKING:
    from tamis.client import Agent


def publish_lines(
    agent: Agent, channel: str, path: str, subject: str, publisher: str, dry: bool, batch: int
) -> int:
    """Publish what stands on the lines; how many messages there were."""
    count = 0
    waiting: list[dict[str, Any]] = []
    for number, attributes in _lines(path):
        message: dict[str, Any] = {"attributes": attributes}
        if subject:
            message["subject"] = subject
        if publisher:
            message["sequence"] = number
        waiting.append(message)
        if len(waiting) >= batch:
            count += _send(agent, channel, waiting, publisher, dry)
            waiting = []
            if sys.stderr.isatty():
                print(f"\r{count} messages", end="", file=sys.stderr)
    if waiting:
        count += _send(agent, channel, waiting, publisher, dry)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    return count


def _lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                found = parse_object(line)
                if found is not None:
                    yield number, found
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _send(
    agent: Agent, channel: str, messages: list[dict[str, Any]], publisher: str, dry: bool
) -> int:
    if not dry:
        agent.publish_many(channel, messages, publisher=publisher)
        return len(messages)
    for names in agent.dry_run(channel, messages):
        print(json.dumps(names, ensure_ascii=False))
    return len(messages)


def print_matches(
    agent: Agent, channel: str, options: dict[str, Any], explain: bool, count: int
) -> None:
    """One line for each message; acknowledged once it is printed."""
    start = options["start"]
    options = {**options, "start": int(start) if start.isdigit() else start}
    with agent.subscribe(channel, **options) as messages:
        for note in messages.notes:
            print(f"note: {note}", file=sys.stderr)
        for number, message in enumerate(messages, 1):
            print(json.dumps(message.shown(), ensure_ascii=False), flush=True)
            if explain and options["selector"]:
                print(agent.explain(channel, options["selector"], message.attributes))
            messages.acknowledge(message)
            if count and number >= count:
                return
