"""`tamis publish` and `tamis subscribe`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.cli.broker.broker_address import LOCAL, Broker
from tamis.errors import InputError


def publish(
    name: str,
    messages: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-",
    /,
    *,
    subject: str = "",
    publisher: str = "",
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    batch: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 500,
    broker: Broker = LOCAL,
) -> None:
    """Publish MESSAGES, one JSON object to a line, to channel NAME.

    Parameters
    ----------
    name
        The name of the channel.
    messages
        A file of JSON lines; - is standard input.
    subject
        The subject of all messages; without it, the name of the channel.
    publisher
        A name under which lines are numbered: a file that is sent again is stored once.
    dry_run
        Store nothing; print which subscriptions would get each message.
    batch
        Messages that are sent at a time.
    """
    from tamis.cli.broker.lines import publish_lines, published

    with broker.agent() as agent:
        count = publish_lines(agent, name, messages, subject, publisher, dry_run, batch)
    if not dry_run:
        print(published(count), file=sys.stderr)


def subscribe(
    name: str,
    selector: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    /,
    *,
    subjects: str = ">",
    start: Annotated[str, Parameter(name="--from")] = "now",
    durable: Annotated[str, Parameter(show_default=False)] = "",
    summary: Annotated[Path | None, Parameter(show_default=False)] = None,
    explain: Annotated[bool, Parameter(negative="")] = False,
    count: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    broker: Broker = LOCAL,
) -> None:
    """Print the messages of channel NAME that SELECTOR matches, as they come.

    Parameters
    ----------
    name
        The name of the channel.
    selector
        What the messages must satisfy; without it all come.
    subjects
        A subject filter such as 'quotes.*' or 'quotes.>'.
    start
        now, all, a sequence, or a time such as 2026-02-01T09:30:00Z.
    durable
        A name under which the broker remembers what you have got.
    summary
        A file with a state that says what the messages mean: what was missed comes as the shortest
        sequence that means the same. Needs --durable.
    explain
        Tell predicate by predicate why each message matches.
    count
        Stop after so many messages; 0 goes on.
    """
    from tamis.cli.broker.lines import print_matches

    with broker.agent() as agent:
        options = {"selector": selector, "subjects": subjects, "start": start, "durable": durable}
        if summary is not None:
            options |= {"summary": _summary(summary, durable), "catch_up": "shortest"}
        print_matches(agent, name, options, explain, count)


def _summary(path: Path, durable: str) -> str:
    if not durable:
        raise InputError("--summary needs --durable: only what is remembered can be missed")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
