"""Which of its numbers a publisher has stored: ranges, so that a gap is known as one.

A number is a duplicate only if it was stored. A publisher counts upward, so mostly there is one
range; a request that was refused leaves a gap, which is filled when it is sent again.
"""

from __future__ import annotations

from bisect import bisect_right

from tamis.errors import MessageError

MAX_RANGES = 1_000  # of one publisher; beyond it the lowest range is forgotten


class Numbers:
    """`bounds` are the floor, then the lowest and the highest number of each range, ascending, with
    gaps between the ranges.

    Of numbers up to the floor it is not known any more whether they were stored; all ranges are
    above it.
    """

    __slots__ = ("bounds",)

    def __init__(self, floor: int = 0, *bounds: int) -> None:
        self.bounds = [floor, *bounds]

    def packed(self) -> list[int]:
        """The bounds themselves, which a copy does not share."""
        return self.bounds

    def copy(self) -> Numbers:
        found = Numbers.__new__(Numbers)
        found.bounds = self.bounds.copy()
        return found

    def add(self, number: int) -> bool:
        """Whether the number is new; then it is stored from now on. MessageError: nobody knows."""
        bounds = self.bounds
        if number == bounds[-1] + 1 and len(bounds) > 1:  # nearly always
            bounds[-1] = number
            return True
        if number <= bounds[0]:
            raise MessageError(
                f"sequence {number} is too old: which ones up to {bounds[0]} were stored is not "
                "known any more, so publish it under a higher one"
            )
        place = bisect_right(bounds, number)  # even: between the bounds of a range
        if place % 2 == 0 or (place > 1 and bounds[place - 1] == number):
            return False
        self._insert(place, number)
        return True

    def _insert(self, place: int, number: int) -> None:
        """Between the range that ends before `place` and the one that begins there."""
        bounds = self.bounds
        before = place > 1 and bounds[place - 1] == number - 1
        after = place < len(bounds) and bounds[place] == number + 1
        if before and after:
            del bounds[place - 1 : place + 1]
        elif before:
            bounds[place - 1] = number
        elif after:
            bounds[place] = number
        else:
            bounds[place:place] = number, number
            if len(bounds) > 2 * MAX_RANGES + 1:
                bounds[0] = bounds[2]
                del bounds[1:3]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.bounds == other.bounds

    __hash__ = None  # type: ignore[assignment]
