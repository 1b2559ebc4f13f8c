"""/worker: what workers ask. Only their tokens get here, and each sees no more than its pool and its own leases.

A worker is known by the name it gives itself and by its token, so no token can speak for the workers of another.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from time import perf_counter
from typing import Any

import msgspec
from starlette.responses import Response

from noetl.engine.commands import Claim, Report
from noetl.engine.events import Event
from noetl.engine.state import Execution, Lease
from noetl.errors import Conflict, NotFound
from noetl.keychain.keychain import StoredCredential
from noetl.keychain.restrict import refusal
from noetl.model.identity import TaskId
from noetl.results.stores import buckets
from noetl.runtime.runtime import Refresh
from noetl.server.api import Api
from noetl.server.call import BYTES, MIB, YAML, Call, Query, Routes, json_response
from noetl.server.problems import Refused
from noetl.store.ports import Change, LogLine, WorkerSession
from noetl.worker import wire

routes = Routes()

LONGEST_WAIT = 60.0
MOST_SLOTS = 10_000
MOST_REPORTS = 1_000
MOST_LINES = 20_000
LINE_CHARACTERS = 65_536
TRIES = 10
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
NAME_LENGTH = 200


# -- work -----------------------------------------------------------------------------------------------------------


@routes.add("POST", "/worker/claim", body=wire.ClaimRequest, answers={200: list[dict[str, Any]]})
async def claim(call: Call) -> Response:
    """Leases on ready work of a pool. Without any, the answer waits for some as long as the request says."""
    request = await call.read(wire.ClaimRequest)
    command = _claim(call, request)
    seconds = max(0.0, min(LONGEST_WAIT, request.wait))
    began = perf_counter()
    works = await call.unless_gone(call.api.service.claim(command, seconds, again=request.again))
    if works:
        call.api.metrics.observe("noetl_claim_wait_seconds", perf_counter() - began)
    call.api.metrics.count("noetl_leases_granted_total", len(works))
    return Response(wire.encode_works(works), media_type="application/json")


@routes.add(
    "POST",
    "/worker/report",
    body=list[wire.ReportRequest],
    limit=wire.CONTENT_BYTES,
    answers={200: list[wire.Verdicts]},
)
async def report(call: Call) -> Response:
    """What happened under leases. All reports of the list are decided together and stored together."""
    requests = await call.read(list[wire.ReportRequest])
    if len(requests) > MOST_REPORTS:
        raise Refused(413, f"more than {MOST_REPORTS:,} reports at once")
    reports = [_report(call, request) for request in requests]
    await _keep_lines(call, [line for request in requests for line in request.lines])
    call.api.metrics.count("noetl_reports_total", len(reports))
    verdicts = await asyncio.gather(
        *(_told(call, request.execution, one) for request, one in zip(requests, reports, strict=True))
    )
    return json_response(verdicts)


async def _told(call: Call, execution: str, report: Report) -> wire.Verdicts:
    """Hand a report on. One of a lease that is over, or somebody else's, is heard only for the work it asks for."""
    api = call.api
    try:
        lease = await _leased(api, execution, report.fence)
    except NotFound:
        return wire.Verdicts("rejected")
    again = lease is None
    mine = lease is not None and _is_mine(call, lease.worker)
    if not mine or lease is None or not all(_belongs(fact, lease.run) for fact in report.facts):
        if lease is not None:
            return wire.Verdicts("rejected")
        report = Report(report.fence, (), report.first + len(report.facts), report.claim)
    found = await api.service.report(execution, report, again=again)
    api.metrics.count("noetl_leases_granted_total", len(found.works))
    return wire.Verdicts(found.verdict, found.held, [wire.encode_work(work) for work in found.works])


def _report(call: Call, request: wire.ReportRequest) -> Report:
    found = wire.report_of(request)
    for key, content in found.blobs:
        _check_hash(key, content)
    if request.claim is None:
        return found
    return msgspec.structs.replace(found, claim=_claim(call, request.claim))


