from __future__ import annotations

import re
from functools import partial
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from noetl.engine.history.explain import Question
from noetl.runtime import history
from noetl.runtime.activity import unattended_waits
from noetl.runtime.execution_diff import ExecutionDiff, LogPlaces, compare
from noetl.runtime.explanations import DEFAULT_DECISIONS, Explained, ExplanationPart, explain_event, question_about
from noetl.runtime.explanations import explain as explain_step
from noetl.runtime.fork_preview import ForkPreview, preview_fork, preview_retry
from noetl.runtime.history import Edit, ForkView, RetryPoint
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.runtime.past import PastReader
from noetl.runtime.replays import SLICE_SECONDS, Replayer, ReplayKey, ReplayView
from noetl.runtime.report import ExplainView, explained
from noetl.server.endpoint import ApiCall, EndpointOptions, Routes, json_response
from noetl.server.execution_views import ExecutionView
from noetl.server.parameters import Count, QueryString, RequestBody, VersionNumber, text
from noetl.server.problems import Refused
from noetl.server.roles import FORMS, WRITE
from noetl.server.routes.executions import BODY_BYTES, STARTS, execution_id, started
from noetl.server.worker_views import missing_pools

routes = Routes()
MAX_STEP_NAME_LENGTH = 1_000
ARC = re.compile(r"(?P<step>.+)/next/(?P<number>\d{1,6})", re.DOTALL)


