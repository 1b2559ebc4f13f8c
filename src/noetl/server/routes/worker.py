"""/worker: the protocol of the workers. A token gives access to its pool and its own leases only.

The server appends the id of the token to the name of a worker, so no token can report for the workers of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from hashlib import sha256
from time import perf_counter
from typing import Annotated, Any, TypeVar

from msgspec.structs import replace
from starlette.responses import Response

from noetl.engine.admissible import Inadmissible
from noetl.engine.commands import Claim, Report
from noetl.engine.events import StepPaused, StepRegranted, StepStarted, TaskRetryScheduled
from noetl.engine.state import Execution
from noetl.errors import Conflict, NotFound
from noetl.host.heartbeats import NameTaken
from noetl.keychain.keychain import StoredCredential
from noetl.results.stores import buckets, is_named
from noetl.runtime.committer import CommandResult
from noetl.server.api import Api
from noetl.server.auth import unauthorised
from noetl.server.endpoint import IMMUTABLE, ApiCall, Routes
from noetl.server.parameters import BYTES, JSON, MIB, YAML, QueryString, text
from noetl.server.problems import Refused
from noetl.store import codec
from noetl.store.access import ApiToken
from noetl.store.store import Change, LogLine, WorkerSession
from noetl.worker import wire
from noetl.worker.work import Work

routes = Routes()
Content = TypeVar("Content")

MAX_WAIT_SECONDS = 60.0
MAX_SLOTS = 10_000
MAX_HEARTBEATS = 1_000_000_000_000
MAX_REPORTS = 1_000
MAX_EVENTS_PER_DECISION = 500  # which take about 50 ms; other requests wait
LARGE_BYTES = 1 << 20  # larger content is hashed in a thread
MAX_LINES = 20_000
MAX_LINE_LENGTH, MAX_TASK_LENGTH, MAX_STREAM_LENGTH = 65_536, 500, 20
"""Maximum characters of a line, of its task name and of its stream name."""
MAX_LOOKUPS = 100  # maximum number of executions looked up in the store for the lines of one request
RECENT_EVENTS = 2_000  # a worker with a lease granted within this many last events recently worked on the execution
GRANTS = (StepStarted.name, StepRegranted.name)
MAX_NAME_LENGTH = 200


@routes.add("POST", "/worker/claim", responses={200: list[dict[str, Any]]})
async def claim(call: ApiCall, body: wire.ClaimRequest) -> Response:
    """Lease ready work of a pool. If there is none, wait for it up to `wait` seconds."""
    command = _claim(call, body)
    seconds = max(0.0, min(MAX_WAIT_SECONDS, body.wait))
    started = perf_counter()
    works = await call.until_disconnect(call.api.host.dispatcher.claim(command, seconds, is_repeated=body.again))
    if works and seconds:  # after a wait the token may be invalid
        token = await call.in_store(call.api.store.access.token, _token(call).hash)
        if token is None or not token.is_valid(call.api.clock.now()) or token.pool not in (None, command.pool):
            for work in works:
                await call.api.host.runtime.committer.handle(work.execution, Report(work.fence, (), hand_back=True))
            raise unauthorised("this token was revoked or is limited to another pool", invalid=True)
    metrics = call.api.telemetry.metrics
    if works:
        metrics.observe("noetl_claim_wait_seconds", perf_counter() - started)
    metrics.count("noetl_leases_granted_total", len(works))
    return Response(wire.encode([wire.encode_work(work) for work in works]), media_type=JSON)


@routes.add("POST", "/worker/report", limit=wire.CONTENT_BYTES)
async def report(call: ApiCall, body: list[wire.ReportRequest]) -> list[wire.Verdicts]:
    """Report outcomes under leases. All reports of the list are decided and committed together."""
    if len(body) > MAX_REPORTS:
        raise Refused(413, f"a request must not have more than {MAX_REPORTS:,} reports")
    reports = []
    for request in body:
        await asyncio.sleep(0)  # there may be many
        if len(request.facts) > wire.MAX_REPORT_FACTS or len(request.blobs) > wire.MAX_REPORT_FACTS:
            raise Refused(413, f"a report must not have more than {wire.MAX_REPORT_FACTS:,} events or contents")
        decoded = wire.report_of(request)
        for key, content in decoded.blobs:
            await _check_hash(key, content)
        reports.append(decoded if request.claim is None else replace(decoded, claim=_claim(call, request.claim)))
    await _store_lines(call, [line for request in body for line in request.lines])
    call.api.telemetry.metrics.count("noetl_reports_total", len(reports))
    pairs = zip(body, reports, strict=True)
    return await asyncio.gather(*(_verdicts(call, request.execution, report) for request, report in pairs))


async def _verdicts(call: ApiCall, execution: str, report: Report) -> wire.Verdicts:
    """Decide a report. Without its lease only its claim counts; it is rejected if the lease does not allow it."""
    api = call.api
    loaded = api.host.runtime.executions.get(execution)
    if loaded is not None and report.fence in loaded.state.leases:
        state = loaded.state
    else:
        try:
            state = await api.host.runtime.committer.stored_state(execution)
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
            await _decide(api, execution, part, is_repeated=False)
        result, works = await _decide(api, execution, last, is_repeated=lease is None)
    except Inadmissible as error:
        name = lease.worker if lease is not None else _token(call).id
        api.telemetry.log.write("warning", f"report refused: {error}", execution=execution, worker=name)
        return wire.Verdicts("rejected")
    api.telemetry.metrics.count("noetl_leases_granted_total", len(works))
    verdict = api.host.dispatcher.verdict(execution, last, result)
    return wire.Verdicts(verdict, last.fence in result.state.leases, [wire.encode_work(work) for work in works])


def _parts(report: Report) -> Iterator[Report]:
    """The report in parts that are decided one by one: a decision of all its events would delay everybody else. A part
    begins with an event that does not depend on the one before it."""
    facts, at, blobs = report.facts, 0, report.blobs
    cuts = [place for place, fact in enumerate(facts) if not isinstance(fact, TaskRetryScheduled | StepPaused)]
    for cut in cuts:
        if cut - at >= MAX_EVENTS_PER_DECISION:
            part = replace(report, facts=facts[at:cut], first=report.first + at, blobs=blobs)
            yield replace(part, claim=None, hand_back=False)
            at, blobs = cut, ()
    yield replace(report, facts=facts[at:], first=report.first + at, blobs=blobs)


async def _decide(api: Api, execution: str, report: Report, *, is_repeated: bool) -> tuple[CommandResult, list[Work]]:
    """The outcome of a report. An inadmissible one is decided again, because it may follow a report to another server:
    the first attempt has dropped the stale state, and the second reads it from the store."""
    try:
        return await api.host.dispatcher.report(execution, report, is_repeated=is_repeated)
    except Inadmissible:
        return await api.host.dispatcher.report(execution, report, is_repeated=is_repeated)


async def _check_references(call: ApiCall, state: Execution, report: Report) -> None:
    """Inadmissible unless each stored value that a report refers to comes with it, belongs to the execution, or is
    where the playbook stores results: otherwise a worker could read any value by its hash."""
    included = {key: len(content) for key, content in report.blobs}
    every = (reference for fact in report.facts for reference in wire.references_in(fact))
    references = {reference.key: reference for reference in every if not reference.is_secret}
    for reference in references.values():
        if reference.store == "db" and reference.key in included:
            if reference.size != included[reference.key]:
                raise Inadmissible(f"the stored value {reference.digest[:12]} has another size")
            continue
        if reference.store != "db" and is_named(state.net.playbook, reference):
            continue
        if not await call.in_store(call.api.store.refers, state.id, reference.digest):
            raise Inadmissible(f"the stored value {reference.digest[:12]} does not belong to this execution")


def _claim(call: ApiCall, request: wire.ClaimRequest) -> Claim:
    if not 1 <= request.slots <= MAX_SLOTS:
        raise Refused(422, f"`slots` must be 1 to {MAX_SLOTS:,}")
    pool, claim_id = _pool(call, request.pool), _checked("claim_id", request.claim_id)
    return Claim(_name(call, request.worker), request.slots, pool, claim_id)


@routes.add("POST", "/worker/heartbeat", limit=16 * MIB)
async def heartbeat(call: ApiCall, body: wire.HeartbeatRequest) -> wire.HeartbeatReply:
    """Record a heartbeat; return revoked leases, paused executions, and whether to drain or stop."""
    worker, pool = _name(call, body.worker), _pool(call, body.pool)
    _checked("host` and `version", body.host + body.version)
    if not 0 <= body.slots <= MAX_SLOTS:
        raise Refused(422, f"`slots` must be 0 to {MAX_SLOTS:,}")
    if not 0 <= body.number <= MAX_HEARTBEATS:
        raise Refused(422, f"`number` must be 0 to {MAX_HEARTBEATS:,}")
    if sum(map(len, body.leases.values())) > MAX_SLOTS or len(body.leases) > MAX_SLOTS:
        raise Refused(413, f"a worker must not hold more than {MAX_SLOTS:,} leases")
    if not all(len(execution) <= MAX_NAME_LENGTH for execution in body.leases):
        raise Refused(422, "the keys of `leases` must be execution ids")
    await _store_lines(call, body.lines)
    session = WorkerSession(worker, pool, body.slots, body.host, body.started, 0.0, body.leases, body.version)
    try:
        result = await call.api.host.heartbeats.record(replace(session, number=body.number), body.replaces)
    except NameTaken as error:
        if body.replaces is None:
            raise
        return wire.HeartbeatReply(holder=error.holder)
    return wire.HeartbeatReply(*result)


@routes.add("POST", "/worker/secrets")
async def secrets(call: ApiCall, body: wire.SecretRequest) -> StoredCredential:
    """A decrypted credential, for an execution of which the worker holds a lease."""
    if len(body.name) > MAX_NAME_LENGTH or len(body.execution) > MAX_NAME_LENGTH:
        raise Refused(422, f"`name` and `execution` must have at most {MAX_NAME_LENGTH} characters")
    api, worker = call.api, _name(call, body.worker)
    state = await api.host.runtime.committer.stored_state(body.execution)
    leases = [lease for lease in state.leases.values() if lease.worker == worker]
    if not leases:
        raise Conflict("this worker holds no lease of that execution")
    credential = await api.thread.ask(api.host.runtime.open_credential, body.name)
    playbook, steps = state.net.playbook, [state.net.steps[state.runs[lease.run].step] for lease in leases]
    pools = {step.pool or playbook.executor.pool for step in steps}
    refusals = [credential.refusal(playbook.path, pool) for pool in sorted(pools)]
    if all(refusals):
        raise NotFound(f"credential {body.name!r} {refusals[0]}")
    return credential


@routes.add("GET", "/worker/playbooks/{hash}", responses={200: YAML})
async def playbook(call: ApiCall) -> Response:
    """The text of a playbook by its digest, for a worker with a lease of one of its executions."""
    _, source = await _read(call, call.api.store.playbook)
    return Response(source, headers=IMMUTABLE, media_type=YAML)


@routes.add("GET", "/worker/blobs/{hash}", responses={200: BYTES})
async def get_blob(call: ApiCall) -> Response:
    """Stored content by its hash, for a worker with a lease of an execution that refers to it."""
    return Response(await _read(call, call.api.store.blob), headers=IMMUTABLE, media_type=BYTES)


async def _read(call: ApiCall, read: Callable[[str], Content | None]) -> Content:
    key = call.path_params["hash"]
    may_read = await call.in_store(call.api.store.may_read, f"@{_token(call).id}", key)
    content = await call.in_store(read, key) if may_read else None
    if content is None:
        raise NotFound(f"no lease of this token refers to {key}")
    return content


class BlobQuery(QueryString, frozen=True):
    execution: Annotated[str, text("The execution of which the worker holds a lease.")]
    bucket: Annotated[str, text("The NATS bucket of the playbook for large results, to store it there as well.")] = ""


@routes.add("PUT", "/worker/blobs/{hash}", raw=(BYTES,), limit=wire.CONTENT_BYTES)
async def put_blob(call: ApiCall, query: BlobQuery) -> None:
    """Store content before the report that refers to it."""
    api, execution, key = call.api, query.execution, call.path_params["hash"]
    if not execution:
        raise Refused(422, "`execution` must not be empty")
    state = await api.host.runtime.committer.stored_state(execution)
    if not any(_is_mine(call, lease.worker) for lease in state.leases.values()):
        raise Conflict("this token holds no lease of that execution")
    content = await call.body()
    await _check_hash(key, content)

    def store() -> None:
        for _ in range(10):
            change = Change(execution, api.store.seq(execution), [], blobs=[(key, content)])
            if api.store.commit([change])[0]:
                return
        raise Refused(503, "the execution changes too fast; try again", headers={"Retry-After": "1"})

    await call.in_store(store)
    if query.bucket:
        if query.bucket not in buckets(state.net.playbook):
            raise Refused(422, f"the playbook of that execution has no bucket {query.bucket[:100]!r}")
        await api.host.runtime.contents.put_in_bucket(query.bucket, key, content)


async def _check_hash(key: str, content: bytes) -> None:
    hashed = await asyncio.to_thread(sha256, content) if len(content) > LARGE_BYTES else sha256(content)
    if hashed.hexdigest() != key:
        raise Refused(422, f"the SHA-256 of the content is not {key[:100]}")


def _checked(field: str, value: str) -> str:
    if len(value) > MAX_NAME_LENGTH or not value.isprintable():
        raise Refused(422, f"`{field}` must have at most {MAX_NAME_LENGTH} printable characters")
    return value


def _name(call: ApiCall, worker: str) -> str:
    if not worker:
        raise Refused(422, "`worker` must not be empty")
    return f"{_checked('worker', worker)}@{_token(call).id}"


def _pool(call: ApiCall, pool: str) -> str:
    allowed, pool = _token(call).pool, _checked("pool", pool) or "default"
    if allowed not in (None, pool):
        raise Refused(403, f"this token is for the pool {allowed!r}, not {pool!r}: use --pool {allowed}")
    return pool


def _token(call: ApiCall) -> ApiToken:
    assert call.caller.token is not None
    return call.caller.token


def _is_mine(call: ApiCall, worker: str) -> bool:
    return worker.rpartition("@")[2] == _token(call).id


async def _store_lines(call: ApiCall, lines: list[LogLine]) -> None:
    """Store output of tasks, for executions in which the token holds or recently held a lease."""
    if not lines:
        return
    if len(lines) > MAX_LINES:
        raise Refused(413, f"a request must not have more than {MAX_LINES:,} lines of output")
    loaded, unproven = call.api.host.runtime.executions, []
    for execution in dict.fromkeys(line[0] for line in lines):
        leases = loaded[execution].state.leases.values() if execution in loaded else ()
        if not any(_is_mine(call, lease.worker) for lease in leases):
            unproven.append(execution)
    rejected = set(unproven)
    if unproven:
        rejected -= await call.in_store(_worked_in, call, unproven[:MAX_LOOKUPS])
    accepted = []
    for execution, task, at, stream, line in lines:
        if execution not in rejected:
            task = "".join(filter(str.isprintable, task[:MAX_TASK_LENGTH]))
            stream = "".join(filter(str.isprintable, stream[:MAX_STREAM_LENGTH]))
            accepted.append((execution, task, at, stream, line[:MAX_LINE_LENGTH]))
    if accepted:
        await call.in_store(call.api.store.append_output, accepted)


def _worked_in(call: ApiCall, executions: list[str]) -> set[str]:
    """Executions with a lease of the token, also a recent one: the last lines of a task may follow its last report."""
    store, worked_in = call.api.store, set()
    for execution in executions:
        if any(_is_mine(call, lease.worker) for lease in store.derived(execution).leases.values()):
            worked_in.add(execution)
            continue
        rows = store.read(execution, max(0, store.seq(execution) - RECENT_EVENTS))
        grants = (codec.decode(row.type, row.data) for row in rows if row.type in GRANTS)
        if any(_is_mine(call, getattr(grant, "worker", "")) for grant in grants):
            worked_in.add(execution)
    return worked_in
