"""State changes of a schedule, as the next revision of its row; `server/scheduler.py` starts the executions.

A firing goes through three states, each of which is stored before the next begins: it is due (`next`), decided
(`starting`, or in the `queue` behind an open execution), and settled (`recent`). A server that crashes in between
leaves a row from which any other server continues.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from noetl.dsl.payload import MAX_WARNINGS, SCHEDULE_KEY, PlaybookInputs, check_payload
from noetl.errors import Conflict, NotFound, PlaybookInvalid, UsageError
from noetl.model.duration import seconds
from noetl.model.identity import is_name
from noetl.model.playbook import Playbook
from noetl.store.codec import check_value
from noetl.store.store import Store
from noetl.store.triggers import Fired, Firing, Missed, Overlap, Schedule
from noetl.timestamps import rfc3339

CRON_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, or L for the last day",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7, or SUN to SAT",
}
"""The fields of a cron expression in their order, with their ranges."""
GRACE_SECONDS = 60.0  # a firing that starts later than this is missed; so is a firing whose successor is due
START_LEASE_SECONDS = 5.0  # how long other servers ignore a schedule whose firings are being started
QUEUE_SECONDS = 1.0  # how often a server checks whether the execution that a queue waits for has ended
POSTPONE_SECONDS = 60.0  # delay before a schedule that could not be decided is checked again
MAX_MISSED = 100  # maximum number of missed firings that are made up for: the latest ones
MAX_QUEUED = 100
MAX_RUNNING = 100
MAX_RECENT = 20

MIN_INTERVAL_SECONDS = 1.0
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

Change = Callable[[Schedule, Collection[str]], Schedule]  # from a revision and its open executions to the next revision


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When to start which playbook, with which inputs. Exactly one of: `cron` (five fields, in `timezone`), `every`
    (seconds, or a duration such as `15m`), `at` (a single time, in `timezone` if it has no offset). `overlap` is the
    policy for firings while an execution of the schedule is open, `missed` the policy for firings while no server was
    running."""

    path: str
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    cron: str | None = None
    every: float | str | None = None
    at: str | None = None
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool | None = None
    strict_keys: list[str] = []  # keys of the payload (`a.b`) that are refused if the playbook does not know them


def input_warnings(request: ScheduleRequest, playbook: Playbook, inputs: PlaybookInputs) -> list[str]:
    """Warnings about the inputs of a schedule, and the reason why its runs cannot start with the current playbook.
    UsageError for one of its strict keys."""
    payload = {SCHEDULE_KEY: {}} | request.payload
    try:
        return check_payload(playbook, inputs, request.path, payload, request.ctx, request.strict_keys)
    except PlaybookInvalid as error:
        return [f"no run can start: {problem}" for problem in error.problems[:MAX_WARNINGS]]


def change_in(store: Store, name: str, change: Change) -> Schedule:
    """Change a schedule from its current revision; NotFound if there is none."""
    while True:
        schedule = store.triggers.schedule(name)
        if schedule is None:
            raise NotFound(f"schedule {name!r} not found: `noetl schedule list` lists all schedules")
        new = change(schedule, open_of(store, schedule.running))
        if store.triggers.change_schedule(new):
            return new


def put_in(store: Store, name: str, request: ScheduleRequest, now: float) -> tuple[Schedule, bool]:
    """Change a schedule or create it; returns its revision, and whether it is new."""
    while store.triggers.schedule(name) is None:
        schedule = new_schedule(name, request, now)
        if store.triggers.add_schedule(schedule):
            return schedule, True
    return change_in(store, name, lambda old, _: changed(old, request, now)), False


def open_of(store: Store, executions: Iterable[str]) -> set[str]:
    summaries = (summary for name in executions for summary in store.summaries(prefix=name, limit=1))
    return {summary.execution_id for summary in summaries if summary.ended is None}


def refreshed(store: Store, schedule: Schedule) -> Schedule:
    return _with_running(schedule, open_of(store, schedule.running))


def new_schedule(name: str, request: ScheduleRequest, now: float) -> Schedule:
    if not is_name(name):
        raise UsageError(f"{name[:100]!r} is not a valid name of a schedule: use letters, digits and _ . @ -")
    blank = Schedule(name, secrets.token_hex(8), request.path, created=now, anchor=round(now, 3))
    return replace(changed(blank, request, now), revision=1)


