"""Options that several commands share. What is heavy is imported where it is used."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from tamis.errors import InputError, SchemaError

if TYPE_CHECKING:
    from tamis.language import Condition, Limits
    from tamis.schema import Schema, Type

Semantics = Literal["sql", "strict", "default", "total"]
Bound = Annotated[
    int | None, Parameter(validator=Number(gte=1), group="Limits", show_default=False)
]


@Parameter(name="*")
@dataclass(frozen=True)
class Language:
    """How selectors are read."""

    dialect: Literal["tamis", "jms"] = "tamis"
    "The language of the selectors: jms is the Jakarta Messaging selector to the letter."

    schema: Annotated[str | None, Parameter(show_default=False)] = None
    "Attributes, as 'price:double,company:string=IBM' or as a .json, .parquet or .arrow file."

    limit_length: Bound = None
    "Characters of one selector."

    limit_depth: Bound = None
    "Nesting of one selector."

    limit_items: Bound = None
    "Constants in one IN list."

    limit_pattern: Bound = None
    "Characters of one MATCHES pattern."

    limit_expansion: Bound = None
    "Nodes copied where '=' between two conditions is written out."

    @property
    def limits(self) -> Limits:
        from tamis.language import Limits

        names = ("length", "depth", "items", "pattern", "expansion")
        given = {name: getattr(self, f"limit_{name}") for name in names}
        return Limits(**{name: bound for name, bound in given.items() if bound is not None})

    def read_schema(self) -> Schema | None:
        from tamis.messages import read_schema

        return None if self.schema is None else read_schema(self.schema)

    def parse(self, selector: str) -> tuple[Condition, dict[str, frozenset[Type]]]:
        """The condition, and the types of its attributes."""
        from tamis.language import check, parse

        condition = parse(selector, dialect=self.dialect, limits=self.limits)
        return condition, check(condition, self.read_schema(), text=selector)


STANDARD = Language()


def need_schema(semantics: Semantics, schema: Schema | None) -> None:
    if schema is None and semantics in ("default", "total"):
        raise SchemaError(f"--semantics {semantics} needs a schema: give it with --schema")


def argument(text: str, what: str) -> str:
    """The argument itself, or standard input where it is "-"."""
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(f"the {what} on standard input is not UTF-8") from None
