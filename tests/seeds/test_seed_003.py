"""Seed 003, the later classic dialect: case modes, routing control, chains of tasks, retry scopes and polling.

A case stays with its step, in its `AfterCall`. An exclusive one also has a canonical spelling: arcs. What has none are
inclusive chains, `on_event`, `poll`, `defer`, computed targets, chains retried as a whole.
"""

from __future__ import annotations

import pytest

from noetl.model.playbook import AfterCall, Arc, Branch, Cases, Goto, Loop, Poll, Rule, Task, Then

from .conftest import arcs, checked, compiled, directives, labels, playbook, refused_once, rewritten, rules, task

IS_ERROR = "{{ outcome.status == 'error' }}"


def classic(workflow: str, *, root: str = "", ends: str = "") -> str:
    """A playbook around classic steps; the dialect is asserted."""
    text = playbook(workflow, root=root, ends=ends)
    assert checked(text).dialect == "classic"
    return text


def cases(text: str, step: str) -> Cases:
    """The case of a step that stays one."""
    part = compiled(text).step(step).after_call
    assert part is not None
    assert part.cases is not None
    return part.cases


def call(branch: Branch, place: int = 0) -> Task:
    """A call in the chain of a branch."""
    result = branch.chain[place]
    assert isinstance(result, Task)
    return result