def changed(old: Schedule, request: ScheduleRequest, now: float) -> Schedule:
    """The schedule after a request. If its times stay the same, so does its next firing."""
    if sum(value is not None for value in (request.cron, request.every, request.at)) != 1:
        raise UsageError("a schedule needs exactly one of: cron, every, at")
    zone_of(request.timezone)
    for value in (request.payload, request.ctx):
        check_value(value)
    names = ("path", "version", "payload", "ctx", "timezone", "overlap", "missed")
    new = replace(
        old,
        **{name: getattr(request, name) for name in names},
        cron=None if request.cron is None else checked_cron(request.cron),
        every=None if request.every is None else checked_every(request.every),
        at=None if request.at is None else checked_at(request.at, request.timezone),
        paused=old.paused if request.paused is None else request.paused,
        updated=now,
    )
    if (new.cron, new.every, new.at, new.timezone) != (old.cron, old.every, old.at, old.timezone):
        new = replace(new, anchor=round(now, 3))
        new = replace(new, next=next_after(new, now))
        if new.next is None:
            raise UsageError("the schedule would never fire: its time has passed, or there is no such day")
    elif old.paused and not new.paused:
        new = replace(new, next=next_after(new, now))
    return _revised(new, now)


def paused(old: Schedule, now: float) -> Schedule:
    return _revised(replace(old, paused=True, updated=now), now)


def resumed(old: Schedule, now: float) -> Schedule:
    """It continues with the next firing; firings during the pause are not made up for."""
    following = next_after(old, now) if old.paused else old.next
    return _revised(replace(old, paused=False, updated=now, next=following), now)


def triggered(old: Schedule, firing: Firing, is_open: Collection[str], now: float) -> Schedule:
    """The schedule fires now, once for each firing; Conflict if its overlap policy forbids that."""
    execution = firing.execution(old.id)
    if firing in (*old.starting, *old.queue) or execution in (*old.running, *(fired.execution for fired in old.recent)):
        return replace(old, revision=old.revision + 1)  # a repeated request
    new = _with_running(old, is_open)
    if not new.running or new.overlap == "allow":
        return _revised(_started(new, firing), now)
    if new.overlap == "skip":
        raise Conflict(f"{new.running[-1]} of schedule {new.name!r} is still open, and its firings do not overlap")
    if len(new.queue) >= MAX_QUEUED:
        raise Conflict(f"schedule {new.name!r} already has {len(new.queue)} waiting firings")
    return _revised(replace(new, queue=(*new.queue, firing)), now)


def decided(old: Schedule, is_open: Collection[str], now: float) -> Schedule:
    """The schedule after a check: firings that are due and may start are in `starting`."""
    new = _with_running(old, is_open)
    if new.paused:
        return _revised(new, now)
    if new.next is not None and new.next <= now:
        due = latest(new, new.next, now, MAX_MISSED)
        selected = due if new.missed == "all" else []
        if new.missed == "once" or (new.missed == "skip" and due and now - due[-1] <= GRACE_SECONDS):
            selected = due[-1:]
        if missed := due[: len(due) - len(selected)]:
            reason = "no server was running in time"
            new = _noted(new, Fired(missed[-1], now, "missed", reason=reason, count=len(missed)))
        new = replace(new, queue=(*new.queue, *map(Firing, selected)), next=next_after(new, now))
    while new.queue and (new.overlap != "queue" or not new.running):
        firing, *rest = new.queue
        new = replace(new, queue=tuple(rest))
        if new.running and new.overlap == "skip":
            new = _noted(new, Fired(firing.due, now, "skipped", reason=f"{new.running[-1]} was still open"))
        else:
            new = _started(new, firing)
    for firing in new.queue[MAX_QUEUED:]:
        new = _noted(new, Fired(firing.due, now, "skipped", reason=f"{MAX_QUEUED} firings were waiting already"))
    return _revised(replace(new, queue=new.queue[:MAX_QUEUED]), now)


def _with_running(schedule: Schedule, is_open: Collection[str]) -> Schedule:
    starting = {firing.execution(schedule.id) for firing in schedule.starting}
    return replace(schedule, running=tuple(name for name in schedule.running if name in is_open or name in starting))


def _started(schedule: Schedule, firing: Firing) -> Schedule:
    running = (*schedule.running, firing.execution(schedule.id))[-MAX_RUNNING:]
    return replace(schedule, starting=(*schedule.starting, firing), running=running)


def settled(old: Schedule, firing: Firing, reason: str, now: float) -> Schedule:
    execution = firing.execution(old.id)
    new = replace(old, starting=tuple(other for other in old.starting if other != firing))
    if not reason:
        return _revised(_noted(new, Fired(firing.due, now, "started", execution)), now)
    new = replace(new, running=tuple(name for name in new.running if name != execution))
    return _revised(_noted(new, Fired(firing.due, now, "failed", reason=reason)), now)


