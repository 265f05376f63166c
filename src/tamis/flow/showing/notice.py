"""What is allowed and yet surely not meant, told with its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """`where` names the statement, `at` is its place in the text.

    `strict`: `tamis flow check --strict` takes it for an error. What a user may well mean is
    only told.
    """

    where: str
    what: str
    at: int = 0
    strict: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
