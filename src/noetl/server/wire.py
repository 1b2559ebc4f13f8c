"""The shapes of requests and answers. What a field means stands in the description that is made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from noetl.store.access import Role
from noetl.store.triggers import Missed, Outcome, Overlap

VersionNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
"""The number of an event; databases keep 64 bits of it."""
Status = Literal["pending", "running", "waiting", "paused", "cancelling", "succeeded", "failed", "cancelled"]


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What comes in: a name that is not known is a mistake, and said to be one."""


# -- playbooks ------------------------------------------------------------------------------------------------------


class Finding(msgspec.Struct, frozen=True):
    """A problem of a playbook, at its place."""

    file: str
    line: int
    column: int
    code: str
    severity: Literal["error", "warning"]
    message: str
    hint: str | None


class Validity(msgspec.Struct, frozen=True):
    """Whether a playbook can run, and everything that was found in it."""

    valid: bool
    problems: list[Finding]


class Registered(msgspec.Struct, frozen=True):
    """The version that a text has under its path; warnings come along."""

    playbook_id: str
    path: str
    version: int
    problems: list[Finding]


class PlaybookVersion(msgspec.Struct, frozen=True):
    """A version of a playbook. `label` is what the playbook itself calls its version."""

    version: int
    playbook_id: str
    label: str
    registered: str


class PlaybookItem(msgspec.Struct, frozen=True):
    """A playbook in a list: the version that its path means at the moment."""

    path: str
    version: int
    playbook_id: str
    label: str
    registered: str


class PlaybookPage(msgspec.Struct, frozen=True):
    """A page of playbooks; `next` is the cursor of the page behind it."""

    items: list[PlaybookItem]
    next: str | None


class PlaybookText(msgspec.Struct, frozen=True):
    """The text of a version, and all versions, the one registered last first."""

    path: str
    version: int
    playbook_id: str
    text: str
    versions: list[PlaybookVersion]


# -- executions -----------------------------------------------------------------------------------------------------


class StartRequest(Content, frozen=True):
    """What to run: a registered `path` (of a `version`), a `playbook_id`, or the text of a `playbook`."""

    path: str | None = None
    version: VersionNumber | None = None
    playbook_id: str | None = None
    playbook: str | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}


class Started(msgspec.Struct, frozen=True):
    """An execution has begun."""

    execution_id: str


class StepView(msgspec.Struct, frozen=True):
    """How a step stands."""

    status: str
    runs: int
    result: Any
    error: dict[str, Any] | None


class ErrorView(msgspec.Struct, frozen=True):
    """What an execution failed of, and where that stands in the playbook."""

    kind: str | None
    message: str | None
    step: str | None
    task: str | None
    attempt: int | None
    file: str
    line: int | None
    column: int | None


class TokenView(msgspec.Struct, frozen=True):
    """A token that has not been consumed yet."""

    id: int
    step: str
    status: Literal["ready", "waiting", "held", "delayed"]
    due: str | None


class LoopView(msgspec.Struct, frozen=True):
    """How far a loop is."""

    total: int
    ok: int
    failed: int
    running: int


class ExecutionView(msgspec.Struct, frozen=True):
    """An execution. Large values are references; GET /results/KEY has their content."""

    execution_id: str
    status: Status
    result: Any
    ctx: dict[str, Any]
    steps: dict[str, StepView]
    error: ErrorView | None
    events: int
    duration_ms: float
    name: str
    path: str
    playbook_id: str
    parent: str | None
    started: str
    ended: str | None
    tokens: list[TokenView]
    progress: dict[str, LoopView]


class ExecutionItem(msgspec.Struct, frozen=True):
    """An execution in a list."""

    execution_id: str
    name: str
    path: str
    status: Status
    started: str
    ended: str | None
    duration_ms: float
    playbook_id: str
    parent: str | None


class ExecutionPage(msgspec.Struct, frozen=True):
    """A page of executions, newest first; `next` is the cursor of the page behind it."""

    items: list[ExecutionItem]
    next: str | None


