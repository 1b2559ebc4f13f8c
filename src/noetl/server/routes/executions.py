from __future__ import annotations

import os
import re
from collections.abc import Collection
from datetime import datetime
from functools import partial
from hashlib import sha256
from math import inf
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from noetl.engine.commands import Cancel, Command, Pause, Resume, Signal
from noetl.engine.state import Execution
from noetl.engine.waits import SignalOutcome, signal_result
from noetl.errors import Conflict, NotFound
from noetl.model.event_filter import ALL_EVENTS, EventFilter, Level, types_of
from noetl.model.identity import uuid7
from noetl.model.status import status_phrase
from noetl.runtime.activity import WaitKind
from noetl.runtime.committer import CommandResult
from noetl.runtime.event_pages import PagePlace, row_page
from noetl.runtime.past import PastReader
from noetl.server import execution_views as views
from noetl.server.endpoint import ApiCall, Routes, json_response
from noetl.server.etag import content_tag, is_current, not_modified, weak_tag
from noetl.server.execution_lists import listed_items, missing_pools_of
from noetl.server.parameters import (
    STREAM,
    Count,
    Header,
    ItemPage,
    Limit,
    Nothing,
    QueryString,
    RequestBody,
    RunCursor,
    RunPageQuery,
    StatusList,
    VersionNumber,
    run_cursor,
    run_position,
    text,
)
from noetl.server.problems import Refused
from noetl.server.record_views import stored_summary
from noetl.server.roles import FORMS, PREFIX, WRITE
from noetl.server.sse import EventStream, last_event_id
from noetl.server.stored_details import stored_details
from noetl.server.worker_views import missing_pools
from noetl.store.store import Store, Summary

routes = Routes()

PREFER = Header("Prefer", "`wait=SECONDS`: respond when the execution has ended, or after that time (at most 60).")
IDEMPOTENCY_KEY = Header("Idempotency-Key", "Requests with the same key and content count once.")
STARTS = (PREFER, IDEMPOTENCY_KEY)
BODY_BYTES = 8 << 20
WAIT = re.compile(r"(?:^|[,\s])wait\s*=\s*\"?(\d{1,6})\"?", re.IGNORECASE)
MAX_WAIT_SECONDS = 60
PATH_ONLY = re.compile(r"[\w./@-]{1,500}")  # a path in place of a text
MAX_FORKS = 100  # how many forks of an execution are listed
PARENT = "Id of their parent; `none` for those without one."
Path = Annotated[str, text("Path of their playbook; `shop/*` for all below `shop`.")]
Since = Annotated[datetime, msgspec.Meta(tz=True, description="Earliest start.")] | None


class StartRequest(RequestBody, frozen=True):
    """The playbook to run: a registered `path` (of a `version`), a `playbook_id`, or the text of a `playbook`."""

    path: str | None = None
    version: VersionNumber | None = None
    playbook_id: str | None = None
    playbook: str | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    strict_keys: list[str] = []  # keys of the payload (`a.b`) that are refused if the playbook does not know them


class Started(msgspec.Struct, frozen=True):
    """The new execution, and warnings about its payload."""

    execution_id: str
    warnings: list[str]


@routes.add(
    "POST",
    "/executions",
    yaml=True,
    limit=BODY_BYTES,
    headers=STARTS,
    responses={202: Started, 200: views.ExecutionView},
)
async def start(call: ApiCall, body: StartRequest) -> Response:
    """Start an execution of a registered playbook, or of the text of one (which requires the role author)."""
    api, runtime, is_author = call.api, call.api.host.runtime, call.caller.role in WRITE
    if sum(source is not None for source in (body.path, body.playbook_id, body.playbook)) != 1:
        raise Refused(422, "name what to run with one of: path, playbook_id, playbook")
    if body.version is not None and body.path is None:
        raise Refused(422, "`version` requires `path`")
    if body.path is not None:
        digest = await api.playbooks.registered(body.path, body.version)
    elif body.playbook_id is not None:
        digest = await api.playbooks.stored(body.playbook_id, registered=not is_author)
    elif body.playbook is not None and PATH_ONLY.fullmatch(body.playbook):
        detail = f"`playbook` is the text of a playbook; to start a registered one, use `path`: {body.playbook}"
        raise Refused(422, detail)
    elif is_author:
        digest = await api.playbooks.add(call.caller.key, body.playbook or "")
    else:
        raise Refused(403, f"the role {call.caller.role} may start registered playbooks; a text requires author")
    await api.playbooks.check_keychain(runtime.playbooks.get(digest).playbook)
    execution = await execution_id(call)
    call.starts(execution)
    if "idempotency-key" in call.headers and await api.is_started(execution):
        state, _ = await api.load(execution)
    else:
        actor, strict_keys = call.caller.actor, body.strict_keys
        state = await runtime.start(digest, body.payload, body.ctx, execution, actor=actor, strict_keys=strict_keys)
    return await started(call, execution, Started(execution, list(state.warnings)))


