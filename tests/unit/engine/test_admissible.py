"""Facts that do not follow from a lease are refused. Honest reports are recorded in real runs, every field that the
server knows is changed, and nothing but the honest events may come of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from stage import EXECUTION, HEAD, Stage, play

from noetl.classic.events import NextRequested
from noetl.engine import events as e
from noetl.engine import known_values
from noetl.engine.admissible import Inadmissible
from noetl.engine.commands import Command, Report, Signal
from noetl.engine.decide import decide
from noetl.engine.decision import Decision
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.expression import Budget, render
from noetl.model.outcome import failed
from noetl.reference import Need
from noetl.runtime import committer
from noetl.store.codec import freeze, thaw
from noetl.worker import wire

CHILD = (
    HEAD
    + """workload: {n: 0, m: 0}
workflow:
  - {step: s, tool: {kind: noop, result: "{{ workload.n }}"}}
"""
)

PIPELINE = """
- step: start
  tool:
    - first:
        kind: python
        code: shaky
        spec:
          policy:
            rules:
              - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 6}}
              - else: {then: {do: continue, set_ctx: {seen: 1}}}
    - again:
        kind: noop
        spec:
          policy:
            rules:
              - {when: "{{ iter.n | default(0) < 2 }}", then: {do: jump, to: again, set_iter: {n: {$add: 1}}}}
              - else: {then: {do: continue}}
    - passed: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: skip}}]}}}
    - each:
        kind: iterator
        in: [1, 2]
        iterator: x
        tool: [{inner: {kind: noop, result: "{{ iter.x }}"}}, {more: {kind: noop}}]
  next: {arcs: [{step: fails}]}
- step: fails
  tool: [{a: {kind: noop}}, {b: {kind: python, code: broken}}]
  next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
- {step: end, tool: {kind: noop}}
"""
LOOPS = """
- step: start
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{a: {kind: noop, result: "{{ iter.x }}"}}, {w: {kind: wait, signal: "go-{{ iter.x }}"}}]
  next: {arcs: [{step: calls}]}
- step: calls
  loop: {in: [4, 5], iterator: x}
  tool: [{c: {kind: playbook, path: child, args: {n: "{{ iter.x }}", m: {deep: [1, "{{ workload.amount }}"]}}}}]
  next: {arcs: [{step: fails}]}
- step: fails
  loop: {in: [1, 2], iterator: x, spec: {on_error: continue}}
  tool: {kind: python, code: broken}
"""
CHILDREN = """
- step: start
  tool:
    - n: {kind: noop, result: 3}
    - c:
        kind: playbook
        path: "{{ workload.which }}"
        args: {n: "{{ workload.amount }}", m: "{{ ctx.m }}"}
        spec: {timeout: 60}
    - d: {kind: playbook, path: child, args: {n: "{{ n.result }}"}}
"""
CLASSIC = """
- step: start
  args: {x: 7}
  tool: {kind: python, code: shaky}
  vars: {twice: "{{ result * 2 }}"}
  case:
    - when: "{{ event.name == 'call.done' }}"
      then:
        - ask: {tool: {kind: python, code: slow}, poll: {until: "{{ result.ready }}", interval: 1s, max_attempts: 10}}
        - sub: {tool: {kind: playbook, path: child}, args: {n: 5}}
        - next: {to: [{step: a, args: {k: 1, x: "{{ sub.result }}"}}]}
    - when: "{{ event.name == 'call.error' }}"
      then: [{next: {to: [{step: b}]}}]
  sink: {tool: {kind: noop}}
  next: b
- {step: a, tool: {kind: noop}}
- {step: b, tool: {kind: noop}}
"""
LISTENS = """
- step: start
  spec: {case_mode: inclusive, eval_mode: on_event}
  tool: {kind: noop, result: 1}
  case:
    - when: "{{ event.name == 'message.received' and event.data.type == 'more' }}"
      then: [{one: {tool: {kind: noop}}}]
    - when: "{{ event.name == 'message.received' and event.data.type == 'go' }}"
      then: [{two: {tool: {kind: noop}}}, {next: {to: [{step: a, args: {k: 1}}]}}]