class EventView(msgspec.Struct, frozen=True):
    """An event, with the spellings that others use for its fields."""

    event_id: str
    seq: int
    event_type: str
    timestamp: str
    source: str
    entity_type: str
    entity_id: str
    parent_id: str | None
    status: str
    execution_id: str
    step_run_id: str | None
    task_run_id: str | None
    iteration_id: str | None
    task_label: str | None
    attempt: int | None
    action_id: str | None
    trace_id: str
    payload: dict[str, Any]


class EventPage(msgspec.Struct, frozen=True):
    """Events in order; `next` is what to give as `after` for the page behind it, null at the end of the log."""

    items: list[EventView]
    next: int | None


class StateView(msgspec.Struct, frozen=True):
    """The state of an execution after its event `seq`."""

    execution_id: str
    seq: int
    timestamp: str | None
    status: Status
    workload: dict[str, Any]
    ctx: dict[str, Any]
    steps: dict[str, StepView]
    tokens: list[TokenView]
    progress: dict[str, LoopView]
    result: Any
    error: ErrorView | None


class VarsView(msgspec.Struct, frozen=True):
    """The variables of a classic playbook."""

    execution_id: str
    vars: dict[str, Any]


class LogLineView(msgspec.Struct, frozen=True):
    """A line that a task wrote."""

    number: int
    task: str
    timestamp: str
    stream: str
    line: str


class LogPage(msgspec.Struct, frozen=True):
    """Output of tasks in order; `next` is what to give as `after` for the page behind it."""

    items: list[LogLineView]
    next: int | None


class CancelRequest(Content, frozen=True):
    """Why; it is kept in the log."""

    reason: str = ""


class Nothing(Content, frozen=True):
    """Nothing needs to be said."""


class Standing(msgspec.Struct, frozen=True):
    """How an execution stands after what was asked."""

    execution_id: str
    status: Status


class ReasonView(msgspec.Struct, frozen=True):
    """An arc or a rule: what it leads to, its guard, what came of that, and what the names in it stood for."""

    leads_to: str
    when: str | None
    verdict: Literal["matched", "not matched", "not reached", "error"]
    values: dict[str, Any]
    missing: list[str]
    note: str | None
    file: str
    line: int | None
    column: int | None


class DecisionView(msgspec.Struct, frozen=True):
    """Something that was decided about a step, and why. `differs` is what comes out today, if that is something
    else: the log is right."""

    seq: int
    timestamp: str
    kind: Literal["arcs", "rules", "admission", "case"]
    about: str
    says: str
    reasons: list[ReasonView]
    differs: str | None


class ExplainView(msgspec.Struct, frozen=True):
    """Why a step went as it did, and how it stands. `status` is null if it was never entered; `left_out` counts
    earlier decisions that are not told."""

    execution_id: str
    step: str
    run: str | None
    status: str | None
    runs: int
    file: str
    line: int | None
    column: int | None
    decisions: list[DecisionView]
    left_out: int
    stands: list[str]


class ForkRequest(Content, frozen=True):
    """Where to leave the source, and what is to be different: an edited playbook as text, values of ctx."""

    at: Seq | None = None
    playbook: str | None = None
    ctx: dict[str, Any] = {}


class RetryRequest(Content, frozen=True):
    """What is to be different: an edited playbook as text, values of ctx."""

    playbook: str | None = None
    ctx: dict[str, Any] = {}


class AgainView(msgspec.Struct, frozen=True):
    """A run that was under way and goes on: with which task, or how many items of its loop are left."""

    run: str
    step: str
    task: str | None
    items: int | None
    failed: bool


class ForkView(msgspec.Struct, frozen=True):
    """A new execution that has the first `source_seq` events of its source. `done` are steps whose results it has."""

    execution_id: str
    source_id: str
    source_seq: int
    again: list[AgainView]
    done: list[str]


class SignalRequest(Content, frozen=True):
    """A signal. Sent twice with the same id, it counts once."""

    name: str
    id: str | None = None
    payload: Any = None


