"""When a schedule fires.

A cron expression is read on the clock on the wall of its time zone, in the way of Debian's cron. Where summer time
takes an hour away, a firing at a fixed time in that hour happens when the hour is over; where an hour comes twice, it
happens the first time only. Expressions that name every hour or every minute (`*`, `*/15`) follow the time that
passes: they fire in both of two equal hours, and not in an hour that does not exist.

Intervals are counted from when the schedule was made, in seconds that pass. A single time without an offset is one of
the time zone; of two equal ones the first is meant, and one that does not exist means as long after the last that does.

Firings of a schedule rise: no two have the same time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from noetl.errors import UsageError
from noetl.model.duration import seconds
from noetl.store.triggers import Schedule

SHORTEST_SECONDS = 1.0
FIELDS = 5
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIRST_SPAN = 64.0


def zone_of(name: str) -> ZoneInfo:
    """The time zone; UsageError if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"there is no time zone {name[:100]!r}: write one such as Europe/Berlin or UTC") from None


def checked_cron(text: str) -> str:
    """The expression as it is kept; UsageError says which part of it is wrong."""
    expression = NAMED.get(text.strip().lower(), " ".join(text.split()))
    if len(expression.split()) != FIELDS:
        raise UsageError(f"cron {text[:100]!r}: write five fields (minute, hour, day, month, weekday) or @daily")
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except (CronSimError, ValueError, AssertionError) as error:
        raise UsageError(f"cron {text[:100]!r}: {error or 'it can not be read'}") from None
    return expression


def checked_every(given: float | str) -> float:
    """An interval in seconds."""
    found = seconds(given)
    if found is None or found < SHORTEST_SECONDS:
        raise UsageError(f"every {given!r}: write seconds, or a duration such as 90s, 15m or 1h30m; at least a second")
    return found


def checked_at(text: str, zone: str) -> float:
    """A single time in seconds since 1970."""
    try:
        found = datetime.fromisoformat(text.strip())
        return (found.replace(tzinfo=zone_of(zone)) if found.tzinfo is None else found).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"at {text[:100]!r}: write a time such as 2030-01-31T09:00 or 2030-01-31T08:00:00Z") from None


def next_after(schedule: Schedule, moment: float) -> float | None:
    """The first firing behind a moment; None if there is none any more."""
    return next(firings(schedule, moment), None)


def latest(schedule: Schedule, since: float, until: float, count: int) -> list[float]:
    """The last firings of a span, both ends included, in order: at most `count`.

    Looked for in spans that double, so that a long time without a server does not have to be counted through.
    """
    span = FIRST_SPAN
    while True:
        start = max(since, until - span)
        found = takewhile(lambda one: one <= until, firings(schedule, math.nextafter(start, -math.inf)))
        last = deque(found, count)
        if len(last) == count or start == since:
            return list(last)
        span *= 2


def firings(schedule: Schedule, after: float) -> Iterator[float]:
    """All firings behind a moment, in order."""
    if schedule.cron is not None:
        yield from _cron(schedule.cron, schedule.timezone, after)
    elif schedule.every is not None:
        yield from _intervals(schedule.anchor, schedule.every, after)
    elif schedule.at is not None and schedule.at > after:
        yield schedule.at


def _cron(expression: str, zone: str, after: float) -> Iterator[float]:
    for moment in CronSim(expression, datetime.fromtimestamp(math.floor(after), zone_of(zone))):
        found = moment.timestamp()
        if found > after:  # in the second of two equal hours, times of the first come again
            yield found
            after = found


def _intervals(anchor: float, every: float, after: float) -> Iterator[float]:
    number = max(1, math.floor((after - anchor) / every))
    while True:
        found = round(anchor + number * every, 3)
        if found > after:
            yield found
        number += 1
