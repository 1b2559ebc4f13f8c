"""Random loops whose items wait, retry, fail, call children, are slow, and lose their workers: each item counts once.

Every seed is a playbook, a script for each of its items, and faults. What must hold is known before it runs: which
items succeed, their results by index, and `ctx` counters that reducers have raised by one for each finished task.
`verify` looks at every log. A failing seed is printed with its playbook.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from textwrap import indent
from typing import Any

import pytest
from tests.property.simulation import SLOTS, Faults, Simulation
from tests.verifying import verified

from noetl.engine import events as e
from noetl.engine.state import Execution
from noetl.model.identity import step_of
from noetl.model.outcome import failed
from noetl.tools.base import Context

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: NAME, path: NAME}\n"
CHILD = HEAD.replace("NAME", "child") + (
    "workflow:\n- step: start\n  loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2}}\n"
    "  tool: [{t: {kind: python, code: part, spec: {policy: {rules: ["
    "{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 9, delay: 6}}, "
    "{else: {then: {do: continue}}}]}}}}]\n"
)
IN_A_BATCH = 50
BATCHES = 2
SLOW_BATCHES = 400
"""20,000 loops."""


def task(random: Random, label: str) -> str:
    """A task that may wait: a call with retries, a wait for a signal that never comes, or a child."""
    count = f"set_ctx: {{{label}: {{$add: 1}}}}"
    match random.choice(["call", "call", "call", "wait", "child"]):
        case "call":
            delay = random.choice([0, 1, 6, 6, 20])
            return (
                f"- {label}:\n"
                "    kind: python\n"
                "    code: work\n"
                "    args: {n: '{{ iter.n }}'}\n"
                "    spec:\n"
                "      policy:\n"
                "        rules:\n"
                "          - when: \"{{ outcome.status == 'error' and outcome.error.kind == 'shaky' }}\"\n"
                f"            then: {{do: retry, attempts: 20, delay: {delay}}}\n"
                "          - when: \"{{ outcome.status == 'error' }}\"\n"
                "            then: {do: fail}\n"
                f"          - else: {{then: {{do: continue, {count}}}}}\n"
            )
        case "wait":
            limit = random.choice([1, 6, 30])
            return (
                f"- {label}:\n"
                "    kind: wait\n"
                "    signal: never\n"
                "    spec:\n"
                f"      timeout: {limit}\n"
                f"      policy: {{rules: [{{else: {{then: {{do: continue, {count}}}}}}}]}}\n"
            )
        case _:
            return (
                f"- {label}:\n"
                "    kind: playbook\n"
                "    path: child\n"
                f"    spec: {{policy: {{rules: [{{else: {{then: {{do: continue, {count}}}}}}}]}}}}\n"
            )


class Branch:
    """One loop of a story, and how its items behave."""

    def __init__(self, random: Random, step: str) -> None:
        self.step = step
        self.total = random.choice([1, 2, 3, 3, 5, 8, 20, 40])
        self.mode = random.choice(["sequential", "parallel", "parallel"])
        self.on_error = random.choice(["fail", "continue", "continue"])
        self.labels = [f"{step}_{i}" for i in range(random.randint(1, 3))]
        lanes = random.randint(1, 5)
        tasks = indent("".join(task(random, label) for label in self.labels), "    ")
        self.text = (
            f"- step: {step}\n"
            + f"  loop: {{in: '{{{{ range({self.total}) | list }}}}', iterator: n, "
            + f"spec: {{mode: {self.mode}, max_in_flight: {lanes}, on_error: {self.on_error}}}}}\n"
            + f"  tool:\n{tasks}    - last: {{kind: noop, result: '{{{{ iter.n }}}}'}}\n"
            + "  next: {arcs: [{step: meet}]}\n"
        )
        items = range(self.total)
        self.shaky = {(index, label): random.choice([0, 0, 0, 1, 2]) for index in items for label in self.labels}
        self.slow = {index: random.choice([0.0, 0.0, 0.01, 0.3, 5.0]) for index in items}
        self.broken = {index for index in items if random.random() < 0.05 and "code: work" in self.text}

    @property
    def fails(self) -> bool:
        return bool(self.broken) and self.on_error == "fail"

    @property
    def result(self) -> list[int | None]:
        return [None if index in self.broken else index for index in range(self.total)]


class Story:
    """What a seed tells: one to three loops side by side, and faults."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.branches = {step: Branch(random, step) for step in "abc"[: random.choice([1, 1, 2, 3])]}
        arcs = ", ".join(f"{{step: {step}}}" for step in self.branches)
        self.text = (
            HEAD.replace("NAME", "loops")
            + "workflow:\n"
            + f"- {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}\n"
            + "".join(branch.text for branch in self.branches.values())
            + "- {step: meet, spec: {join: all}, tool: {kind: noop, result: met}}\n"
        )
        self.faults = random.choice(
            [
                Faults(),
                Faults(repeat_report=0.2),
                Faults(crash=0.1),
                Faults(lose_lease=0.2),
                Faults(crash=0.05, lose_lease=0.05, repeat_report=0.1, pause=0.1),
            ]
        )
        self.calls: Counter[tuple[str, int]] = Counter()

    async def work(self, context: Context) -> Any:
        """The tool of the loops: it fails as often as the story says, by the number of the attempt."""
        branch, index = self.branches[context.step], context.args["n"]
        self.calls[context.action, context.attempt] += 1
        await asyncio.sleep(branch.slow[index])
        if index in branch.broken:
            return failed("broken", "this item never succeeds")
        if context.attempt <= branch.shaky[index, context.task]:
            return failed("shaky", "this attempt fails")
        return index

    async def part(self, context: Context) -> Any:
        """The tool of children: the first attempt of each part fails."""
        return failed("shaky", "this attempt fails") if context.attempt == 1 else context.attempt


