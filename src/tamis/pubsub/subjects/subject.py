"""Subjects: dot-separated fields, and filters on them with wildcards.

`*` stands for any one field; `>`, as the last field, for one field or more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from tamis.errors import SubjectError

ONE, MORE, CONTROL = "*", ">", "#"
MAX_FIELDS = 64
MAX_LENGTH = 1024  # characters of a subject
_FIELD = re.compile(r"[^\s.*>\x00-\x1f\x7f\ud800-\udfff]+")


def _fields(text: str) -> tuple[str, ...]:
    fields = tuple(text.split(".")) if len(text) <= MAX_LENGTH else ()
    if not fields:
        raise SubjectError(text, "the subject is too long", f"{MAX_LENGTH} characters are allowed")
    if len(fields) > MAX_FIELDS:
        raise SubjectError(text, "the subject has too many fields", f"{MAX_FIELDS} are allowed")
    if "" in fields:
        raise SubjectError(text, "the subject has an empty field", "separate fields by single dots")
    return fields


@dataclass(frozen=True, slots=True)
class Subject:
    """What a message is about, such as `quotes.nyse`. Holding one means that it is valid."""

    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        fields = _fields(text)
        for field in fields:
            if not _FIELD.fullmatch(field):
                wild = ONE in field or MORE in field
                hint = "wildcards belong into filters" if wild else "fields hold no spaces"
                raise SubjectError(text, f"{field!r} is no field of a subject", hint)
        return cls(fields)

    def __str__(self) -> str:
        return ".".join(self.fields)


@dataclass(frozen=True, slots=True)
class Rule:
    """A subject filter without wildcards (table 23): a length, and some fields by position."""

    length: int  # of the subject, or one less than the least length
    open: bool  # whether it may be longer
    fields: tuple[tuple[int, str], ...]

    def matches(self, subject: Subject) -> bool:
        found = len(subject.fields)
        if found <= self.length if self.open else found != self.length:
            return False
        return all(subject.fields[i] == field for i, field in self.fields)

    def __str__(self) -> str:
        """As table 23 writes it."""
        parts = [f"subject.length {'>' if self.open else '=='} {self.length}"]
        return " & ".join([*parts, *(f'subject[{i}] == "{field}"' for i, field in self.fields)])


@dataclass(frozen=True, slots=True)
class SubjectFilter:
    """Subjects that somebody wants, such as `quotes.*` or `quotes.>`."""

    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        fields = _fields(text)
        for i, field in enumerate(fields):
            if field == MORE and i < len(fields) - 1:
                raise SubjectError(text, "> is not the last field", "only the last may be >")
            if field not in (ONE, MORE) and not _FIELD.fullmatch(field):
                hint = "a wildcard is a field of its own, and fields hold no spaces"
                raise SubjectError(text, f"{field!r} is no field of a subject filter", hint)
        return cls(fields)

    def __str__(self) -> str:
        return ".".join(self.fields)

    @property
    def wild(self) -> bool:
        """Whether it has wildcards: if not, it names one subject."""
        return ONE in self.fields or self.open

    @property
    def open(self) -> bool:
        return self.fields[-1] == MORE

    @property
    def rule(self) -> Rule:
        """The same without wildcards, by the method of figure 20."""
        count = len(self.fields)
        clauses = [(i, f) for i, f in enumerate(self.fields) if f not in (ONE, MORE)]
        return Rule(count - 1 if self.open else count, self.open, tuple(clauses))

    def matches(self, subject: Subject) -> bool:
        return self.rule.matches(subject)

    def covers(self, other: SubjectFilter) -> bool:
        """Whether every subject of `other` is one of this filter."""
        own, fields = self.fields, other.fields
        if self.open:
            if len(fields) < len(own):
                return False
            own, fields = own[:-1], fields[: len(own) - 1]
        elif other.open or len(fields) != len(own):
            return False
        return all(mine in (ONE, field) for mine, field in zip(own, fields, strict=True))

    def overlaps(self, other: SubjectFilter) -> bool:
        """Whether some subject is one of both."""
        least, most = sorted((self, other), key=lambda f: len(f.fields) - f.open)
        if least.open:
            if len(most.fields) < len(least.fields):
                return False
        elif len(most.fields) != len(least.fields):
            return False
        pairs = zip(least.fields, most.fields, strict=False)
        return all(a == b or {a, b} & {ONE, MORE} for a, b in pairs)


EVERYTHING = SubjectFilter((MORE,))
