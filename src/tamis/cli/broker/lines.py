"""JSON lines to and from a broker."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import InputError, MessageError, TamisError
from tamis.messages.jsonlines import parse_object

if TYPE_CHECKING:
    from tamis.client import Agent

_NAMES = 1_000  # attributes that are looked at for mistakes


def publish_lines(
    agent: Agent, channel: str, path: str, subject: str, publisher: str, dry: bool, batch: int
) -> int:
    """Publish what stands on the lines; how many messages there were.

    A line that is refused is named, after a word on how many messages were published before.
    """
    count = 0
    waiting: list[dict[str, Any]] = []
    numbers: list[int] = []
    noted: set[str] = set()

    def send() -> None:
        nonlocal count
        try:
            _send(agent, channel, waiting, publisher, dry)
        except MessageError as error:
            raise _blamed(path, numbers, error) from None
        count += len(waiting)
        _note_names(agent, channel, {name for one in waiting for name in one["attributes"]}, noted)
        waiting.clear()
        numbers.clear()
        _show_progress(f"{count} messages")

    try:
        for number, attributes in _lines(path):
            waiting.append(_message(attributes, subject, number if publisher else 0))
            numbers.append(number)
            if len(waiting) >= batch:
                send()
        if waiting:
            send()
    except TamisError:
        if not dry:
            print(f"{published(count)}, then:", file=sys.stderr)
        raise
    _show_progress("")
    return count


def _note_names(agent: Agent, channel: str, names: set[str], noted: set[str]) -> None:
    """Say on standard error which attributes nothing uses, each once; likely they are misspelt."""
    new = sorted(names - noted)[: _NAMES - len(noted)]
    if new:
        noted.update(new)
        with contextlib.suppress(TamisError):  # a note is not worth an error
            for note in agent.spelling(channel, new):
                print(f"note: {note}", file=sys.stderr)


def published(count: int) -> str:
    return f"{count} message{'s' * (count != 1)} published"


def _message(attributes: dict[str, Any], subject: str, sequence: int) -> dict[str, Any]:
    message: dict[str, Any] = {"attributes": attributes}
    if subject:
        message["subject"] = subject
    if sequence:
        message["sequence"] = sequence
    return message


def _blamed(path: str, numbers: list[int], error: MessageError) -> MessageError:
    """The error, saying which line it is about."""
    if not 0 < error.message <= len(numbers):
        return error
    return MessageError(f"{path}: line {numbers[error.message - 1]}: {error.what}")


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr)


def _lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with (
            contextlib.nullcontext(sys.stdin.buffer)
            if path == "-"
            else Path(path).open("rb") as file
        ):
            for number, line in enumerate(file, 1):
                try:
                    found = parse_object(line)
                except MessageError as error:
                    raise MessageError(f"{path}: line {number}: {error}") from None
                if found is not None:
                    yield number, found
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _send(
    agent: Agent, channel: str, messages: list[dict[str, Any]], publisher: str, dry: bool
) -> None:
    if not dry:
        agent.publish_many(channel, messages, publisher=publisher)
        return
    for names in agent.dry_run(channel, messages):
        print(json.dumps(names, ensure_ascii=False))


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
