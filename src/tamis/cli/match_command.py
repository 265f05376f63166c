"""`tamis match`: subscriptions in, messages through, matches out."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tamis.cli.terminal.progress import counted
from tamis.cli.terminal.row_errors import Report, is_bare
from tamis.engine import Id, Matcher, Matches
from tamis.errors import MessageError, SelectorError, SubscriptionError
from tamis.messages.message_files import Format, read
from tamis.messages.row_batches import BadRow, Batch
from tamis.messages.subscription_files import Subscriptions, read_subscriptions

if TYPE_CHECKING:
    from tamis.cli.terminal.result_files import Writer

_ODD = 100  # characters of a selector that may be one name
Advance = Callable[[float | None, int], None]  # the part that is done, and the rows that it was


@dataclass
class Job:
    """One run of a matcher over a file of messages."""

    matcher: Matcher
    report: Report
    contents: bool = False  # whether all of a message is written, not only its number
    id_types: set[type] = field(default_factory=set)
    messages: int = 0
    matched: int = 0
    matches: int = 0

    def subscribe(self, path: str, advance: Advance) -> None:
        """Add the subscriptions of a file; a bad one is reported with its line."""
        for some in read_subscriptions(path, self.report.bad):
            self.matcher.add_many(some.pairs, _Blame(some, self.report))
            self._note(some)
            self.id_types.update(type(id) for id, _ in some.pairs)
            advance(some.progress, len(some.pairs))

    def _note(self, some: Subscriptions) -> None:
        """What is likely to be a mistake: no selector at all, or one name."""
        for (id, selector), line in zip(some.pairs, some.lines, strict=True):
            if len(selector) > _ODD:
                continue
            said = ""
            if not selector.strip():
                said = "the selector is empty, so it matches every message"
            elif self.matcher.schema is None and is_bare(selector):
                said = "a name alone asks for a Boolean attribute that is TRUE"
            if said:
                place = f"{some.file}, {some.place} {line}"
                self.report.note(f"{place}: subscription {id!r}: {said}")

    def match(
        self, path: str, format: Format, batch_rows: int, output: Writer, advance: Advance
    ) -> None:
        """Match every message of a file and write what was found."""
        for batch in read(
            path,
            format=format,
            schema=self.matcher.schema,
            columns=None if self.contents else self.matcher.attributes,
            on_bad=self.report.bad,
            batch_rows=batch_rows,
        ):
            for start, matches in self._matches(batch, batch.rows, 0):
                end = start + len(matches)
                rows = batch.rows[start:end] if self.contents else None
                output.write(batch.numbers[start:end], matches, rows)
                self.messages += len(matches)
                self.matched += int((matches.counts > 0).sum())
                self.matches += len(matches.ids)
            advance(batch.progress, len(batch))

    def summary(self, seconds: float) -> str:
        rate = self.messages / seconds if seconds else 0.0
        return (
            f"{counted(self.messages, 'message')} ({self.matched:,} matched), "
            f"{counted(self.matches, 'match', 'matches')}, "
            f"{counted(len(self.matcher), 'subscription')}, {seconds:.2f} s, {rate:,.0f} messages/s"
        )

    def _matches(self, batch: Batch, rows: Any, start: int) -> Iterator[tuple[int, Matches]]:
        """(first row, matches) for `rows`; a row that is refused is found by halving."""
        try:
            many = self.matcher.match_many if isinstance(rows, list) else self.matcher.match_batch
            matches = many(rows)
        except MessageError as error:
            if len(rows) == 1:
                self.report.bad(batch.bad(start, str(error)))
                return
            half = len(rows) // 2
            yield from self._matches(batch, rows[:half], start)
            yield from self._matches(batch, rows[half:], start + half)
        else:
            yield start, matches


class _Blame:
    """Finds the line of a subscription that was refused."""

    def __init__(self, some: Subscriptions, report: Report) -> None:
        self.some, self.report = some, report
        self.lines: dict[tuple[Id, str], deque[int]] = {}

    def __call__(self, id: Id, selector: str, error: SelectorError | SubscriptionError) -> None:
        if not self.lines:  # made only when something is wrong: most files are good
            self.lines = defaultdict(deque)
            for pair, place in zip(self.some.pairs, self.some.lines, strict=True):
                self.lines[pair].append(place)
        lines = self.lines[id, selector]
        # An id that stands twice is blamed where it stands again.
        line = lines.pop() if isinstance(error, SubscriptionError) else lines.popleft()
        reason = f"subscription {id!r}: {error}"
        self.report.bad(BadRow(self.some.file, line, reason, place=self.some.place))
