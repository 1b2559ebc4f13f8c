"""The playbooks of the stream of runs. Every task makes a call to the ledger, which names its place in the log."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.acceptance.modes.playbooks import playbook

ITEMS, CHILDREN = 8, 2
LARGE = 20_000
"""Numbers in the result that is stored in NATS."""
CALL = """kind: http
              method: POST
              url: "{{ workload.ledger }}"
              json:
                execution: "{{ execution_id }}"
                root: "{{ workload.root | default('') }}"
                place: "PLACE"
                attempt: "{{ _attempt }}"
                seconds: "{{ workload.seconds | default(0) }}"
                failures: FAILURES"""
RETRY = """
              spec:
                policy:
                  rules:
                    - when: "{{ outcome.status == 'error' }}"
                      then: {do: retry, attempts: 100, delay: RETRY_DELAY}
                    - else: {then: {do: continue}}"""


def call(place: str, failures: str = "0", delay: float = 0.2) -> str:
    """A task that calls the ledger. It is repeated until it succeeds, which it does not before attempt FAILURES + 1."""
    return CALL.replace("PLACE", place).replace("FAILURES", failures) + RETRY.replace("RETRY_DELAY", str(delay))


class Script(NamedTuple):
    """A playbook of the stream: the places of its own calls, and of each of its children."""

    text: str
    places: frozenset[str]
    children: int = 0
    result: Any = None
    """Of a run, unless it is None."""


CHAIN = playbook(
    "chaos_chain",
    f"""\
    workflow:
      - step: one
        tool:
          - first:
              {call("one#1/first#1")}
          - second:
              {call("one#1/second#1")}
        next: {{arcs: [{{step: two}}]}}
      - step: two
        tool:
          - last:
              {call("two#1/last#1")}
          - say: {{kind: noop, result: done}}
    """,
)
STEP_DURABLE = CHAIN.replace("workflow:", "executor: {spec: {durability: step}}\nworkflow:", 1)
"""Workers report at the end of a step only, and not between its tasks."""
LANES = playbook(
    "chaos_lanes",
    f"""\
    workflow:
      - step: each
        loop: {{in: "{{{{ range({ITEMS}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 3}}}}
        tool:
          - first:
              {call("each#1[{{ iter.index }}]/first#1")}
          - second:
              {call("each#1[{{ iter.index }}]/second#1", '"{{ iter.index % 2 }}"')}
          - count:
              kind: noop
              result: "{{{{ iter.n }}}}"
              spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{total: {{$add: 1}}}}}}}}}}]}}}}
        next: {{arcs: [{{step: end}}]}}
      - step: end
        tool:
          - say: {{kind: noop, result: ["{{{{ steps.each.result | sum }}}}", "{{{{ ctx.total }}}}"]}}
    """,
)
CHILD = playbook(
    "chaos_child",
    f"""\
    workload: {{ledger: "", root: ""}}
    workflow:
      - step: work
        tool:
          - first:
              {call("work#1/first#1")}
          - second:
              {call("work#1/second#1")}
    """,
)
PARENT = playbook(
    "chaos_parent",
    f"""\
    workflow:
      - step: each
        loop: {{in: "{{{{ range({CHILDREN}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 2}}}}
        tool:
          - child:
              kind: playbook
              path: modes/chaos_child
              args: {{ledger: "{{{{ workload.ledger }}}}", root: "{{{{ execution_id }}}}"}}
        next: {{arcs: [{{step: end}}]}}
      - step: end
        tool:
          - last:
              {call("end#1/last#1")}
          - say: {{kind: noop, result: "{{{{ steps.each.result | length }}}}"}}
    """,
)
APPROVAL = playbook(
    "chaos_approval",
    f"""\
    workflow:
      - step: ask
        tool:
          - before:
              {call("ask#1/before#1")}
          - verdict: {{kind: wait, signal: verdict}}
          - after:
              {call("ask#1/after#1")}
          - say: {{kind: noop, result: "{{{{ tasks.verdict.result.by }}}}"}}
    """,
)
RETRIED = playbook(
    "chaos_retried",
    f"""\
    workflow:
      - step: try
        tool:
          - again:
              {call("try#1/again#1", "3", 0.3)}
          - say: {{kind: noop, result: done}}
    """,
)
IN_NATS = playbook(
    "chaos_large",
    f"""\
    executor: {{spec: {{result: {{store: {{kind: nats_object, bucket: chaos}}}}}}}}
    workflow:
      - step: make
        tool:
          - first:
              {call("make#1/first#1")}
          - rows: {{kind: noop, result: "{{{{ range({LARGE}) | list }}}}"}}
        next: {{arcs: [{{step: use}}]}}
      - step: use
        tool:
          - last:
              {call("use#1/last#1")}
          - say: {{kind: noop, result: "{{{{ steps.make.result | sum }}}}"}}
    """,
)

CHAIN_PLACES = frozenset(["one#1/first#1", "one#1/second#1", "two#1/last#1"])
CHILD_PLACES = frozenset(["work#1/first#1", "work#1/second#1"])
SCRIPTS = {
    "chain": Script(CHAIN, CHAIN_PLACES, result="done"),
    "step durability": Script(STEP_DURABLE, CHAIN_PLACES, result="done"),
    "loop": Script(
        LANES,
        frozenset(f"each#1[{n}]/{task}#1" for n in range(ITEMS) for task in ("first", "second")),
        result=[sum(range(ITEMS)), ITEMS],
    ),
    "children": Script(PARENT, frozenset(["end#1/last#1"]), CHILDREN, CHILDREN),
    "signal": Script(APPROVAL, frozenset(["ask#1/before#1", "ask#1/after#1"]), result="ada"),
    "retries": Script(RETRIED, frozenset(["try#1/again#1"]), result="done"),
    "large result": Script(IN_NATS, frozenset(["make#1/first#1", "use#1/last#1"]), result=sum(range(LARGE))),
}