async def execution_id(call: ApiCall, operation: str = "") -> str:
    """A new id, or that of an earlier request with the same Idempotency-Key, operation and body."""
    execution = uuid7(call.api.clock.now(), os.urandom(8))
    if "idempotency-key" not in call.headers:
        return execution
    content = sha256(operation.encode() + await call.body()).hexdigest()
    stored = await call.remember("executions", msgspec.json.encode([execution, content]))
    if stored is None:
        return execution
    earlier, earlier_content = msgspec.json.decode(stored, type=tuple[str, str])
    if earlier_content != content:
        raise Refused(422, "this Idempotency-Key was used with another request", kind="idempotency-key-reused")
    return earlier


async def started(call: ApiCall, execution: str, answer: msgspec.Struct) -> Response:
    """The answer about a new execution; the execution itself if its end was awaited."""
    match = WAIT.search(call.headers.get("prefer", ""))
    seconds = min(MAX_WAIT_SECONDS, int(match[1])) if match else 0
    headers = {"Location": f"{PREFIX}/executions/{execution}"}
    if seconds:
        headers["Preference-Applied"] = f"wait={seconds}"
        state = await call.until_disconnect(call.api.host.wait(execution, seconds))
        if state.over:
            state, summary = await call.api.load_ended(execution)
            related = await call.in_store(call.api.store.count_related, execution)
            view = await execution_view(call, state, summary, related)
            return json_response(view, headers={"ETag": _tag(state, related)} | headers)
    return json_response(answer, 202, headers)


@routes.add("GET", "/executions/{id}", responses={200: views.ExecutionView, 304: None})
async def show_one(call: ApiCall) -> Response:
    """An execution: the output of `noetl run`, and its progress."""
    state, summary = await call.api.load(call.path_params["id"])
    related = await call.in_store(call.api.store.count_related, state.id)
    tag = _tag(state, related)
    if state.over and is_current(call.headers, tag):
        return not_modified(tag)
    return json_response(await execution_view(call, state, summary, related), headers={"ETag": tag})


def _tag(state: Execution, related: tuple[int, int]) -> str:
    return weak_tag("-".join(map(str, (state.seq, *related))))


async def execution_view(
    call: ApiCall, state: Execution, summary: Summary, related: tuple[int, int]
) -> views.ExecutionView:
    """`related` are the numbers of its children and forks."""
    api, runtime = call.api, call.api.host.runtime
    outlines, path = api.histories.outlines, summary.path
    if state.forked is None:
        details = await call.in_store(stored_details, api.store, state, path, outlines, related)
    else:  # the outline of a long log takes longer
        details = await runtime.past.do(lambda past: stored_details(past.store, state, path, outlines, related))
    now = api.clock.now()
    sessions = await call.in_store(api.store.workers) if state.ready else []
    file = runtime.playbooks.get(state.digest).file
    return views.execution_view(state, summary, details, file, now, missing_pools(state, sessions, now))


class ExecutionQuery(RunPageQuery, frozen=True):
    repeatable = frozenset(["status"])

    status: StatusList = ""
    name: Annotated[str, text("Name of their playbook.")] = ""
    path: Path = ""
    parent: Annotated[str, msgspec.Meta(description=PARENT, pattern=rf"^({FORMS['id']}|none)?(?!\n)$")] = ""
    since: Since = None
    until: Annotated[datetime, msgspec.Meta(tz=True, description="They started before this time.")] | None = None
    waits: Annotated[WaitKind | None, msgspec.Meta(description="They have a wait of this kind.")] = None
    q: Annotated[str, text("Part of the name or path of their playbook, or start of their ids.")] = ""
    prefix: Annotated[str, text("Start of their ids; excludes `parent` and `waits`.")] = ""


class ExecutionPage(ItemPage[views.ExecutionItem, str], frozen=True):
    """Executions, newest first; `next` is the cursor of the next page."""


