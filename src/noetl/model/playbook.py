"""A playbook as the engine knows it: one language, frozen, without positions.

Both dialects compile to these structures. Positions in the author's file live apart, in `noetl.dsl.compile.Compiled`,
so two playbooks that mean the same are equal and have the same digest, however they are laid out.

Strings inside `Templated` values are templates and are rendered exactly once; everything else is data. A `Guard` is
a boolean or the source of one `{{ expression }}`. Durations are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

Templated: TypeAlias = Any
Guard: TypeAlias = bool | str

Directive: TypeAlias = Literal["continue", "retry", "jump", "break", "fail", "skip"]
Backoff: TypeAlias = Literal["none", "linear", "exponential"]
RouteMode: TypeAlias = Literal["exclusive", "inclusive"]
JoinMode: TypeAlias = Literal["any", "all"]
STEP_FIELDS = ("result", "data", "status", "error", "failures")
"""The fields of `steps.NAME` in templates; `data` is `result`, and only a loop has `failures`."""
NextPolicy: TypeAlias = Literal["end_step", "break_chain", "defer"]


class Part(msgspec.Struct, frozen=True):
    """Base of every part of a playbook."""


DEFAULT_ATTEMPTS = 3


class Then(Part, frozen=True):
    do: Directive
    attempts: int | None = None
    backoff: Backoff | None = None
    delay: float | str | None = None
    max_delay: float | None = None
    jitter: bool = False
    to: str | None = None
    set_iter: dict[str, Templated] = {}
    set_ctx: dict[str, Templated] = {}


class Rule(Part, frozen=True):
    """One line of a task's policy; `when` is None for `else`."""

    when: Guard | None
    then: Then


class Poll(Part, frozen=True):
    """Classic only: repeat a call until its result satisfies `until`."""

    until: Guard
    interval: float = 1.0
    max_attempts: int | None = None
    deadline: float | None = None


class Task(Part, frozen=True):
    """One labelled tool call of a pipeline. `policy` is None when the author wrote none (ok continues, error fails),
    which differs from an empty one. `spec` has the effective options after layering. `body` is the inner pipeline of an
    `iterator` task. A `sink` leaves the result of the pipeline as it was, and its events are those of a sink."""

    label: str
    kind: str
    inputs: dict[str, Templated] = {}
    args: dict[str, Templated] = {}
    spec: dict[str, Any] = {}
    policy: tuple[Rule, ...] | None = None
    body: tuple[Task, ...] = ()
    poll: Poll | None = None
    sink: bool = False


class AdmitRule(Part, frozen=True):
    """One line of the admission gate; `when` is None for `else`."""

    when: Guard | None
    allow: bool


class Admit(Part, frozen=True):
    rules: tuple[AdmitRule, ...]
    mode: RouteMode = "exclusive"


class Loop(Part, frozen=True):
    collection: Templated
    iterator: str
    mode: Literal["sequential", "parallel"] = "sequential"
    max_in_flight: int | None = None
    exec: Literal["distributed", "local"] = "distributed"
    on_error: Literal["fail", "continue", "collect"] = "fail"
    collect: bool = True


class Arc(Part, frozen=True):
    """An arc of a step. `when` True is the unguarded arc."""

    step: str
    when: Guard = True
    args: dict[str, Templated] = {}
    delay: float | None = None


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    step: str
    args: dict[str, Any] = {}
    delay: float | None = None


class Router(Part, frozen=True):
    """The arcs of a step, and whether the first or all matching ones fire."""

    arcs: tuple[Arc, ...] = ()
    mode: RouteMode = "exclusive"


class Goto(Part, frozen=True):
    """Classic only: a `next` inside a chain. Targets may be computed."""

    to: tuple[Arc, ...]
    policy: NextPolicy | None = None
    priority: int = 0
    delay: float | None = None
    label: str = "next"


class Branch(Part, frozen=True):
    """Classic only: one `when`/`then` of a case, with its chain of calls and gotos. `when` is None for `else`. `again`
    says how the chain is retried as a whole; `set` is a call of `noop` that patches `ctx.vars`. A branch that only
    `retries` the call of its step never fires: its retry is a rule of the call's policy."""

    when: Guard | None
    chain: tuple[Task | Goto, ...] = ()
    priority: int = 0
    again: Rule | None = None
    retries: bool = False


