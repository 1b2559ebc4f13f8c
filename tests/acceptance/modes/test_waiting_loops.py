"""Loops whose items wait without a worker, and slow sequential loops: no item is lost, repeated or out of order.

Each playbook is run several times at once, as the children of one parent, whose own loop waits for all of them.
"""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest
from tests.acceptance.modes.playbooks import playbook
from tests.acceptance.modes.stage import Mode

TIMES = 2
SLOW_TIMES = 50

RETRIED = """\
- call:
    kind: python
    args: {n: "{{ iter.n }}", attempt: "{{ _attempt }}"}
    code: |
      import time
      if attempt == 1:
          time.sleep((2 - n) * 0.2)  # the last item waits first
          raise RuntimeError("not yet")
      result = n
    spec:
      policy:
        rules:
          - when: "{{ outcome.status == 'error' }}"
            then: {do: retry, attempts: 2, delay: 6s}
          - else: {then: {do: continue}}
"""
TIMED_OUT = """\
- hold:
    kind: wait
    signal: "go-{{ iter.n }}"
    spec:
      timeout: 6s
      policy: {rules: [{else: {then: {do: continue}}}]}
- give: {kind: noop, result: "{{ iter.n }}"}
"""
ANSWERED = """\
- ask: {kind: playbook, path: modes/child, args: {number: "{{ iter.n }}"}}
- give: {kind: noop, result: "{{ iter.n }}"}
"""
PARALLEL = "{in: [0, 1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 3}}"
SLOW_ITEMS = """\
- call:
    kind: python
    args: {n: "{{ iter.n }}"}
    code: |
      import time
      time.sleep(0.25 if 60 <= n < 75 else 0)
      result = n
    spec:
      policy:
        rules:
          - else: {then: {do: continue, set_ctx: {order: {$append: "{{ iter.n }}"}}}}
"""


def looped(name: str, loop: str, tasks: str) -> str:
    return playbook(name, f"workflow:\n- step: each\n  loop: {loop}\n  tool:\n") + indent(tasks, "    ")


SEQUENTIAL = '{in: "{{ range(300) | list }}", iterator: n, spec: {mode: sequential}}'
CHILDREN: dict[str, tuple[str, Any]] = {
    "waits_retried": (looped("waits_retried", PARALLEL, RETRIED), [0, 1, 2]),
    "waits_timed_out": (looped("waits_timed_out", PARALLEL, TIMED_OUT), [0, 1, 2]),
    "waits_for_children": (looped("waits_for_children", PARALLEL, ANSWERED), [0, 1, 2]),
    "slow_sequential": (
        looped("slow_sequential", SEQUENTIAL, SLOW_ITEMS).replace(
            "workflow:", "executor: {spec: {output: '{{ ctx.order }}'}}\nworkflow:"
        ),
        list(range(300)),
    ),
}


PARENT = playbook(
    "waiting_loops",
    """\
    workload: {names: []}
    workflow:
      - step: all
        loop: {in: "{{ workload.names }}", iterator: name, spec: {mode: parallel, max_in_flight: 200}}
        tool: [{run: {kind: playbook, path: "modes/{{ iter.name }}"}}]
    """,
)


def test_every_item_is_finished_once_and_in_order(mode: Mode) -> None:
    run_all(mode, TIMES)


@pytest.mark.slow(part="modes")
def test_every_item_is_finished_once_and_in_order_fifty_times(mode: Mode) -> None:
    run_all(mode, SLOW_TIMES)


def run_all(mode: Mode, times: int) -> None:
    """The invariants of each execution are verified when the mode ends."""
    for text, _ in CHILDREN.values():
        mode.register(text)
    names = [name for _ in range(times) for name in CHILDREN]
    ended = mode.run(PARENT, {"names": names})
    assert ended["status"] == "succeeded", ended["error"]
    wrong = [name for name, result in zip(names, ended["result"], strict=True) if result != CHILDREN[name][1]]
    assert wrong == []
