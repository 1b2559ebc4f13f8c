"""Fire enabled transitions until the net is quiet, and notice when it is quiet for good.

What is enabled is never searched for: evolving an event puts tokens, ended runs and waiting joins on work lists of the
state, and `settle` empties them. Quiet with nothing alive means the end (S2): held tokens are denied, oldest first;
then a blocked join fires with the earliest token; then the final step runs; then the execution ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.engine import events as e
from noetl.engine.evolve import NO_LOOP, merged_args
from noetl.engine.fit import Oversized, fitted
from noetl.engine.listen import hear, listen
from noetl.engine.net import StepPlan
from noetl.engine.state import Ended, Execution, Request, Token
from noetl.engine.turn import Turn
from noetl.errors import TemplateError
from noetl.expression import kind_of, render, unwrapped
from noetl.model.identity import step_of
from noetl.model.outcome import Error, Outcome
from noetl.reference import CHUNKS, Reference

MAX_FIRINGS = 1_000
MAX_TOKENS = 10_000
MAX_LIST_BYTES = 64 << 20
"""A larger stored list is opened, which fails: it can't be handed out to workers."""
MAX_ITEMS = 1 << 30
MAX_IDLE_ITEMS = 1_000_000
"""Items of a loop without tasks: its result is made at once."""


def settle(turn: Turn) -> None:
    """Fire until quiet; after many firings the rest goes on by a timer that is due now. A pause stops all (S32)."""
    hear(turn)
    if turn.state.status == "paused":
        return
    for _ in range(MAX_FIRINGS):
        if turn.state.over or not _fire(turn):
            return
        hear(turn)
    turn.emit(e.TimerArmed("more", turn.now))


def _fire(turn: Turn) -> bool:
    """Fire one transition; False if none is enabled."""
    state = turn.state
    if state.status == "cancelling":
        return _finish(turn, "cancelled")
    ended = next((one for one in state.ended.values() if one.tokens < 0), None)
    if ended is not None:
        _route(turn, ended)
        return True
    if state.failure is not None and state.finished is None and (state.hurried or _stops(state)):
        return _finish(turn, "failed")
    if state.fresh:
        _admit(turn, state.tokens[next(iter(state.fresh))])
        return True
    return _deliver(turn) or _look_again(turn) or _join(turn) or _quiet(turn)


def _stops(state: Execution) -> bool:
    return state.net.playbook.executor.on_failure == "stop"


# -- routing --------------------------------------------------------------------------------------------------------


def _route(turn: Turn, ended: Ended) -> None:
    """Decide where an ended run leads, and send its tokens."""
    state = turn.state
    if state.finished is not None:  # the final step stands outside the net
        turn.emit(e.NextEvaluated(ended.run, ended.on))
        return
    winner = ended.tail.winner if ended.tail is not None else None
    if winner is not None and (ended.on != "step.failed" or ended.taken):
        _goto(turn, ended, winner)
        return
    plan = state.net.steps[step_of(ended.run)]
    scope = turn.scope(ended.args, ended.args_by, ended.event)
    chosen: list[tuple[int, dict[str, Any]]] = []
    try:
        with turn.allowance:
            for i, arc in enumerate(plan.arcs):
                if ended.on == "step.failed" and not arc.sees_failure:
                    continue
                if arc.test(scope):
                    args = arc.args(scope) if arc.args is not None else None
                    chosen.append((i, {**ended.args, **args} if args else ended.args))
                    if not plan.inclusive:
                        break
    except TemplateError as error:
        turn.emit(e.NextEvaluated(ended.run, ended.on, error=_template_error(error, plan.name, f"next/{i}")))
        return
    if len(state.tokens) + len(chosen) > MAX_TOKENS:
        problem = _limit(f"more than {MAX_TOKENS:,} tokens at once", plan.name)
        turn.emit(e.NextEvaluated(ended.run, ended.on, error=problem))
        return
    try:
        tokens = [_token(turn, plan, i, args, state.next_token + k, ended.run) for k, (i, args) in enumerate(chosen)]
    except Oversized as error:
        problem = {"kind": "too_large", "message": f"the args of a token: {error}", "step": plan.name}
        turn.emit(e.NextEvaluated(ended.run, ended.on, error=problem))
        return
    turn.emit(e.NextEvaluated(ended.run, ended.on, tuple(i for i, _ in chosen), taken=ended.taken))
    for token in tokens:
        turn.emit(token)


