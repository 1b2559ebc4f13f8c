"""Waits: runs and items that are parked until a signal, a child or a timer resumes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

import msgspec

from noetl.engine import events as e
from noetl.engine.commands import Signal
from noetl.engine.loops import return_items
from noetl.engine.state import WHOLE_RUN, Execution, Handlers, Parked, Run
from noetl.engine.step_runs import refresh_ready
from noetl.engine.timer_keys import WaitLimit
from noetl.model.outcome import Outcome

if TYPE_CHECKING:
    from noetl.engine.decision import Decision

MAX_SIGNAL_ID = 200  # A signal with a longer id is known by its hash


# -- decisions ------------------------------------------------------------------------------------------------------


def receive_signal(decision: Decision, signal: Signal) -> None:
    """Keep a signal until a run waits for it; a duplicate changes nothing."""
    if not signal.keep and not _is_awaited(decision.state, signal.type):
        return
    number = _number(signal)
    if number not in decision.state.signal_ids:
        decision.emit(e.MessageReceived(signal.type, number, signal.payload, signal.actor))


def deliver_signal(decision: Decision) -> bool:
    """Give the oldest kept signal to a run that waits for it; False if there is none."""
    state = decision.state
    if not state.deliverable:
        return False
    awaited = awaited_signals(state, state.signals.keys())
    names = [name for name, signals in state.signals.items() if signals and name in awaited] if awaited else []
    waiter = waiting_for(state, "signal", names[0]) if names else None
    if waiter is None:
        state.deliverable = False
        return False
    run, index = waiter
    keys = run.parked[index].keys
    name = _first_sent(state, {key: state.signals[key][0][0] for key in names if key in keys}) if keys else names[0]
    number, payload = state.signals[name][0]
    result = {"signal": name, "payload": payload} if keys else payload
    actor = state.signal_ids.get(number)
    extra = {} if actor is None else {"actor": msgspec.to_builtins(actor)}
    _resume(decision, run, index, Outcome(result=result, extra=extra), number)
    return True


def waiting_for(state: Execution, kind: Literal["signal", "child"], name: str) -> tuple[Run, int] | None:
    """The run or item that gets a signal of that name, or the end of a child; None if nothing waits for it."""
    for run in state.runs.values():
        if run.parked and (index := run.parked_items.waiting_for(kind, name)) is not None:
            return run, index
    return None


def awaited_signals(state: Execution, names: AbstractSet[str] | None = None) -> set[str]:
    """The names of the signals that runs wait for, or those of them that are among `names`."""
    awaited: set[str] = set()
    for run in state.runs.values():
        if run.parked:
            signals = run.parked_items.signals
            awaited |= signals if names is None else signals & names
    return awaited


ReceivedSignals: TypeAlias = Mapping[tuple[str, int], str]
"""The name of a signal by the run and item that get it when the execution is resumed."""


def received_signals(state: Execution) -> ReceivedSignals:
    """The kept signals that end waits of a paused execution, assigned in the order of `deliver_signal`."""
    received: dict[tuple[str, int], str] = {}
    if state.status != "paused":
        return received
    numbers = {name: [number for number, _ in signals] for name, signals in state.signals.items()}
    for name in numbers:
        for run, index in _waiting_for_signal(state, name):
            if not numbers[name]:
                break
            if (run.id, index) not in received:
                oldest = {other: numbers[other][0] for other in run.parked[index].signals if numbers.get(other)}
                signal = received[run.id, index] = _first_sent(state, oldest)
                numbers[signal].pop(0)
    return received


def _is_awaited(state: Execution, name: str) -> bool:
    """Whether something waits for another signal of this name."""
    received = received_signals(state)
    return any((run.id, index) not in received for run, index in _waiting_for_signal(state, name))


def _waiting_for_signal(state: Execution, name: str) -> Iterator[tuple[Run, int]]:
    for run in state.runs.values():
        if run.parked:
            yield from ((run, index) for index in run.parked_items.all_waiting_for("signal", name))


SignalOutcome = Literal["accepted", "duplicate", "late", "dropped"]


class SignalResult(NamedTuple):
    """The outcome of a signal."""

    answer: SignalOutcome
    pending: bool  # Whether it was accepted and nothing waits for it yet
    awaited: list[str]  # The names of the signals that the execution waits for


def signal_result(state: Execution, events: Sequence[e.Event], signal: Signal) -> SignalResult:
    """The outcome of a signal, in the state after its events."""
    number, answer = _number(signal), "dropped"
    if any(isinstance(event, e.MessageReceived) for event in events):
        answer = "accepted"
    elif number in state.signal_ids or (signal.keep and not state.over):
        answer = "duplicate"
    elif state.over:
        answer = "late"
    awaited = awaited_signals(state)
    is_kept = any(other == number for other, _ in state.signals.get(signal.type, ()))
    pending = (
        answer == "accepted" and is_kept and signal.type not in awaited
    )  # a paused execution may still wait for it
    return SignalResult(cast(SignalOutcome, answer), pending, sorted(awaited))


def _number(signal: Signal) -> str:
    """The id under which a signal is known."""
    if len(signal.id) <= MAX_SIGNAL_ID:
        return signal.id
    return sha256(signal.id.encode("utf-8", "replace")).hexdigest()


def signals_text(names: Sequence[str]) -> str:
    """The awaited signals, for messages."""
    listed = ", ".join(map(repr, names))
    return f"the signal {listed}" if len(names) == 1 else f"the first of the signals {listed}"


def awaited_text(parked: Parked) -> str:
    """The wait of a run or an item."""
    texts = {"signal": signals_text(parked.signals), "child": f"its child {parked.key}", "event": "an event"}
    return texts.get(parked.until, "its next attempt")


def received_text(name: str) -> str:
    """The kept signal of a paused execution, for messages."""
    return f"signal {name!r} was received and is kept until the execution is resumed"


def _first_sent(state: Execution, numbers: Mapping[str, str]) -> str:
    """The name of the signal that was received first; `numbers` are their ids by name."""
    names = {number: name for name, number in numbers.items()}
    return next((names[number] for number in state.signal_ids if number in names), next(iter(numbers)))


def end_child(decision: Decision, child: str, outcome: Outcome) -> None:
    if (waiter := waiting_for(decision.state, "child", child)) is not None:
        _resume(decision, *waiter, outcome)


def wake(decision: Decision, name: str, index: int, late: Outcome) -> None:
    """A parked run is due: a retry starts its attempt, any other wait ends with the outcome `late`."""
    run = decision.state.runs.get(name)
    if run is not None and index in run.parked:
        _resume(decision, run, index, None if run.parked[index].until == "retry" else late)


def _resume(decision: Decision, run: Run, index: int, outcome: Outcome | None, message: str | None = None) -> None:
    decision.emit(e.StepResumed(run.id, None if index == WHOLE_RUN else index, outcome, message))


# -- events ---------------------------------------------------------------------------------------------------------


def _resumed(state: Execution, event: e.StepResumed, at: float) -> None:
    run = state.runs[event.run]
    run.since = at
    index = WHOLE_RUN if event.index is None else event.index
    parked = run.parked.pop(index, None)
    state.timers.pop(WaitLimit(run.id, index).name, None)
    run.progress_of(event.index, parked.chain if parked else "").delivered = event.outcome
    if event.message is not None:
        consume_signal(state, parked.signals if parked else tuple(state.signals), event.message)
    if run.loop is not None and event.index is not None:
        return_items(run, run.loop, (event.index, event.index + 1))
    refresh_ready(state, run)


def consume_signal(state: Execution, names: Iterable[str], message: str) -> None:
    """Remove a kept signal, which has one of these names."""
    for name in names:
        signals = state.signals.get(name, [])
        for place, (number, _) in enumerate(signals):
            if number == message:
                del signals[place]
                if not signals:
                    del state.signals[name]
                return


def _received(state: Execution, event: e.MessageReceived, at: float) -> None:
    state.signals.setdefault(event.type, []).append((event.id, event.payload))
    state.signal_ids[event.id] = event.actor
    state.changed = state.deliverable = True


HANDLERS: Handlers = {
    e.StepResumed: _resumed,
    e.MessageReceived: _received,
}
