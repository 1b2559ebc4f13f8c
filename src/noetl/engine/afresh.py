"""What a fork changes in the state it has inherited: nobody works on it yet, and its time begins now.

Nothing of the source is shared. Leases are gone. A run that waits for a child asks for one of its own: the child's id
comes from the execution's. Timers have as much time left as they had. What has come stays: results, `ctx`, kept
signals, and how far each pipeline is.
"""

from __future__ import annotations

from noetl.engine import events as e
from noetl.engine.loops import return_items
from noetl.engine.state import Execution, Progress, Run, Tail


def begin_afresh(state: Execution, event: e.ExecutionForked, at: float) -> None:
    """Let go of what belongs to the source. The caller has given back lanes, and refreshes what is ready."""
    state.forked, state.parent = (event.source_id, event.source_seq), None
    state.changed = state.listening = True
    if state.status == "paused":
        state.status = "running"
    state.leases.clear()
    for run in state.runs.values():
        _put_back(state, run, event.moved)
    for token in state.tokens.values():
        token.due = _later(token.due, event.moved)
    for name, due in list(state.timers.items()):
        state.timers[name] = due + event.moved
    if event.playbook:
        _change_playbook(state, event)
    if event.reason == "retry":
        _retry(state, event, at)


def _put_back(state: Execution, run: Run, moved: float) -> None:
    run.fence = None
    run.losses.clear()
    for progress in run.progress.values():
        progress.due = _later(progress.due, moved)
    for key, parked in list(run.parked.items()):
        if parked.until == "child":
            _ask_again(state, run, key)
        else:
            parked.due = _later(parked.due, moved)


def _ask_again(state: Execution, run: Run, key: int) -> None:
    """The child belongs to the source: the task that asked for it runs once more, and asks for another one."""
    chain = run.parked.pop(key).chain
    state.timers.pop(f"wait:{run.id}:{key}", None)
    whole = run.loop is None or bool(chain)
    progress = run.progress.get(chain if whole else f"{key}:")
    if progress is not None:
        progress.started = False
    if run.loop is not None and not whole:
        return_items(run, run.loop, (key, key + 1))


def _later(due: float | None, moved: float) -> float | None:
    return None if due is None else due + moved


def _change_playbook(state: Execution, event: e.ExecutionForked) -> None:
    """The net is exchanged by whoever folds. Tokens stand at its steps, which may join where they did not."""
    state.digest = event.playbook
    if event.workload is not None:
        state.workload = event.workload
    state.fresh.clear()
    state.waiting.clear()
    for token in state.tokens.values():
        if token.id in state.delayed:
            continue
        if state.net.steps[token.step].joins:
            state.waiting.setdefault(token.step, []).append(token.id)
        elif token.id not in state.held:
            state.fresh[token.id] = None


def _retry(state: Execution, event: e.ExecutionForked, at: float) -> None:
    """Failed tasks are visited once more, and time limits begin anew."""
    limit = state.net.playbook.executor.timeout
    if "timeout" in state.timers and limit is not None:
        state.timers["timeout"] = at + limit
    for name in event.again:
        run = state.runs[name]
        limit = state.net.steps[run.step].timeout
        if f"timeout:{name}" in state.timers and limit is not None:
            state.timers[f"timeout:{name}"] = at + limit
        for progress in run.progress.values():
            _visit_again(progress)
        if run.tail is not None and run.tail.failure is not None and not run.tail.fired:
            run.tail = Tail()  # its tool runs again, and nothing has come of the failure


def _visit_again(progress: Progress) -> None:
    if progress.failure is None:
        return
    _, label, _ = progress.failure
    progress.at, progress.attempt, progress.repeats = label, 1, 0
    progress.started = progress.ended = False
    progress.due = progress.delivered = progress.failure = None
