"""Responses of /livez, /readyz, /version and /workers."""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.server.health import DependencyStatus
from noetl.store.ports import WorkerSession
from noetl.timestamps import optional_rfc3339, rfc3339


class Liveness(msgspec.Struct, frozen=True):
    """The server responds."""

    status: Literal["ok"] = "ok"


class Dependency(msgspec.Struct, frozen=True):
    """A service that the server uses; `required` if the server cannot work without it."""

    name: str
    status: Literal["ok", "down"]
    detail: str
    required: bool
    since: str
    seconds: float

    @classmethod
    def of(cls, name: str, status: DependencyStatus) -> Dependency:
        word: Literal["ok", "down"] = "ok" if status.is_up else "down"
        return cls(name, word, status.detail, status.required, rfc3339(status.since), round(status.seconds, 3))


class Readiness(msgspec.Struct, frozen=True):
    """Whether the server can work; `checks` has `ok` or the error of each dependency."""

    status: Literal["ok", "down"]
    checks: dict[str, str]
    dependencies: list[Dependency]


class Version(msgspec.Struct, frozen=True):
    """The version of the server and of its API."""

    name: str
    version: str
    api: str


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker at its last heartbeat."""

    worker: str
    pool: str
    slots: int
    busy: int
    host: str
    version: str
    started: str | None
    last_heard: str | None

    @classmethod
    def of(cls, worker: WorkerSession) -> WorkerView:
        return cls(
            worker=worker.worker,
            pool=worker.pool,
            slots=worker.slots,
            busy=worker.busy,
            host=worker.host,
            version=worker.version,
            started=optional_rfc3339(worker.started),
            last_heard=optional_rfc3339(worker.beat),
        )


class WorkerPage(msgspec.Struct, frozen=True):
    items: list[WorkerView]
