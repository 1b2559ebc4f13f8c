"""/worker: what workers ask. Only their tokens get here, and each sees no more than its pool and its own leases.

A worker is known by the name it gives itself and by its token, so no token can speak for the workers of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from time import perf_counter
from typing import Any

import msgspec
from starlette.responses import Response

from noetl.engine.admissible import Inadmissible
from noetl.engine.commands import Claim, Report
from noetl.engine.events import StepPaused, StepRegranted, StepStarted, TaskRetryScheduled
from noetl.engine.state import Execution, Lease
from noetl.errors import Conflict, NotFound
from noetl.keychain.keychain import StoredCredential
from noetl.keychain.restrict import refusal
from noetl.results.stores import buckets, is_named
from noetl.runtime.runtime import Refresh
from noetl.server.api import Api
from noetl.server.auth import unauthorised
from noetl.server.call import BYTES, MIB, YAML, Call, Query, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.service import Reported
from noetl.store import codec
from noetl.store.access import Token
from noetl.store.ports import Change, LogLine, Store, WorkerSession
from noetl.worker import wire
from noetl.worker.work import Work

routes = Routes()

LONGEST_WAIT = 60.0
MOST_SLOTS = 10_000
MOST_REPORTS = 1_000
MOST_DECIDED = 500
"""Maximum number of reported events in one decision. It takes about 50 ms, and nobody else is answered meanwhile."""
LARGE_BYTES = 1 << 20
"""Larger content is hashed in a thread."""
MOST_LINES = 20_000
LINE_CHARACTERS, LINE_TASK, LINE_STREAM = 65_536, 500, 20
"""Maximum characters of a line, of its task name and of its stream name."""
MOST_LOOKS = 100
"""Maximum number of executions looked up in the store for the lines of one request."""
RECENT_EVENTS = 2_000
"""A worker with a lease granted within this many last events recently worked on the execution."""
GRANTS = (StepStarted.name, StepRegranted.name)
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
    if works and seconds and not await _is_still_allowed(call, command.pool):
        await _return(call, works)
        raise unauthorised("this token was revoked or is limited to another pool", invalid=True)
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
    reports = [await _report(call, request) for request in requests]
    await _keep_lines(call, [line for request in requests for line in request.lines])
    call.api.metrics.count("noetl_reports_total", len(reports))
    verdicts = await asyncio.gather(
        *(_told(call, request.execution, one) for request, one in zip(requests, reports, strict=True))
    )
    return json_response(verdicts)


async def _told(call: Call, execution: str, report: Report) -> wire.Verdicts:
    """Hand a report on. One of a lease that is over, or somebody else's, is heard only for the work it asks for; one
    whose facts do not follow from its lease is not heard at all."""
    api = call.api
    try:
        state = await _knowing(api, execution, report.fence)
    except NotFound:
        return wire.Verdicts("rejected")
    lease = state.leases.get(report.fence)
    if lease is None:
        report = Report(report.fence, (), report.first + len(report.facts), report.claim)
    elif not _is_mine(call, lease.worker):
        return wire.Verdicts("rejected")
    try:
        await _check_references(call, state, report)
        *parts, last = _parts(report)
        for part in parts:
            await _decided(api, execution, part, again=False)
        found = await _decided(api, execution, last, again=lease is None)
    except Inadmissible as error:
        name = lease.worker if lease is not None else _token(call)
        api.log.write("warning", f"report refused: {error}", execution=execution, worker=name)
        return wire.Verdicts("rejected")
    api.metrics.count("noetl_leases_granted_total", len(found.works))
    return wire.Verdicts(found.verdict, found.held, [wire.encode_work(work) for work in found.works])


def _parts(report: Report) -> Iterator[Report]:
    """The report in parts that are decided one by one: a decision of all its events would delay everybody else. A part
    begins with an event that does not depend on the one before it."""
    facts, at, blobs = report.facts, 0, report.blobs
    cuts = [place for place, fact in enumerate(facts) if not isinstance(fact, TaskRetryScheduled | StepPaused)]
    for cut in cuts:
        if cut - at >= MOST_DECIDED:
            part = msgspec.structs.replace(report, facts=facts[at:cut], first=report.first + at, blobs=blobs)
            yield msgspec.structs.replace(part, claim=None, hand_back=False)
            at, blobs = cut, ()
    yield msgspec.structs.replace(report, facts=facts[at:], first=report.first + at, blobs=blobs)


async def _decided(api: Api, execution: str, report: Report, *, again: bool) -> Reported:
    """What became of a report. One that does not fit may follow another that went to another server: the state in
    memory was dropped with it, and is read from the store for the second try."""
    try:
        return await api.service.report(execution, report, again=again)
    except Inadmissible:
        return await api.service.report(execution, report, again=again)


async def _check_references(call: Call, state: Execution, report: Report) -> None:
    """Inadmissible unless each stored value that a report refers to comes with it, is known to the execution, or lies
    where the playbook has results written: else a worker could have anything read for it by its hash."""
    brought = {key: len(content) for key, content in report.blobs}
    references = {one.key: one for fact in report.facts for one in wire.references_in(fact) if not one.is_secret}
    for reference in references.values():
        if reference.store == "db" and reference.key in brought:
            if reference.size != brought[reference.key]:
                raise Inadmissible(f"the stored value {reference.digest[:12]} has another size")
            continue
        if reference.store != "db" and is_named(state.net.playbook, reference):
            continue
        if not await call.in_store(call.api.store.refers, state.id, reference.digest):
            raise Inadmissible(f"the stored value {reference.digest[:12]} does not belong to this execution")


async def _report(call: Call, request: wire.ReportRequest) -> Report:
    await asyncio.sleep(0)  # there may be many of them
    if len(request.facts) > wire.MOST_FACTS or len(request.blobs) > wire.MOST_FACTS:
        raise Refused(413, f"a report must not have more than {wire.MOST_FACTS:,} events or contents")
    found = wire.report_of(request)
    for key, content in found.blobs:
        await _check_hash(key, content)
    if request.claim is None:
        return found
    return msgspec.structs.replace(found, claim=_claim(call, request.claim))


def _claim(call: Call, request: wire.ClaimRequest) -> Claim:
    """The claim, for a pool that the token may work for."""
    if not 1 <= request.slots <= MOST_SLOTS:
        raise Refused(422, f"slots are 1 to {MOST_SLOTS:,}")
    if len(request.claim_id) > NAME_LENGTH or not request.claim_id.isprintable():
        raise Refused(422, f"the id of a claim must have at most {NAME_LENGTH} printable characters")
    pool = _pool(call, request.pool)
    return Claim(_name(call, request.worker), request.slots, pool, request.claim_id)


async def _is_still_allowed(call: Call, pool: str | None) -> bool:
    """Whether the token is still valid for this pool: the claim may have waited for a minute."""
    assert call.caller.token is not None
    token: Token | None = await call.in_store(call.api.store.access.token, call.caller.token.hash)
    return token is not None and token.is_valid(call.api.clock.now()) and token.pool in (None, pool)


async def _return(call: Call, works: list[Work]) -> None:
    """Return leases that must not be sent to the worker."""
    for work in works:
        await call.api.runtime.handle(work.execution, Report(work.fence, (), hand_back=True))


@routes.add("POST", "/worker/heartbeat", body=wire.Heartbeat, limit=16 * MIB, answers={200: wire.Pulse})
async def heartbeat(call: Call) -> Response:
    """A worker is alive and holds these leases. The answer tells which of them are void, and what is paused."""
    beat = await call.read(wire.Heartbeat)
    worker, pool = _name(call, beat.worker), _pool(call, beat.pool)
    said = beat.host + beat.version
    if not 0 <= beat.slots <= MOST_SLOTS or len(said) > NAME_LENGTH or not said.isprintable():
        raise Refused(422, f"slots are 0 to {MOST_SLOTS:,}; host and version are short and printable")
    if sum(map(len, beat.leases.values())) > MOST_SLOTS or len(beat.leases) > MOST_SLOTS:
        raise Refused(413, f"a worker must not hold more than {MOST_SLOTS:,} leases")
    if not all(len(execution) <= NAME_LENGTH for execution in beat.leases):
        raise Refused(422, "the keys of `leases` must be execution ids")
    await _keep_lines(call, beat.lines)
    session = WorkerSession(worker, pool, beat.slots, beat.host, beat.started, 0.0, beat.leases, beat.version)
    revoked, paused = await call.api.service.heartbeat(session, beat.number)
    return json_response(wire.Pulse(revoked, paused))


# -- what work needs ------------------------------------------------------------------------------------------------


@routes.add("POST", "/worker/secrets", body=wire.SecretRequest, answers={200: StoredCredential})
async def secrets(call: Call) -> Response:
    """A credential, opened, for an execution of which the worker holds a lease at this moment."""
    request = await call.read(wire.SecretRequest)
    if len(request.name) > NAME_LENGTH or len(request.execution) > NAME_LENGTH:
        raise Refused(422, f"names must have at most {NAME_LENGTH} characters")
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
    """The text of a playbook by its digest, for a worker that holds a lease of one of its executions."""
    stored = await call.in_store(call.api.store.playbook, call.params["hash"])
    if stored is None or not await _may_read(call):
        raise NotFound(f"no lease of this token uses the playbook {call.params['hash']}")
    return Response(stored[1], headers=FOR_EVER, media_type=YAML)


@routes.add("GET", "/worker/blobs/{hash}", answers={200: BYTES})
async def get_blob(call: Call) -> Response:
    """Stored content by its hash, for a worker that holds a lease of an execution which refers to it."""
    content = await call.in_store(call.api.store.blob, call.params["hash"]) if await _may_read(call) else None
    if content is None:
        raise NotFound(f"no lease of this token refers to the content {call.params['hash']}")
    return Response(content, headers=FOR_EVER, media_type=BYTES)


async def _may_read(call: Call) -> bool:
    return bool(await call.in_store(call.api.store.may_read, f"@{_token(call)}", call.params["hash"]))


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
    await _check_hash(key, content)
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


async def _check_hash(key: str, content: bytes) -> None:
    hashed = await asyncio.to_thread(sha256, content) if len(content) > LARGE_BYTES else sha256(content)
    if hashed.hexdigest() != key:
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


async def _knowing(api: Api, execution: str, fence: int) -> Execution:
    """The state that has a lease, from memory or from the store."""
    cell = api.runtime.cells.get(execution)
    return cell.state if cell is not None and fence in cell.state.leases else await _fresh(api, execution)


async def _fresh(api: Api, execution: str) -> Execution:
    return (await api.runtime.handle(execution, Refresh())).state


def _pool_of(state: Execution, lease: Lease) -> str:
    step = state.net.steps[state.runs[lease.run].step]
    return step.pool or state.net.playbook.executor.pool


async def _keep_lines(call: Call, lines: list[LogLine]) -> None:
    """Store output of tasks, for executions in which the token holds or recently held a lease."""
    if not lines:
        return
    if len(lines) > MOST_LINES:
        raise Refused(413, f"more than {MOST_LINES:,} lines at once")
    others = [one for one in dict.fromkeys(line[0] for line in lines) if not _works_in(call, one)]
    worked = await call.in_store(_worked_in, call.api.store, others[:MOST_LOOKS], f"@{_token(call)}")
    unknown = {one for one in others if one not in worked}
    kept = [_bounded(line) for line in lines if line[0] not in unknown]
    if kept:
        await call.in_store(call.api.store.log, kept)


def _bounded(line: LogLine) -> LogLine:
    execution, task, at, stream, text = line
    return execution, _short(task, LINE_TASK), at, _short(stream, LINE_STREAM), text[:LINE_CHARACTERS]


def _short(text: str, most: int) -> str:
    return "".join(character for character in text[:most] if character.isprintable())


def _works_in(call: Call, execution: str) -> bool:
    """Whether the token holds a lease of an execution, according to the state in memory."""
    cell = call.api.runtime.cells.get(execution)
    return cell is not None and any(_is_mine(call, lease.worker) for lease in cell.state.leases.values())


def _worked_in(store: Store, executions: list[str], suffix: str) -> set[str]:
    """Executions in which a worker of the token holds a lease, or was given one lately: the last lines of a task may
    come after its last report."""
    return {one for one in executions if _has_lease(store, one, suffix) or _had_lease(store, one, suffix)}


def _has_lease(store: Store, execution: str, suffix: str) -> bool:
    return any(lease.worker.endswith(suffix) for lease in store.derived(execution).leases.values())


def _had_lease(store: Store, execution: str, suffix: str) -> bool:
    rows = store.read(execution, max(0, store.seq(execution) - RECENT_EVENTS))
    grants = [codec.decode(row.type, row.data) for row in rows if row.type in GRANTS]
    return any(getattr(grant, "worker", "").endswith(suffix) for grant in grants)
