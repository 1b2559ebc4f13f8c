"""Playbooks that must end in the same way in every mode, each with how it ends."""

from __future__ import annotations

from textwrap import dedent
from typing import Any, NamedTuple

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: modes/{name}}}
"""


class Case(NamedTuple):
    """A playbook and its end."""

    text: str
    result: Any
    status: str = "succeeded"
    ctx: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    """What of the error is to be as it says here."""
    payload: dict[str, Any] = {}
    logs: tuple[str, ...] = ()
    """Lines that tasks have written."""


def playbook(name: str, body: str) -> str:
    return HEAD.format(name=name) + dedent(body)


CHILD = playbook(
    "child",
    """\
    workload: {number: 0}
    workflow:
      - step: double
        tool:
          - check:
              kind: python
              args: {number: "{{ workload.number }}"}
              code: |
                if number == 13:
                    raise ValueError("unlucky")
                result = number * 2
              spec:
                policy:
                  rules:
                    - when: "{{ outcome.status == 'error' }}"
                      then: {do: fail}
                    - else: {then: {do: continue}}
    """,
)

CASES: dict[str, Case] = {
    "chain": Case(
        playbook(
            "chain",
            """\
            workload: {start: 1}
            workflow:
              - step: a
                tool: [{one: {kind: noop, result: "{{ workload.start + 1 }}"}}]
                next: {arcs: [{step: b, args: {n: "{{ steps.a.result }}"}}]}
              - step: b
                tool: [{two: {kind: noop, result: "{{ args.n * 10 }}"}}]
                next: {arcs: [{step: c, args: {m: "{{ steps.b.result }}"}}]}
              - step: c
                tool: [{three: {kind: noop, result: [ "{{ args.n }}", "{{ args.m }}" ]}}]
            """,
        ),
        [5, 50],
        payload={"start": 4},
    ),
    "parallel_loop": Case(
        playbook(
            "parallel_loop",
            """\
            workflow:
              - step: each
                loop: {in: "{{ range(120) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 7}}
                tool:
                  - square:
                      kind: noop
                      result: "{{ iter.n * iter.n }}"
                      spec:
                        policy:
                          rules:
                            - else: {then: {do: continue, set_ctx: {total: {$add: "{{ iter.n }}"}}}}
                next: {arcs: [{step: end}]}
              - step: end
                tool: [{sum: {kind: noop, result: "{{ steps.each.result | sum }}"}}]
            """,
        ),
        sum(n * n for n in range(120)),
        ctx={"total": sum(range(120))},
    ),
    "sequential_loop": Case(
        playbook(
            "sequential_loop",
            """\
            workflow:
              - step: each
                loop: {in: [a, b, c, d], iterator: x, spec: {mode: sequential}}
                tool:
                  - add:
                      kind: noop
                      result: "{{ ctx.seen | default('') ~ iter.x }}"
                      spec:
                        policy:
                          rules:
                            - else: {then: {do: continue, set_ctx: {seen: "{{ outcome.result }}"}}}
            """,
        ),
        ["a", "ab", "abc", "abcd"],
        ctx={"seen": "abcd"},
    ),
    "some_fail": Case(
        playbook(
            "some_fail",
            """\
            workflow:
              - step: each
                loop:
                  in: [1, 0, 2, 0]
                  iterator: n
                  spec: {mode: parallel, max_in_flight: 2, on_error: continue}
                tool:
                  - divide:
                      kind: python
                      args: {n: "{{ iter.n }}"}
                      code: "result = 10 / n"
                      spec:
                        policy:
                          rules:
                            - when: "{{ outcome.status == 'error' }}"
                              then: {do: fail}
                            - else: {then: {do: continue}}
            """,
        ),
        [10.0, None, 5.0, None],
    ),
    "failure": Case(
        playbook(
            "failure",
            """\
            workflow:
              - step: break
                tool:
                  - divide:
                      kind: python
                      code: |
                        print("before the fall")
                        result = 1 / 0
                      spec:
                        policy:
                          rules:
                            - when: "{{ outcome.status == 'error' }}"
                              then: {do: fail}
                            - else: {then: {do: continue}}
            """,
        ),
        None,
        "failed",
        error={"kind": "python", "step": "break", "task": "divide", "line": 8},
        logs=("before the fall",),
    ),
    "retries": Case(
        playbook(
            "retries",
            """\
            workflow:
              - step: try
                tool:
                  - again:
                      kind: noop
                      result: "{{ _attempt }}"
                      spec:
                        policy:
                          rules:
                            - when: "{{ outcome.result < 3 }}"
                              then: {do: retry, attempts: 5, delay: 0.05}
                            - else: {then: {do: continue}}
            """,
        ),
        3,
    ),
    "timer": Case(
        playbook(
            "timer",
            """\
            workflow:
              - step: wait
                tool:
                  - nobody:
                      kind: wait
                      signal: never
                      spec:
                        timeout: 1s
                        policy:
                          rules:
                            - when: "{{ outcome.status == 'error' }}"
                              then: {do: continue}
                            - else: {then: {do: continue}}
                next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}", spec: {delay: 0.5}}]}
              - step: end
                tool: [{say: {kind: noop, result: late}}]
            """,
        ),
        "late",
    ),
    "large": Case(
        playbook(
            "large",
            """\
            workflow:
              - step: make
                tool:
                  - rows:
                      kind: python
                      code: "result = [{'n': n, 'text': 'x' * 100} for n in range(3000)]"
                next: {arcs: [{step: use, args: {rows: "{{ steps.make.result }}"}}]}
              - step: use
                tool:
                  - count:
                      kind: python
                      args: {rows: "{{ args.rows }}"}
                      code: "result = len(rows)"
                  - look: {kind: noop, result: ["{{ _prev }}", "{{ args.rows[2999].n }}"]}
            """,
        ),
        [3000, 2999],
    ),
    "family": Case(
        playbook(
            "family",
            """\
            workflow:
              - step: call
                loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
                tool:
                  - child: {kind: playbook, path: modes/child, args: {number: "{{ iter.n }}"}}
                next: {arcs: [{step: unlucky}]}
              - step: unlucky
                tool:
                  - child:
                      kind: playbook
                      path: modes/child
                      args: {number: 13}
                      spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
                  - say: {kind: noop, result: ["{{ steps.call.result }}", "{{ tasks.child.error.kind }}"]}
            """,
        ),
        [[2, 4, 6], "child_failed"],
    ),
    "secret": Case(
        playbook(
            "secret",
            """\
            keychain:
              - {name: api, kind: bearer, credential: modes_api}
            workflow:
              - step: use
                tool:
                  - show:
                      kind: python
                      args: {token: "{{ keychain.api.token }}"}
                      code: |
                        print("the token is", token)
                        result = [len(token), token]
            """,
        ),
        [18, "***"],
        logs=("the token is ***",),
    ),
    "paths_meet": Case(
        playbook(
            "paths_meet",
            """\
            workflow:
              - step: start
                next:
                  spec: {mode: inclusive}
                  arcs: [{step: left}, {step: right}]
              - step: left
                tool: [{l: {kind: shell, cmds: ["printf left"]}}]
                next: {arcs: [{step: join, args: {l: "{{ steps.left.result.stdout }}"}}]}
              - step: right
                tool: [{r: {kind: shell, cmds: ["printf right"]}}]
                next: {arcs: [{step: join, args: {r: "{{ steps.right.result.stdout }}"}}]}
              - step: join
                spec: {join: all}
                tool: [{both: {kind: noop, result: "{{ args.l }} and {{ args.r }}"}}]
            """,
        ),
        "left and right",
    ),
}
SECRET = "s3cret-of-the-test"