class SignalAnswer(msgspec.Struct, frozen=True):
    """`accepted`, `duplicate` if the id has come before, `late` after the end."""

    execution_id: str
    name: str
    id: str
    answer: Literal["accepted", "duplicate", "late"]
    accepted: bool
    duplicate: bool
    late: bool


# -- schedules and hooks --------------------------------------------------------------------------------------------


class ScheduleRequest(Content, frozen=True, kw_only=True):
    """When to start which playbook, with what.

    One of: `cron` (five fields, on the clock of `timezone`), `every` (seconds, or a duration such as `15m`), `at` (a
    single time; without an offset it is one of `timezone`). `overlap` says what to do with a firing while an execution
    of the schedule is open, `missed` what to do with firings for which there was no server.
    """

    path: str
    version: VersionNumber | None = None
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    cron: str | None = None
    every: float | str | None = None
    at: str | None = None
    timezone: str = "UTC"
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool | None = None


class NewSchedule(ScheduleRequest, frozen=True, kw_only=True):
    """A schedule to be made."""

    name: str


class FiredView(msgspec.Struct, frozen=True):
    """What became of a firing, or of `count` in a row: `due` is when it (the last of them) was meant to happen."""

    due: str
    at: str
    outcome: Outcome
    execution_id: str | None
    reason: str
    count: int


class ScheduleView(msgspec.Struct, frozen=True):
    """A schedule, and how far it is. A retired one will not fire again by itself."""

    name: str
    path: str
    version: int | None
    payload: dict[str, Any]
    ctx: dict[str, Any]
    cron: str | None
    every: float | None
    at: str | None
    timezone: str
    overlap: Overlap
    missed: Missed
    status: Literal["active", "paused", "retired"]
    created: str
    updated: str
    next: str | None
    last: FiredView | None
    queued: int
    running: list[str]
    recent: list[FiredView]


class SchedulePage(msgspec.Struct, frozen=True):
    """A page of schedules by name; `next` is the cursor of the page behind it."""

    items: list[ScheduleView]
    next: str | None


class Triggered(msgspec.Struct, frozen=True):
    """The execution that was asked for. If it is queued, it begins when the one before it has ended."""

    execution_id: str
    queued: bool


class HookRequest(Content, frozen=True):
    """Which playbook a hook starts. Without a `secret` a new hook gets a random one, and an old one keeps its own."""

    path: str
    version: VersionNumber | None = None
    secret: str | None = None


class HookView(msgspec.Struct, frozen=True):
    """A hook without its secret."""

    name: str
    path: str
    version: int | None
    created: str
    updated: str


class HookPage(msgspec.Struct, frozen=True):
    """The hooks."""

    items: list[HookView]


class HookSecret(msgspec.Struct, frozen=True):
    """A hook. A secret that was made for it is said once; null if there is nothing new to say."""

    name: str
    path: str
    version: int | None
    created: str
    updated: str
    secret: str | None


class Delivered(msgspec.Struct, frozen=True):
    """The execution that a delivery has started; `duplicate` if the delivery has come before."""

    execution_id: str
    duplicate: bool


# -- workers, credentials -------------------------------------------------------------------------------------------


class WorkerView(msgspec.Struct, frozen=True):
    """A worker as it was last heard."""

    worker: str
    pool: str
    slots: int
    busy: int
    host: str
    version: str
    started: str | None
    last_heard: str | None


class WorkerPage(msgspec.Struct, frozen=True):
    """The workers."""

    items: list[WorkerView]


class CredentialView(msgspec.Struct, frozen=True):
    """A credential without its values."""

    name: str
    kind: str
    paths: list[str]
    pools: list[str]
    created: str
    updated: str


class CredentialPage(msgspec.Struct, frozen=True):
    """The credentials."""

    items: list[CredentialView]


class CredentialRequest(Content, frozen=True):
    """A credential: its fields, and the playbooks and pools that may use it (all if none is named)."""

    kind: str
    data: dict[str, Any]
    paths: list[str] = []
    pools: list[str] = []


