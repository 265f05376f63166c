"""Which subscriptions a message satisfies: subject filter and selector, in one matcher.

A subject filter becomes conditions on the fields of the subject (table 23), which every message
carries as attributes of their own: so an index leads to a subscription by its subject, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from tamis.engine.ground.ids import Id
from tamis.engine.ground.matches import Matches
from tamis.engine.matcher import Matcher
from tamis.engine.reading.selector_notices import Notice
from tamis.errors import MessageError, SelectorError, TamisError
from tamis.language import Limits, check, parse
from tamis.logic import Semantics
from tamis.messages.message_values import settle
from tamis.messages.texts import from_value
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.selected_columns import FIELD, LENGTH, RESERVED, columns
from tamis.pubsub.subjects.subject import MAX_FIELDS, SubjectFilter
from tamis.schema import INT_MAX, INT_MIN, Attribute, Schema, Type

Dialect = Literal["tamis", "jms"]
Attributes = dict[str, Any]
MAX_DEPTH = 32
_FEW = 20  # messages that are matched one by one
_BATCH = 100  # messages for which a matcher makes all of its tables
_PYTHON = {Type.DOUBLE: float, Type.INT: int, Type.BOOL: bool, Type.STRING: str}
DECODE = msgspec.json.Decoder(Attributes).decode


@dataclass(frozen=True)
class Language:
    """What a channel's selectors are written in, and what they may name."""

    schema: Schema
    semantics: Semantics = "sql"
    dialect: Dialect = "tamis"
    limits: Limits = Limits()

    def matcher(self) -> Matcher:
        """Without the schema: messages were checked, and may have discretionary attributes."""
        semantics: Semantics = "sql" if self.semantics == "total" else self.semantics
        return Matcher(semantics=semantics, dialect=self.dialect, limits=self.limits)

    def reasoner(self) -> Matcher:
        """A matcher that knows the types, for proofs; it refuses discretionary attributes."""
        fields = [Attribute(f"{FIELD}{i}", Type.STRING) for i in range(MAX_FIELDS)]
        attributes = (*self.schema.attributes, *fields, Attribute(LENGTH, Type.INT))
        semantics: Semantics = "sql" if self.semantics == "total" else self.semantics
        return Matcher(Schema(attributes), semantics=semantics, dialect=self.dialect,
                       limits=self.limits)  # fmt: skip

    def check(self, selector: str) -> None:
        """Refuse a selector that does not stand by itself, or compares unlike types."""
        if not selector:
            return
        refuse_reserved(selector)
        condition = parse(selector, dialect=self.dialect, limits=self.limits)
        types = check(condition, None, text=selector)
        known = all(name in self.schema for name in types)
        if known:
            check(condition, self.schema, text=selector)

    def checked(self, attributes: Attributes) -> Attributes:
        """The attributes with the types of the schema; MessageError where they do not fit.

        What passes here can be matched: nothing is refused after it was stored.
        """
        plain = self._plain
        for name, value in attributes.items():
            kind = type(value)
            wanted = plain.get(name)
            if kind is wanted and (kind is not int or INT_MIN <= value <= INT_MAX):
                continue  # most values, so no more than this is done for them
            if kind is dict or kind is list:
                check_nested(name, value)
            elif wanted is not None and value is not None:
                attributes[name] = from_value(self.schema, name, value)
            else:
                settle(name, value)
        if self.semantics == "total":
            self._check_total(attributes)
        return attributes

    @cached_property
    def _plain(self) -> dict[str, object]:
        """The Python type of each attribute as JSON has it, where nothing needs to be converted."""
        return {a.name: _PYTHON.get(a.type, object) for a in self.schema.attributes}

    def _check_total(self, attributes: Attributes) -> None:
        for name in self.schema:
            if attributes.get(name) is None:
                raise MessageError(f"the message has no {name}: this channel needs every attribute")

    def read(self, body: bytes) -> Attributes:
        """The attributes of a stored body. It was checked when it was published, perhaps before
        the channel had all of its attributes: a value that does not fit them is undefined."""
        attributes = DECODE(body)
        try:
            return self.checked(attributes)
        except MessageError:
            return {name: self._fitting(name, value) for name, value in DECODE(body).items()}

    def _fitting(self, name: str, value: Any) -> Any:
        if value is None or name not in self.schema or isinstance(value, dict | list):
            return value
        try:
            return from_value(self.schema, name, value)
        except MessageError:
            return None