class TestSection1CaseEvaluation:
    PARCEL = """\
        - step: look_up
          spec:
            case_mode: exclusive
          tool:
            kind: postgres
            command: "SELECT * FROM parcels WHERE id = {{ parcel_id }}"
          case:
            - when: "{{ result.rows | length > 0 }}"
              then:
                - next:
                    to:
                      - step: hand_over
            - when: "{{ event.name == 'call.done' }}"
              then:
                - next:
                    to:
                      - step: apologise
        """

    def test_1_1_exclusive_becomes_guarded_arcs(self) -> None:
        book = rewritten(classic(self.PARCEL, root="workload: {parcel_id: 7}\n", ends="hand_over apologise"))
        step = book.step("look_up")
        assert arcs(step) == [
            ("hand_over", "{{ steps.look_up.result.rows | length > 0 }}"),
            ("apologise", "{{ event.name == 'step.done' }}"),
        ]
        assert (step.router.mode, step.after_call) == ("exclusive", None)

    def test_1_1_exclusive_is_the_default(self) -> None:
        root, ends = "workload: {parcel_id: 7}\n", "hand_over apologise"
        said = compiled(classic(self.PARCEL, root=root, ends=ends))
        unsaid = compiled(
            classic(
                self.PARCEL.replace("          spec:\n            case_mode: exclusive\n", ""), root=root, ends=ends
            )
        )
        assert said.digest == unsaid.digest

    def test_1_1_inclusive_keeps_every_chain(self) -> None:
        result = cases(
            classic(
                """\
                - step: book_in
                  spec:
                    case_mode: inclusive
                  tool:
                    kind: python
                    args: {id: "{{ parcel_id }}", weight: "{{ weight }}"}
                    code: |
                      result = {"id": id, "weight": weight}
                  case:
                    - when: "{{ workload.text_the_owner }}"
                      then:
                        - send_text:
                            tool:
                              kind: http
                              method: POST
                              url: "{{ text_api }}/send"
                    - when: "{{ workload.keep_record }}"
                      then:
                        - write_record:
                            tool:
                              kind: postgres
                              command: "INSERT INTO record (id) VALUES ({{ result.id }})"
                    - when: "{{ weight > 30 }}"
                      then:
                        - weigh_again:
                            tool: {kind: http, url: "{{ scale_api }}"}
                    - when: "{{ event.name == 'call.done' }}"
                      then:
                        - next:
                            to:
                              - step: shelve
                """,
                root="""\
                workload: {parcel_id: 7, weight: 31, text_api: "https://text.test", scale_api: "https://scale.test"}
                """,
                ends="shelve",
            ),
            "book_in",
        )
        assert (result.mode, result.evaluate, result.order, result.next_policy) == (
            "inclusive",
            "on_entry",
            "source",
            "end_step",
        )
        assert [branch.when for branch in result.branches] == [
            "{{ workload.text_the_owner }}",
            "{{ workload.keep_record }}",
            "{{ weight > 30 }}",
            "{{ event.name == 'call.done' }}",
        ]
        assert [call(branch).label for branch in result.branches[:3]] == ["send_text", "write_record", "weigh_again"]
        assert call(result.branches[1]).inputs["auth"] == "postgres"
        assert result.branches[3].chain == (Goto((Arc("shelve"),)),)

    def test_1_2_on_event_listens(self) -> None:
        result = cases(
            classic(
                """\
                - step: wait_for_key
                  spec:
                    eval_mode: on_event
                    case_mode: exclusive
                    timers: {too_late: 2h}
                  case:
                    - when: "{{ event.name == 'message.received' and event.data.type == 'key' }}"
                      then:
                        - next:
                            to:
                              - step: open_locker
                    - when: "{{ event.name == 'timer.fired' and event.data.timer_id == 'too_late' }}"
                      then:
                        - next:
                            to:
                              - step: send_back
                """,
                ends="open_locker send_back",
            ),
            "wait_for_key",
        )
        assert (result.mode, result.evaluate) == ("exclusive", "on_event")
        assert [branch.chain for branch in result.branches] == [
            (Goto((Arc("open_locker"),)),),
            (Goto((Arc("send_back"),)),),
        ]

    def test_1_2_timers_of_a_listening_step(self) -> None:
        book = compiled(
            classic(
                """\
                - step: wait
                  spec: {eval_mode: on_event, timers: {soon: 90s}}
                  case: [{when: "{{ event.name == 'timer.fired' }}", then: [{next: {to: [{step: on}]}}]}]
                """,
                ends="on",
            )
        )
        assert book.step("wait").spec == {"timers": {"soon": 90.0}}

    def test_1_3_branches_by_priority_in_inclusive_mode(self) -> None:
        result = cases(
            classic(
                """\
                - step: many_hands
                  spec: {case_mode: inclusive, branch_order: priority}
                  case:
                    - when: "{{ workload.wash }}"
                      priority: 5
                      then: [{wash: {tool: {kind: noop}}}]
                    - when: "{{ workload.dry }}"
                      priority: 10
                      then: [{dry: {tool: {kind: noop}}}]
                """,
            ),
            "many_hands",
        )
        assert result.order == "priority"
        assert [(branch.priority, call(branch).label) for branch in result.branches] == [(5, "wash"), (10, "dry")]

    def test_1_3_branches_by_priority_in_exclusive_mode_are_sorted(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: one_hand
                  spec: {branch_order: priority}
                  case:
                    - {when: "{{ workload.wash }}", priority: 5, then: [{next: {to: [{step: wash}]}}]}
                    - {when: "{{ workload.dry }}", priority: 10, then: [{next: {to: [{step: dry}]}}]}
                """,
                ends="wash dry",
            )
        )
        assert [target for target, _ in arcs(book.step("one_hand"))] == ["dry", "wash"]


class TestSection2RoutingControl:
    def policies(self, policy: str) -> Cases:
        return cases(
            classic(
                f"""\
                - step: tidy
                  spec: {{case_mode: inclusive, next_policy: {policy}}}
                  case:
                    - when: "{{{{ workload.sweep }}}}"
                      then:
                        - sweep: {{tool: {{kind: noop}}}}
                        - next: {{to: [{{step: done}}]}}
                    - when: "{{{{ workload.mop }}}}"
                      then:
                        - mop: {{tool: {{kind: noop}}}}
                """,
                ends="done",
            ),
            "tidy",
        )

    @pytest.mark.parametrize("policy", ["end_step", "break_chain", "defer"])
    def test_2_2_next_policies(self, policy: str) -> None:
        result = self.policies(policy)
        assert result.next_policy == policy
        assert [type(item).__name__ for item in result.branches[0].chain] == ["Task", "Goto"]

    def test_2_2_an_unknown_policy_is_refused(self) -> None:
        problem = refused_once(
            playbook("- step: a\n  spec: {next_policy: break}  # NTL103\n  tool: {kind: noop}\n  next: b\n", ends="b")
        )
        assert "break_chain" in f"{problem.message} {problem.hint}"

    def goto(self, written: str, ends: str = "there") -> Goto:
        """A `next` as an inclusive case keeps it."""
        (branch,) = cases(
            classic(
                f"""\
                - step: go
                  spec: {{case_mode: inclusive}}
                  tool: {{kind: noop, result: {{valid: true}}}}
                  case: [{{when: true, then: [{{next: {written}}}]}}]
                """,
                ends=ends,
            ),
            "go",
        ).branches
        (result,) = branch.chain
        assert isinstance(result, Goto)
        return result

    def test_2_4_several_targets_fork(self) -> None:
        assert self.goto("{to: [{step: here}, {step: there}]}", "here there") == Goto((Arc("here"), Arc("there")))

    def test_2_4_policy_and_priority_of_one_next(self) -> None:
        assert self.goto("{to: [{step: there}], policy: break_chain, priority: 10}") == Goto(
            (Arc("there"),), policy="break_chain", priority=10
        )

    def test_2_4_a_delayed_transition(self) -> None:
        assert self.goto("{spec: {delay: 5s}, to: [{step: there}]}") == Goto((Arc("there"),), delay=5.0)

    def test_2_4_the_same_delay_in_an_exclusive_case_is_the_arcs(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: go
                  tool: {kind: noop}
                  case: [{when: true, then: [{next: {spec: {delay: 2m}, to: [{step: there}]}}]}]
                """,
                ends="there",
            )
        )
        assert book.step("go").router.arcs == (Arc("there", delay=120.0),)

    def test_2_4_a_fork_in_an_exclusive_case_gets_a_step_that_routes(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: go
                  tool: {kind: noop}
                  case: [{when: "{{ workload.x }}", then: [{next: {to: [{step: here}, {step: there}]}}]}]
                """,
                ends="here there",
            )
        )
        assert arcs(book.step("go")) == [("go_case_0", "{{ workload.x }}")]
        fork = book.step("go_case_0")
        assert (fork.tasks, fork.router.mode, arcs(fork)) == ((), "inclusive", [("here", True), ("there", True)])

    def test_2_4_a_computed_target_is_known_at_run_time(self) -> None:
        target = "{{ 'good' if result.valid else 'bad' }}"
        (branch,) = cases(
            classic(
                f"""\
                - step: go
                  tool: {{kind: noop, result: {{valid: true}}}}
                  case:
                    - when: "{{{{ event.name == 'call.done' }}}}"
                      then:
                        - next:
                            to:
                              - step: "{target}"
                """,
                ends="good bad",
            ),
            "go",
        ).branches
        assert branch.chain == (Goto((Arc(target),)),)

    def test_2_4_a_target_that_does_not_exist(self) -> None:
        problem = refused_once(
            playbook(
                """\
                - step: go
                  tool: {kind: noop}
                  case:
                    - when: true
                      then:
                        - next: {to: [{step: thera}]}  # NTL401
                """,
                ends="there",
            )
        )
        assert problem.hint == "did you mean 'there'?"

    def test_2_4_args_of_a_computed_target_are_seen_by_steps(self) -> None:
        compiled(
            classic(
                """\
                - step: sort
                  tool: {kind: noop}
                  case:
                    - when: true
                      then: [{next: {to: [{step: "{{ 'left' }}", args: {weight: 3}}]}}]
                - {step: left, tool: {kind: noop, result: "{{ weight }}"}}
                """
            )
        )


class TestSection3Chains:
    def test_3_1_tasks_then_next(self) -> None:
        """In an exclusive case the chain becomes a pipeline of its own."""
        book = rewritten(
            classic(
                """\
                - step: receive
                  tool: {kind: python, code: "result = {'id': 3}"}
                  case:
                    - when: "{{ event.name == 'call.done' }}"
                      then:
                        - announce:
                            tool:
                              kind: http
                              method: POST
                              url: "{{ bell_url }}"
                              body: {id: "{{ result.id }}"}
                            retry:
                              max_attempts: 3
                              backoff: {type: linear, delay_seconds: 2}
                        - file_it:
                            tool:
                              kind: postgres
                              command: "INSERT INTO arrivals (id, rung) VALUES ({{ result.id }}, {{ announce.result }})"
                        - next:
                            to:
                              - step: done
                """,
                root='workload: {bell_url: "https://bell.test"}\n',
                ends="done",
            )
        )
        assert arcs(book.step("receive")) == [("receive_case_0", "{{ event.name == 'step.done' }}")]
        chain = book.step("receive_case_0")
        assert labels(chain) == ["announce", "file_it"]
        assert chain.tasks[0].inputs["body"] == {"id": "{{ steps.receive.result.id }}"}
        assert rules(chain.tasks[0])[0] == Rule(IS_ERROR, Then("retry", attempts=3, backoff="linear", delay=2.0))
        assert "{{ announce.result }}" in chain.tasks[1].inputs["command"]
        assert arcs(chain) == [("done", True)]

    def test_3_1_a_task_needs_a_tool(self) -> None:
        problem = refused_once(
            playbook("- step: a\n  tool: {kind: noop}\n  case: [{when: true, then: [{ring: {args: {}}}]}]  # NTL102\n")
        )
        assert "'tool'" in problem.message

    def test_3_2_sink_is_a_task_by_another_name(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: receive
                  tool: {kind: python, code: "result = {'id': 3}"}
                  case:
                    - when: true
                      then:
                        - sink: {tool: {kind: duckdb, database: d.db, table: arrivals}}
                        - next: {to: [{step: done}]}
                """,
                ends="done",
            )
        )
        (sink,) = book.step("receive_case_0").tasks
        assert (sink.label, sink.inputs["rows"]) == ("sink", "{{ steps.receive.result }}")

    def test_3_2_in_a_chain_that_stays_a_sink_keeps_its_condition(self) -> None:
        (branch,) = cases(
            classic(
                """\
                - step: receive
                  spec: {case_mode: inclusive}
                  args: {shelf: 4}
                  tool: {kind: python, code: "result = {'id': 3}"}
                  case:
                    - when: true
                      then:
                        - sink:
                            tool: {kind: duckdb, database: d.db}
                            table: arrivals
                            when: "{{ result.id > 2 }}"
                """
            ),
            "receive",
        ).branches
        sink = call(branch)
        assert sink.inputs == {"database": "d.db", "table": "arrivals", "rows": "{{ result }}"}
        assert directives(sink)[0] == ("{{ not (result.id > 2) }}", "skip")

    def test_3_3_args_of_calls(self) -> None:
        book = compiled(
            classic(
                """\
                - step: receive
                  args: {a: step, b: step}
                  tool: {kind: python, code: "result = 1", args: {b: tool, c: tool}}
                  next: done
                """,
                ends="done",
            )
        )
        assert task(book, "receive").args == {"a": "step", "b": "tool", "c": "tool"}

    def test_3_3_results_of_earlier_steps(self) -> None:
        book = compiled(
            classic("""\
                - step: first
                  tool: {kind: python, code: "result = {'x': 1}"}
                  vars: {kept: "{{ result.x }}"}
                  next: second
                - step: second
                  tool:
                    kind: http
                    url: "https://svc.test/{{ workload.field }}"
                    params: {a: "{{ first.data.x }}", b: "{{ first.result.x }}", c: "{{ vars.kept }}"}
                """)
        )
        assert task(book, "second").inputs["params"] == {
            "a": "{{ first.data.x }}",
            "b": "{{ first.result.x }}",
            "c": "{{ ctx.vars.kept }}",
        }


