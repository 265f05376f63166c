"""Summaries of subscriptions: which states messages mean, and fewer messages that mean the same.

The equivalent sequences of Gryphon, section 4.2, for the messages of a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tamis.errors import StateError
from tamis.language import Constant, canonical
from tamis.pubsub.broker.records import MADE, Record
from tamis.pubsub.broker.selected_columns import columns

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.engine.matcher import Matcher
    from tamis.flow.states import States, Summary
    from tamis.pubsub.broker.judge import Attributes, Language
    from tamis.schema import Schema

ORDER = "sequence"  # the broker's own count, an attribute of every event


def read_summary(text: str, channel: str, schema: Schema) -> Summary:
    """The one state that the text declares over the messages of the channel.

    The space need not be declared: it has the name of the channel, the channel's attributes, and
    `sequence`. If it is, then with some of these.
    """
    from tamis.flow import check, parse_flow
    from tamis.flow.states.expansion.rule_cases import OutsideError
    from tamis.flow.states.expansion.rule_rows import moves_of

    if ORDER in schema:
        raise StateError(f"{channel} has an attribute {ORDER}: it cannot be summarised")
    known = {**{a.name: a.type.value for a in schema.attributes}, ORDER: "int"}
    if channel not in parse_flow(text).spaces:
        columns = ", ".join(f"{_name(n)}: {kind}" for n, kind in known.items())
        text = f"{text}\nspace {_name(channel)}({columns})\n"
    graph = check(parse_flow(text))
    if len(graph.states) != 1 or graph.states[0].source != channel or graph.arcs:
        raise StateError(f"a summary is one state from {_name(channel)}, and no arcs")
    summary = graph.states[0].summary
    for attribute in summary.events.attributes:
        if known.get(attribute.name) != attribute.type.value:
            raise StateError(f"{channel} has no {attribute.name}: {attribute.type.value}")
    if summary.order != (ORDER,):
        raise StateError(f"messages of a channel are ordered by {ORDER}: write that")
    try:
        moves_of(summary)
    except OutsideError as why:
        raise StateError(f"{summary.name} can be no summary: {why}") from None
    return summary


def _name(name: str) -> str:
    return f"`{name}`"


# --- shortening ----------------------------------------------------------------------


@dataclass
class Shortening:
    """From the states that a subscriber has to those of the channel, piece by piece."""

    summary: Summary
    read: Callable[[bytes], Attributes]
    states: States
    records: list[Record] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, channel: str, language: Language, states: bytes) -> Self:
        """With packed states; b"" are the initial ones."""
        summary = read_summary(text, channel, language.schema)
        return cls(summary, language.read, _unpacked(summary, states))

    def seen(self, records: list[Record]) -> None:
        """The subscriber has these: its states move on."""
        self.states = self._collapsed(records)

    def missed(self, records: list[Record]) -> None:
        """It has not got these: with those before them they become few."""
        from tamis.flow.states import catch_up

        everything = {r.sequence: r for r in (*self.records, *records)}
        events = self._table(everything.values())
        found = catch_up(self.states, events, self.summary).to_pylist()
        made = [self._record(event, everything.get(event[ORDER])) for event in found]
        short = [record for record in made if record is not None]
        whole = list(everything.values())
        # What was published is better than what is made up, where both mean the same.
        for choice in ([_or_published(r, everything, self.read) for r in short], short):
            rising = [r.sequence for r in choice] == sorted({r.sequence for r in choice})
            if len(choice) == len(found) and rising and self._same(choice, whole):
                self.records = choice
                return
        self.records = whole

    def packed(self) -> bytes:
        """The states behind everything, as Arrow IPC."""
        import pyarrow as pa

        table, sink = self._collapsed(self.records).to_table(), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    def _same(self, one: list[Record], other: list[Record]) -> bool:
        return bool(self._collapsed(one).rows == self._collapsed(other).rows)

    def _collapsed(self, records: Iterable[Record]) -> States:
        from tamis.flow.states import collapse

        return collapse(self._table(records), self.summary, self.states)

    def _table(self, records: Iterable[Record]) -> pa.Table:
        """The records as events; those that break the space's `where` mean nothing."""
        import pyarrow as pa

        from tamis.flow.states.batches.event_tables import arrow_events

        many, events = list(records), self.summary.events
        found = columns(events, [n for n in events if n != ORDER], many) if many else None
        if found is None:
            rows = [self.read(record.body) for record in many]
            found = pa.table({n: pa.array([row.get(n) for row in rows], c.type)
                              for n, c in zip(events, arrow_events(events), strict=True)
                              if n != ORDER})  # fmt: skip
        found = found.append_column(ORDER, pa.array([r.sequence for r in many], pa.int64()))
        found = found.select(list(events))
        return found if self._where is None else found.filter(self._fitting(found))

    @cached_property
    def _where(self) -> Matcher | None:
        from tamis.engine.matcher import Matcher

        if isinstance(self.summary.where, Constant):
            return None
        matcher = Matcher(self.summary.events)
        matcher.add(0, canonical(self.summary.where))
        return matcher

    def _fitting(self, events: pa.Table) -> Any:
        import pyarrow as pa

        assert self._where is not None
        return pa.array(self._where.count_batch(events) > 0)

    def _record(self, event: dict[str, Any], last: Record | None) -> Record | None:
        """The event as a record, in the place of the one whose sequence it took."""
        if last is None:
            return None
        body = {n: v for n, v in event.items() if n != ORDER and v is not None}
        return Record(last.sequence, last.time, "", MADE, "", last.subject,
                      msgspec.json.encode(body))  # fmt: skip


def _or_published(
    record: Record, published: Mapping[int, Record], read: Callable[[bytes], Attributes]
) -> Record:
    """The record that was published in this place, if it says all that the other one says."""
    known = published[record.sequence]
    own = read(known.body)
    return known if all(own.get(n) == v for n, v in read(record.body).items()) else record


def _unpacked(summary: Summary, states: bytes) -> States:
    import pyarrow as pa

    from tamis.flow.states import States

    if not states:
        return States(summary)
    return States.from_table(summary, pa.ipc.open_stream(states).read_all())
