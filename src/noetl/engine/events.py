"""Everything that can happen, one small frozen class per fact.

The wire name is what is stored; the class may be renamed freely. An event carries the decision, not the reason to
decide again: rendered args, chosen arcs, patches. So replay runs no template and no user code.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from noetl.engine.patch import Patch
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.model.playbook import Target

Source = Literal["server", "worker"]
Interval = tuple[int, int]
"""Iterations from the first number up to, not including, the second."""

EVENTS: dict[str, type[Event]] = {}


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all events. `entity` is what the event is about, `status` how far that has come."""

    name: ClassVar[str] = ""
    source: ClassVar[Source] = "server"
    entity: ClassVar[str] = ""
    status: ClassVar[str] = "success"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        EVENTS[cls.name] = cls

    def view(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload of an envelope, made of the fields that differ from their defaults."""
        return payload


def target_views(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Targets as envelopes show them."""
    return [
        {"step": to["step"], "with": to.get("args", {})} | ({"delay": to["delay"]} if "delay" in to else {})
        for to in targets
    ]


# -- playbook and workflow ------------------------------------------------------------------------------------------


class ExecutionRequested(Event, frozen=True):
    """Somebody asked for an execution."""

    name, entity, status = "playbook.execution.requested", "playbook", "in_progress"

    playbook: str
    path: str
    payload: dict[str, Any] = {}
    parent: tuple[str, str, int] | None = None
    """For a child: the execution and the run that wait for it, and how deep it stands."""


class RequestEvaluated(Event, frozen=True):
    """The playbook was found and its workload merged, rendered and frozen."""

    name, entity = "playbook.request.evaluated", "playbook"

    workload: dict[str, Any] = {}
    error: dict[str, Any] | None = None


class PlaybookStarted(Event, frozen=True):
    """The execution is on its way."""

    name, entity, status = "playbook.started", "playbook", "in_progress"


class WorkflowStarted(Event, frozen=True):
    """The entry step is about to get its token."""

    name, entity, status = "workflow.started", "workflow", "in_progress"


class WorkflowFinished(Event, frozen=True):
    """Nothing can run any more; the final step, if there is one, comes next."""

    name, entity = "workflow.finished", "workflow"

    outcome: Literal["succeeded", "failed", "cancelled"]
    error: dict[str, Any] | None = None
    """Why the engine gave the execution up, if it could not decide what comes next."""


class PlaybookProcessed(Event, frozen=True):
    """The end. Nothing follows."""

    name, entity = "playbook.processed", "playbook"

    outcome: Literal["succeeded", "failed", "cancelled"]
    result: Any = None
    error: dict[str, Any] | None = None


class PlaybookPaused(Event, frozen=True):
    """Nothing new is handed out until it is resumed."""

    name, entity, status = "playbook.paused", "playbook", "paused"


class PlaybookResumed(Event, frozen=True):
    """Work is handed out again."""

    name, entity, status = "playbook.resumed", "playbook", "in_progress"


class PlaybookCancelled(Event, frozen=True):
    """Somebody stopped the execution: leases are revoked, nothing is scheduled."""

    name, entity = "playbook.cancelled", "playbook"

    reason: str = ""


class ExecutionForked(Event, frozen=True):
    """The events before this one were those of another execution; from here on this one goes its own way."""

    name, entity, status = "execution.forked", "playbook", "in_progress"

    source_id: str
    source_seq: int
    """The last event that both have."""
    reason: Literal["fork", "retry"] = "fork"
    playbook: str = ""
    """The digest of an edited playbook, if it goes on with one."""
    workload: dict[str, Any] | None = None
    """The workload made anew, where that of the edited playbook differs."""
    set_ctx: Patch = ()
    again: tuple[str, ...] = ()
    """Runs whose failed tasks are tried once more."""
    moved: float = 0.0
    """By how many seconds timers are due later: time stands still between the source and the fork."""


# -- tokens and steps -----------------------------------------------------------------------------------------------


class TokenEnqueued(Event, frozen=True):
    """A token was put on a step."""

    name, entity, status = "token.enqueued", "token", "in_progress"

    token: int
    step: str
    args: dict[str, Any] = {}
    origin: str | None = None
    """The run whose arc it came through."""
    due: float | None = None
    """When it arrives, if its arc delays it."""


class TokenHeld(Event, frozen=True):
    """The gate did not let the token in; it waits for `ctx` to change or a signal."""

    name, entity, status = "token.held", "token", "paused"

    token: int


class TokenDenied(Event, frozen=True):
    """The gate will never let the token in; its branch ends."""

    name, entity, status = "token.denied", "token", "skipped"

    token: int
    error: dict[str, Any] | None = None
    """An admission rule that could not be evaluated; the execution fails."""


class StepScheduled(Event, frozen=True):
    """Tokens were taken and the step may run."""

    name, entity, status = "step.scheduled", "step", "in_progress"

    run: str
    tokens: tuple[int, ...] = ()
    args: dict[str, Any] = {}
    """Only for the final step, which has no token."""


class StepStarted(Event, frozen=True):
    """A worker got a lease on the run, or on some of its iterations."""

    name, entity, status = "step.started", "step", "in_progress"

    run: str
    fence: int
    worker: str = ""
    items: Interval | None = None
    claim: str = ""
    """The worker's name for its claim."""
    ttl: float = 0.0
    """Seconds after the worker's last heartbeat until the lease expires."""
    lane: int = 0
    """Of a loop: the lane length from here on."""


class StepRegranted(Event, frozen=True):
    """A lease was lost; its work was handed out again."""

    name, entity, status = "step.regranted", "step", "in_progress"

    run: str
    fence: int
    reason: str
    worker: str = ""
    items: Interval | None = None
    claim: str = ""
    """The worker's name for its claim."""
    ttl: float = 0.0
    """Seconds after the worker's last heartbeat until the lease expires."""
    lane: int = 0
    """Of a loop: the lane length from here on."""


class StepPaused(Event, frozen=True):
    """A lease ended before its run: it was lost or given back, or the run waits for something.

    `until` says for what: `signal`, `child` or `retry`; then `index` is the iteration that waits, and `chain` the
    chain. A run that observes the execution waits for an `event`.
    """

    name, entity, status = "step.paused", "step", "paused"

    run: str
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


class StepResumed(Event, frozen=True):
    """What a run waited for has come; it can be handed out again."""

    name, entity, status = "step.resumed", "step", "in_progress"

    run: str
    index: int | None = None
    outcome: Outcome | None = None
    """What the waiting task came to; None if it is simply tried again."""
    message: str | None = None
    """The id of the signal that was consumed."""


class StepDone(Event, frozen=True):
    """The pipeline of a run came to its end."""

    name, source, entity = "step.done", "worker", "step"

    run: str
    result: Any = None


class StepFailed(Event, frozen=True):
    """A run failed."""

    name, source, entity, status = "step.failed", "worker", "step", "error"

    run: str
    error: Error
    task: str | None = None
    attempt: int = 0
    taken: bool = False
    """The step handled the failure itself."""


class NextEvaluated(Event, frozen=True):
    """Where a run leads was decided: along the arcs listed. The fields after `error` belong to classic steps."""

    name, entity = "next.evaluated", "next"

    run: str
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


class LoopStarted(Event, frozen=True):
    """The collection of a loop is known and stored."""

    name, entity, status = "loop.started", "loop", "in_progress"

    run: str
    total: int
    items: Any = None
    """The collection itself if it is small, else a reference."""
    lane: int = 0
    """The first lane length."""


class IterationStarted(Event, frozen=True):
    """An item is being worked on."""

    name, source, entity, status = "loop.iteration.started", "worker", "loop", "in_progress"

    run: str
    index: int


class IterationDone(Event, frozen=True):
    """An item is finished."""

    name, source, entity = "loop.iteration.done", "worker", "loop"

    run: str
    index: int
    result: Any = None
    chunk: Any = None
    """A reference to the results that are stored as a chunk with this one."""


class IterationFailed(Event, frozen=True):
    """An item failed."""

    name, source, entity, status = "loop.iteration.failed", "worker", "loop", "error"

    run: str
    index: int
    error: Error
    task: str | None = None
    attempt: int = 0


class LoopDone(Event, frozen=True):
    """All items are finished."""

    name, entity = "loop.done", "loop"

    run: str
    total: int
    ok: int
    failed: int
    result: Any = None


# -- tasks ----------------------------------------------------------------------------------------------------------


class TaskStarted(Event, frozen=True):
    """A tool is about to be called."""

    name, source, entity, status = "task.started", "worker", "task", "in_progress"

    task: TaskId
    attempt: int = 1


class TaskDone(Event, frozen=True):
    """A call came to its outcome (or was skipped), and the policy decided what follows.

    Carries all a resume needs: the outcome, the patches, the directive and the next task.
    """

    name, source, entity = "task.done", "worker", "task"

    task: TaskId
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
    """What the pipeline fails with, where it is not the error of the outcome."""


class SinkStarted(TaskStarted, frozen=True):
    """A sink is about to store something. Like `task.started`."""

    name, entity = "sink.started", "sink"


class SinkProcessed(TaskDone, frozen=True):
    """A sink has stored something, failed, or was skipped. Like `task.done`."""

    name, entity = "sink.processed", "sink"


class TaskRetryScheduled(Event, frozen=True):
    """The task will run again, at once or when the time has come."""

    name, source, entity, status = "task.retry.scheduled", "worker", "task", "in_progress"

    task: TaskId
    attempt: int
    """The attempt that comes."""
    due: float = 0.0


class PollStarted(Event, frozen=True):
    """A call is repeated until its result is ready."""

    name, source, entity, status = "poll.started", "worker", "poll", "in_progress"

    task: TaskId
    due: float | None = None
    """When it is given up."""


class PollIteration(Event, frozen=True):
    """A call of a poll was looked at."""

    name, source, entity, status = "poll.iteration", "worker", "poll", "in_progress"

    task: TaskId
    iteration: int
    """From 1."""
    ready: bool = False


class PollFinished(Event, frozen=True):
    """A poll is over: the result is ready, or it was given up."""

    name, source, entity = "poll.finished", "worker", "poll"

    task: TaskId
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
    """A signal arrived and is kept until somebody waits for it."""

    name, entity = "message.received", "workflow"

    type: str
    id: str
    payload: Any = None


class TimerArmed(Event, frozen=True):
    """Something will happen at a time."""

    name, entity, status = "timer.armed", "timer", "in_progress"

    timer: str
    due: float


class TimerFired(Event, frozen=True):
    """The time has come."""

    name, entity = "timer.fired", "timer"

    timer: str
    error: dict[str, Any] | None = None
    """Of the time limit of the execution: why it fails."""