class TestSection4Retry:
    def in_chain(self, retry: str, extra: str = "") -> Task:
        """The call of an inclusive branch with this retry."""
        (branch,) = cases(
            classic(
                f"""\
                - step: fetch
                  spec: {{case_mode: inclusive}}
                  {extra or "desc: nothing more"}
                  case:
                    - when: true
                      then:
                        - compute:
                            tool: {{kind: http, url: "https://svc.test"}}
                            retry: {retry}
                """
            ),
            "fetch",
        ).branches
        return call(branch)

    def test_4_1_scope_tool(self) -> None:
        result = self.in_chain(
            "{scope: tool, max_attempts: 5, backoff: {type: exponential, delay_seconds: 1, max_delay_seconds: 30}}"
        )
        assert rules(result) == (
            Rule(IS_ERROR, Then("retry", attempts=5, backoff="exponential", delay=1.0, max_delay=30.0)),
            Rule(IS_ERROR, Then("fail")),
            Rule(None, Then("continue")),
        )

    @pytest.mark.parametrize(
        ("kind", "backoff"), [("fixed", None), ("linear", "linear"), ("exponential", "exponential")]
    )
    def test_4_1_kinds_of_backoff(self, kind: str, backoff: str | None) -> None:
        then = rules(self.in_chain(f"{{backoff: {{type: {kind}, delay_seconds: 4, jitter: true}}}}"))[0].then
        assert (then.backoff, then.delay, then.jitter, then.attempts) == (backoff, 4.0, True, 3)

    def test_4_1_scope_chain_wraps_the_whole_chain(self) -> None:
        (branch,) = cases(
            classic("""\
                - step: transfer
                  tool: {kind: noop}
                  case:
                    - when: "{{ event.name == 'call.done' }}"
                      retry:
                        scope: chain
                        max_attempts: 3
                      then:
                        - take: {tool: {kind: noop}}
                        - give: {tool: {kind: http, url: "https://svc.test"}}
                """),
            "transfer",
        ).branches
        assert branch.again == Rule(IS_ERROR, Then("retry", attempts=3))
        assert [call(branch, i).policy for i in (0, 1)] == [None, None]

    def test_4_1_scope_step_is_what_the_tools_inherit(self) -> None:
        book = compiled(
            classic(
                '- step: a\n  tool: {kind: http, url: "https://svc.test"}\n  retry: {scope: step, max_attempts: 4}\n'
            )
        )
        assert rules(task(book, "a"))[0].then.attempts == 4

    @pytest.mark.parametrize(
        ("tool", "branch", "step", "attempts"),
        [
            ("retry: {max_attempts: 2}", "retry: {max_attempts: 3}", "retry: {max_attempts: 4}", 2),
            ("", "retry: {max_attempts: 3}", "retry: {max_attempts: 4}", 3),
            ("", "", "retry: {max_attempts: 4}", 4),
        ],
    )
    @pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
    def test_4_2_the_innermost_retry_wins(self, tool: str, branch: str, step: str, attempts: int, mode: str) -> None:
        text = f"""\
            - step: a
              spec: {{case_mode: {mode}}}
              {step}
              tool: {{kind: noop}}
              case:
                - when: true
                  {branch or "priority: 1"}
                  then:
                    - ring:
                        tool: {{kind: http, url: "https://svc.test"}}
                        {tool or "args: {}"}
            """
        whole = classic(text)
        ring = (
            task(rewritten(whole), "a_case_0", "ring") if mode == "exclusive" else call(cases(whole, "a").branches[0])
        )
        assert rules(ring)[0].then.attempts == attempts

    def test_4_2_retry_on_the_tool_itself(self) -> None:
        book = compiled(
            classic("""\
                - step: a
                  retry: {max_attempts: 9}
                  tool: {kind: http, url: "https://svc.test", retry: {max_attempts: 2}}
                """)
        )
        assert rules(task(book, "a"))[0].then.attempts == 2

    def test_4_2_without_any_the_runtime_decides(self) -> None:
        book = compiled(classic("- {step: a, tool: {kind: noop}, next: b}\n", ends="b"))
        assert task(book, "a").policy is None

    def test_4_2_retries_inside_an_iterator(self) -> None:
        book = compiled(
            classic(
                """\
                - step: a
                  tool:
                    kind: iterator
                    in: [1, 2]
                    iterator: n
                    tool: {kind: http, url: "https://svc.test/{{ n }}", retry: {max_attempts: 6}}
                  next: b
                """,
                ends="b",
            )
        )
        (inner,) = task(book, "a").body
        assert rules(inner)[0].then.attempts == 6

    def test_4_3_polling_beside_retrying(self) -> None:
        (branch,) = cases(
            classic(
                """\
                - step: brew
                  tool: {kind: noop}
                  case:
                    - when: "{{ event.name == 'call.done' }}"
                      then:
                        - wait_till_hot:
                            tool:
                              kind: http
                              url: "{{ kettle_url }}"
                            retry:
                              on: error
                              max_attempts: 3
                            poll:
                              until: "{{ result.state == 'hot' }}"
                              interval: 5s
                              max_attempts: 60
                              deadline: 300s
                        - next: {to: [{step: pour}]}
                """,
                root='workload: {kettle_url: "https://kettle.test"}\n',
                ends="pour",
            ),
            "brew",
        ).branches
        kettle = call(branch)
        assert kettle.poll == Poll(
            "{{ outcome.result.data.state == 'hot' }}", interval=5.0, max_attempts=60, deadline=300.0
        )
        assert rules(kettle)[0] == Rule(IS_ERROR, Then("retry", attempts=3))

    def test_4_3_polling_needs_an_end(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: brew
                  tool: {kind: noop}
                  case:
                    - when: true
                      then:
                        - wait:
                            tool: {kind: noop}
                            poll: {interval: 5s}  # NTL102
                """)
        )
        assert "'until'" in problem.message


class TestSection7CompleteStep:
    def test_7_every_key_in_exclusive_mode(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: restock
                  desc: "Fills the shelves"

                  spec:
                    case_mode: exclusive
                    eval_mode: on_entry
                    branch_order: source
                    next_policy: end_step
                    timeout: 300s
                    on_error: ignore

                  tool:
                    kind: postgres
                    spec:
                      timeout: 30s
                      retry: 3
                      async: true  # NTL118
                    auth: "{{ workload.which_db }}"
                    command: "SELECT * FROM stock"

                  retry:
                    max_attempts: 3
                    backoff:
                      type: exponential
                      delay_seconds: 1
                      max_delay_seconds: 60
                      jitter: true

                  loop:
                    spec:
                      mode: parallel
                      batch_size: 10
                      on_error: continue
                    collection: "{{ shelves }}"
                    element: shelf

                  case:
                    - when: "{{ workload.enough }}"
                      priority: 10
                      spec:
                        cache: true  # NTL118
                      then:
                        - order_more:
                            tool:
                              kind: http
                              method: POST
                              url: "{{ shop_url }}"
                            retry:
                              max_attempts: 5
                        - next:
                            to:
                              - step: open_shop
                            policy: end_step

                    - else:
                        - next:
                            to:
                              - step: call_owner
                """,
                root='workload: {shelves: [1], shop_url: "https://shop.test"}\n',
                ends="open_shop call_owner",
            )
        )
        step = book.step("restock")
        assert step.spec == {"timeout": 300.0}
        assert step.loop == Loop("{{ shelves }}", "shelf", mode="parallel", max_in_flight=10, on_error="continue")
        (query,) = step.tasks
        assert query.spec == {"timeout": 30.0, "retry": {"attempts": 4}}
        assert [do for _, do in directives(query)] == ["retry", "continue", "continue"]
        assert rules(query)[0].then == Then(
            "retry", attempts=3, backoff="exponential", delay=1.0, max_delay=60.0, jitter=True
        )
        assert arcs(step) == [("restock_case_0", "{{ workload.enough }}"), ("call_owner", True)]
        assert rules(task(book, "restock_case_0", "order_more"))[0].then.attempts == 5
        assert step.after_call is None

    @pytest.mark.parametrize(
        ("on_error", "expected"),
        [
            ("fail", None),
            ("ignore", [(IS_ERROR, "continue"), (None, "continue")]),
            ("retry", [(IS_ERROR, "retry"), (IS_ERROR, "fail"), (None, "continue")]),
        ],
    )
    def test_7_on_error(self, on_error: str, expected: list[tuple[str | None, str]] | None) -> None:
        book = compiled(
            classic(f'- step: a\n  spec: {{on_error: {on_error}}}\n  tool: {{kind: http, url: "https://svc.test"}}\n')
        )
        result = task(book, "a")
        assert (None if result.policy is None else directives(result)) == expected

    @pytest.mark.parametrize(
        ("knob", "choices"),
        [("case_mode", "inclusive"), ("eval_mode", "on_event"), ("branch_order", "priority"), ("on_error", "ignore")],
    )
    def test_7_unknown_modes_are_refused(self, knob: str, choices: str) -> None:
        problem = refused_once(
            playbook(
                f"- step: a\n  spec: {{{knob}: sometimes}}  # NTL103\n  tool: {{kind: noop}}\n  next: b\n", ends="b"
            )
        )
        assert choices in problem.message

    @pytest.mark.parametrize(
        "key", ["case_mode: inclusive", "eval_mode: on_event", "next_policy: defer", "on_error: ignore"]
    )
    def test_7_none_of_it_beside_canonical_constructs(self, key: str) -> None:
        problem = refused_once(
            playbook(
                f"""\
                - step: a
                  spec: {{{key}}}  # NTL113
                  tool:
                    - read: {{kind: noop}}
                  next: {{arcs: [{{step: b}}]}}
                """,
                ends="b",
            )
        )
        assert problem.hint is not None

    def test_7_a_task_policy_inside_a_chain_makes_the_playbook_canonical(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: a
                  tool: {kind: noop}
                  case:  # NTL113
                    - when: true
                      then:
                        - ring:
                            tool:
                              kind: noop
                              spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
                """)
        )
        assert "`next.arcs`" in (problem.hint or "")


class TestSection9Migration:
    """The form before and the form after mean the same."""

    BEFORE = """\
        - step: a
          tool: {kind: noop, result: 1}
          case:
            - when: "{{ workload.x }}"
              then:
                - sink:
                    tool:
                      kind: http
                      method: POST
                      url: "https://svc.test"
                      body: "{{ result }}"
                - next:
                    - step: end
        """
    AFTER = """\
        - step: a
          tool: {kind: noop, result: 1}
          case:
            - when: "{{ workload.x }}"
              then:
                - send_result:
                    tool:
                      kind: http
                      method: POST
                      url: "https://svc.test"
                      body: "{{ result }}"
                - next:
                    to:
                      - step: end
        """

    def test_9_both_forms_compile(self) -> None:
        before = rewritten(classic(self.BEFORE, ends="end")).step("a_case_0")
        after = rewritten(classic(self.AFTER, ends="end")).step("a_case_0")
        assert (labels(before), labels(after)) == (["sink"], ["send_result"])
        assert before.tasks[0].inputs == after.tasks[0].inputs
        assert before.router == after.router

    @pytest.mark.parametrize("written", ["end", "[end]", "[{step: end}]", "{to: [end]}", "{to: [{step: end}]}"])
    def test_9_every_way_to_write_next(self, written: str) -> None:
        book = rewritten(
            classic(
                f"- step: a\n  tool: {{kind: noop}}\n  case: [{{when: true, then: [{{next: {written}}}]}}]\n",
                ends="end",
            )
        )
        assert arcs(book.step("a")) == [("end", True)]

    def test_9_what_has_no_canonical_spelling_stays_in_the_tail(self) -> None:
        book = compiled(
            classic("""\
                - step: a
                  loop: {collection: [1], element: n}
                  tool: {kind: noop}
                  vars: {count: "{{ result | length }}"}
                  sink: {tool: {kind: duckdb, database: d.db, table: t}}
                """)
        )
        part = book.step("a").after_call
        assert part is not None
        assert part == AfterCall(vars=part.vars, sink=part.sink)
        assert part.vars is not None
        assert part.sink is not None
        assert part.sink.sink
        assert part.sink.inputs["rows"] == "{{ result }}"