@routes.add("GET", "/executions", responses={200: ExecutionPage, 304: None})
async def list_all(call: ApiCall, query: ExecutionQuery) -> Response:
    """Executions by start time and id, newest first. The ETag ignores how long they run."""
    limit, now, executions = query.limit, call.api.clock.now(), call.api.host.runtime.executions
    if query.prefix and (query.parent or query.waits):
        raise Refused(422, "`prefix` excludes `parent` and `waits`")
    summaries = await call.in_store(_select, call.api.store, query, now)
    following = run_cursor(summaries[limit - 1]) if len(summaries) > limit else None
    current = [executions.current_summary(summary, now) for summary in summaries[:limit]]
    items = await call.in_store(listed_items, call.api.store, current, now)
    tag = content_tag([following, *(item if item.ended else replace(item, duration_ms=0.0) for item in items)])
    if is_current(call.headers, tag):
        return not_modified(tag)
    return json_response(ExecutionPage(items, following), headers={"ETag": tag})


def _select(store: Store, query: ExecutionQuery, now: float) -> list[Summary]:
    parent = query.parent if query.parent not in ("", "none") else None
    on_worker = query.waits == "worker"  # no column has it
    return store.summaries(
        prefix=query.prefix.lower(),
        parent=parent,
        top=query.parent == "none",
        path=query.path or None,
        statuses=query.status.split(",") if query.status else (),
        name=query.name or None,
        waits=None if on_worker else query.waits,
        pools=missing_pools_of(store, now) if on_worker else None,
        contains=query.q,
        since=query.since.timestamp() if query.since is not None else 0.0,
        until=query.until.timestamp() if query.until is not None else inf,
        before=query.before,
        limit=query.limit + 1,
    )


class ExecutionCounts(msgspec.Struct, frozen=True):
    """Number of executions by status."""

    pending: int = 0
    running: int = 0
    waiting: int = 0
    paused: int = 0
    cancelling: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


class CountQuery(QueryString, frozen=True):
    path: Path = ""
    since: Since = None
    parent: Annotated[Literal["none"] | None, msgspec.Meta(description="`none` leaves children out.")] = None


@routes.add("GET", "/executions/counts")
async def counts(call: ApiCall, query: CountQuery) -> ExecutionCounts:
    """Number of executions by status."""
    since, top = query.since.timestamp() if query.since is not None else 0.0, query.parent == "none"
    counted = await call.in_store(lambda: call.api.store.counts(since=since, path=query.path or None, top=top))
    return ExecutionCounts(**counted)


class RelatedView(msgspec.Struct, frozen=True):
    """Related executions: the parent, the source of the fork, a page of the children, and the latest forks."""

    parent: views.ExecutionItem | None
    source: views.ExecutionItem | None
    children: ExecutionPage
    forks: list[views.ExecutionItem]


class RelatedQuery(QueryString, frozen=True):
    after: RunCursor = ""
    limit: Limit = 100


@routes.add("GET", "/executions/{id}/related")
async def related(call: ApiCall, query: RelatedQuery) -> RelatedView:
    """The parent, the source, the children and the forks of an execution. `next` of the children is the `after` of the
    next page."""
    execution, limit, now = call.path_params["id"], query.limit, call.api.clock.now()

    def read(store: Store) -> RelatedView:
        summary = stored_summary(store, execution)
        above = [
            next(iter(store.summaries(prefix=other, limit=1)), None) if other else None
            for other in (summary.parent, summary.source)
        ]
        children = store.summaries(parent=execution, before=run_position(query.after), limit=limit + 1)
        following = run_cursor(children[limit - 1]) if len(children) > limit else None
        forks = store.summaries(source=execution, limit=MAX_FORKS)
        parent, source = (next(iter(listed_items(store, [other], now)), None) if other else None for other in above)
        page = ExecutionPage(listed_items(store, children[:limit], now), following)
        return RelatedView(parent, source, page, listed_items(store, forks, now))

    return await call.in_store(read, call.api.store)


class AfterQuery(QueryString, frozen=True):
    after: Count = 0
    limit: Limit = 100


