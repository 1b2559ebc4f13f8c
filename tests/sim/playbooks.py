"""Random playbooks of which the result is known by construction.

A playbook is a chain of blocks: calls, loops, fan-outs with a join, jumps, cycles, waits, signals, children, classic
branches. Each block raises counters in `ctx` (classic: sets variables), and the last step returns them all, so the
result of a run is the number of accepted outcomes of each task. The tools follow a script of the seed: how often an
attempt fails, and how long it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from noetl.dsl.compile import load
from noetl.model.outcome import Outcome, failed
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.tools.base import Context
from noetl.tools.registry import KINDS, Registry

SEEDS_PER_PLAYBOOK = 50
"""Compiling a playbook takes as long as running a seed, so consecutive seeds share one."""
MOST_BLOCKS = (1, 1, 1, 2, 2, 4)
"""Most playbooks are small: a seed with four blocks takes as long as five with one."""
HEAD = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: NAME, path: NAME}\n"
    "executor: {spec: {results: {inline_bytes: 200}}}\nworkflow:\n"
)
LARGE = "x" * 300  # becomes a reference
RETRY = (
    "{when: \"{{ outcome.status == 'error' and outcome.error.kind == 'shaky' }}\", "
    "then: {do: retry, attempts: 9, delay: DELAY}}"
)
FAIL = "{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}"

Tool = Callable[[Context], Any]
Keep = tuple[int, ...]  # numbers of blocks; empty: all


class SimulatedTools(Registry):
    """A `python` task whose code is a name calls the simulation's tool of that name."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        super().__init__()
        self.tools = tools

    def runner(self, name: str) -> Any:
        return self._call if name == "python" else super().runner(name)

    async def _call(self, inputs: Any, context: Context) -> Outcome:
        result = await self.tools[inputs.code.strip()](context)
        return result if isinstance(result, Outcome) else Outcome(result=result)


class Block(NamedTuple):
    text: str  # its steps, the last of which goes to NEXT
    counts: dict[str, Any]  # what it adds to the result
    signals: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()  # steps that fail the run if their tool fails
    flaws: tuple[str, ...] = ()  # counts that are one less in the run of a client: an item of a loop fails there
    fails: bool = False  # whether such an item fails the run
    kind: str = ""


Kind = Callable[[Random, str], Block]


class Program(NamedTuple):
    """A playbook and the result of its runs."""

    path: str
    text: str
    result: dict[str, Any]
    signals: tuple[str, ...]
    calls: tuple[str, ...]
    flaws: tuple[str, ...]
    fails: bool
    blocks: int  # how many were drawn
    kinds: tuple[str, ...]


# -- canonical blocks -------------------------------------------------------------------------------------------------


def task(label: str, count: str, delay: float, n: str = "0", code: str = "work") -> str:
    rules = ", ".join(
        [
            RETRY.replace("DELAY", f"{delay:g}"),
            FAIL,
            f"{{else: {{then: {{do: continue, set_ctx: {{{count}: {{$add: 1}}}}}}}}}}",
        ]
    )
    args = f"args: {{n: {n}}}, " if n else ""
    return f"{label}: {{kind: python, code: {code}, {args}spec: {{policy: {{rules: [{rules}]}}}}}}"


def arcs(next_step: str = "NEXT") -> str:
    return f"  next: {{arcs: [{{step: {next_step}}}]}}\n"


def call(random: Random, name: str) -> Block:
    labels = [f"t{i}" for i in range(random.randint(1, 3))]
    tasks = "".join(f"  - {task(label, f'{name}_{label}', random.choice([0, 1, 6]))}\n" for label in labels)
    return Block(f"- step: {name}\n  tool:\n{tasks}{arcs()}", {f"{name}_{label}": 1 for label in labels}, (), (name,))


def loop(random: Random, name: str) -> Block:
    total, lanes = random.choice([1, 2, 2, 2, 3, 3, 4, 8]), random.randint(1, 4)
    mode = random.choice(["sequential", "parallel"])
    body = task("t", f"{name}_t", random.choice([0, 1, 6]), "'{{ iter.n }}'")
    wait = ""
    counts = {f"{name}_t": total}
    if random.random() < 0.3:
        wait = f"  - {waiting(f'{name}_w', random.choice([1, 8]))}\n"
        counts[f"{name}_w"] = total
    text = (
        f"- step: {name}\n  loop: {{in: '{{{{ range({total}) | list }}}}', iterator: n, "
        f"spec: {{mode: {mode}, max_in_flight: {lanes}, on_error: fail}}}}\n  tool:\n  - {body}\n{wait}{arcs()}"
    )
    return Block(text, counts, (), (name,))


