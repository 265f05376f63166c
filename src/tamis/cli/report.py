"""What went wrong with rows and selectors, told on standard error."""

from __future__ import annotations

import sys

from tamis.errors import MessageError
from tamis.messages.rows import BadRow

SHOWN = 20


class Report:
    """Tells the first bad rows in full and counts the rest; strict, it stops at the first."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = 0

    def bad(self, row: BadRow) -> None:
        if self.strict:
            raise MessageError(str(row))
        self.count += 1
        if self.count <= SHOWN:
            print(row, file=sys.stderr)

    def close(self) -> None:
        if self.count > SHOWN:
            print(f"... and {self.count - SHOWN:,} more; {self.count:,} in all", file=sys.stderr)