class EventQuery(AfterQuery, frozen=True):
    type: Annotated[
        str, text("Only events of these types, separated by commas; `step.*` and the names of other versions too.")
    ] = ""
    types: Annotated[str, text("The same as `type`.")] = ""
    before: Annotated[Count | None, msgspec.Meta(description="The last events before this one.")] = None
    level: Annotated[Level, msgspec.Meta(description="`step`: no tasks and items; `task`: no tokens and timers.")] = (
        "event"
    )
    run: Annotated[str, text("Only events of this step run, such as `fetch#1`.")] = ""
    item: Annotated[Count | None, msgspec.Meta(description="Only events of this item of the step run.")] = None
    q: Annotated[str, text("Only events with this text; case-insensitive.")] = ""
    view: Annotated[Literal["event", "row"], msgspec.Meta(description="Whole events, or rows of a list.")] = "event"

    @property
    def filter(self) -> EventFilter:
        """422 for an item without a step run."""
        if self.item is not None and not self.run:
            raise Refused(422, "`item` requires `run`, the step run with the loop")
        return EventFilter(types_of([self.type, self.types], self.level), self.run, self.item, self.q)


class EventPage(ItemPage[views.EventView | list[int | str], int], frozen=True):
    """Events in order. `next` is the `after` of the next page, null at the end of the log; `prev` is the `before` of
    the page before it. With `view=row`, an item is a list: seq, time in milliseconds since 1970, type, subject (empty
    for the execution), status, summary.

    A request reads 20,000 events at most, so with filters a page may have fewer items than its limit. `scanned_to` is
    the last event that was read.
    """

    prev: int | None
    scanned_to: int | None


@routes.add("GET", "/executions/{id}/events", responses={200: EventPage, 204: None}, also=STREAM)
async def events(call: ApiCall, query: EventQuery) -> Response:
    """The event log. With `Accept: text/event-stream` a stream until the end; `Last-Event-ID` resumes it."""
    execution, filter = call.path_params["id"], query.filter
    if STREAM not in call.headers.get("accept", ""):
        if query.after and query.before is not None:
            raise Refused(422, "`after` and `before` exclude each other")
        page = await _event_page(call, execution, query, filter)
        if not page.items:
            await check_exists(call, execution)
        return json_response(page)
    if query.run or query.q or query.before is not None or query.view != "event":
        raise Refused(422, "`before`, `run`, `item`, `q` and `view` are for pages; a stream has `type` and `level`")
    after, last = query.after, last_event_id(call.headers)
    if last is not None:
        after = last
        state, _ = await call.api.load(execution)
        if state.over and after >= state.seq:
            return Response(status_code=204)  # tells a browser not to reconnect
    else:
        await check_exists(call, execution)
    streams = call.api.streams
    content = streams.events(execution, after, filter.types or (), call.is_still_authorized)
    return EventStream(streams, call.caller.key, content)


async def _event_page(call: ApiCall, execution: str, query: EventQuery, filter: EventFilter) -> EventPage:
    place, indexes = PagePlace(query.after, query.before, query.limit), call.api.histories.run_indexes

    def read(store: Store) -> EventPage:
        spans = indexes.of(store, execution, filter.run).spans(filter.item) if filter.run else None
        page = row_page(store, execution, filter, place, spans)
        items: list[Any] = page.texts() if query.view == "row" else []
        if query.view == "event":
            items = [views.EventView(**envelope) for envelope in page.envelopes(store, execution)]
        return EventPage(items, page.next, page.prev, page.scanned_to)

    if filter == ALL_EVENTS:  # a few rows
        return await call.in_store(read, call.api.store)
    return await call.until_disconnect(call.api.host.runtime.past.do(lambda past: read(past.store)))


async def check_exists(call: ApiCall, execution: str) -> None:
    if not await call.in_store(call.api.store.seq, execution):
        raise NotFound(f"execution {execution!r} not found")


class StateQuery(QueryString, frozen=True):
    at: Annotated[VersionNumber | None, msgspec.Meta(description="The seq of its last event; default: all.")] = None
    parts: Annotated[str, text("Only these parts, separated by commas; default: all.")] = ""

    @property
    def selected(self) -> Collection[str]:
        """The names of the parts; 422 if there is no such part."""
        names = [name.strip() for name in self.parts.split(",")] if self.parts else list(views.STATE_PARTS)
        if unknown := [name for name in names if name not in views.STATE_PARTS]:
            raise Refused(422, f"a state has no part {unknown[0]!r}; its parts are {', '.join(views.STATE_PARTS)}")
        return names


