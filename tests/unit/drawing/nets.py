"""Playbooks to draw."""

from __future__ import annotations

from typing import Any

from noetl.model.playbook import (
    Admit,
    AdmitRule,
    AfterCall,
    Arc,
    Branch,
    Cases,
    Goto,
    Loop,
    Playbook,
    Router,
    Rule,
    Step,
    Task,
    Then,
)

FAILED = "{{ event.name == 'step.failed' }}"
HOSTILE = 'a"]|#<b>&\\N`{x};\n--> n1 ]]></title><script>alert(1)</script>\x00\u202e'


def step(name: str, *arcs: str | Arc, tasks: str = "", mode: Any = "exclusive", **more: Any) -> Step:
    """A step; `tasks` as `label:kind label:kind`."""
    ways = tuple(Arc(arc) if isinstance(arc, str) else arc for arc in arcs)
    pipeline = tuple(Task(*each.split(":")) for each in tasks.split())
    return Step(name, router=Router(ways, mode), tasks=more.pop("pipeline", pipeline), **more)


def playbook(*steps: Step, **more: Any) -> Playbook:
    return Playbook("demo", "demo", steps, entry=more.pop("entry", steps[0].name), **more)


HELLO = playbook(step("start", tasks="hello:python"))

CHAIN = playbook(
    step("start", "fetch"),
    step("fetch", "load", tasks="get:http"),
    step("load", tasks="shape:python write:postgres"),
)

BRANCH = playbook(
    step("fetch", Arc("big", "{{ n > 9 }}"), Arc("alert", FAILED), Arc("small"), tasks="get:http"),
    step("big", "done"),
    step("small", "done"),
    step("alert"),
    step("done"),
)

FAN = playbook(
    step("start", "a", "b", "c", mode="inclusive"),
    step("a", "sum"),
    step("b", "sum"),
    step("c", "sum"),
    step("sum", join="all", tasks="add:duckdb"),
)

CYCLE = playbook(
    step("fetch", "decide"),
    step("decide", Arc("fetch", "{{ ctx.more }}"), Arc("done")),
    step("done"),
)

POLL = playbook(step("poll", Arc("poll", "{{ not ready }}", delay=30.0), Arc("done")), step("done"))

LONG_GUARD = "{{ steps.validate.result.kind == 'orders' and steps.validate.result.rows > 10 }}"

MIXED = playbook(
    step("start", Arc("extract", "{{ config.enabled }}"), Arc("skip")),
    step(
        "extract",
        "validate",
        Arc("quarantine", FAILED),
        pipeline=(
            Task("fetch_page", "http"),
            Task("paginate", "python", policy=(Rule("{{ more }}", Then("jump", to="fetch_page")),)),
        ),
        loop=Loop("{{ workload.cities }}", "city", "parallel", 8),
        spec={"timeout": 300},
    ),
    step("validate", Arc("orders", LONG_GUARD), "customers", "audit", mode="inclusive", tasks="rules:python"),
    step("orders", "merge", tasks="load:postgres", loop=Loop("{{ batches }}", "batch")),
    step("customers", "merge", tasks="load:postgres"),
    step("audit", "merge"),
    step("merge", Arc("publish", "{{ merge.ok }}"), Arc("extract", "{{ stale }}", delay=60.0), join="all"),
    step("publish", Arc("notify"), admit=Admit((AdmitRule("{{ ctx.open }}", True), AdmitRule(None, False)))),
    step("notify", spec={"timers": {"reminder": 600}}),
    step("quarantine", "notify"),
    step("skip"),
    step("cleanup", desc="always"),
    final="cleanup",
)

CLASSIC = playbook(
    step(
        "call",
        "rest",
        tasks="get:http",
        after_call=AfterCall(
            cases=Cases(
                (
                    Branch("{{ response.status_code == 200 }}", (Task("save", "postgres"), Goto((Arc("saved"),)))),
                    Branch("{{ event.name == 'call.error' }}", (Goto((Arc("{{ vars.target }}"),)),)),
                    Branch(None, (Goto((Arc("later"),), delay=5.0),)),
                ),
                evaluate="on_event",
            ),
            sink=Task("sink", "duckdb"),
        ),
    ),
    step("saved"),
    step("later"),
    step("rest"),
    step("orphan", "nowhere"),
)

HOSTILE_NET = playbook(
    step(HOSTILE, Arc("plain", "{{ x == '\"<&>|]' }}"), tasks="<i>:k&|"),
    step("plain", Arc(HOSTILE, "{{ '</svg>' }}")),
)

ALL = {
    "hello": HELLO,
    "chain": CHAIN,
    "branch": BRANCH,
    "fan": FAN,
    "cycle": CYCLE,
    "poll": POLL,
    "mixed": MIXED,
    "classic": CLASSIC,
    "hostile": HOSTILE_NET,
}