def postponed(old: Schedule, reason: str, now: float) -> Schedule:
    """The schedule after a failed decision. It is checked again later: another server may be able to decide."""
    noted = _noted(old, Fired(old.next or now, now, "failed", reason=reason))
    return replace(noted, look=now + POSTPONE_SECONDS, revision=old.revision + 1)


def _noted(schedule: Schedule, fired: Fired) -> Schedule:
    """With the outcome of a firing; an equal outcome only increases the count of the last one."""
    *before, last = schedule.recent or (None,)
    if last is not None and fired.execution is None and (last.outcome, last.reason) == (fired.outcome, fired.reason):
        return replace(schedule, recent=(*before, replace(fired, count=last.count + fired.count)))
    return replace(schedule, recent=(*schedule.recent, fired)[-MAX_RECENT:])


def _revised(schedule: Schedule, now: float) -> Schedule:
    if schedule.starting:
        look: float | None = now + START_LEASE_SECONDS
    elif schedule.paused:
        look = None
    elif schedule.queue:
        look = now + QUEUE_SECONDS
    else:
        look = schedule.next
    return replace(schedule, look=look, revision=schedule.revision + 1)


def payload_of(schedule: Schedule, firing: Firing) -> dict[str, Any]:
    """The payload of an execution: that of the schedule, and the firing unless the payload has its key."""
    return {SCHEDULE_KEY: {"name": schedule.name, "time": rfc3339(firing.due)}} | schedule.payload


# -- times ---------------------------------------------------------------------------------------------------------


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"there is no time zone {name[:100]!r}: write one such as Europe/Berlin or UTC") from None


def checked_cron(text: str) -> str:
    """The expression as it is stored; UsageError names the invalid part."""
    expression = NAMED.get(text.strip().lower(), " ".join(text.split()))
    if len(expression.split()) != 5:
        raise UsageError(f"cron {text[:100]!r}: write five fields (minute, hour, day, month, weekday) or @daily")
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except (CronSimError, ValueError, AssertionError) as error:
        name = str(error).removeprefix("Bad ")
        if name not in CRON_FIELDS:
            raise UsageError(f"cron {text[:100]!r}: {error or 'invalid expression'}") from None
        field = expression.split()[list(CRON_FIELDS).index(name)]
        raise UsageError(f"cron {text[:100]!r}: {name} {field!r} must be {CRON_FIELDS[name]}") from None
    return expression


def checked_every(interval: float | str) -> float:
    length = seconds(float(interval) if isinstance(interval, str) and interval.strip().isdecimal() else interval)
    if length is None or length < MIN_INTERVAL_SECONDS:
        raise UsageError(f"every {interval!r}: write seconds, or a duration such as 90s or 1h30m; at least a second")
    return length


def checked_at(text: str, zone: str) -> float:
    """A time without an offset is in the zone: the first of two equal ones; one that is skipped counts from before
    it."""
    try:
        time = datetime.fromisoformat(text.strip())
        return (time.replace(tzinfo=zone_of(zone)) if time.tzinfo is None else time).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"at {text[:100]!r}: write a time such as 2030-01-31T09:00 or 2030-01-31T08:00:00Z") from None


def upcoming(schedule: Schedule, count: int = 5) -> list[float]:
    """The next firings of an active schedule."""
    if schedule.paused or schedule.next is None:
        return []
    try:
        return [schedule.next, *islice(firings(schedule, schedule.next), count - 1)]
    except UsageError:  # this machine does not have its time zone
        return [schedule.next]


def next_after(schedule: Schedule, time: float) -> float | None:
    return next(firings(schedule, time), None)


def latest(schedule: Schedule, since: float, until: float, count: int) -> list[float]:
    """The last firings of a span, both ends included, in order: at most `count`."""
    span = 64.0  # it doubles, so that a long time without a server does not have to be counted through
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
    """When a schedule fires, strictly increasing.

    Cron expressions are evaluated in the local time of their zone, like Debian's cron. Fixed times in an hour that is
    skipped at the start of summer time fire right after it, and fixed times in an hour that occurs twice fire the first
    time only. Expressions that name every hour or every minute (`*`, `*/15`) follow elapsed time: they fire in both of
    two equal hours, and not in an hour that does not exist. Intervals are counted in elapsed seconds since the schedule
    was added.
    """
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