def flawed_loop(random: Random, name: str) -> Block:
    """One item fails, and the others run on. A retry of the failed items succeeds."""
    total, on_error = random.randint(2, 4), random.choice(["continue", "continue", "collect"])
    mode = random.choice(["sequential", "parallel"])
    body = task("t", f"{name}_t", random.choice([0, 1]), "'{{ iter.n }}'", "flawed")
    text = (
        f"- step: {name}\n  loop: {{in: '{{{{ range({total}) | list }}}}', iterator: n, "
        f"spec: {{mode: {mode}, max_in_flight: 2, on_error: {on_error}}}}}\n  tool:\n  - {body}\n{arcs()}"
    )
    return Block(text, {f"{name}_t": total}, flaws=(f"{name}_t",), fails=on_error == "collect")


def fan(random: Random, name: str) -> Block:
    branches = [f"{name}_{i}" for i in range(random.randint(2, 3))]
    targets = ", ".join(f"{{step: {branch}}}" for branch in branches)
    text = f"- {{step: {name}, next: {{spec: {{mode: inclusive}}, arcs: [{targets}]}}}}\n"
    for branch in branches:
        text += f"- step: {branch}\n  tool:\n  - {task('t', branch, random.choice([0, 1]))}\n{arcs(f'{name}_join')}"
    rules = f"{{else: {{then: {{do: continue, set_ctx: {{{name}_join: {{$add: 1}}}}}}}}}}"
    text += (
        f"- step: {name}_join\n  spec: {{join: all}}\n  tool:\n"
        f"  - t: {{kind: noop, spec: {{policy: {{rules: [{rules}]}}}}}}\n{arcs()}"
    )
    return Block(text, dict.fromkeys([*branches, f"{name}_join"], 1), (), tuple(branches))


def jump(random: Random, name: str) -> Block:
    times = random.randint(2, 4)
    text = (
        f"- step: {name}\n  tool:\n  - {task('t', name, 1)}\n"
        f"  - again: {{kind: noop, spec: {{policy: {{rules: [{{when: '{{{{ ctx.{name} < {times} }}}}', "
        f"then: {{do: jump, to: t}}}}, {{else: {{then: {{do: continue}}}}}}]}}}}}}\n{arcs()}"
    )
    return Block(text, {name: times}, (), (name,))


def cycle(random: Random, name: str) -> Block:
    times = random.randint(2, 4)
    text = (
        f"- step: {name}\n  tool:\n  - {task('t', name, 1)}\n"
        f"  next: {{arcs: [{{step: {name}, when: '{{{{ ctx.{name} < {times} }}}}'}}, {{step: NEXT}}]}}\n"
    )
    return Block(text, {name: times}, (), (name,))


def large(random: Random, name: str) -> Block:
    """A value that is stored apart from the log, and read by a later task and by an arc."""
    count = f"{{else: {{then: {{do: continue, set_ctx: {{{name}: {{$add: '{{{{ tasks.t.result | length }}}}'}}}}}}}}}}"
    text = (
        f"- step: {name}\n  tool:\n  - t: {{kind: python, code: large}}\n"
        f"  - read: {{kind: noop, result: '{{{{ tasks.t.result }}}}', spec: {{policy: {{rules: [{count}]}}}}}}\n"
        f"  next: {{arcs: [{{step: NEXT, when: '{{{{ steps.{name}.result | length == {len(LARGE)} }}}}'}}]}}\n"
    )
    return Block(text, {name: len(LARGE)})


def waiting(label: str, seconds: float) -> str:
    rules = f"{{else: {{then: {{do: continue, set_ctx: {{{label}: {{$add: 1}}}}}}}}}}"
    return f"{label}: {{kind: wait, signal: never, spec: {{timeout: {seconds:g}, policy: {{rules: [{rules}]}}}}}}"


def wait(random: Random, name: str) -> Block:
    text = f"- step: {name}\n  tool:\n  - {waiting(name, random.choice([0.5, 3, 12]))}\n{arcs()}"
    return Block(text, {name: 1})


def signal(random: Random, name: str) -> Block:
    rules = f"{{else: {{then: {{do: continue, set_ctx: {{{name}: {{$add: '{{{{ outcome.result }}}}'}}}}}}}}}}"
    wait_task = f"t: {{kind: wait, signal: {name}, spec: {{policy: {{rules: [{rules}]}}}}}}"
    text = f"- step: {name}\n  tool:\n  - {wait_task}\n{arcs()}"
    return Block(text, {name: 1}, (name,))


