"""Pause, cancellation and the end of an execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from noetl.engine import events as e
from noetl.engine.commands import Abandon, ChildEnded, Claim, Command, Lost, Report, Start, TimerDue
from noetl.engine.schedule import schedule
from noetl.engine.state import Execution, Handlers
from noetl.engine.step_runs import cancel_run, template_failure
from noetl.errors import TemplateError
from noetl.expression import render

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

Outcome = Literal["succeeded", "failed", "cancelled"]


# -- the end --------------------------------------------------------------------------------------------------------


def finish(decision: Decision, outcome: Outcome) -> bool:
    """End the workflow and start the final step, or end the execution. Returns whether it continues."""
    state = decision.state
    if state.finished is None:
        decision.emit(e.WorkflowFinished(outcome))
        _start_final_step(decision, outcome)
        return True
    result, error = _result(decision, state)
    if outcome != "cancelled" and (error is not None or state.failure is not None):
        outcome = "failed"
    decision.emit(e.PlaybookProcessed(outcome, result, error or state.failure if outcome == "failed" else None))
    return False


def _start_final_step(decision: Decision, outcome: Outcome) -> None:
    state = decision.state
    final = state.net.playbook.final
    if final is not None and outcome != "cancelled":
        steps = {name: result.status for name, result in state.steps.items()}
        failure = [state.failure] if state.failure is not None and state.failure not in state.errors else []
        summary = {"status": outcome, "steps": steps, "errors": [*state.errors, *failure]}
        schedule(decision, state.net.steps[final], (), {"summary": summary})


def _result(decision: Decision, state: Execution) -> tuple[Any, dict[str, Any] | None]:
    """The execution's result: `output`, else the final step's, else that of the step that ended last (S12)."""
    output = state.net.playbook.executor.output
    if output is not None and state.finished == "succeeded":
        try:
            with decision.allowance:
                return render(output, decision.scope({}, {})), None
        except TemplateError as error:
            return None, template_failure(error, "", "executor.spec.output")
    name = state.net.playbook.final or state.last
    return (state.steps[name].result if name in state.steps else None), None


# -- decisions that cannot be made ----------------------------------------------------------------------------------


def remedy_for(command: Command, error: dict[str, Any]) -> Command | None:
    """The command to decide instead of one whose decision raised an exception; None if its sender gets the error.

    A sender cannot handle it where something has happened already: a worker would repeat an effect, and a timer or a
    lost lease would come again for ever. There the execution ends: with the facts of the report if they can be stored,
    then without them, then without its final step.
    """
    match command:
        case Start(parent=(_, _, _), refused=None):  # its parent waits for it
            return Start(parent=command.parent, refused=error, actor=command.actor)
        case Report():
            return Abandon(error, command)
        case Claim() | Lost() | TimerDue() | ChildEnded() | Abandon(report=Report()):
            return Abandon(error)
        case Abandon(final=True):
            return Abandon(error, final=False)
    return None


def abandon(decision: Decision, command: Abandon) -> None:
    """End the execution after its last facts were accepted."""
    state = decision.state
    outcome: Outcome = "cancelled" if state.status == "cancelling" else "failed"
    if state.finished is None:
        decision.emit(e.WorkflowFinished(outcome, command.error))
        if command.final and outcome == "failed" and state.status != "paused":
            _start_final_step(decision, outcome)
            return
    decision.emit(e.PlaybookProcessed(outcome, error=state.failure or command.error))


# -- events ---------------------------------------------------------------------------------------------------------


def _workflow_finished(state: Execution, event: e.WorkflowFinished, at: float) -> None:
    state.finished = event.outcome
    state.failure = state.failure or event.error
    _stop_everything(state)


def _stop_everything(state: Execution) -> None:
    """Remove all tokens, and cancel all runs."""
    for name in ("unadmitted", "held", "delayed", "waiting", "tokens", "ended", "timers", "ready"):
        getattr(state, name).clear()
    for run in list(state.runs.values()):
        cancel_run(state, run)
    state.occupancy.clear()


def _processed(state: Execution, event: e.PlaybookProcessed, at: float) -> None:
    state.status = event.outcome
    state.result, state.error = event.result, event.error
    state.timers.clear()


def _paused(state: Execution, event: e.PlaybookPaused, at: float) -> None:
    state.status = "paused"


def _resumed(state: Execution, event: e.PlaybookResumed, at: float) -> None:
    state.status = "running"


def _cancelled(state: Execution, event: e.PlaybookCancelled, at: float) -> None:
    state.status = "cancelling"
    state.cancel_reason, state.cancelled_by = event.reason, event.actor
    _stop_everything(state)


HANDLERS: Handlers = {
    e.WorkflowFinished: _workflow_finished,
    e.PlaybookProcessed: _processed,
    e.PlaybookPaused: _paused,
    e.PlaybookResumed: _resumed,
    e.PlaybookCancelled: _cancelled,
}