def _claim(call: Call, request: wire.ClaimRequest) -> Claim:
    """The claim, for a pool that the token may work for."""
    if not 1 <= request.slots <= MOST_SLOTS:
        raise Refused(422, f"slots are 1 to {MOST_SLOTS:,}")
    pool = _pool(call, request.pool)
    return Claim(_name(call, request.worker), request.slots, pool, request.claim_id)


@routes.add("POST", "/worker/heartbeat", body=wire.Heartbeat, limit=16 * MIB, answers={200: wire.Pulse})
async def heartbeat(call: Call) -> Response:
    """A worker is alive and holds these leases. The answer tells which of them are void, and what is paused."""
    beat = await call.read(wire.Heartbeat)
    worker, pool = _name(call, beat.worker), _pool(call, beat.pool)
    said = beat.host + beat.version
    if not 0 <= beat.slots <= MOST_SLOTS or len(said) > NAME_LENGTH or not said.isprintable():
        raise Refused(422, f"slots are 0 to {MOST_SLOTS:,}; host and version are short and printable")
    await _keep_lines(call, beat.lines)
    session = WorkerSession(worker, pool, beat.slots, beat.host, beat.started, 0.0, beat.leases, beat.version)
    revoked, paused = await call.api.service.heartbeat(session, beat.number)
    return json_response(wire.Pulse(revoked, paused))


# -- what work needs ------------------------------------------------------------------------------------------------


@routes.add("POST", "/worker/secrets", body=wire.SecretRequest, answers={200: StoredCredential})
async def secrets(call: Call) -> Response:
    """A credential, opened, for an execution of which the worker holds a lease at this moment."""
    request = await call.read(wire.SecretRequest)
    api, worker = call.api, _name(call, request.worker)
    state = (await api.runtime.handle(request.execution, Refresh())).state
    leases = [lease for lease in state.leases.values() if lease.worker == worker]
    if not leases:
        raise Conflict("credentials are for work in hand: this worker holds no lease of that execution")
    found = await api.runtime.credential(request.execution, request.name)
    playbook = state.net.playbook
    pools = {_pool_of(state, lease) for lease in leases}
    refusals = [refusal(found.paths, found.pools, playbook.path, pool) for pool in sorted(pools)]
    if all(refusals):
        raise NotFound(f"credential {request.name!r} {refusals[0]}")
    return json_response(found)


@routes.add("GET", "/worker/playbooks/{hash}", answers={200: YAML})
async def playbook(call: Call) -> Response:
    """The text of a playbook by its digest, which a worker knows from its work."""
    stored = await call.in_store(call.api.store.playbook, call.params["hash"])
    if stored is None:
        raise NotFound(f"there is no playbook {call.params['hash']}")
    return Response(stored[1], headers=FOR_EVER, media_type=YAML)


@routes.add("GET", "/worker/blobs/{hash}", answers={200: BYTES})
async def get_blob(call: Call) -> Response:
    """Stored content by its hash, which a worker knows from its work."""
    content = await call.in_store(call.api.store.blob, call.params["hash"])
    if content is None:
        raise NotFound(f"there is no content {call.params['hash']}")
    return Response(content, headers=FOR_EVER, media_type=BYTES)


@routes.add(
    "PUT",
    "/worker/blobs/{hash}",
    body=bytes,
    media=(BYTES,),
    limit=wire.CONTENT_BYTES,
    query=(
        Query("execution", says="The execution of which the worker holds a lease.", required=True),
        Query("bucket", says="The bucket of NATS into which its playbook puts large results, to put it there too."),
    ),
    answers={204: None},
)
async def put_blob(call: Call) -> Response:
    """Content that a report is going to refer to, ahead of it."""
    api, execution, key = call.api, call.text("execution"), call.params["hash"]
    if not execution:
        raise Refused(422, "say for which execution: ?execution=ID")
    state = await _fresh(api, execution)
    if not any(_is_mine(call, lease.worker) for lease in state.leases.values()):
        raise Conflict("content is for work in hand: this token holds no lease of that execution")
    content = await call.content()
    _check_hash(key, content)
    await call.in_store(_keep, api, execution, key, content)
    if bucket := call.text("bucket"):
        if bucket not in buckets(state.net.playbook):
            raise Refused(422, f"the playbook of that execution has no bucket {bucket[:100]!r}")
        await api.runtime.shelve(bucket, key, content)
    return Response(status_code=204)


