"""The events, one frozen class each.

The wire name is stored; the class may be renamed. An event carries the decision (rendered args, chosen arcs, patches),
so replay runs no template and no user code.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from noetl.engine.patch import Patch
from noetl.model.actor import Actor
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.model.playbook import Target

Source = Literal["server", "worker"]
Layer = Literal["policy", "spec"]
Interval = tuple[int, int]
"""Iterations from the first number up to, not including, the second."""

EVENTS: dict[str, type[Event]] = {}


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of all events. `entity` is the type of its subject, `status` the progress of that.

    JSON has no cycles, so the garbage collector need not look at an event, of which there are many.
    """

    name: ClassVar[str] = ""
    source: ClassVar[Source] = "server"
    entity: ClassVar[str] = ""
    status: ClassVar[str] = "success"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            EVENTS[cls.name] = cls

    def view(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload of an envelope, made of the fields that differ from their defaults."""
        return payload


class RunEvent(Event, frozen=True):
    """Base of the events of a step run."""

    run: str


class TaskEvent(Event, frozen=True):
    """Base of the events of a task."""

    source = "worker"

    task: TaskId


def target_views(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Targets as envelopes show them."""
    return [
        {"step": to["step"], "with": to.get("args", {})} | ({"delay": to["delay"]} if "delay" in to else {})
        for to in targets
    ]


# -- playbook and workflow ------------------------------------------------------------------------------------------


class ExecutionRequested(Event, frozen=True):
    """An execution was requested."""

    name, entity, status = "playbook.execution.requested", "playbook", "in_progress"

    playbook: str
    path: str
    payload: dict[str, Any] = {}
    parent: tuple[str, str, int] | None = None
    """Of a child: the execution and the run that wait for it, and its depth."""
    actor: Actor | None = None
    """Who requested it; None for a child."""


class RequestEvaluated(Event, frozen=True):
    """The playbook was found and its workload merged, rendered and frozen."""

    name, entity = "playbook.request.evaluated", "playbook"

    workload: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    """Warnings about the payload: keys that nothing reads, values of another type than their default."""


class PlaybookStarted(Event, frozen=True):
    """The execution has started."""

    name, entity, status = "playbook.started", "playbook", "in_progress"


class WorkflowStarted(Event, frozen=True):
    """The entry step is about to get its token."""

    name, entity, status = "workflow.started", "workflow", "in_progress"


class WorkflowFinished(Event, frozen=True):
    """Nothing can run any more; the final step, if there is one, comes next."""

    name, entity = "workflow.finished", "workflow"

    outcome: Literal["succeeded", "failed", "cancelled"]
    error: dict[str, Any] | None = None
    """Why the engine abandoned the execution, if it could not decide what comes next."""


class PlaybookProcessed(Event, frozen=True):
    """The execution has ended. Nothing follows."""

    name, entity = "playbook.processed", "playbook"

    outcome: Literal["succeeded", "failed", "cancelled"]
    result: Any = None
    error: dict[str, Any] | None = None


class PlaybookPaused(Event, frozen=True):
    """No work is granted until it is resumed."""

    name, entity, status = "playbook.paused", "playbook", "paused"

    actor: Actor | None = None
    """Who paused it; None if the engine did."""


class PlaybookResumed(Event, frozen=True):
    """Work is granted again."""

    name, entity, status = "playbook.resumed", "playbook", "in_progress"

    actor: Actor | None = None
    """Who resumed it; None if the engine did."""


class PlaybookCancelled(Event, frozen=True):
    """The execution was cancelled: leases are revoked, nothing is scheduled."""

    name, entity = "playbook.cancelled", "playbook"

    reason: str = ""
    actor: Actor | None = None
    """Who cancelled it; None if the engine did."""


class ExecutionForked(Event, frozen=True):
    """The events before this one are those of another execution, from which this one was forked."""

    name, entity, status = "execution.forked", "playbook", "in_progress"

    source_id: str
    source_seq: int
    """The last event that both have."""
    reason: Literal["fork", "retry"] = "fork"
    playbook: str = ""
    """The digest of an edited playbook."""
    workload: dict[str, Any] | None = None
    """The new workload, if the payload or the workload of the edited playbook differs."""
    set_ctx: Patch = ()
    again: tuple[str, ...] = ()
    """Runs whose failed tasks are retried."""
    moved: float = 0.0
    """Seconds by which timers are due later: the time between the source and the fork does not count."""
    reopened: str = ""
    """The run of a finished loop whose failed items run again."""
    payload: dict[str, Any] | None = None
    """The new payload, if values of it were set."""
    actor: Actor | None = None
    """Who forked it."""
    warnings: tuple[str, ...] = ()
    """Warnings about the payload, if it or the playbook was changed."""


# -- tokens and steps -----------------------------------------------------------------------------------------------


class TokenEnqueued(Event, frozen=True):
    """A token was sent to a step."""

    name, entity, status = "token.enqueued", "token", "in_progress"

    token: int
    step: str
    args: dict[str, Any] = {}
    origin: str | None = None
    """The run that sent it."""
    due: float | None = None
    """When it arrives, if its arc has a delay."""


class TokenHeld(Event, frozen=True):
    """The gate did not admit the token; it waits for a change of `ctx` or a signal."""

    name, entity, status = "token.held", "token", "paused"

    token: int


class TokenDenied(Event, frozen=True):
    """The gate will never admit the token."""

    name, entity, status = "token.denied", "token", "skipped"

    token: int
    error: dict[str, Any] | None = None
    """An admission rule that could not be evaluated; the execution fails."""


class StepScheduled(RunEvent, frozen=True):
    """Tokens were consumed, and the step can run."""

    name, entity, status = "step.scheduled", "step", "in_progress"

    tokens: tuple[int, ...] = ()
    args: dict[str, Any] = {}
    """Of the final step, which has no token."""


class StepStarted(RunEvent, frozen=True):
    """A worker got a lease on the run, or on some of its iterations."""

    name, entity, status = "step.started", "step", "in_progress"

    fence: int
    worker: str = ""
    items: Interval | None = None
    claim: str = ""
    """The worker's name for its claim."""
    ttl: float = 0.0
    """Seconds after the worker's last heartbeat until the lease expires."""
    lane: int = 0
    """Of a loop: the lane length from here on."""

    @property
    def actor(self) -> Actor | None:
        """The worker that sent the claim; None for one in the process of the engine, whose name has no token."""
        return Actor("worker", self.worker) if "@" in self.worker else None


class StepRegranted(StepStarted, frozen=True):
    """A lease was lost, and its work was granted again."""

    name = "step.regranted"

    reason: str = ""


class StepPaused(RunEvent, frozen=True):
    """A lease ended before its run: it was lost or returned, or the run waits for something.

    `until` says for what: `signal`, `child` or `retry`; then `index` is the iteration that waits, and `chain` the
    chain. A run that observes the execution waits for an `event`.
    """

    name, entity, status = "step.paused", "step", "paused"

    fence: int
    reason: Literal["lost", "returned", "waiting"]
    index: int | None = None
    until: Literal["signal", "child", "retry", "event"] | None = None
    key: str = ""
    """The name of the signal, or the id of the child; of a run that waits for an event: what it has finished."""
    due: float | None = None
    request: dict[str, Any] | None = None
    """What the child is to run."""
    chain: str = ""
    keys: tuple[str, ...] = ()
    """The names of the signals, if it waits for the first of several."""


class StepResumed(RunEvent, frozen=True):
    """A run has received what it waited for, and can be granted again."""

    name, entity, status = "step.resumed", "step", "in_progress"

    index: int | None = None
    outcome: Outcome | None = None
    """The outcome of the waiting task; None if it is retried."""
    message: str | None = None
    """The id of the signal that was consumed."""


class StepDone(RunEvent, frozen=True):
    """A run succeeded."""

    name, source, entity = "step.done", "worker", "step"

    result: Any = None


class StepFailed(RunEvent, frozen=True):
    """A run failed."""

    name, source, entity, status = "step.failed", "worker", "step", "error"

    error: Error
    task: str | None = None
    attempt: int = 0
    taken: bool = False
    """The step handled the failure itself."""


class NextEvaluated(RunEvent, frozen=True):
    """Where a run leads was decided: along the arcs listed. The fields after `error` belong to classic steps."""

    name, entity = "next.evaluated", "next"

    on: str
    selected: tuple[int, ...] = ()
    error: dict[str, Any] | None = None
    """A guard or an arg that could not be evaluated; the execution fails."""
    to: tuple[Target, ...] = ()
    policy: str | None = None
    winner_branch: str | None = None
    suppressed_branches: tuple[str, ...] = ()
    taken: bool = False
    """The run failed, and the step handled the failure itself."""

    def view(self, payload: dict[str, Any]) -> dict[str, Any]:
        if not self.to:
            return payload
        routed = {"suppressed_branches": list(self.suppressed_branches), "routing_committed": True}
        return payload | {"selected": target_views(payload.pop("to")), **routed}


# -- loops ----------------------------------------------------------------------------------------------------------


class LoopStarted(RunEvent, frozen=True):
    """The collection of a loop was evaluated and stored."""

    name, entity, status = "loop.started", "loop", "in_progress"

    total: int
    items: Any = None
    """The collection itself if it is small, else a reference."""
    lane: int = 0
    """The first lane length."""


class IterationStarted(RunEvent, frozen=True):
    """An item has started."""

    name, source, entity, status = "loop.iteration.started", "worker", "loop", "in_progress"

    index: int


class IterationDone(RunEvent, frozen=True):
    """An item succeeded."""

    name, source, entity = "loop.iteration.done", "worker", "loop"

    index: int
    result: Any = None
    chunk: Any = None
    """A reference to the results that are stored as a chunk with this one."""


class IterationFailed(RunEvent, frozen=True):
    """An item failed."""

    name, source, entity, status = "loop.iteration.failed", "worker", "loop", "error"

    index: int
    error: Error
    task: str | None = None
    attempt: int = 0


class LoopDone(RunEvent, frozen=True):
    """All items have ended."""

    name, entity = "loop.done", "loop"

    total: int
    ok: int
    failed: int
    result: Any = None


# -- tasks ----------------------------------------------------------------------------------------------------------


class TaskStarted(TaskEvent, frozen=True):
    """A tool is about to be called."""

    name, entity, status = "task.started", "task", "in_progress"

    attempt: int = 1
    at: int = 0
    """When the call began, in milliseconds by the clock of its worker; 0 if it is not known. Stored later."""

    def began(self, stored: float) -> float:
        """When the call began; `stored` is the time of the event."""
        return self.at / 1000 if 0 < self.at < stored * 1000 else stored


class TaskDone(TaskEvent, frozen=True):
    """A call has its outcome (or was skipped), and the policy decided what follows."""

    name, entity = "task.done", "task"

    attempt: int
    outcome: Outcome
    do: str
    to: str | None = None
    """The label that runs next; None at the end of the pipeline."""
    set_iter: Patch = ()
    set_ctx: Patch = ()
    skipped: bool = False
    duration_ms: float = 0.0
    error: Error | None = None
    """The error of the pipeline, if it is not that of the outcome."""
    layer: Layer = "policy"
    """`spec` if `spec.retry` repeats the call: then no rule was evaluated."""


class SinkStarted(TaskStarted, frozen=True):
    """A sink is about to store something. Like `task.started`."""

    name, entity = "sink.started", "sink"


class SinkProcessed(TaskDone, frozen=True):
    """A sink has stored something, failed, or was skipped. Like `task.done`."""

    name, entity = "sink.processed", "sink"


class TaskRetryScheduled(TaskEvent, frozen=True):
    """The task will run again when it is due."""

    name, entity, status = "task.retry.scheduled", "task", "in_progress"

    attempt: int
    """The next attempt."""
    due: float = 0.0
    round: int = 0
    """The attempt as rules count it: a call and its repetitions by `spec.retry` are one. 0: the same as `attempt`."""
    round_start: int = 0
    """The first attempt of the round. 0: the same as `attempt`."""


class PollStarted(TaskEvent, frozen=True):
    """A call is repeated until its result is ready."""

    name, entity, status = "poll.started", "poll", "in_progress"

    due: float | None = None
    """When it times out."""


class PollIteration(TaskEvent, frozen=True):
    """The result of a call of a poll was evaluated."""

    name, entity, status = "poll.iteration", "poll", "in_progress"

    iteration: int
    """From 1."""
    ready: bool = False


class PollFinished(TaskEvent, frozen=True):
    """A poll has ended: the result is ready, or it failed or timed out."""

    name, entity = "poll.finished", "poll"

    iterations: int
    reason: Literal["ready", "exhausted", "deadline", "failed"] = "ready"


# -- ctx, signals, timers -------------------------------------------------------------------------------------------


class InlinedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a stored value as JSON text: the fold cannot read the store, and a reducer needs the value."""

    key: str
    text: str
    more: bool = False
    """Whether the next event has more of it."""


class CtxPatched(Event, frozen=True):
    """`ctx` was changed by the request itself, or a stored value is inlined for the patch that comes next."""

    name, entity = "ctx.patched", "workflow"

    patch: Patch = ()
    spelled: InlinedPart | None = None


class MessageReceived(Event, frozen=True):
    """A signal arrived. It is kept until a run consumes it."""

    name, entity = "message.received", "workflow"

    type: str
    id: str
    payload: Any = None
    actor: Actor | None = None
    """Who sent it."""


class TimerArmed(Event, frozen=True):
    """A timer was set."""

    name, entity, status = "timer.armed", "timer", "in_progress"

    timer: str
    due: float


class TimerFired(Event, frozen=True):
    """A timer was due."""

    name, entity = "timer.fired", "timer"

    timer: str
    error: dict[str, Any] | None = None
    """Of the time limit of the execution: the error it fails with."""