def _goto(turn: Turn, ended: Ended, winner: Request) -> None:
    """Go where the `next` leads that has won in the case of a classic step."""
    state, step = turn.state, step_of(ended.run)
    problem = next((_no_step(to.step, step) for to in winner.to if to.step not in state.net.steps), None)
    if len(state.tokens) + len(winner.to) > MAX_TOKENS:
        problem = _limit(f"more than {MAX_TOKENS:,} tokens at once", step)
    tokens = []
    for number, to in enumerate(winner.to, start=state.next_token):
        due = None if to.delay is None else turn.now + to.delay
        try:
            args = {**ended.args, **to.args}
            tokens.append(fitted(e.TokenEnqueued(number, to.step, args, ended.run, due), turn.blobs))
        except Oversized as error:
            problem = {"kind": "too_large", "message": f"the args of a token: {error}", "step": step}
    if problem is not None:
        turn.emit(e.NextEvaluated(ended.run, ended.on, error=problem))
        return
    assert ended.tail is not None
    turn.emit(
        e.NextEvaluated(
            ended.run,
            ended.on,
            to=tuple(winner.to),
            policy=winner.policy,
            winner_branch=winner.branch,
            suppressed_branches=tuple(ended.tail.suppressed),
            taken=ended.taken,
        )
    )
    for token in tokens:
        turn.emit(token)


def _no_step(name: str, step: str) -> dict[str, Any]:
    return {"kind": "not_found", "message": f"`next` leads to {name[:200]!r}, and no step is called that", "step": step}


def _token(turn: Turn, plan: StepPlan, arc: int, args: dict[str, Any], number: int, origin: str) -> e.Event:
    delay = plan.arcs[arc].delay
    due = None if delay is None else turn.now + delay
    return fitted(e.TokenEnqueued(number, plan.arcs[arc].step, args, origin, due), turn.blobs)


def _template_error(error: TemplateError, step: str, place: str) -> dict[str, Any]:
    return {"kind": "template", "message": f"{error.message} in {error.source!r}"[:1000], "step": step, "place": place}


# -- tokens ---------------------------------------------------------------------------------------------------------


def _admit(turn: Turn, token: Token) -> None:
    """Let a token in, or hold it."""
    plan = turn.state.net.steps[token.step]
    try:
        allowed = _allowed(turn, plan, (token,))
    except TemplateError as error:
        turn.emit(e.TokenDenied(token.id, error=_template_error(error, plan.name, "admit")))
        return
    if allowed:
        schedule(turn, plan, (token.id,))
    elif token.id in turn.state.fresh:
        turn.emit(e.TokenHeld(token.id))


def _allowed(turn: Turn, plan: StepPlan, tokens: Sequence[Token]) -> bool:
    if not plan.admit:
        return True
    scope = turn.scope(*merged_args(turn.state, tokens), tokens[0].event)
    with turn.allowance:
        matched = [allow for test, allow in plan.admit if test(scope)]
    if not matched:
        return not plan.admit[-1][1]
    assert plan.step.admit is not None
    return all(matched) if plan.step.admit.mode == "inclusive" else matched[0]


def _look_again(turn: Turn) -> bool:
    """Held tokens are looked at again when `ctx` has changed or a signal has come."""
    state = turn.state
    if not state.changed:
        return False
    before = len(turn.events)
    for number in list(state.held):
        if not state.net.steps[state.tokens[number].step].joins:  # those go in together, see `_join`
            _admit(turn, state.tokens[number])
    state.changed = False  # only now: a template may have needed a stored value first
    return len(turn.events) > before


