"""A set of integers whose memory is proportional to its gaps, not to its members."""

from __future__ import annotations

from bisect import bisect_right


class Intervals:
    """A set of integers, stored as the fewest intervals."""

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
        """Add a number; False if it was already present."""
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
        """Number of intervals."""
        return len(self._starts)
