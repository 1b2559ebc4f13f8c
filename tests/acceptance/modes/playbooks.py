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
        error={"kind": "python", "step": "break", "task": "divide", "line": 11},
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
    "classic": Case(
        playbook(
            "classic",
            """\
            workload: {limit: 10}
            workflow:
              - step: start
                loop: {collection: [1, 2, 3, 4], element: n, spec: {mode: parallel, batch_size: 2}}
                tool: {kind: python, args: {n: "{{ n }}", i: "{{ loop_index }}"}, code: "result = n * 10 + i"}
                retry: {max_attempts: 2, initial_delay: 0.1}
                vars: {all: "{{ result }}"}
                case:
                  - when: "{{ event.name == 'call.error' }}"
                    then: {next: broken}
                  - when: "{{ event.name == 'step.exit' and result | sum > workload.limit }}"
                    then:
                      - add: {tool: {kind: python, args: {all: "{{ vars.all }}"}, code: "result = sum(all)"}}
                      - set: {sum: "{{ add.result }}"}
                      - next: {to: [{step: "{{ 'pick' }}", args: {sum: "{{ vars.sum }}"}}]}
                next: broken
              - step: pick
                spec: {case_mode: inclusive, next_policy: defer}
                tool: {kind: noop, result: "{{ sum }}"}
                case:
                  - when: "{{ result > 1 }}"
                    then:
                      - next: {to: [{step: broken}]}
                      - more: {tool: {kind: shell, cmds: ["printf more"]}}
                      - set: {more: "{{ more.result.stdout }}"}
                  - when: "{{ result > 2 }}"
                    then: [{next: {to: [{step: end}], priority: 5}}]
              - step: broken
                tool: {kind: python, code: "raise ValueError('not here')"}
              - step: end
                tool: {kind: noop, result: ["{{ vars.sum }}", "{{ vars.more }}"]}
            """,
        ),
        [106, "more"],
        ctx={"vars": {"all": [10, 21, 32, 43], "sum": 106, "more": "more"}},
    ),
    "classic_listener": Case(
        playbook(
            "classic_listener",
            """\
            workflow:
              - step: start
                tool: {kind: noop}
                next: [watch, work]
              - step: watch
                spec: {eval_mode: on_event, case_mode: inclusive, timers: {soon: 1s}}
                case:
                  - when: "{{ event.name == 'step.done' and event.data.step == 'work' }}"
                    then: [{set: {work: "{{ event.data.result }}"}}]
                  - when: "{{ event.name == 'timer.fired' and event.data.timer_id == 'soon' }}"
                    then:
                      - say: {tool: {kind: noop, result: "{{ event.data.timer_id | upper }}"}}
                      - next: {to: [{step: end, args: {timer: "{{ say.result }}"}}]}
              - step: work
                tool: {kind: noop, result: 42}
              - step: end
                tool: {kind: noop, result: ["{{ vars.work }}", "{{ timer }}"]}
            """,
        ),
        [42, "SOON"],
        ctx={"vars": {"work": 42}},
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
