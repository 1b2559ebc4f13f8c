"""When a schedule fires.

Cron expressions are evaluated in the local time of their zone, like Debian's cron. Fixed times in an hour that is
skipped at the start of summer time fire right after it, and fixed times in an hour that occurs twice fire the first
time only. Expressions that name every hour or every minute (`*`, `*/15`) follow elapsed time: they fire in both of two
equal hours, and not in an hour that does not exist.

Intervals are counted in elapsed seconds since the schedule was added. A single time without an offset is in the time
zone of the schedule: the first of two equal ones, or if it does not exist, the same time after the hour before it.
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

MIN_INTERVAL_SECONDS = 1.0
CRON_FIELDS = 5
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIRST_SPAN_SECONDS = 64.0


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"there is no time zone {name[:100]!r}: write one such as Europe/Berlin or UTC") from None


def checked_cron(text: str) -> str:
    """The expression as it is stored; UsageError says which part of it is wrong."""
    expression = NAMED.get(text.strip().lower(), " ".join(text.split()))
    if len(expression.split()) != CRON_FIELDS:
        raise UsageError(f"cron {text[:100]!r}: write five fields (minute, hour, day, month, weekday) or @daily")
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except (CronSimError, ValueError, AssertionError) as error:
        raise UsageError(f"cron {text[:100]!r}: {error or 'invalid expression'}") from None
    return expression


def checked_every(interval: float | str) -> float:
    length = seconds(interval)
    if length is None or length < MIN_INTERVAL_SECONDS:
        raise UsageError(f"every {interval!r}: write seconds, or a duration such as 90s or 1h30m; at least a second")
    return length


def checked_at(text: str, zone: str) -> float:
    try:
        time = datetime.fromisoformat(text.strip())
        return (time.replace(tzinfo=zone_of(zone)) if time.tzinfo is None else time).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"at {text[:100]!r}: write a time such as 2030-01-31T09:00 or 2030-01-31T08:00:00Z") from None


def next_after(schedule: Schedule, time: float) -> float | None:
    return next(firings(schedule, time), None)


def latest(schedule: Schedule, since: float, until: float, count: int) -> list[float]:
    """The last firings of a span, both ends included, in order: at most `count`."""
    span = FIRST_SPAN_SECONDS  # it doubles, so that a long time without a server does not have to be counted through
    while True:
        start = max(since, until - span)
        in_span = takewhile(lambda due: due <= until, firings(schedule, math.nextafter(start, -math.inf)))
        last = deque(in_span, count)
        if len(last) == count or start == since:
            return list(last)
        span *= 2


class _Cron(CronSim):
    """Advances to full hours; CronSim goes from 01:30 to 03:30 where clocks are moved by half an hour."""

    def advance_hour(self) -> bool:
        if self.dt.hour in self.hours:
            return False
        while self.dt.hour not in self.hours:
            self.tick(seconds=3600 - 60 * self.dt.minute - self.dt.second)
            if self.dt.hour == 0:
                break  # the day may not match
        return True


def firings(schedule: Schedule, after: float) -> Iterator[float]:
    if schedule.cron is not None:
        for moment in _Cron(schedule.cron, datetime.fromtimestamp(math.floor(after), zone_of(schedule.timezone))):
            due = moment.timestamp()
            if due > after:  # in the second of two equal hours, times of the first come again
                yield due
                after = due
    elif schedule.every is not None:
        number = max(1, math.floor((after - schedule.anchor) / schedule.every))
        while True:
            due = round(schedule.anchor + number * schedule.every, 3)
            if due > after:
                yield due
            number += 1
    elif schedule.at is not None and schedule.at > after:
        yield schedule.at