def _deliver(turn: Turn) -> bool:
    """Give kept signals to the runs that wait for them, oldest first."""
    state = turn.state
    if not state.listening:
        return False
    first: dict[str, tuple[str, int]] = {}
    """By signal, the run that has waited for it longest. There may be thousands of signals and of waiting items."""
    for run in state.runs.values():
        for key, parked in run.parked.items():
            if parked.until == "signal":
                first.setdefault(parked.key, (run.id, key))
    for name, kept in state.signals.items() if first else ():
        if kept and name in first:
            run_id, key = first[name]
            number, payload = kept[0]
            index = None if key == NO_LOOP else key
            turn.emit(e.StepResumed(run_id, index, Outcome(result=payload), number))
            return True
    state.listening = False
    return False


def _join(turn: Turn) -> bool:
    """Fire a join whose tokens need not wait any longer: nothing alive elsewhere can still reach it."""
    state = turn.state
    for step, tokens in state.waiting.items():  # noqa: SIM110 (joining is an effect)
        if tokens and not _awaited(state, step) and _join_now(turn, step):
            return True
    return False


def _awaited(state: Execution, step: str) -> bool:
    """Whether a token may still come to a join: from a step elsewhere, or on its way through an arc that delays it."""
    if any(name in state.net.rivals[step] for name in state.crowd if name != step):
        return True
    return any(state.tokens[number].step == step for number in state.delayed)


def _join_now(turn: Turn, step: str) -> bool:
    state = turn.state
    plan = state.net.steps[step]
    tokens = tuple(state.waiting[step])
    first = state.tokens[tokens[0]]
    try:
        allowed = _allowed(turn, plan, [state.tokens[number] for number in tokens])
    except TemplateError as error:
        turn.emit(e.TokenDenied(first.id, error=_template_error(error, plan.name, "admit")))
        return True
    if allowed:
        schedule(turn, plan, tokens)
        return True
    fresh = [number for number in tokens if number not in state.held]
    for number in fresh:
        turn.emit(e.TokenHeld(number))
    return bool(fresh)


# -- steps ----------------------------------------------------------------------------------------------------------


def schedule(turn: Turn, plan: StepPlan, tokens: tuple[int, ...], args: dict[str, Any] | None = None) -> None:
    """Take the tokens and make a run; what needs no worker runs here and now."""
    state = turn.state
    limit = state.net.playbook.executor.max_step_runs
    if tokens and state.run_count >= limit:  # not a failure of the step, which an arc could take up for ever
        for token in tokens:
            turn.emit(e.TokenDenied(token, _limit(f"more than {limit:,} step runs in one execution", plan.name)))
        return
    run = f"{plan.name}#{state.entries.get(plan.name, 0) + 1}"
    items = _items(turn, plan, tokens, args or {}) if plan.collection is not None else None
    turn.emit(e.StepScheduled(run, tokens, args or {}))
    for name, seconds in plan.timers.items():
        turn.emit(e.TimerArmed(f"timer:{run}:{name}", turn.now + seconds))
    if plan.listens:
        listen(turn, plan, run)
    if plan.collection is not None:
        _start_loop(turn, plan, run, items)
    elif not plan.step.tasks and not plan.step.tail:
        turn.emit(e.StepStarted(run, state.fence + 1, "server"))
        turn.emit(e.StepDone(run))


def _limit(message: str, step: str) -> dict[str, Any]:
    return {"kind": "limit", "message": message, "step": step}


def _items(turn: Turn, plan: StepPlan, tokens: tuple[int, ...], args: dict[str, Any]) -> Any:
    """The collection of a loop, or the Error that stands in its way. Rendered before the run is made: a template that
    first needs a stored value starts the whole decision again."""
    assert plan.collection is not None
    merged, args_by = merged_args(turn.state, [turn.state.tokens[number] for number in tokens])
    try:
        with turn.allowance:
            items = plan.collection(turn.scope(merged or args, args_by))
        if length_of(items) is not None:
            return items
        return Error("loop_input", f"loop.in must give a list, not {kind_of(unwrapped(items))}")
    except TemplateError as error:
        return Error("template", f"loop.in: {error.message} in {error.source[:200]!r}")


