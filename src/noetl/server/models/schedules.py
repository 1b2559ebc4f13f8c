"""Requests and responses of /schedules."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.server.models.base import RequestBody, VersionNumber
from noetl.store.triggers import Fired, Missed, Outcome, Overlap, Schedule
from noetl.timestamps import optional_rfc3339, rfc3339


class ScheduleRequest(RequestBody, frozen=True, kw_only=True):
    """When to start which playbook, with which inputs.

    Exactly one of: `cron` (five fields, in `timezone`), `every` (seconds, or a duration such as `15m`), `at` (a single
    time, in `timezone` if it has no offset). `overlap` is the policy for firings while an execution of the schedule is
    open, `missed` the policy for firings that no server was there to start.
    """

    path: str
    version: VersionNumber | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    cron: str | None = None
    every: float | str | None = None
    at: str | None = None
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool | None = None


class NewSchedule(ScheduleRequest, frozen=True, kw_only=True):
    """A schedule to create."""

    name: str


class FiredView(msgspec.Struct, frozen=True):
    """The outcome of a firing, or of `count` in a row; `due` is the scheduled time (of the last of them)."""

    due: str
    at: str
    outcome: Outcome
    execution_id: str | None
    reason: str
    count: int

    @classmethod
    def of(cls, fired: Fired) -> FiredView:
        return cls(rfc3339(fired.due), rfc3339(fired.at), fired.outcome, fired.execution, fired.reason, fired.count)


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule and its latest firings. A retired one does not fire again by itself."""

    name: str
    path: str
    version: int | None
    payload: dict[str, Any]
    ctx: dict[str, Any]
    cron: str | None
    every: float | None
    at: str | None
    timezone: str
    overlap: Overlap
    missed: Missed
    status: Literal["active", "paused", "retired"]
    created: str
    updated: str
    next: str | None
    last: FiredView | None
    queued: int
    running: list[str]
    recent: list[FiredView]

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleView:
        recent = list(map(FiredView.of, schedule.recent))
        return cls(
            name=schedule.name,
            path=schedule.path,
            version=schedule.version,
            payload=schedule.payload,
            ctx=schedule.ctx,
            cron=schedule.cron,
            every=schedule.every,
            at=optional_rfc3339(schedule.at),
            timezone=schedule.timezone,
            overlap=schedule.overlap,
            missed=schedule.missed,
            status=schedule.status,
            created=rfc3339(schedule.created),
            updated=rfc3339(schedule.updated),
            next=None if schedule.paused else optional_rfc3339(schedule.next),
            last=recent[-1] if recent else None,
            queued=len(schedule.queue),
            running=list(schedule.running),
            recent=recent,
        )


class SchedulePage(msgspec.Struct, frozen=True):
    """Schedules by name; `next` is the cursor of the next page."""

    items: list[ScheduleView]
    next: str | None


class Triggered(msgspec.Struct, frozen=True):
    """The execution of the firing. A queued one starts when the one before it has ended."""

    execution_id: str
    queued: bool
