"""/executions: start them, look at them, and speak to them."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec
from starlette.responses import Response

from noetl.engine.commands import Cancel, Command, Pause, Resume, Signal
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound
from noetl.model.identity import uuid7
from noetl.model.status import STATUSES
from noetl.runtime.history import state_at
from noetl.server import show, sse
from noetl.server.call import Call, Query, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.roles import FORMS, PREFIX, WRITE
from noetl.server.wire import (
    CancelRequest,
    EventPage,
    ExecutionPage,
    ExecutionView,
    LogPage,
    Nothing,
    SignalAnswer,
    SignalRequest,
    Standing,
    Started,
    StartRequest,
    StateView,
    VarsView,
)
from noetl.store.ports import Store, Summary

routes = Routes()

PAYLOAD_BYTES = 8 << 20
WAIT = re.compile(r"(?:^|[,\s])wait\s*=\s*\"?(\d{1,6})\"?", re.IGNORECASE)
LONGEST_WAIT = 60
KEY_LENGTH = 200
LOOKS = 20
ID = re.compile(FORMS["id"])
LOG_READ, LOG_PAGE_CHARACTERS = 100, 8 << 20
"""Lines per read, and the maximum text size of a page."""

LIMIT = Query("limit", "integer", "How many at most.", 1, 1_000)
AFTER = Query("after", "integer", "Only what comes after this number.")
PREFER = Query("Prefer", says="`wait=SECONDS`: answer when the execution has ended, or the time is over (60 at most).")
ONCE = Query("Idempotency-Key", says="Sent again with the same key and content, the request counts once.")


# -- starting -------------------------------------------------------------------------------------------------------


@routes.add(
    "POST",
    "/executions",
    body=StartRequest,
    limit=PAYLOAD_BYTES,
    headers=(PREFER, ONCE),
    answers={202: Started, 200: ExecutionView},
)
async def start(call: Call) -> Response:
    """Start an execution of a registered playbook, or of a text that comes along (which takes the role author)."""
    api = call.api
    request = await call.read(StartRequest)
    digest = await _playbook(call, request)
    await api.playbooks.check_keychain(api.runtime.playbook(digest))
    execution = uuid7(api.clock.now(), os.urandom(8))
    if b"idempotency-key" in call.headers:
        execution = await once(call, execution)
    call.begins(execution)
    if not await _exists(call, execution):
        await api.service.start(digest, request.payload, request.ctx, execution)
    return await begun(call, execution, {"execution_id": execution})


async def begun(call: Call, execution: str, found: dict[str, Any]) -> Response:
    """What is answered about an execution that has begun; itself, if its end was waited for."""
    seconds = _wait(call)
    location = {"Location": f"{PREFIX}/executions/{execution}"}
    if seconds:
        location["Preference-Applied"] = f"wait={seconds}"
        state = await call.unless_gone(call.api.service.wait(execution, seconds))
        if state.over:
            return _shown(call, *await call.api.look_at_end(execution), location)
    return json_response(found, 202, location)


async def _playbook(call: Call, request: StartRequest) -> str:
    """The digest of what is to run."""
    given = [one for one in (request.path, request.playbook_id, request.playbook) if one is not None]
    if len(given) != 1:
        raise Refused(422, "say what to run by one of: path, playbook_id, playbook")
    if request.version is not None and request.path is None:
        raise Refused(422, "a version belongs to a path")
    playbooks = call.api.playbooks
    if request.path is not None:
        return await playbooks.named(request.path, request.version)
    if request.playbook_id is not None:
        return await _known(call, request.playbook_id)
    if call.caller.role not in WRITE:
        raise Refused(403, f"the role {call.caller.role} may start registered playbooks; a text takes author")
    assert request.playbook is not None
    return await playbooks.add(call.caller.key, request.playbook.encode("utf-8", "surrogatepass"))


async def _known(call: Call, digest: str) -> str:
    """The digest of a stored playbook. Only authors may use one that is stored but not registered."""
    unknown = NotFound(f"playbook {digest[:64]!r} not found")
    try:
        playbook = await call.api.playbooks.know(digest)
    except NotFound:
        raise unknown from None
    if call.caller.role not in WRITE:
        versions = await call.in_store(call.api.store.versions, playbook.path)
        if not any(version.digest == digest for version in versions):
            raise unknown
    return digest


async def once(call: Call, execution: str, about: str = "") -> str:
    """The execution that belongs to an Idempotency-Key: a new one the first time, the same one ever after. `about` is
    what the request means beside its content."""
    key = call.header(b"idempotency-key")
    if not key or len(key) > KEY_LENGTH or not key.isprintable():
        raise Refused(422, f"an Idempotency-Key has 1 to {KEY_LENGTH} printable characters")
    content = show.hashed(about.encode() + await call.content())
    scope = f"executions {call.caller.key}"
    answer = msgspec.json.encode([execution, content])
    kept = await call.in_store(call.api.store.remember, scope, key, answer, call.api.clock.now())
    if kept is None:
        return execution
    known, before = msgspec.json.decode(kept, type=tuple[str, str])
    if before != content:
        raise Refused(422, "this Idempotency-Key was used before with another content", kind="idempotency-key-reused")
    return known


async def _exists(call: Call, execution: str) -> bool:
    """Whether a request that came before has started it; only one with a key can have."""
    if b"idempotency-key" not in call.headers:
        return False
    return execution in call.api.runtime.cells or bool(await call.in_store(call.api.store.seq, execution))


def _wait(call: Call) -> int:
    match = WAIT.search(call.header(b"prefer"))
    return min(LONGEST_WAIT, int(match[1])) if match else 0


# -- looking --------------------------------------------------------------------------------------------------------


@routes.add("GET", "/executions/{id}", answers={200: ExecutionView, 304: None})
async def show_one(call: Call) -> Response:
    """An execution: what `noetl run` prints, and how far it is."""
    state, summary = await call.api.look(call.params["id"])
    if state.over and call.header(b"if-none-match") == _tag(state):
        return Response(status_code=304, headers={"ETag": _tag(state)})
    return _shown(call, state, summary)


def _tag(state: Execution) -> str:
    return f'W/"{state.seq}"'


def _shown(call: Call, state: Execution, summary: Summary, headers: dict[str, str] | None = None) -> Response:
    file = call.api.runtime.loaded_playbook(state.digest).file
    found = show.execution(state, summary, file, call.api.clock.now())
    return json_response(found, headers={"ETag": _tag(state)} | (headers or {}), enc_hook=show.plain)


@routes.add(
    "GET",
    "/executions",
    query=(
        Query("status", says=f"One of {', '.join(STATUSES)}."),
        Query("path", says="Of this playbook."),
        Query("prefix", says="Whose id begins so."),
        Query("cursor", says="Where the page before this one ended."),
        LIMIT,
    ),
    answers={200: ExecutionPage},
)
async def list_all(call: Call) -> Response:
    """Executions, newest first."""
    status, path, prefix = call.text("status") or None, call.text("path"), call.text("prefix")
    if status is not None and status not in STATUSES:
        raise Refused(422, f"status is one of {', '.join(STATUSES)}")
    limit, cursor = call.number("limit", 100), call.text("cursor")
    if cursor and not ID.fullmatch(cursor):
        raise Refused(422, "the cursor is the `next` of a page")
    found, more = await call.in_store(_page, call.api.store, status, path, prefix.lower(), cursor, limit)
    now = call.api.clock.now()
    return json_response({"items": [show.item(one, now) for one in found], "next": more})


def _page(
    store: Store, status: str | None, path: str, prefix: str, cursor: str, limit: int
) -> tuple[list[Summary], str | None]:
    """The executions behind a cursor, and the cursor of what comes behind them.

    No index knows paths: so many rows are looked at and no more, and a page may have less than it could, even nothing.
    """
    found: list[Summary] = []
    for _ in range(LOOKS):
        rows = store.summaries(status=status, prefix=prefix, before=cursor, limit=limit + 1)
        for one in rows[:limit]:
            cursor = one.execution_id
            if path in ("", one.path):
                found.append(one)
            if len(found) == limit:
                return found, cursor if one is not rows[-1] else None
        if len(rows) <= limit:
            return found, None
    return found, cursor


@routes.add("GET", "/executions/{id}/events", query=(AFTER, LIMIT), answers={200: EventPage, 204: None})
async def events(call: Call) -> Response:
    """The log. With `Accept: text/event-stream` a stream that goes on until the end; `Last-Event-ID` resumes it."""
    execution, api = call.params["id"], call.api
    after = call.number("after", 0)
    if "text/event-stream" in call.header(b"accept"):
        return await _stream(call, execution, after)
    limit = call.number("limit", 100)
    rows = await call.in_store(api.store.read, execution, after, limit + 1)
    if not rows and not await call.in_store(api.store.seq, execution):
        raise NotFound(f"no execution {execution}")
    items = [show.event(execution, row) for row in rows[:limit]]
    more = rows[limit - 1].seq if len(rows) > limit else None
    return json_response({"items": items, "next": more}, enc_hook=show.plain)


async def _stream(call: Call, execution: str, after: int) -> Response:
    seen = call.header(b"last-event-id")
    if seen:
        if not (seen.isascii() and seen.isdigit() and len(seen) < 16):
            raise Refused(422, "Last-Event-ID is the seq of an event")
        after = int(seen)
        state, _ = await call.api.look(execution)
        if state.over and after >= state.seq:
            return Response(status_code=204)  # a browser that has seen the end does not come again
    elif not await call.in_store(call.api.store.seq, execution):
        raise NotFound(f"no execution {execution}")
    written = sse.stream(call.api, execution, after, call.is_still_let_in)
    return sse.EventStream(call.api, call.caller.key, written)


@routes.add(
    "GET",
    "/executions/{id}/state",
    query=(Query("at", "integer", "The seq of the last event to take in; all if it is not given.", 1),),
    answers={200: StateView},
)
async def state(call: Call) -> Response:
    """The state as it was after an event: the fold of the log up to there."""
    api, execution = call.api, call.params["id"]
    now, _ = await api.look(execution)
    file = api.runtime.loaded_playbook(now.digest).file
    at = call.number("at", now.seq)
    if at > now.seq:
        raise Refused(404, f"{execution} has {now.seq:,} events")
    if at == now.seq:
        last = await call.in_store(api.store.read, execution, at - 1, 1)
        return json_response(show.state_at(now, last[0].at, file), enc_hook=show.plain)
    past, moment = await state_at(api.runtime, execution, at)
    file = (await api.runtime.net(past.digest)).file
    return json_response(show.state_at(past, moment, file), enc_hook=show.plain)


@routes.add("GET", "/executions/{id}/vars", answers={200: VarsView})
async def variables(call: Call) -> Response:
    """The variables of a classic playbook."""
    state, _ = await call.api.look(call.params["id"])
    found = state.ctx.get("vars", {})
    return json_response({"execution_id": state.id, "vars": found}, enc_hook=show.plain)


@routes.add("GET", "/executions/{id}/logs", query=(AFTER, LIMIT), answers={200: LogPage})
async def logs(call: Call) -> Response:
    """What the tasks of an execution wrote to their standard output and error."""
    execution, api = call.params["id"], call.api
    after, limit = call.number("after", 0), call.number("limit", 1000)
    lines, more = await call.in_store(_log_page, api.store, execution, after, limit)
    if not lines and not await call.in_store(api.store.seq, execution):
        raise NotFound(f"no execution {execution}")
    keys = ("number", "task", "timestamp", "stream", "line")
    items = [
        dict(zip(keys, (number, task, show.stamp(at), stream, line), strict=True))
        for number, task, at, stream, line in lines
    ]
    return json_response({"items": items, "next": items[-1]["number"] if more else None})


def _log_page(
    store: Store, execution: str, after: int, limit: int
) -> tuple[list[tuple[int, str, float, str, str]], bool]:
    """Lines after a number, and whether there are more. Returns fewer than requested if lines are long."""
    found: list[tuple[int, str, float, str, str]] = []
    size = 0
    while len(found) < limit and size < LOG_PAGE_CHARACTERS:
        wanted = min(LOG_READ, limit - len(found))
        lines = store.output(execution, found[-1][0] if found else after, wanted + 1)
        found += lines[:wanted]
        size += sum(len(line[4]) for line in lines[:wanted])
        if len(lines) <= wanted:
            return found, False
    return found, True


# -- commands -------------------------------------------------------------------------------------------------------


@routes.add("POST", "/executions/{id}/cancel", body=CancelRequest, optional=True, answers={202: Standing})
async def cancel(call: Call) -> Response:
    """Stop an execution for good, and those it has started."""
    request = await call.read(CancelRequest)
    state = await _told(call, Cancel(request.reason))
    if state.status not in ("cancelling", "cancelled"):
        raise Conflict(f"{state.id} has ended before: it {state.status}")
    return _standing(state)


@routes.add("POST", "/executions/{id}/pause", body=Nothing, optional=True, answers={202: Standing})
async def pause(call: Call) -> Response:
    """Hand out nothing new; what is running finishes."""
    await call.read(Nothing)
    state = await _told(call, Pause())
    if state.status != "paused":
        raise Conflict(f"{state.id} can't be paused: it is {state.shown_status}")
    return _standing(state)


@routes.add("POST", "/executions/{id}/resume", body=Nothing, optional=True, answers={202: Standing})
async def resume(call: Call) -> Response:
    """Go on after a pause."""
    await call.read(Nothing)
    answer = await call.api.service.handle(call.params["id"], Resume())
    state = answer.state
    if state.over or (not answer.events and state.status != "running"):
        raise Conflict(f"{state.id} can't be resumed: it is {state.shown_status}")
    return _standing(state)


@routes.add(
    "POST",
    "/executions/{id}/signals",
    body=SignalRequest,
    limit=PAYLOAD_BYTES,
    headers=(ONCE,),
    answers={202: SignalAnswer},
)
async def signal(call: Call) -> Response:
    """Send a signal to an execution. One that is sent before somebody waits for it is kept."""
    request = await call.read(SignalRequest)
    number = request.id or call.header(b"idempotency-key") or uuid7(call.api.clock.now(), os.urandom(8))
    if not request.name:
        raise Refused(422, "a signal has a name")
    answer = await call.api.service.handle(call.params["id"], Signal(request.name, number, request.payload))
    received = any(event.name == "message.received" for event in answer.events)
    word = "accepted" if received else "late" if answer.state.over else "duplicate"
    if number in answer.state.signal_ids and not received:
        word = "duplicate"
    found: dict[str, Any] = {"execution_id": answer.state.id, "name": request.name, "id": number, "answer": word}
    return json_response(found | {one: one == word for one in ("accepted", "duplicate", "late")}, 202)


async def _told(call: Call, command: Command) -> Execution:
    return (await call.api.service.handle(call.params["id"], command)).state


def _standing(state: Execution) -> Response:
    return json_response({"execution_id": state.id, "status": state.shown_status}, 202)