def _start_loop(turn: Turn, plan: StepPlan, run: str, items: Any) -> None:
    if isinstance(items, Error):
        turn.fail(run, items)
        return
    total = length_of(items) or 0
    if not plan.step.tasks and total > MAX_IDLE_ITEMS:
        limit = f"a loop over {total:,} items without tasks (limit {MAX_IDLE_ITEMS:,})"
        turn.fail(run, Error("limit", limit))
        return
    turn.emit(e.LoopStarted(run, total, items if isinstance(items, Reference) else list(items)))
    if not total or not plan.step.tasks:
        result = [None] * total if plan.step.loop and plan.step.loop.collect else None
        turn.emit(e.LoopDone(run, total, total, 0, result))


def _most_items(stored: Reference) -> int:
    """How many items a stored list can have, whatever the worker says that stored it; -1 if it is to be opened."""
    if stored.schema_hint == CHUNKS:
        return MAX_ITEMS
    is_list = stored.schema_hint == "list" and stored.size <= MAX_LIST_BYTES
    return stored.size // 2 if is_list else -1  # an item takes two bytes: a digit and a comma


def length_of(items: Any) -> int | None:
    """How many items a collection has; None if it is not a list. A stored list is not opened if its length is known."""
    if isinstance(items, Reference):
        known = items.preview.get("count") if isinstance(items.preview, dict) else None
        if type(known) is int and 0 <= known <= _most_items(items):
            return known
        items = items.content()
    return len(items) if isinstance(items, list | tuple) else None


# -- the end --------------------------------------------------------------------------------------------------------


def _quiet(turn: Turn) -> bool:
    state = turn.state
    if state.runs or state.delayed:
        return False
    if state.held:
        turn.emit(e.TokenDenied(next(iter(state.held))))
        return True
    blocked = [(tokens[0], step) for step, tokens in state.waiting.items() if tokens]
    if blocked:
        return _join_now(turn, min(blocked)[1])
    return _finish(turn, "failed" if state.failure is not None else "succeeded")


def _finish(turn: Turn, outcome: Any) -> bool:
    """End the workflow, run the final step, end the execution: one of them per call."""
    state = turn.state
    if state.finished is None:
        turn.emit(e.WorkflowFinished(outcome))
        start_final_step(turn, outcome)
        return True
    result, error = _result(turn, state)
    if outcome != "cancelled" and (error is not None or state.failure is not None):
        outcome = "failed"
    turn.emit(e.PlaybookProcessed(outcome, result, error or state.failure if outcome == "failed" else None))
    return False


def start_final_step(turn: Turn, outcome: Any) -> None:
    """Schedule the final step, if the playbook has one and the workflow was not cancelled."""
    state = turn.state
    final = state.net.playbook.final
    if final is not None and outcome != "cancelled":
        schedule(turn, state.net.steps[final], (), {"summary": _summary(state, outcome)})


def _summary(state: Execution, outcome: str) -> dict[str, Any]:
    steps = {name: result.status for name, result in state.steps.items()}
    failure = [state.failure] if state.failure is not None and state.failure not in state.errors else []
    return {"status": outcome, "steps": steps, "errors": [*state.errors, *failure]}


def _result(turn: Turn, state: Execution) -> tuple[Any, dict[str, Any] | None]:
    """The execution's result: `output`, else the final step's, else that of the step that ended last (S12)."""
    output = state.net.playbook.executor.output
    if output is not None and state.finished == "succeeded":
        try:
            with turn.allowance:
                return render(output, turn.scope({}, {})), None
        except TemplateError as error:
            return None, _template_error(error, "", "executor.spec.output")
    name = state.net.playbook.final or state.last
    return (state.steps[name].result if name in state.steps else None), None