- {step: a, tool: {kind: noop}}
"""


NAMES_OF = ["pipeline", "loops", "children", "classic", "listens"]


class Recorded(msgspec.Struct):
    """A report, and the state that it came to."""

    state: bytes
    net: Net
    now: float
    report: Report


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    result: list[Recorded] = []

    def record(turn: Decision, command: Command) -> None:
        if isinstance(command, Report) and turn.state.id == EXECUTION:
            result.append(Recorded(freeze(turn.state), turn.state.net, turn.now, command))
        decide(turn, command)

    monkeypatch.setattr(committer, "decide", record)
    return result


def shaky() -> Any:
    tries: list[int] = []

    def call() -> Any:
        tries.append(1)
        return 7 if len(tries) != 1 else failed("shaky", "not yet")

    return call


def slow() -> Any:
    tries: list[int] = []

    def call() -> Any:
        tries.append(1)
        return {"ready": len(tries) > 2}

    return call


def broken() -> Any:
    return failed("broken", "always")


def played(workflow: str) -> Stage:
    signals = [Signal(f"go-{i}", f"s{i}") for i in (1, 2, 3)]
    if workflow == LISTENS:
        signals = [Signal("more", "s1"), Signal("go", "s2")]
    tools = {"shaky": shaky() if workflow == PIPELINE else lambda: 7, "slow": slow(), "broken": broken}
    payload = {"which": "child", "amount": 2}
    head = "workload: {which: child, amount: 1}\n"
    return play(workflow, *signals, head=head, payload=payload, ctx={"m": 9}, tools=tools, children={"child": CHILD})


# -- changed reports -------------------------------------------------------------------------------------------------

WORDS = ["", "nope", "a", "b", "case_0", "case_1", "case_0/", "child", "again", "each", "step.exit", "x" * 300]
NUMBERS = [-1, 0, 1, 2, 3, 7, 2**31, 2**60]
OTHERS = {
    "run": [*WORDS, "start#2", "fails#1"],
    "fence": [*NUMBERS, 10, 11, 12],
    "index": [None, *NUMBERS],
    "attempt": NUMBERS,
    "iteration": NUMBERS,
    "iterations": NUMBERS,
    "do": ["retry", "jump", "break", "fail", "skip", "continue", "nope"],
    "to": [None, *WORDS],
    "set_ctx": [[["other", "=", 1]], [["seen", "$add", 1]]],
    "set_iter": [[["other", "=", 1]], [["n", "=", 1]]],
    "skipped": [True, False],
    "taken": [True, False],
    "revoked": [True],
    "reason": ["lost", "returned", "waiting"],
    "until": [None, "signal", "child", "retry", "event"],
    "key": [*WORDS, "go", "call", "case", EXECUTION, "01890000-0000-7000-8000-000000000000"],
    "chain": WORDS,
    "branch": WORDS,
    "winner_branch": WORDS,
    "action": WORDS,
    "policy": ["end_step", "break_chain", "defer", "nope"],
    "priority": NUMBERS,
    "pending": [True, False],
    "then": [None, *WORDS],
    "trigger_event": [*WORDS, "call.done", "call.error"],
    "matched": [[], ["case_0"], ["case_1"], ["case_0", "case_1"], ["case_0", "case_0"]],
    "order": [[], ["case_0"], ["case_1"], ["case_1", "case_0"], ["case_0", "case_0"]],
    "case_mode": ["inclusive", "exclusive"],
    "eval_mode": ["on_event", "on_entry"],
    "message": ["s1", "s2"],
    "event": [{"name": "x"}],
}
"""What stands in the place of a field. The word of the worker is left out: outcomes, results, errors, durations."""
EMPTY = {"set_ctx": [], "set_iter": [], "matched": [], "order": [], "attempt": 0, "skipped": False, "taken": False}
PATHS = ["", "a", "a#0", "a#1", "a#2", "first#2", "nope#1", "each#1[0]/inner#1", "each#2[0]/inner#1"]
PATHS += [
    "each#1[0]/more#1",
    "case_0/ask#1",
    "case_1/next#1",
    "vars/set#1",
    "sink/store#1",
    "a#01",
    "x/y/z#1",
    "a#1[0]",
]
NAMES = ["task.done", "sink.processed", "step.scheduled", "token.held", "playbook.processed"]


def changed(report: Report) -> Iterator[tuple[str, list[Any]]]:
    """The facts of a report as they travel, with one thing in one of them changed."""
    facts = json.loads(wire.encode(wire.report_request(EXECUTION, report)))["facts"]
    for place, (name, fact) in enumerate(facts):
        for what, other in (*renamed(name, fact), *((what, [name, one]) for what, one in mutated(name, fact))):
            if other != [name, fact]:
                yield f"{name}: {what}", [*facts[:place], other, *facts[place + 1 :]]


def renamed(name: str, fact: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    for other in NAMES:
        yield f"called {other}", [other, fact]


def mutated(name: str, fact: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    known = e.EVENTS[name].__struct_fields__
    for field in known:
        if field == "task" and isinstance(fact.get("task"), list):
            yield from _tasks(fact)
        elif field == "task":
            yield from ((f"task={word}", {**fact, "task": word}) for word in WORDS if word)
        elif field == "request" and fact.get("request"):
            yield from _requests(fact)
        elif field == "to" and name == "next.requested":
            yield from _targets(fact)
        elif not (name == "poll.finished" and field == "reason"):
            for value in OTHERS.get(field, []):
                if value != fact.get(field, EMPTY.get(field)):
                    yield f"{field}={value!r}", {**fact, field: value}


def _tasks(fact: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    run, path, *index = fact["task"]
    for other in [*PATHS, path.replace("#1", "#2"), path.replace("#2", "#1"), path.replace("[0]", "[1]")]:
        if "[" not in path or other.rpartition("/")[2] != path.rpartition("/")[2]:  # items are beside each other
            yield f"path={other}", {**fact, "task": [run, other, *index]}
    for value in (None, *NUMBERS):
        yield f"task.index={value}", {**fact, "task": [run, path, value] if value is not None else [run, path]}
    yield "task.run", {**fact, "task": ["start#9", path, *index]}


def _requests(fact: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    request = fact["request"]
    for value in (None, {}, {**request, "more": 1}, {"path": "child"}):
        yield f"request={value}", {**fact, "request": value}
    for field, values in {
        "path": ["finance/pay", "", None, 5, ["child"], {}],
        "version": [1, "1", "latest", {}],
        "payload": [
            None,
            [],
            {},
            {"n": 1_000_000},
            {**request["payload"], "more": 1},
            {**request["payload"], "***": 1},
            {"***": 1, "n": 9, "m": 9},
        ],
        "step": ["", "end", None],
    }.items():
        for value in values:
            if value != request[field] and not (value == {"n": 1_000_000} and is_told(fact)):
                yield f"request.{field}={value}", {**fact, "request": {**request, field: value}}
    for key, value in request["payload"].items():
        for other in (None, 1_000_000, "1000000", [value], {"deep": [1, 3]}, {"deep": [1]}, {"deep": []}):
            if other != value and not is_told(fact):
                payload = {**request["payload"], key: other}
                yield f"payload.{key}={other}", {**fact, "request": {**request, "payload": payload}}


def is_told(fact: dict[str, Any]) -> bool:
    """Whether the payload is made from the result of a task, which is the worker's word."""
    return set(fact["request"]["payload"]) == {"n"} and not fact.get("chain")