def child(random: Random, name: str) -> Block:
    path = random.choice(["child", "classic_child"])
    rules = f"{FAIL}, {{else: {{then: {{do: continue, set_ctx: {{{name}: {{$add: 1}}}}}}}}}}"
    many = random.choice([0, 0, 0, 2])
    loop = (
        f"  loop: {{in: '{{{{ range({many}) | list }}}}', iterator: n, spec: {{mode: parallel, max_in_flight: 2}}}}\n"
    )
    text = (
        f"- step: {name}\n{loop if many else ''}  tool:\n"
        f"  - t: {{kind: playbook, path: {path}, spec: {{policy: {{rules: [{rules}]}}}}}}\n{arcs()}"
    )
    return Block(text, {name: many or 1})


CANONICAL = [call, call, loop, loop, flawed_loop, fan, jump, cycle, large, wait, signal, child]


# -- classic blocks ---------------------------------------------------------------------------------------------------


def classic_call(random: Random, name: str) -> Block:
    text = (
        f"- step: {name}\n  tool: {{kind: python, code: work}}\n  retry: {{max_attempts: 9, initial_delay: 1}}\n"
        f'  vars: {{{name}: "{{{{ result }}}}"}}\n  next: NEXT\n'
    )
    return Block(text, {name: 0}, (), (name,))


def classic_branch(random: Random, name: str) -> Block:
    """The branch that matches calls a tool, sets a variable and routes; the `next` of the step is never taken."""
    retry = ", retry: {max_attempts: 9, initial_delay: 1}"
    chain = (
        f'[{{call: {{tool: {{kind: python, code: work}}{retry}}}}}, {{set: {{{name}: "{{{{ call.result + 1 }}}}"}}}}, '
        "{next: {to: [NEXT]}}]"
    )
    event = random.choice(["call.done", "step.exit"])
    text = (
        f"- step: {name}\n  tool: {{kind: python, code: work}}\n  retry: {{max_attempts: 9, initial_delay: 1}}\n"
        f"  case:\n  - {{when: \"{{{{ event.name == 'call.error' }}}}\", then: [{{set: {{{name}: never}}}}]}}\n"
        f"  - {{when: \"{{{{ event.name == '{event}' and result == 0 }}}}\", then: {chain}}}\n"
        f"  - {{else: {{next: stray}}}}\n"
    )
    return Block(text, {name: 1})


def classic_loop(random: Random, name: str) -> Block:
    mode = random.choice(["sequential", "parallel", "async"])
    total = random.randint(1, 4)
    items = ", ".join(map(str, range(total)))
    text = (
        f"- step: {name}\n  tool: {{kind: python, code: work}}\n  retry: {{max_attempts: 9, initial_delay: 1}}\n"
        f"  loop: {{in: [{items}], iterator: n, mode: {mode}}}\n"
        f"  case:\n  - {{when: \"{{{{ event.name == 'step.exit' }}}}\", then: [{{set: {{{name}: {total}}}}}, "
        "{next: {to: [NEXT]}}]}\n"
    )
    return Block(text, {name: total})


CLASSIC = [classic_call, classic_branch, classic_loop]


# -- programs ---------------------------------------------------------------------------------------------------------


def chain(path: str, drawn: dict[str, Block], keep: Keep, end: str) -> Program:
    """One block after the other, or only those with these numbers."""
    names = [name for number, name in enumerate(drawn) if not keep or number in keep]
    blocks, text = [drawn[name] for name in names], HEAD.replace("NAME", path)
    for block, following in zip(blocks, [*names[1:], "end"], strict=True):
        text += block.text.replace("NEXT", following)
    result: dict[str, Any] = {}
    for block in blocks:
        result |= block.counts
    signals = tuple(name for block in blocks for name in block.signals)
    calls = tuple(name for block in blocks for name in block.calls)
    flaws = tuple(count for block in blocks for count in block.flaws)
    fails, kinds = any(block.fails for block in blocks), tuple(block.kind for block in blocks)
    return Program(path, text + end, result, signals, calls, flaws, fails, len(drawn), kinds)


def canonical(random: Random, path: str, kinds: list[Kind], most: int, keep: Keep = ()) -> Program:
    blocks = drawn(random, path, kinds, most)
    return chain(path, blocks, keep, "- {step: end, tool: {kind: noop, result: '{{ ctx }}'}}\n")


