"""What went wrong with rows and selectors, told on standard error."""

from __future__ import annotations

import sys

from tamis.errors import MessageError
from tamis.messages.row_batches import BadRow

SHOWN = 20


class Report:
    """Tells the first bad rows in full and counts the rest; strict, it stops at the first."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = self.notes = 0

    def bad(self, row: BadRow) -> None:
        if self.strict:
            raise MessageError(str(row))
        self.count += 1
        if self.count <= SHOWN:
            print(row, file=sys.stderr)

    def note(self, text: str) -> None:
        """Something that is odd, though not bad."""
        self.notes += 1
        if self.notes <= SHOWN:
            print(f"note: {text}", file=sys.stderr)

    def close(self) -> None:
        if self.count > SHOWN:
            print(f"... and {self.count - SHOWN:,} more; {self.count:,} in all", file=sys.stderr)
        if self.notes > SHOWN:
            print(f"... and {self.notes - SHOWN:,} more notes", file=sys.stderr)


def is_bare(selector: str) -> bool:
    """Whether the selector is one name and nothing else."""
    from tamis.language.lexer import is_plain

    return is_plain(selector.strip())