def _targets(fact: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    first = fact["to"][0]
    for to in ([], [{**first, "step": "b"}], [first, first], [{**first, "args": {}}], [{**first, "delay": 9}]):
        if to != fact["to"]:
            yield f"to={to}", {**fact, "to": to}
    yield "to.args", {**fact, "to": [{**first, "args": {**first.get("args", {}), "k": 2}}]}


def arrived(report: Report, facts: list[Any]) -> Report | None:
    """The report with these facts, as a server reads it; None if it can't be read."""
    raw = [(name, msgspec.Raw(msgspec.json.encode(fact))) for name, fact in facts]
    try:
        return wire.report_of(wire.ReportRequest(EXECUTION, report.fence, raw, report.first))
    except wire.BadMessage:
        return None


def outcome(one: Recorded, report: Report | None) -> list[e.Event] | None:
    """What a report leads to; None if it is refused."""
    if report is None:
        return None
    state: Execution = thaw(one.state, one.net)
    turn = Decision(state, one.now)
    try:
        decide(turn, report)
    except Inadmissible:
        return None
    except Need:
        return []
    return [event for event in turn.events if event.source == "worker" or isinstance(event, e.StepPaused)]


@pytest.mark.parametrize("workflow", [PIPELINE, LOOPS, CHILDREN, CLASSIC, LISTENS], ids=NAMES_OF)
def test_nothing_but_honest_events_comes_of_a_changed_report(recorded: list[Recorded], workflow: str) -> None:
    stage = played(workflow)
    assert stage.state.status == "succeeded", stage.state.error
    assert recorded
    taken, count = [], 0
    for one in recorded:
        honest = outcome(one, one.report)
        assert honest is not None
        for what, facts in changed(one.report):
            count += 1
            result = outcome(one, arrived(one.report, facts))
            if result is None or result == honest[: len(result)]:
                continue  # refused, or the beginning of what was said: the rest comes later, or is refused then
            taken.append((what, [event for event in result if event not in honest]))
    assert taken == []
    assert count > 100 * len(recorded) > 0


def test_the_facts_of_a_report_share_one_budget_for_templates(
    recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each could take 100 ms of the server, and a step may have thousands of branches that request a step."""
    next_step = "{next: {policy: defer, to: [{step: b, args: {x: '{{ workload.n + 1 }}'}}]}}"
    branches = "".join(f"    - {{when: '{{{{ true }}}}', then: [{next_step}]}}\n" for _ in range(5))
    head = "executor: {spec: {durability: step}}\nworkload: {n: 1}\n"
    text = f"- step: a\n  tool: {{kind: noop}}\n  spec: {{case_mode: inclusive}}\n  case:\n{branches}- {{step: b}}\n"
    play(text, head=head)
    (one,) = [one for one in recorded if sum(isinstance(fact, NextRequested) for fact in one.report.facts) == 5]
    budgets: list[Budget] = []

    def rendered(source: Any, scope: Any, budget: Budget) -> Any:
        budgets.append(budget)
        return render(source, scope, budget)

    monkeypatch.setattr(known_values, "render", rendered)
    assert outcome(one, msgspec.structs.replace(one.report, foreign=True)) is not None
    assert len(budgets) >= 5
    assert len(set(map(id, budgets))) == 1
