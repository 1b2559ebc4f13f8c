"""The client of the command line: a database (`LocalClient`) and a server (`HttpClient`) offer the same methods.

Runs, schedules, tokens and so on are JSON bodies of the API, as maps: docs/reference/openapi.json has their schemas. A
RUN is an id, the beginning of one, `last`, `last~1` (the one before) or `last:NAME` (of a playbook). Methods raise
NotFound for a name that does not exist. On a database, this process runs executions, and they end with it. A server
goes on without the client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from noetl.errors import NotFound, UsageError

if TYPE_CHECKING:
    from noetl.client.http import HttpClient
    from noetl.client.local import LocalClient
    from noetl.runtime.audit import AuditProgress
    from noetl.runtime.catalog import PlaybookSource
    from noetl.store.store import Row

Client: TypeAlias = "LocalClient | HttpClient"
Json = dict[str, Any]
Items = list[Json]
Warn = Callable[[str], None]  # takes a line for people, such as a warning
OnProgress: TypeAlias = "Callable[[str, AuditProgress], None]"  # takes the title of the checked log

LAST = re.compile(r"last(?::(?P<name>.+?))?(?:~(?P<back>\d{1,6}))?")
MAX_MATCHES = 10  # how many runs are listed where the beginning of an id is ambiguous
MAX_OUTAGE_SECONDS = 60.0  # how long a server may be unreachable while a run is followed
ALL = 1_000_000
PAGE = 1000


class NewRun(NamedTuple):
    """The body of the request that starts a run, a fork (with `at`) or a retry; and the file of its playbook, if the
    playbook is not a stored one."""

    body: Json
    source: PlaybookSource | None = None


class RunFilter(NamedTuple):
    """Which runs to list. None selects all."""

    statuses: tuple[str, ...] = ()  # empty: all
    name: str | None = None
    path: str | None = None  # `shop/*`: all below `shop`
    parent: str | None = None  # a RUN
    top: bool = False  # whether only runs without a parent are listed
    since: float = 0.0  # earliest start
    until: float = inf  # they started before this time
    waits: str | None = None  # a kind of wait


class ExplainArgs(NamedTuple):
    """The subject of an explanation: a step, a run or an item of it, as of the event `at`; or the decision of the event
    `seq`."""

    step: str | None = None
    run: str | None = None
    item: int | None = None
    seq: int | None = None
    at: int | None = None
    limit: int = 20  # maximum number of decisions


SignalCommands = Callable[[str, tuple[str, ...]], Sequence[str]]
"""The commands that send the signals which a step waits for."""


class ProgressView:
    """Shows the events of a run; this one shows nothing."""

    def begin(self, name: str, execution: str, last_old: int, signal_commands: SignalCommands) -> None:
        """Called first. The events up to `last_old` were shown before."""

    def show(self, rows: Sequence[Row], envelopes: Callable[[], Items]) -> None:
        """Called with new events, or without any so that times can be updated. Events of a newer version have only an
        envelope."""

    def close(self) -> None:
        """Called last."""


def print_warnings(warnings: Iterable[str], warn: Warn) -> None:
    """Print the warnings about the inputs of a started run."""
    for warning in warnings:
        warn(f"noetl: warning: {warning}")


NewView = Callable[[], ProgressView | None]
"""A run that is resumed may need a second view: after it was taken over from a process that died."""


def latest(run: str) -> tuple[RunFilter, int] | None:
    """The list and the place in it that `last`, `last~1` or `last:NAME` mean; None for an id."""
    match = LAST.fullmatch(run)
    return match and (RunFilter(name=match["name"], top=match["name"] is None), int(match["back"] or 0))


def no_worker(pool: str, url: str | None) -> str:
    """The message about ready work of a pool without active workers; `url` is that of the server, if there is one."""
    if url is None:
        remedy = f"set NOETL_SERVER to the address of the server, and start one with `noetl worker --pool {pool}`"
    else:
        remedy = f"start one with `noetl worker --server {url} --pool {pool}`"
    return f"pool {pool!r} has no active worker: {remedy}"


def not_one_run(run: str, matches: Sequence[tuple[str, str, str]]) -> NotFound | UsageError:
    """The error for a RUN that matches no run, or several: each with its id, name and status."""
    if run == "last":
        return NotFound("there are no runs yet: start one with `noetl run FILE`")
    if not matches:
        return NotFound(f"run {run!r} not found: `noetl runs list` lists all runs")
    names = "\n".join(f"  {'  '.join(match)}" for match in matches[:MAX_MATCHES])
    more = "\n  ..." if len(matches) > MAX_MATCHES else ""
    return UsageError(f"{run!r} matches several runs; use more characters of the id:\n{names}{more}")
