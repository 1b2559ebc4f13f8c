"""Unleased items of a loop: they are granted in lanes, and a lane returns the items it does not finish."""

from __future__ import annotations

from bisect import insort

from noetl.engine.events import Interval
from noetl.engine.state import Loop, Run


def take_items(loop: Loop, items: Interval) -> None:
    """Grant items: the first untouched ones, or the first returned ones."""
    first, last = items
    if first == loop.next:
        loop.next = last
        return
    for place, interval in enumerate(loop.returned):
        if interval[0] == first:
            loop.returned[place : place + 1] = [(last, interval[1])] if last < interval[1] else []
            return
    # Version 0.1.0 could grant a parked item twice. Such a log still folds, and `verify` names the item.


def give_back(run: Run, loop: Loop, first: int, last: int) -> None:
    """Return the remaining items of a lane, if any. Only its first item can have been started."""
    if first < last and _is_started(run, first):
        return_items(run, loop, (first, first + 1))
        first += 1
    if first < last:
        return_items(run, loop, (first, last))


def return_items(run: Run, loop: Loop, items: Interval) -> None:
    """Keep returned items in the order in which they are granted again: started ones first, because they are still in
    flight and no other item may take their place, then by index, which is the order of a sequential loop."""
    insort(loop.returned, items, key=lambda interval: (not _is_started(run, interval[0]), interval[0]))


def _is_started(run: Run, index: int) -> bool:
    return f"{index}:" in run.progress
