"""What holds for all subscriptions of a table: how selectors are read, and what they mean."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tamis.engine.ground.sound import UnsoundError
from tamis.engine.matcher import Matcher
from tamis.engine.snapshot.loading import limits_of, schema_of
from tamis.engine.snapshot.saving import meta_of
from tamis.errors import InputError, SnapshotError, TamisError
from tamis.language import Dialect, Limits
from tamis.logic import Lookups, Semantics
from tamis.schema import Schema
from tamis.table.atomic_files import AGAIN, signed, unsigned
from tamis.table.table_changes import IdKind


class Said(TypedDict, total=False):
    """Settings that are said when a table is opened. What is not said is as it was, or usual."""

    schema: Schema | None
    semantics: Semantics
    dialect: Dialect
    limits: Limits
    ids: IdKind | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Of lookups only the names are kept: functions cannot be.

    `ids` are "string" or "int"; None: of the type of the first that is added.
    """

    schema: Schema | None = None
    semantics: Semantics = "sql"
    dialect: Dialect = "tamis"
    limits: Limits = Limits()
    ids: IdKind | None = None
    lookups: tuple[str, ...] = ()

    def check(self, path: Path, said: Said, lookups: Lookups) -> None:
        """Raise InputError where something else is said than the table was made with."""
        for name, value in said.items():
            if value != getattr(self, name):
                raise InputError(
                    f"{path}: the table was made with {name}={getattr(self, name)!r}, not {value!r}"
                )
        if tuple(sorted(lookups)) != self.lookups:
            names = ", ".join(self.lookups) or "none"
            raise InputError(f"{path}: the table's selectors may call these lookups: {names}")

    def check_ids(self) -> None:
        if self.ids not in (None, "string", "int"):
            raise InputError(f"ids are 'string' or 'int', not {self.ids!r}")

    def matcher(self, lookups: Lookups) -> Matcher:
        """An empty matcher with these settings."""
        return Matcher(
            self.schema,
            semantics=self.semantics,
            dialect=self.dialect,
            limits=self.limits,
            lookups=lookups,
        )


def encode(settings: Settings) -> bytes:
    text = json.dumps({**meta_of(settings), "ids": settings.ids}, indent=1)
    return signed("settings", text.encode() + b"\n")


def decode(path: Path, data: bytes) -> Settings:
    """The settings back; SnapshotError where the file is not whole."""
    body = unsigned(path, "settings", data)
    try:
        meta = json.loads(body)
        found = Settings(
            schema_of(meta["schema"]),
            meta["semantics"],
            meta["dialect"],
            limits_of(meta["limits"]),
            meta["ids"],
            tuple(meta["lookups"]),
        )
        found.check_ids()
        found.matcher({name: {} for name in found.lookups})
    except (ValueError, TypeError, KeyError, RecursionError, UnsoundError, TamisError) as error:
        raise SnapshotError(path, f"holds what no table has: {error}", AGAIN) from error
    return found