class Cases(Part, frozen=True):
    """Classic only: the branches of a step. They are called `case_0`, `case_1` and so on, in their order."""

    branches: tuple[Branch, ...]
    mode: RouteMode = "exclusive"
    evaluate: Literal["on_entry", "on_event"] = "on_entry"
    order: Literal["source", "priority"] = "source"
    next_policy: NextPolicy = "end_step"


class AfterCall(Part, frozen=True):
    """Classic only: what a step does between its call and its routing. `noetl.classic.after_call` runs it."""

    view: Literal["value", "data", "rows"] = "value"  # what of the call's result is called `result`
    vars: Task | None = None
    cases: Cases | None = None
    sink: Task | None = None

    @property
    def chains(self) -> dict[str, tuple[Task | Goto, ...]]:
        """Everything it may run, by name: `vars`, `case_0` and so on, `sink`."""
        chains: dict[str, tuple[Task | Goto, ...]] = {"vars": (self.vars,)} if self.vars else {}
        for i, branch in enumerate(self.cases.branches if self.cases else ()):
            chains[f"case_{i}"] = branch.chain
        return chains | ({"sink": (self.sink,)} if self.sink else {})


class Step(Part, frozen=True, dict=True):  # `dict` is where a cached property is stored
    name: str
    desc: str | None = None
    spec: dict[str, Any] = {}
    join: JoinMode = "any"
    admit: Admit | None = None
    loop: Loop | None = None
    tasks: tuple[Task, ...] = ()
    router: Router = Router()
    after_call: AfterCall | None = msgspec.field(default=None, name="tail")

    @cached_property
    def every_task(self) -> list[tuple[str, Task]]:
        """All its tasks, also those of chains and iterators, with their places: `STEP/LABEL`, `STEP/EACH/LABEL`."""
        chains = self.after_call.chains if self.after_call else {}
        pipelines = [(self.name, self.tasks), *((f"{self.name}/{name}", chain) for name, chain in chains.items())]
        return [task for place, links in pipelines for task in _every_task(place, links)]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Classic only: its branches, in their order."""
        return self.after_call.cases.branches if self.after_call and self.after_call.cases else ()

    def links_at(self, prefix: str) -> tuple[Task | Goto, ...]:
        """The pipeline that a prefix leads to: its own, in an iterator (`each#1[0]/`), or a chain (`case_0/`)."""
        links: tuple[Task | Goto, ...] = self.tasks
        for part in prefix.split("/")[:-1]:
            label, visit, _ = part.partition("#")
            if visit:
                links = next((link.body for link in links if isinstance(link, Task) and link.label == label), ())
            else:
                links = self.after_call.chains.get(label, ()) if self.after_call else ()
        return links


def _every_task(place: str, links: tuple[Task | Goto, ...]) -> Iterator[tuple[str, Task]]:
    for link in links:
        if isinstance(link, Task):
            yield f"{place}/{link.label}", link
            yield from _every_task(f"{place}/{link.label}", link.body)


class Credential(Part, frozen=True):
    name: str
    kind: str
    credential: str | None = None
    provider: str | None = None
    key: str | None = None
    map: dict[str, str] = {}


class Executor(Part, frozen=True):
    profile: Literal["local", "distributed"] = "local"
    pool: str = "default"
    timeout: float | None = None
    on_failure: Literal["stop", "finish"] = "stop"
    durability: Literal["task", "step"] = "task"
    max_step_runs: int = 100_000
    output: Templated = None
    inline_bytes: int = 65_536
    result_store: dict[str, Any] = {}
    workload_schema: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """JSON Schema of the workload. It is not part of the digest where there is none."""


class Playbook(Part, frozen=True):
    """The whole net. Every execution pins the digest of the one it runs."""

    name: str
    path: str
    steps: tuple[Step, ...]
    entry: str
    final: str | None = None
    version: str | None = None
    description: str | None = None
    metadata: dict[str, Any] = {}
    keychain: tuple[Credential, ...] = ()
    executor: Executor = Executor()
    workload: dict[str, Templated] = {}

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of the content, defaults included."""
        from hashlib import sha256  # `noetl validate` starts without it

        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    def step(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)
