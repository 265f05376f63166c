"""Which of its numbers a publisher has stored: ranges, so that a gap is known as one.

A number is a duplicate only if it was stored. A publisher counts upward, so mostly there is one
range; a request that was refused leaves a gap, which is filled when it is sent again.
"""

from __future__ import annotations

from bisect import bisect_right

from tamis.errors import MessageError

MAX_RANGES = 1_000  # of one publisher; beyond it the lowest range is forgotten


class Numbers:
    """Ranges `lows[i]` to `highs[i]`, ascending, with gaps between them.

    Of numbers up to `floor` it is not known any more whether they were stored; all ranges are
    above it.
    """

    __slots__ = ("floor", "highs", "lows")

    def __init__(self, floor: int = 0, *bounds: int) -> None:
        """`bounds`: the lowest and the highest number of each range, as `packed` has them."""
        self.floor, self.lows, self.highs = floor, list(bounds[::2]), list(bounds[1::2])

    def packed(self) -> list[int]:
        found = [self.floor]
        for bounds in zip(self.lows, self.highs, strict=True):
            found += bounds
        return found

    def copy(self) -> Numbers:
        found = Numbers.__new__(Numbers)
        found.floor, found.lows, found.highs = self.floor, self.lows.copy(), self.highs.copy()
        return found

    def add(self, number: int) -> bool:
        """Whether the number is new; then it is stored from now on. MessageError: nobody knows."""
        lows, highs = self.lows, self.highs
        if highs and number == highs[-1] + 1:  # nearly always
            highs[-1] = number
            return True
        if number <= self.floor:
            raise MessageError(
                f"sequence {number} is too old: which ones up to {self.floor} were stored is not "
                "known any more, so publish it under a higher one"
            )
        place = bisect_right(lows, number)
        if place and number <= highs[place - 1]:
            return False
        self._insert(place, number)
        return True

    def _insert(self, place: int, number: int) -> None:
        """Between range `place - 1` and range `place`, neither of which has it."""
        lows, highs = self.lows, self.highs
        before = place > 0 and highs[place - 1] == number - 1
        after = place < len(lows) and lows[place] == number + 1
        if before and after:
            highs[place - 1] = highs.pop(place)
            del lows[place]
        elif before:
            highs[place - 1] = number
        elif after:
            lows[place] = number
        else:
            lows.insert(place, number)
            highs.insert(place, number)
            if len(lows) > MAX_RANGES:
                self.floor = highs.pop(0)
                del lows[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.packed() == other.packed()

    __hash__ = None  # type: ignore[assignment]