@routes.add("GET", "/executions/{id}/state")
async def state(call: ApiCall, query: StateQuery) -> views.StateView:
    """The state after an event: the fold of the log up to there."""
    api, past, execution = call.api, call.api.host.runtime.past, call.path_params["id"]
    parts = query.selected

    def read(past: PastReader, seq: int) -> views.StateView:
        state, at = past.state_at(execution, seq)
        return views.state_view(state, at, past.playbook(state.digest).file, parts)

    if query.at is not None:
        return await call.until_disconnect(past.do(partial(read, seq=query.at)))
    current, _ = await api.load(execution)
    last = await call.in_store(api.store.read, execution, current.seq - 1, 1)
    if not last:
        raise NotFound(f"execution {execution!r} not found")  # it was pruned a moment ago
    return views.state_view(current, last[0].at, api.host.runtime.playbooks.get(current.digest).file, parts)


class VarsView(msgspec.Struct, frozen=True):
    """The variables of a classic playbook."""

    execution_id: str
    vars: dict[str, Any]


@routes.add("GET", "/executions/{id}/vars")
async def variables(call: ApiCall) -> VarsView:
    """The variables of a classic playbook."""
    state, _ = await call.api.load(call.path_params["id"])
    return VarsView(state.id, state.ctx.get("vars", {}))


class CancelRequest(RequestBody, frozen=True):
    """The reason, which is stored in the log."""

    reason: str = ""


class ExecutionStatus(msgspec.Struct, frozen=True):
    """The status of an execution after a command."""

    execution_id: str
    status: views.Status


@routes.add("POST", "/executions/{id}/cancel", optional=True, status=202)
async def cancel(call: ApiCall, body: CancelRequest) -> ExecutionStatus:
    """Cancel an execution and its children."""
    state = (await _handle(call, Cancel(body.reason, call.caller.actor))).state
    return _status("cancel", state, state.status in ("cancelling", "cancelled"))


@routes.add("POST", "/executions/{id}/pause", optional=True, status=202)
async def pause(call: ApiCall, body: Nothing) -> ExecutionStatus:
    """Start no further tasks; running ones finish."""
    state = (await _handle(call, Pause(call.caller.actor))).state
    return _status("pause", state, state.status == "paused")


@routes.add("POST", "/executions/{id}/resume", optional=True, status=202)
async def resume(call: ApiCall, body: Nothing) -> ExecutionStatus:
    """Continue after a pause."""
    state, summary = await call.api.load(call.path_params["id"])
    if summary.local and not state.over:
        command = f"noetl runs resume {state.id} --db {getattr(call.api.store, 'path', 'FILE')}"
        raise Conflict(f"{state.id} belongs to `noetl run`, not to this server: continue it with `{command}`")
    result = await _handle(call, Resume(call.caller.actor))
    state = result.state
    return _status("resume", state, not state.over and (bool(result.events) or state.status == "running"))


async def _handle(call: ApiCall, command: Command) -> CommandResult:
    return await call.api.host.runtime.committer.handle(call.path_params["id"], command)


def _status(command: str, state: Execution, is_done: bool) -> ExecutionStatus:
    if is_done:
        return ExecutionStatus(state.id, cast(views.Status, state.shown_status))
    raise Conflict(f"cannot {command} {state.id}: the run {status_phrase(state.shown_status)}")


class SignalRequest(RequestBody, frozen=True):
    """A signal. Signals with the same id count once."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    id: str | None = None
    payload: Any = None
    keep: bool = True  # whether it is kept until something waits for it; if not, it counts only for current waits


class SignalAnswer(msgspec.Struct, frozen=True):
    """`accepted`, `duplicate` if the id was received before, `late` after the end, or `dropped`: nothing waited."""

    execution_id: str
    name: str
    id: str
    answer: SignalOutcome
    accepted: bool
    duplicate: bool
    late: bool
    pending: bool  # whether it was accepted and nothing waits for it yet
    awaited: list[str]  # the names of the signals that the execution waits for


@routes.add("POST", "/executions/{id}/signals", limit=BODY_BYTES, headers=(IDEMPOTENCY_KEY,), status=202)
async def signal(call: ApiCall, body: SignalRequest) -> SignalAnswer:
    """Send a signal to an execution. A signal that nothing waits for yet is stored, unless `keep` is false."""
    id = body.id or call.headers.get("idempotency-key") or uuid7(call.api.clock.now(), os.urandom(8))
    signal = Signal(body.name, id, body.payload, body.keep, call.caller.actor)
    decided = await _handle(call, signal)
    answer, pending, awaited = signal_result(decided.state, decided.events, signal)
    accepted, duplicate, late = answer == "accepted", answer == "duplicate", answer == "late"
    return SignalAnswer(decided.state.id, body.name, id, answer, accepted, duplicate, late, pending, awaited)