def check_nested(name: str, value: Any, depth: int = 0) -> None:
    """Whether all values inside can be matched; nesting is bounded."""
    if depth > MAX_DEPTH:
        raise MessageError(f"{name} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for key, inner in value.items():
            check_nested(f"{name}.{key}", inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            check_nested(name, inner, depth + 1)
    else:
        settle(name, value)


def joined(subjects: str, selector: str, bound: str = "") -> str:
    """One selector for a subject filter, a selector that was checked, and one to AND to it.

    SelectorError if one of the two names what the broker calls the fields of subjects.
    """
    if RESERVED in selector or RESERVED in bound:
        refuse_reserved(selector)
        refuse_reserved(bound)
    if subjects == ">" and not bound:
        return selector or "TRUE"
    rule = SubjectFilter.parse(subjects).rule
    parts = [f"{FIELD}{i} = {_quoted(field)}" for i, field in rule.fields]
    if rule.length or not rule.open:
        parts.append(f"{LENGTH} {'>' if rule.open else '='} {rule.length}")
    parts += [f"({text})" for text in (selector, bound) if text]
    return " AND ".join(parts) or "TRUE"


def refuse_reserved(selector: str) -> None:
    """No selector can ask about the broker's own attributes. A name that contains the reserved text
    contains it letter by letter, in backticks too, so no parser has to be asked."""
    if (at := selector.find(RESERVED)) >= 0:
        raise SelectorError(f"{RESERVED} is reserved", text=selector, at=at, hint="use other names")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def with_subject(attributes: Mapping[str, Any], subject: str) -> Attributes:
    fields = subject.split(".")
    found = dict(attributes)
    for i, field in enumerate(fields):
        found[f"{FIELD}{i}"] = field
    found[LENGTH] = len(fields)
    return found


class Judge:
    """All subscriptions of a channel by number."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.matcher = language.matcher()
        self._by_subject: set[int] = set()
        self.changes = 0

    def put(self, number: int, subjects: str, selector: str, bound: str = "") -> None:
        self.changes += 1
        self.matcher.replace(number, joined(subjects, selector, bound))
        (self._by_subject.discard if subjects == ">" else self._by_subject.add)(number)

    def add(self, number: int, subjects: str, selector: str, bound: str = "") -> Notice | None:
        notice = self.matcher.add(number, joined(subjects, selector, bound))
        if subjects != ">":
            self._by_subject.add(number)
        return notice

    def add_many(self, filters: Iterable[tuple[int, str, str, str]]) -> dict[Id, TamisError]:
        """Add those with new numbers. Why some were not taken, by number."""
        texts, bad = self._texts(filters)
        self.matcher.add_many(texts.items(), lambda number, _, error: bad.update({number: error}))
        self.changes += len(texts)
        return bad

    def restore(
        self, filters: Iterable[tuple[int, str, str, str]], saved: Matcher | None = None
    ) -> dict[Id, TamisError]:
        """Exactly these; what `saved` holds under the same number and text is taken from it.

        Returns why some were not taken, by number. There may be a million filters: they are looked
        at one by one.
        """
        texts, bad = self._texts(filters)
        old = dict(saved.items()) if saved is not None and self._agrees(saved) else {}
        if saved is not None and texts == old:  # mostly nothing has changed
            self.matcher, texts = saved, {}
        elif saved is not None:
            texts = self._keep(saved, old, texts)
        self.matcher.add_many(texts.items(), lambda number, _, error: bad.update({number: error}))
        self.changes += len(texts)
        _ = 0 in self.matcher  # a saved one makes its table of ids now, not for who comes first
        return bad

    def _keep(self, saved: Matcher, old: dict[Id, str], texts: dict[Id, str]) -> dict[Id, str]:
        """Take the saved matcher if most of it is wanted; what has to be added."""
        same = {number for number, text in texts.items() if old.get(number) == text}
        if 2 * len(same) <= len(old):
            return texts
        self.matcher = saved
        for gone in old.keys() - same:
            saved.remove(gone)
        return {number: text for number, text in texts.items() if number not in same}

    def _texts(
        self, filters: Iterable[tuple[int, str, str, str]]
    ) -> tuple[dict[Id, str], dict[Id, TamisError]]:
        """The selectors for the matcher, by number; and why some have none."""
        texts: dict[Id, str] = {}
        bad: dict[Id, TamisError] = {}
        for number, subjects, selector, bound in filters:
            try:
                texts[number] = joined(subjects, selector, bound)
            except TamisError as error:
                bad[number] = error
                continue
            if subjects != ">":
                self._by_subject.add(number)
        return texts, bad

    def _agrees(self, saved: Matcher) -> bool:
        own = self.matcher
        return (saved.schema, saved.semantics, saved.dialect, saved.limits) == (
            own.schema, own.semantics, own.dialect, own.limits
        )  # fmt: skip

    def prepare(self) -> None:
        """Make the tables that the first batch would make; in any thread."""
        if len(self.matcher):
            self.judge([Record(1, 0, "", 0, "", "prepare", b"{}")] * _BATCH)

    def remove(self, number: int) -> None:
        """One that is not here is ignored: it was set aside."""
        self.changes += 1
        if number in self.matcher:
            self.matcher.remove(number)
        self._by_subject.discard(number)

    def match(self, messages: Sequence[tuple[str, Attributes]]) -> list[list[int]]:
        """The numbers that each (subject, attributes) satisfies."""
        if not len(self.matcher):
            return [[] for _ in messages]
        if self._by_subject:
            found = [with_subject(attributes, subject) for subject, attributes in messages]
        else:
            found = [attributes for _, attributes in messages]
        if len(found) < _FEW:
            return [self.matcher.match(one) for one in found]  # type: ignore[misc]
        return _lists(self.matcher.match_many(found))

    def judge(
        self, records: Sequence[Record]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers that each message satisfies, flat: those of row i from offset i on."""
        table = None
        if len(records) >= _FEW:
            table = columns(self.language.schema, self.matcher.attributes, records)
        if table is None:
            read = self.language.read
            found = self.match([(record.subject, read(record.body)) for record in records])
            offsets = np.cumsum([0, *map(len, found)])
            return offsets, np.fromiter(chain.from_iterable(found), np.int64, int(offsets[-1]))
        matches = self.matcher.match_batch(table)
        return matches.offsets, matches.ids.to_numpy()

    def hits(self, records: Sequence[Record]) -> list[Record]:
        """The stored messages that satisfy any subscription, for a judge of few."""
        if not records or not len(self.matcher):
            return []
        table = None
        if len(records) >= _FEW:
            table = columns(self.language.schema, self.matcher.attributes, records)
        if table is not None:
            counts = self.matcher.count_batch(table)
            return [records[i] for i in np.flatnonzero(counts).tolist()]
        read = self.language.read
        found = self.match([(record.subject, read(record.body)) for record in records])
        return [record for record, numbers in zip(records, found, strict=True) if numbers]


def _lists(matches: Matches) -> list[list[int]]:
    ids = matches.ids.to_pylist()
    offsets = matches.offsets.tolist()
    return [ids[a:b] for a, b in pairwise(offsets)]
