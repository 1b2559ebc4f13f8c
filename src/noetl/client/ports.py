"""The client of the command line: a database (`LocalClient`) and a server (`HttpClient`) offer the same methods.

Runs, schedules, tokens and so on are JSON bodies of the API, as maps: docs/reference/openapi.json has their schemas. A
RUN is an id, the beginning of one, or `last`. Methods raise NotFound for a name that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from noetl.errors import NotFound, UsageError

if TYPE_CHECKING:
    from noetl.runtime.catalog import PlaybookSource
    from noetl.store.access import Role
    from noetl.store.store import Row

Json = dict[str, Any]
Items = list[Json]
OnJson = Callable[[Json], None]
Warn = Callable[[str], None]
"""Takes a line for people, such as a warning."""
OnProgress = Callable[[str, int, int], None]
"""Takes the name of what is being checked, the number of events checked, and the number of all its events."""

LAST = "last"
MAX_MATCHES = 10
"""How many runs are listed where the beginning of an id is ambiguous."""
ALL = 1_000_000
"""Ids of children are not in chronological order: finding the latest run takes all of them."""
PAGE = 1000


class RunOptions(NamedTuple):
    """What to run: a file, or a version of a registered playbook."""

    payload: Json
    source: PlaybookSource | None = None
    path: str = ""
    version: int | None = None


class ForkOptions(NamedTuple):
    """How a new run continues another one: after event `at`, or before the failure with `retry`."""

    ctx: Json
    source: PlaybookSource | None = None
    """An edited playbook."""
    at: int | None = None
    retry: bool = False


class ProgressView:
    """Shows the events of a run; this one shows nothing."""

    def begin(self, name: str, execution: str, last_old: int) -> None:
        """Called first. The events up to `last_old` were shown before."""

    def show(self, rows: Sequence[Row], envelopes: Callable[[], Items]) -> None:
        """Called with new events, or without any so that times can be updated. Events of a newer version have only an
        envelope."""

    def close(self) -> None:
        """Called last."""


NewView = Callable[[], ProgressView | None]
"""A run that is resumed may need a second view: after it was taken over from a process that died."""


class RunsPort(Protocol):
    """On a database, this process runs executions, and they end with it. A server goes on without the client."""

    in_process: bool

    def events(self, run: str, after: int = 0) -> Iterator[Items]: ...
    def output(self, run: str) -> Items: ...
    def explain(self, run: str, step: str, step_run: str | None) -> Json: ...
    def watch(self, run: str, view: ProgressView | None, timeout: float | None = None) -> Json: ...
    def fork(self, run: str, fork: ForkOptions, view: ProgressView | None, on_forked: OnJson) -> Json: ...
    def pause(self, run: str) -> Json: ...
    def signal(self, run: str, name: str, id: str, payload: Any, keep: bool) -> Json: ...

    def list(self, status: str | None, limit: int) -> Items:
        """Newest first. `orphaned` is true for an open run whose process is gone."""

    def get(self, run: str) -> Json:
        """The run, with the reason of a cancel; `error_line` is the line of the playbook with the error."""

    def playbook(self, run: Json) -> Json | None:
        """Id, file and text of a run's playbook; None if it is not available. A server has only registered ones."""

    def contents(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The contents of references; keys without content are left out."""

    def replay(self, run: str, source: PlaybookSource | None) -> Json:
        """Fold the log again and compare with the stored state; with a playbook, decide the log again."""

    def verify(self, run: str | None, on_progress: OnProgress | None = None) -> Json:
        """Check one run or all: the number of `executions`, and the `violations`."""

    def start(self, start: RunOptions) -> str:
        """Start a run without waiting for it; returns its id. UsageError on a database."""

    def run(self, start: RunOptions, view: ProgressView | None, timeout: float | None = None) -> Json:
        """Run to the end. Interrupted after Ctrl-C: on a database the run can be resumed, on a server it goes on.
        TimedOut if a server takes longer than `timeout`, which has no effect on a database."""

    def cancel(self, run: str, reason: str) -> Json:
        """Also cancels open children; Conflict if the run has ended."""

    def resume(self, run: str, new_view: NewView) -> Json:
        """Continue a paused or abandoned run and follow it to its end."""

    def resume_all(self, new_view: NewView, on_end: OnJson) -> int:
        """Resume every paused or abandoned run, and return their number. `on_end` gets each run when it ends."""

    def prune(self, age: float, dry_run: bool) -> tuple[int, Items]:
        """The number of removed runs; with `dry_run` the runs that would be removed."""


class ResourcePort(Protocol):
    def list(self) -> Items: ...
    def delete(self, name: str) -> None: ...


class CatalogPort(Protocol):
    def register(self, source: PlaybookSource) -> Json: ...
    def list(self, prefix: str) -> Items: ...
    def get(self, path: str, version: int | None) -> Json: ...


class CredentialsPort(ResourcePort, Protocol):
    def set(self, name: str, kind: str, fields: Json, paths: tuple[str, ...], pools: tuple[str, ...]) -> None: ...

    def rotate(self, forget_old: bool) -> Json:
        """Wrap every credential with a new master key: `credentials` is their number, `key` the id of the new key.
        UsageError on a server, whose clients have no access to its key."""


class TokensPort(ResourcePort, Protocol):
    """To delete a token is to revoke it: it stays in the list."""

    def create(self, role: Role, name: str, pool: str | None, lifetime: float | None) -> Json:
        """The only answer that contains the secret."""


class UsersPort(ResourcePort, Protocol):
    def add(self, name: str, password: str, role: Role) -> None: ...


class SchedulesPort(ResourcePort, Protocol):
    def get(self, name: str) -> Json: ...
    def pause(self, name: str) -> Json: ...
    def resume(self, name: str) -> Json: ...

    def put(self, name: str, request: Json, replace: bool) -> Json:
        """Conflict if the schedule exists, unless `replace` is set."""

    def trigger(self, name: str) -> Json:
        """Fire now. The run is `queued` if it has to wait for the previous one; a server starts it."""


class HooksPort(ResourcePort, Protocol):
    def rotate(self, name: str) -> Json: ...

    def put(self, name: str, path: str, version: int | None, secret: str | None) -> Json:
        """Add or change a hook. `secret` of the answer is set if it was generated."""


class Client(Protocol):
    @property
    def runs(self) -> RunsPort: ...
    @property
    def catalog(self) -> CatalogPort: ...
    @property
    def credentials(self) -> CredentialsPort: ...
    @property
    def tokens(self) -> TokensPort: ...
    @property
    def users(self) -> UsersPort: ...
    @property
    def schedules(self) -> SchedulesPort: ...
    @property
    def hooks(self) -> HooksPort: ...
    def close(self) -> None: ...


def not_one_run(run: str, matches: Sequence[tuple[str, str, str]]) -> NotFound | UsageError:
    """The error for a RUN that matches no run, or several: each with its id, name and status."""
    if run == LAST:
        return NotFound("there are no runs yet: start one with `noetl run FILE`")
    if not matches:
        return NotFound(f"run {run!r} not found: `noetl runs list` lists all runs")
    names = "\n".join(f"  {'  '.join(match)}" for match in matches[:MAX_MATCHES])
    more = "\n  ..." if len(matches) > MAX_MATCHES else ""
    return UsageError(f"{run!r} matches several runs; use more characters of the id:\n{names}{more}")