def _keep(api: Api, execution: str, key: str, content: bytes) -> None:
    """Write the content with an empty change of its execution, wherever that has come to."""
    for _ in range(TRIES):
        change = Change(execution, api.store.seq(execution), [], blobs=[(key, content)])
        if api.store.commit([change])[0]:
            return
    raise Refused(503, "the execution moves too fast; send it again", headers={"Retry-After": "1"})


def _check_hash(key: str, content: bytes) -> None:
    if sha256(content).hexdigest() != key:
        raise Refused(422, f"the content is not that of {key[:100]}")


# -- whose ----------------------------------------------------------------------------------------------------------


def _name(call: Call, worker: str) -> str:
    """The worker's own name with that of its token."""
    if not 0 < len(worker) <= NAME_LENGTH or not worker.isprintable():
        raise Refused(422, f"a worker has a name of 1 to {NAME_LENGTH} printable characters")
    return f"{worker}@{_token(call)}"


def _is_mine(call: Call, worker: str) -> bool:
    return worker.rpartition("@")[2] == _token(call)


def _token(call: Call) -> str:
    assert call.caller.token is not None
    return call.caller.token.id


def _pool(call: Call, pool: str) -> str:
    assert call.caller.token is not None
    allowed, asked = call.caller.token.pool, pool or "default"
    if len(asked) > NAME_LENGTH or not asked.isprintable():
        raise Refused(422, f"a pool has a name of at most {NAME_LENGTH} printable characters")
    if allowed not in (None, asked):
        raise Refused(403, f"this token is for the pool {allowed!r}, not {asked!r}")
    return asked


async def _leased(api: Api, execution: str, fence: int) -> Lease | None:
    """The lease of a fence; one that is not in memory may be in the store."""
    cell = api.runtime.cells.get(execution)
    if cell is None or fence not in cell.state.leases:
        return (await _fresh(api, execution)).leases.get(fence)
    return cell.state.leases[fence]


async def _fresh(api: Api, execution: str) -> Execution:
    return (await api.runtime.handle(execution, Refresh())).state


def _pool_of(state: Execution, lease: Lease) -> str:
    step = state.net.steps[state.runs[lease.run].step]
    return step.pool or state.net.playbook.executor.pool


def _belongs(fact: Event, run: str) -> bool:
    """Whether a fact is about the run of the lease."""
    task = getattr(fact, "task", None)
    about: Any = task.run if isinstance(task, TaskId) else getattr(fact, "run", run)
    return bool(about == run)


async def _keep_lines(call: Call, lines: list[LogLine]) -> None:
    """Keep what tasks have written: of executions that have work for the token's pool."""
    if not lines:
        return
    if len(lines) > MOST_LINES:
        raise Refused(413, f"more than {MOST_LINES:,} lines at once")
    executions = {line[0] for line in lines}
    known = {one for one in executions if await _has_work(call, one)}
    kept = [(one, task, at, stream, line[:LINE_CHARACTERS]) for one, task, at, stream, line in lines if one in known]
    if kept:
        await call.in_store(call.api.store.log, kept)


async def _has_work(call: Call, execution: str) -> bool:
    """Whether the token's pool has, or has had, a part in the execution."""
    assert call.caller.token is not None
    cell = call.api.runtime.cells.get(execution)
    try:
        state = cell.state if cell is not None else await _fresh(call.api, execution)
    except NotFound:
        return False
    pools = {step.pool or state.net.playbook.executor.pool for step in state.net.steps.values()}
    return call.caller.token.pool is None or call.caller.token.pool in pools