def classic(random: Random, path: str, most: int, keep: Keep = ()) -> Program:
    stray = "- {step: stray, tool: {kind: noop, result: stray}}\n"
    end = stray + "- {step: end, tool: {kind: noop, result: '{{ vars }}'}}\n"
    return chain(path, drawn(random, path, CLASSIC, most), keep, end)


def drawn(random: Random, path: str, kinds: list[Kind], most: int) -> dict[str, Block]:
    """Random blocks by the name of their first step."""
    names = ["start", *(f"{path[0]}{i}" for i in range(1, random.randint(1, most)))]
    blocks = {}
    for name in names:
        kind = random.choice(kinds)
        blocks[name] = kind(random, name)._replace(kind=kind.__name__)
    return blocks


@lru_cache(512)
def compiled(text: str) -> LoadedPlaybook:
    loaded = load("simulated.yaml", text, KINDS)
    return LoadedPlaybook(loaded.require(), "simulated.yaml", loaded.places, loaded.inputs)


@lru_cache(64)
def programs(number: int, keep: Keep = ()) -> dict[str, Program]:
    """The playbooks of some seeds, by path: the main one, of which only some blocks may be kept, and its children."""
    random = Random(f"playbook {number}")
    is_classic = random.random() < 0.2
    most = random.choice(MOST_BLOCKS)
    main = classic(random, "main", most, keep) if is_classic else canonical(random, "main", CANONICAL, most, keep)
    small = canonical(random, "child", [call, loop, wait], 2)
    return {program.path: program for program in (main, small, classic(random, "classic_child", 2))}


class Playbooks:
    """The playbooks of a seed."""

    def __init__(self, seed: int, keep: Keep = (), scheduled: Sequence[str] = ()) -> None:
        self.programs = programs(seed // SEEDS_PER_PLAYBOOK, keep)
        self.main = self.programs["main"]
        used = [
            path for path in self.programs if path == "main" or path in scheduled or f"path: {path}," in self.main.text
        ]
        self._compiled = {path: compiled(self.programs[path].text) for path in used}

    def all(self) -> list[LoadedPlaybook]:
        return list(self._compiled.values())

    def digest(self, path: str) -> str:
        return self._compiled[path].digest

    def program(self, digest: str) -> Program:
        return next(self.programs[path] for path, playbook in self._compiled.items() if playbook.digest == digest)

    def loaded(self, text: str) -> LoadedPlaybook:
        return compiled(text)

    def of(self, digest: str) -> LoadedPlaybook:
        return compiled(self.program(digest).text)


class Call(NamedTuple):
    at: float
    worker: str
    execution: str
    action: str
    attempt: int


class Script:
    """How the tools of a seed behave, and the ledger of their calls."""

    def __init__(
        self, seed: int, playbooks: Playbooks, worker: Callable[[], str], is_main: Callable[[str], bool]
    ) -> None:
        self.seed, self.worker, self.is_main = seed, worker, is_main
        random = Random(f"{seed} script")
        calls = playbooks.main.calls
        self.broken = random.choice(calls) if calls and random.random() < 0.08 else ""
        """A step of the main playbook whose tool always fails."""
        self.slowness = random.choice([0.05, 0.2, 0.2, 1.0])
        self.ledger: list[Call] = []

    @property
    def tools(self) -> dict[str, Tool]:
        return {"work": self.work, "large": self.large, "flawed": self.flawed}

    def _enter(self, context: Context) -> None:
        at = asyncio.get_running_loop().time()
        self.ledger.append(Call(at, self.worker(), context.execution, context.action, context.attempt))

    async def large(self, context: Context) -> Any:
        self._enter(context)
        return LARGE

    async def flawed(self, context: Context) -> Any:
        if context.args["n"] == 0 and self.is_main(context.execution):
            self._enter(context)
            return failed("broken", "this tool never succeeds for the first item")
        return await self.work(context)

    async def work(self, context: Context) -> Any:
        self._enter(context)
        random = Random(f"{self.seed} {context.execution[-4:]} {context.action}")
        fails = random.choice([0, 0, 0, 0, 1, 2])
        seconds = random.choice([0.0, 0.0, 0.2, 1.0, 10.0, 40.0 if self.slowness == 1 else 1.0]) * self.slowness
        if seconds:
            await asyncio.sleep(seconds)
        if context.step == self.broken and self.is_main(context.execution):
            return failed("broken", "this tool never succeeds")
        if context.attempt <= fails:
            return failed("shaky", "this attempt fails")
        return 0
