"""Keys of classic steps that have no effect at their place (R11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from noetl.classic.chain_items import step_items, tool_items
from noetl.classic.detect import tasks_of
from noetl.classic.nodes import as_map
from noetl.classic.points import observes
from noetl.dsl.document_parts import Unused
from noetl.dsl.tree import Map
from noetl.errors import TemplateSyntax
from noetl.expression import Comparison, parse

CASE_KEYS = ("eval_mode", "case_mode", "branch_order", "next_policy")
TIMER = ("event", "data", "timer_id")
NO_CHAIN = "a single call is not a chain"
NO_TOOLS = "the branch has no chain; its retry repeats the call of the step"


def unused_keys(step: Map) -> Iterator[Unused]:
    spec = as_map(step.get("spec"))
    if "case" not in step:
        yield from (Unused(spec, key, "the step has no `case`") for key in CASE_KEYS if key in spec)
    for branch in step.get("case", []):
        if "cache" in as_map(branch.get("spec")):
            yield Unused(branch["spec"], "cache", "a guard is evaluated once")
        yield from _in_branch(step, branch)
    holders = [step, *tasks_of(step.get("tool")), as_map(step.get("sink"))]
    for holder in holders:
        yield from _in_retry(as_map(holder.get("retry")), NO_CHAIN)
    yield from _in_step_retry(step)
    yield from _timers(step)


def _in_branch(step: Map, branch: Map) -> Iterator[Unused]:
    calls = tool_items(branch)
    for item in calls:
        yield from _in_retry(as_map(as_map(item.body).get("retry")), NO_CHAIN)
    for holder in (branch, as_map(branch.get("then", branch.get("else")))):
        yield from _in_retry(as_map(holder.get("retry")), None if calls else NO_TOOLS)
        if "retry" in holder and not calls and "else" in branch:
            yield Unused(holder, "retry", "`else` does not follow a failure", "move it to a branch on `call.error`")
        elif "retry" in holder and not calls and "tool" not in step:
            yield Unused(holder, "retry", "the step has no call that could be repeated")


def _in_retry(retry: Map, no_chain: str | None) -> Iterator[Unused]:
    """`no_chain`: why the whole chain cannot be retried here."""
    if no_chain is not None and retry.get("scope") == "chain":
        yield Unused(retry, "scope", no_chain, "give the `retry` to a branch with a chain of tasks")
    if "backoff" in retry:
        hint = "write `backoff: {type: ..., delay_seconds: ...}`"
        for key in ("initial_delay", "backoff_multiplier"):
            if key in retry:
                yield Unused(retry, key, "`backoff` beside it sets the wait", hint)


def _in_step_retry(step: Map) -> Iterator[Unused]:
    retry = as_map(step.get("retry"))
    if retry.get("scope") != "step":
        return
    hint = "remove `scope`: the `retry` of a step is the default of its calls"
    if observes(step):
        yield Unused(retry, "scope", "a step that listens is not repeated as a whole", hint)
    elif any(item.is_call or item.name == "sink" for item in step_items(step)):
        yield Unused(retry, "scope", "a step whose branches call tools is not repeated as a whole", hint)


def unknown_timers(steps: Iterable[Map]) -> Iterator[tuple[Map, str]]:
    """Branches whose condition expects a timer that no step has."""
    timers = {timer for step in steps for timer in as_map(as_map(step.get("spec")).get("timers"))}
    for branch in (branch for step in steps for branch in step.get("case", [])):
        for comparison in _comparisons(branch):
            if comparison.path == TIMER and comparison.op in ("==", "in"):
                yield from ((branch, name) for name in comparison.values if name not in timers)


def _comparisons(branch: Map) -> Sequence[Comparison]:
    try:
        return parse(branch["when"]).string_comparisons if isinstance(branch.get("when"), str) else ()
    except TemplateSyntax:
        return ()  # reported by the template checks


def _timers(step: Map) -> Iterator[Unused]:
    """Timers of a listening step that no condition expects."""
    timers = as_map(as_map(step.get("spec")).get("timers"))
    if not observes(step) or "case" not in step or any("else" in branch for branch in step["case"]):
        return
    expected: set[str] = set()
    for branch in step["case"]:
        comparisons = _comparisons(branch)
        names = {name for comparison in comparisons if comparison.path == TIMER for name in comparison.values}
        events = {name for comparison in comparisons if comparison.path[1:] == ("name",) for name in comparison.values}
        if not names and (not events or "timer.fired" in events):
            return  # it expects every timer
        expected |= names
    for timer in timers:
        if timer not in expected:
            hint = f"add a branch on `event.data.timer_id == '{timer}'`"
            yield Unused(timers, timer, "no branch expects this timer", hint)
