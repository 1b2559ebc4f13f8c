"""A set of whole numbers that takes memory by gaps, not by members."""

from __future__ import annotations

from bisect import bisect_right


class Intervals:
    """Numbers that were added, kept as the fewest intervals that hold them."""

    __slots__ = ("_ends", "_starts", "count")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number)
        return place > 0 and number < self._ends[place - 1]

    def add(self, number: int) -> bool:
        """False if it was there before."""
        starts, ends = self._starts, self._ends
        place = bisect_right(starts, number)
        if place and number < ends[place - 1]:
            return False
        self.count += 1
        follows = place > 0 and ends[place - 1] == number
        precedes = place < len(starts) and starts[place] == number + 1
        if follows and precedes:
            ends[place - 1] = ends.pop(place)
            del starts[place]
        elif follows:
            ends[place - 1] += 1
        elif precedes:
            starts[place] = number
        else:
            starts.insert(place, number)
            ends.insert(place, number + 1)
        return True

    @property
    def gaps(self) -> int:
        """How many intervals there are."""
        return len(self._starts)