class ExplainQuery(QueryString, frozen=True):
    step: Annotated[str, text("Name of the step.")] = ""
    run: Annotated[str, text("One run of it, such as `fetch#2`; default: all.")] = ""
    item: Annotated[Count | None, msgspec.Meta(description="Only decisions about this item of its loop.")] = None
    arc: Annotated[str, text("An arc, `STEP/next/0`, in place of `step`: the evaluations of the arcs there.")] = ""
    seq: Annotated[VersionNumber | None, msgspec.Meta(description="One event, with the inputs of its task.")] = None
    at: Annotated[
        VersionNumber | None, msgspec.Meta(description="Explain the state after this event; default: the last one.")
    ] = None
    before: Annotated[VersionNumber | None, msgspec.Meta(description="Only decisions before this event.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="Maximum number of decisions.")] = DEFAULT_DECISIONS

    def question(self) -> Question:
        if len(self.step) + len(self.arc) + len(self.run) > MAX_STEP_NAME_LENGTH:
            raise Refused(422, "`step` must be the name of a step")
        if not self.arc:
            return question_about(self.step, self.run or None, self.item)
        if (arc := ARC.fullmatch(self.arc)) is None or self.item is not None:
            raise Refused(422, "`arc` must be STEP/next/NUMBER, without an item")
        return question_about(arc["step"], self.run or None, arc=int(arc["number"]))


class DiffQuery(QueryString, frozen=True):
    other: Annotated[str, msgspec.Meta(description="Id of the other execution.", pattern=rf"^{FORMS['id']}(?!\n)$")] = (
        msgspec.field(name="with")
    )
    after: Annotated[Count, msgspec.Meta(description="Compare the events after this one.")] = 0
    b_after: Annotated[
        Count | None,
        msgspec.Meta(description="Compare the events of the other execution after this one; default: `after`."),
    ] = None

    def places(self) -> LogPlaces:
        return LogPlaces(self.after, self.after if self.b_after is None else self.b_after)


@routes.add("GET", "/executions/{id}/diff")
async def diff(call: ApiCall, query: DiffQuery) -> ExecutionDiff:
    """Compare two executions: status, result, error, steps, ctx, and the first event that differs. Times, workers and
    users are ignored. If one is a fork, its beginning and the work that it starts again are ignored, too."""
    execution, past = call.path_params["id"], call.api.host.runtime.past
    work = past.do(lambda past: compare(past, execution, query.other, query.places(), SLICE_SECONDS))
    return await call.until_disconnect(work)


@routes.add("GET", "/executions/{id}/explain")
async def explain(call: ApiCall, query: ExplainQuery) -> ExplainView:
    """Why a step ran as it did: the latest decisions of its arcs, rules and gates, each with its values; why a token is
    held, what a join waits for, why a step never ran. One of `step`, `arc` and `seq` is the subject."""
    execution, run, now = call.path_params["id"], query.run or None, call.api.clock.now()
    if sum((bool(query.step), bool(query.arc), query.seq is not None)) != 1:
        raise Refused(422, "name what to explain with one of: step, arc, seq")

    def read(past: PastReader) -> ExplainView:
        if query.seq is not None:
            result = explain_event(past, execution, query.seq)
        else:
            question = query.question()
            result = explain_step(past, execution, question, ExplanationPart(query.at, query.before, query.limit))
            result = _with_missing_workers(past, question, result, now)
        file = past.playbook(result.state.digest).file
        return explained(result, run, file.name, file.places)

    return await call.until_disconnect(call.api.host.runtime.past.do(read))


def _with_missing_workers(past: PastReader, question: Question, result: Explained, now: float) -> Explained:
    """Add a note if runs are ready now and no worker is connected in their pool: no event records that."""
    explanation, state, _ = result
    if not state.ready or state.seq != past.store.seq(state.id):
        return result
    waits = unattended_waits(state, missing_pools(state, past.store.workers(), now))
    notes = dict.fromkeys([*explanation.notes, *(wait.message for wait in waits if question.is_about(wait.run))])
    return result._replace(explanation=msgspec.structs.replace(explanation, notes=[*notes]))


class ReplayRequest(RequestBody, frozen=True):
    """The text of a playbook. `after` is the `scanned_to` of the slice before; without it a new replay begins."""

    playbook: str
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


@routes.add("POST", "/executions/{id}/replay", limit=BODY_BYTES)
async def replay(call: ApiCall, body: ReplayRequest) -> ReplayView:
    """Decide the log again under another playbook and compare, up to the first difference. Nothing is run or stored. A
    request compares for about 2 seconds; `equal` is null if there is more, and `after` continues. Where the server no
    longer has the earlier slices in memory it begins again, and `scanned_to` may be smaller than `after`."""
    api, execution = call.api, call.path_params["id"]
    text = body.playbook.encode("utf-8", "surrogatepass")
    key = ReplayKey(execution, sha256(text).digest())
    past, replayer = api.host.runtime.past, api.histories.replays.pop(key, None) if body.after else None
    if replayer is None:
        net = (await api.playbooks.compiler.compile(call.caller.key, text)).require()
        replayer = await past.do(partial(Replayer, execution=execution, net=net))
    replayed = await call.until_disconnect(past.do(partial(replayer.advance, seconds=SLICE_SECONDS)))
    if replayed.equal is None:
        api.histories.replays[key] = replayer
    return replayed


class Changes(RequestBody, frozen=True):
    """Changes: the text of an edited playbook, values of ctx, values that are laid over the payload."""

    playbook: str | None = None
    ctx: dict[str, Any] = {}
    payload: dict[str, Any] = {}
    strict_keys: list[str] = []  # keys of the payload (`a.b`) that are refused if the playbook does not know them


class RetryRequest(Changes, frozen=True):
    """Where to begin, if not before the failure: with a step, or with the failed items of a loop; and changes."""

    step: str | None = None
    failed_items: bool = False


class ForkRequest(Changes, frozen=True):
    """The last event to take over, and changes."""

    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


FORKS: EndpointOptions = {
    "optional": True,
    "limit": BODY_BYTES,
    "headers": STARTS,
    "responses": {202: ForkView, 200: (ExecutionView, ForkPreview)},
}


class ForkQuery(QueryString, frozen=True):
    dry_run: Annotated[bool, msgspec.Meta(description="Return what it would do (200), and start nothing.")] = False


@routes.add("POST", "/executions/{id}/fork", **FORKS)
async def fork(call: ApiCall, query: ForkQuery, body: ForkRequest) -> Response:
    """Start an execution with the events of this one up to `at`, and continue from there. An edited playbook requires
    the role author. With `dry_run` nothing is started or stored."""
    runtime, source = call.api.host.runtime, call.path_params["id"]
    if query.dry_run:
        edited = await _edited(call, body)
        preview = preview_fork(runtime, source, body.at, _edit(call, body), edited)
        return json_response(await call.until_disconnect(preview))
    edit = _edit(call, body, await _stored_digest(call, body))
    id = await execution_id(call, f"fork {source} ")
    return await _started(call, await history.fork(runtime, source, id, body.at, edit))


@routes.add("POST", "/executions/{id}/retry", **FORKS)
async def retry(call: ApiCall, query: ForkQuery, body: RetryRequest) -> Response:
    """Fork an execution just before it failed or was cancelled, before the last run of `step`, or with the failed items
    of a loop. Completed steps keep their results. An edited playbook requires the role author. With `dry_run` nothing
    is started or stored."""
    runtime, source = call.api.host.runtime, call.path_params["id"]
    point = RetryPoint(body.step, body.failed_items)
    if query.dry_run:
        edited = await _edited(call, body)
        preview = preview_retry(runtime, source, _edit(call, body), point, edited)
        return json_response(await call.until_disconnect(preview))
    edit = _edit(call, body, await _stored_digest(call, body))
    id = await execution_id(call, f"retry {source} ")
    return await _started(call, await history.retry(runtime, source, id, edit, point))


def _edit(call: ApiCall, request: Changes, digest: str = "") -> Edit:
    return Edit(digest, request.ctx, request.payload, call.caller.actor, request.strict_keys)


async def _stored_digest(call: ApiCall, request: Changes) -> str:
    """The digest of an edited playbook, which is stored; empty if there is none. Checks the keychain as any start."""
    playbooks = call.api.playbooks
    if request.playbook is None:
        state, _ = await call.api.load(call.path_params["id"])
        await playbooks.check_keychain(state.net.playbook)
        return ""
    _check_author(call)
    digest = await playbooks.add(call.caller.key, request.playbook)
    await playbooks.check_keychain(call.api.host.runtime.playbooks.get(digest).playbook)
    return digest


async def _edited(call: ApiCall, request: Changes) -> LoadedPlaybook | None:
    """An edited playbook, which is not stored."""
    if request.playbook is None:
        return None
    _check_author(call)
    text = request.playbook.encode("utf-8", "surrogatepass")
    return (await call.api.playbooks.compiler.compile(call.caller.key, text)).require()


def _check_author(call: ApiCall) -> None:
    if call.caller.role not in WRITE:
        raise Refused(403, f"the role {call.caller.role} may not edit the playbook; that requires author")


async def _started(call: ApiCall, forked: ForkView) -> Response:
    call.starts(forked.execution_id)
    return await started(call, forked.execution_id, forked)