def play(seed: int) -> None:
    story = Story(seed)
    tools = {"work": story.work, "part": story.part}
    simulation = Simulation(story.text, {"child": CHILD}, tools, story.random, story.faults)
    state = simulation.run()
    assert simulation.violations() == []
    if not story.faults.lose_lease:  # a crash may repeat what was under way: one call a slot
        assert sum(count - 1 for count in story.calls.values()) <= SLOTS * simulation.crashes
    if any(branch.fails for branch in story.branches.values()):
        assert state.status == "failed"
        return
    assert (state.status, state.result) == ("succeeded", "met"), state.error
    for branch in story.branches.values():
        check_branch(branch, state, simulation.events())


def check_branch(branch: Branch, state: Execution, events: list[e.Event]) -> None:
    assert state.steps[branch.step].result == branch.result
    ends = [event for event in events if isinstance(event, e.IterationDone | e.IterationFailed)]
    finished = [event.index for event in ends if step_of(event.run) == branch.step]
    assert sorted(finished) == list(range(branch.total))
    if branch.mode == "sequential":
        assert finished == sorted(finished)
    for label in branch.labels:
        counted = state.ctx.get(label, 0)
        assert counted == branch.total or (branch.broken and branch.total - len(branch.broken) <= counted)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_item_of_a_loop_counts_once(batch: int) -> None:
    play_batch(batch)


@pytest.mark.slow(part="loops")
@pytest.mark.parametrize("part", range(20))
def test_every_item_of_twenty_thousand_loops_counts_once(part: int) -> None:
    for batch in range(part, SLOW_BATCHES, 20):
        play_batch(batch)


def play_batch(batch: int) -> None:
    for seed in range(batch * IN_A_BATCH, (batch + 1) * IN_A_BATCH):
        try:
            with verified(damaged=True):  # its logs are verified by `play`, which knows the seed
                play(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{Story(seed).text}") from error