# -- access ---------------------------------------------------------------------------------------------------------


class TokenRequest(Content, frozen=True):
    """A token to be made. `expires_in` are seconds; `pool` limits a worker's token to one pool."""

    role: Role
    name: str = ""
    pool: str | None = None
    expires_in: float | None = None


class TokenItem(msgspec.Struct, frozen=True):
    """A token without its secret."""

    id: str
    role: Role
    name: str
    pool: str | None
    created: str
    expires: str | None
    revoked: str | None


class TokenPage(msgspec.Struct, frozen=True):
    """The tokens."""

    items: list[TokenItem]


class NewToken(msgspec.Struct, frozen=True):
    """A new token. It is said once: only its hash is kept."""

    id: str
    token: str
    role: Role
    name: str
    pool: str | None
    expires: str | None


class UserRequest(Content, frozen=True):
    """A person to be added."""

    name: str
    password: str
    role: Role = "viewer"


class UserChange(Content, frozen=True):
    """What is to be different; a new password ends the sessions."""

    password: str | None = None
    role: Role | None = None


class UserView(msgspec.Struct, frozen=True):
    """A person who can sign in."""

    name: str
    role: Role
    created: str


class UserPage(msgspec.Struct, frozen=True):
    """The people who can sign in."""

    items: list[UserView]


class LoginRequest(Content, frozen=True):
    """Name and password."""

    user: str
    password: str


class Login(msgspec.Struct, frozen=True):
    """Signed in. The cookie holds the session; send `csrf_token` as X-CSRF-Token with what changes something."""

    session_id: str
    user: str
    role: Role
    csrf_token: str
    expires: str


class SessionView(msgspec.Struct, frozen=True):
    """A session of a person."""

    id: str
    user: str
    created: str
    last_seen: str
    expires: str
    agent: str
    address: str
    current: bool


class SessionPage(msgspec.Struct, frozen=True):
    """Who asks, and the sessions; `csrf_token` where a session asks."""

    name: str
    role: Role
    csrf_token: str | None
    items: list[SessionView]


# -- upkeep ---------------------------------------------------------------------------------------------------------


class PruneRequest(Content, frozen=True):
    """What is to go: executions that ended more than `older_than` seconds ago."""

    older_than: float = 30 * 86_400.0
    dry_run: bool = False


class Pruned(msgspec.Struct, frozen=True):
    """How many were removed, and whether there may be more to remove; `items` are those that a dry run finds."""

    removed: int
    more: bool
    items: list[ExecutionItem]


class ViolationView(msgspec.Struct, frozen=True):
    """An invariant that does not hold, and the event where that was seen."""

    execution_id: str
    seq: int
    invariant: str
    message: str


class Verified(msgspec.Struct, frozen=True):
    """How many executions were looked at, and what is wrong with them."""

    executions: int
    violations: list[ViolationView]


class VerifiedPage(msgspec.Struct, frozen=True):
    """The same of a page of executions; `next` is the cursor of the page behind it."""

    executions: int
    violations: list[ViolationView]
    next: str | None


# -- the server -----------------------------------------------------------------------------------------------------


class Health(msgspec.Struct, frozen=True):
    """The server lives."""

    status: Literal["ok"]


class Dependency(msgspec.Struct, frozen=True):
    """Something that the server uses: how it stands, since when, and whether nothing goes on without it."""

    name: str
    status: Literal["ok", "down"]
    detail: str
    required: bool
    since: str
    seconds: float


class Readiness(msgspec.Struct, frozen=True):
    """Whether the server can do its work; `checks` has `ok` or what is wrong, `dependencies` has it at length."""

    status: Literal["ok", "down"]
    checks: dict[str, str]
    dependencies: list[Dependency]


class Version(msgspec.Struct, frozen=True):
    """What runs here."""

    name: str
    version: str
    api: str


class ProblemDetails(msgspec.Struct, frozen=True):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    problems: list[Finding] | msgspec.UnsetType = msgspec.UNSET
