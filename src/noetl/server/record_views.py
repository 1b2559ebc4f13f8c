"""Stored records as the API and the command line show them: without secrets, and with times as RFC 3339."""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec

from noetl.errors import NotFound
from noetl.store.access import Role
from noetl.store.store import CatalogVersion, Store, Summary
from noetl.store.triggers import Missed, Outcome, Overlap, Schedule
from noetl.timestamps import optional_rfc3339, rfc3339

TIMES = frozenset(["created", "updated", "expires", "revoked", "registered", "started", "ended", "due", "at"])
"""Names of fields that are seconds in a record and RFC 3339 in its view."""


def stored_summary(store: Store, execution: str) -> Summary:
    """An execution as lists have it; NotFound if there is none, or it was pruned a moment ago."""
    summaries = store.summaries(prefix=execution, limit=1)
    if not summaries:
        raise NotFound(f"execution {execution!r} not found")
    return summaries[0]


class RecordView(msgspec.Struct, frozen=True):
    @classmethod
    def of(cls, record: object, **values: Any) -> Self:
        """The fields that the record has under the same names, and the given values of the others."""
        for name in cls.__struct_fields__:
            if name not in values:
                value = getattr(record, name)
                values[name] = optional_rfc3339(value) if name in TIMES else value
        return cls(**values)


class PlaybookVersion(RecordView, frozen=True, kw_only=True):
    """A version of a playbook. `label` is `metadata.version`."""

    version: int
    playbook_id: str
    label: str
    registered: str


class LastRun(RecordView, frozen=True):
    """The latest execution of a playbook."""

    execution_id: str
    status: str
    started: str


class PlaybookItem(PlaybookVersion, frozen=True):
    """A playbook in a list, with its current version and its latest execution."""

    path: str  # first in JSON: the others are keywords
    last_run: LastRun | None


class HookView(RecordView, frozen=True):
    """A hook without its secret."""

    name: str
    path: str
    version: int | None
    created: str
    updated: str


class FiredView(RecordView, frozen=True):
    """The outcome of a firing, or of `count` in a row; `due` is the scheduled time (of the last of them)."""

    due: str
    at: str
    outcome: Outcome
    execution_id: str | None
    reason: str
    count: int


class ScheduleView(RecordView, frozen=True):
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
    upcoming: list[str]  # the next five firings
    last: FiredView | None
    queued: int
    running: list[str]
    recent: list[FiredView]


class CredentialView(RecordView, frozen=True):
    """A credential without its values."""

    name: str
    kind: str
    paths: list[str]
    pools: list[str]
    created: str
    updated: str


class CredentialDetails(CredentialView, frozen=True):
    """A credential. `fields` has the values that are not secret, and `(secret)` for the others."""

    fields: dict[str, Any]


class TokenItem(RecordView, frozen=True):
    """A token without its secret."""

    id: str
    role: Role
    name: str
    pool: str | None
    created: str
    expires: str | None
    revoked: str | None


class NewToken(RecordView, frozen=True):
    """A new token. Its secret is sent only once: the server stores its hash."""

    id: str
    token: str
    role: Role
    name: str
    pool: str | None
    expires: str | None


class UserView(RecordView, frozen=True):
    """A person who can sign in."""

    name: str
    role: Role
    created: str


def playbook_item(store: Store, path: str) -> PlaybookItem:
    version = store.versions(path, 1)[0]
    return PlaybookItem.of(version, path=path, playbook_id=version.digest, last_run=last_run(store, path))


def last_run(store: Store, path: str) -> LastRun | None:
    latest = store.summaries(path=path, limit=1)
    return LastRun.of(latest[0]) if latest else None


def version_view(version: CatalogVersion) -> PlaybookVersion:
    return PlaybookVersion.of(version, playbook_id=version.digest)


class StoredSchedule(ScheduleView, frozen=True):
    """A schedule after a request, and warnings about the inputs of its runs."""

    warnings: list[str]


def schedule_view(schedule: Schedule) -> ScheduleView:
    from noetl.triggers.schedules import upcoming  # with the modules of cron, which `noetl run` does not need

    recent = [FiredView.of(fired, execution_id=fired.execution) for fired in schedule.recent]
    return ScheduleView.of(
        schedule,
        next=None if schedule.paused else optional_rfc3339(schedule.next),
        upcoming=[rfc3339(due) for due in upcoming(schedule)],
        last=recent[-1] if recent else None,
        queued=len(schedule.queue),
        recent=recent,
    )
