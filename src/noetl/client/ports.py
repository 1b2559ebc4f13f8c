"""What the command line can ask for: `LocalClient` does it on a database, `HttpClient` asks a server.

Runs, schedules, tokens and so on are JSON bodies of the API, as maps: docs/reference/openapi.json has their schemas. A
RUN is an id, the beginning of one, or `last`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from noetl.errors import NotFound, UsageError

if TYPE_CHECKING:
    from noetl.runtime.catalog import Source
    from noetl.store.access import Role
    from noetl.store.ports import Row

Json = dict[str, Any]
Items = list[Json]
Warn = Callable[[str], None]
"""Takes a line for people, such as a warning."""
OnProgress = Callable[[str, int, int], None]
"""Takes the name of what is being checked, the number of events checked, and the number of all its events."""

LAST = "last"
MAX_MATCHES = 10
"""How many runs are listed where the beginning of an id is ambiguous."""
ALL = 1_000_000
"""Ids of children are not in chronological order: finding the latest run takes all of them."""
TERMINAL = ("succeeded", "failed", "cancelled")
PAGE = 1000
LISTED = ("execution_id", "name", "path", "status", "started", "ended", "duration_ms")
"""Fields of a run in a list."""


class Start(NamedTuple):
    """What to run: a file, or a version of a registered playbook."""

    payload: Json
    source: Source | None = None
    path: str = ""
    version: int | None = None


class Fork(NamedTuple):
    """How a new run continues another one: after event `at`, or before the failure with `retry`."""

    ctx: Json
    source: Source | None = None
    """An edited playbook."""
    at: int | None = None
    retry: bool = False


class View(Protocol):
    """Shows the events of a run."""

    def begin(self, name: str, execution: str, seen: int) -> None:
        """Called first. The events up to `seen` are old."""

    def show(self, rows: Sequence[Row], envelopes: Callable[[], Items]) -> None:
        """Called with new events, or without any so that times can be updated. Events of a newer version have only an
        envelope."""

    def close(self) -> None:
        """Called last."""


NewView = Callable[[], View | None]
"""A run that is resumed may need a second view: after it was taken over from a process that died."""


class Runs(Protocol):
    """Executions. Methods with a view wait for the end of the run."""

    in_process: bool
    """Whether runs are executed by this process, which must then wait for their end."""

    def list(self, status: str | None, limit: int) -> Items:
        """Newest first. `orphaned` is true for an open run whose process is gone."""

    def get(self, run: str) -> Json:
        """Where the text of the playbook is at hand, `error_line` is the line of the error."""

    def events(self, run: str, after: int = 0) -> Iterator[Items]: ...
    def output(self, run: str) -> Items: ...

    def playbook(self, run: Json) -> Json | None:
        """Id, file and text of a run's playbook; None if it is not available."""

    def contents(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The contents of references; keys without content are left out."""

    def start(self, start: Start) -> str:
        """Start a run without waiting for it; returns its id."""

    def run(self, start: Start, view: View | None, timeout: float | None = None) -> Json:
        """TimedOut if the run takes longer than `timeout`, Interrupted after Ctrl-C; the run can then be resumed."""

    def watch(self, run: str, view: View | None, timeout: float | None) -> Json: ...
    def fork(self, run: str, fork: Fork, view: View | None, on_forked: Callable[[Json], None]) -> Json: ...
    def resume(self, run: str, new_view: NewView) -> Json: ...

    def resume_all(self, new_view: NewView, on_end: Callable[[Json], None]) -> int:
        """Resume every paused or abandoned run, and return their number. `on_end` gets each run when it ends."""

    def cancel(self, run: str, reason: str) -> Json: ...
    def pause(self, run: str) -> Json: ...
    def signal(self, run: str, name: str, id: str, payload: Any) -> Json: ...
    def explain(self, run: str, step: str, step_run: str | None) -> Json: ...
    def replay(self, run: str, source: Source | None) -> Json: ...

    def verify(self, run: str | None, on_progress: OnProgress | None = None) -> Json:
        """The number of runs that were checked, and every violation."""

    def prune(self, age: float, dry_run: bool) -> tuple[int, Items]:
        """The number of removed runs; with `dry_run` the runs that would be removed."""


class Catalog(Protocol):
    """Registered playbooks."""

    def register(self, source: Source) -> Json: ...
    def list(self, prefix: str) -> Items: ...
    def get(self, path: str, version: int | None) -> Json: ...


class Credentials(Protocol):
    """Credentials, without their values."""

    def set(self, name: str, kind: str, fields: Json, paths: tuple[str, ...], pools: tuple[str, ...]) -> None: ...
    def list(self) -> Items: ...
    def delete(self, name: str) -> None: ...

    def rotate(self, forget_old: bool) -> Json:
        """Wrap every credential with a new master key: `credentials` is their number, `key` the id of the new key."""


class Tokens(Protocol):
    """Tokens of a server."""

    def create(self, role: Role, name: str, pool: str | None, lifetime: float | None) -> Json: ...
    def list(self) -> Items: ...
    def revoke(self, id: str) -> None: ...


class Users(Protocol):
    """People who can sign in to a server."""

    def add(self, name: str, password: str, role: Role) -> None: ...
    def list(self) -> Items: ...
    def delete(self, name: str) -> None: ...


class Schedules(Protocol):
    """Playbooks that start at certain times."""

    def put(self, name: str, request: Json, replace: bool) -> Json: ...
    def list(self) -> Items: ...
    def get(self, name: str) -> Json: ...
    def pause(self, name: str) -> Json: ...
    def resume(self, name: str) -> Json: ...
    def trigger(self, name: str) -> Json: ...
    def delete(self, name: str) -> None: ...


class Hooks(Protocol):
    """Signed requests that start playbooks. `secret` is present only in the answer to the call that generated it."""

    def put(self, name: str, path: str, version: int | None, secret: str | None) -> Json: ...
    def list(self) -> Items: ...
    def rotate(self, name: str) -> Json: ...
    def delete(self, name: str) -> None: ...


class Client(Protocol):
    """All of it."""

    @property
    def runs(self) -> Runs: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def credentials(self) -> Credentials: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def users(self) -> Users: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def hooks(self) -> Hooks: ...
    def close(self) -> None: ...


def no_runs() -> NotFound:
    return NotFound("there are no runs yet: start one with `noetl run FILE`")


def not_one_run(run: str, matches: Sequence[tuple[str, str, str]]) -> NotFound | UsageError:
    """The error for a RUN that matches no run, or several: each with its id, name and status."""
    if not matches:
        return NotFound(f"run {run!r} not found: `noetl runs list` lists all runs")
    names = "\n".join(f"  {'  '.join(match)}" for match in matches[:MAX_MATCHES])
    more = "\n  ..." if len(matches) > MAX_MATCHES else ""
    return UsageError(f"{run!r} matches several runs; use more characters of the id:\n{names}{more}")
