"""Seed 000, the first classic dialect: what its examples compile to in the one language the engine knows."""

from __future__ import annotations

import pytest

from noetl.model.playbook import Arc, Credential, Loop, Rule, Then

from .conftest import (
    arcs,
    checked,
    compiled,
    directives,
    labels,
    playbook,
    refused,
    refused_once,
    rewritten,
    rules,
    task,
)

IS_ERROR = "{{ outcome.status == 'error' }}"


def classic(workflow: str, *, root: str = "", ends: str = "") -> str:
    """A playbook around classic steps; the dialect is asserted."""
    text = playbook(workflow, root=root, ends=ends)
    assert checked(text).dialect == "classic"
    return text


def retried(retry: str, call: str = 'kind: http, url: "https://svc.test"') -> tuple[Rule, ...]:
    """The rules that a step's `retry` becomes."""
    book = compiled(classic(f"- step: ask\n  tool: {{{call}}}\n  retry: {retry}\n"))
    return rules(task(book, "ask"))


class TestSection2Document:
    def test_2_1_only_version_two(self) -> None:
        refused_once("""\
            apiVersion: noetl.io/v1  # NTL104
            kind: Playbook
            metadata: {name: letters, path: post/letters}
            workflow: [{step: start, tool: {kind: noop}, next: end}, {step: end, tool: {kind: noop}}]
            """)

    def test_2_1_a_missing_version(self) -> None:
        problem = refused_once("""\
            kind: Playbook  # NTL102
            metadata: {name: letters, path: post/letters}
            workflow: [{step: start, tool: {kind: noop}}]
            """)
        assert "noetl.io/v2" in (problem.hint or "")

    def test_2_2_all_top_level_keys(self) -> None:
        book = compiled("""\
            apiVersion: noetl.io/v2
            kind: Playbook
            metadata:
              name: letters
              path: post/letters
            workload:
              office: north
            keychain:
              - name: post_db
                kind: postgres_credential
            workbook:
              - name: stamp
                tool: {kind: noop}
            workflow:
              - step: start
                tool: {kind: workbook, name: stamp}
                next: end
              - step: end
                tool: {kind: noop}
            """)
        assert book.workload == {"office": "north"}
        assert book.keychain == (Credential("post_db", "postgres_credential"),)
        assert task(book, "start").kind == "noop"
        assert arcs(book.step("start")) == [("end", True)]

    def test_2_2_the_path_is_optional(self) -> None:
        book = compiled("""\
            apiVersion: noetl.io/v2
            kind: Playbook
            metadata: {name: letters}  # NTL115
            workflow: [{step: start, tool: {kind: noop}}]
            """)
        assert book.path == "letters"

    def test_2_3_templates_must_parse(self) -> None:
        problem = refused_once(
            playbook("- step: start\n  tool: {kind: noop, result: '{{ workload.office | }}'}  # NTL501\n")
        )
        assert problem.source.strip().startswith("tool:")

    def test_2_3_what_templates_can_read(self) -> None:
        book = compiled(
            classic("""\
                - step: start
                  tool: {kind: python, code: "result = {'n': 1}"}
                  vars: {count: "{{ result.n }}"}
                  next: tell
                - step: tell
                  tool:
                    kind: http
                    url: "https://svc.test/{{ workload.office }}/{{ execution_id }}"
                    params: {count: "{{ vars.count }}", raw: "{{ start.n }}"}
                """)
        )
        assert task(book, "tell").inputs["params"] == {"count": "{{ ctx.vars.count }}", "raw": "{{ start.n }}"}

    def test_3_3_start_is_where_it_begins_and_otherwise_the_first_step(self) -> None:
        assert compiled(classic("- {step: begin, tool: {kind: noop}, next: end}\n", ends="end")).entry == "begin"
        later = """\
            - {step: first, tool: {kind: noop}}  # NTL402
            - {step: start, tool: {kind: noop}, next: end}
            """
        assert compiled(classic(later, ends="end")).entry == "start"


class TestSection3EvaluationOrder:
    def test_3_4_inputs_tool_variables_sink_and_then_the_token(self) -> None:
        """The order of section 3.4 is the order of tasks, rules and arcs."""
        book = rewritten(
            classic(
                """\
                - step: work
                  args: {town: "{{ workload.town }}"}
                  tool: {kind: python, code: "result = {'n': town}"}
                  vars: {seen: "{{ result.n }}"}
                  sink: {tool: {kind: duckdb, database: d.db}, table: towns}
                  next: end
                """,
                root="workload: {town: oslo}\n",
                ends="end",
            )
        )
        step = book.step("work")
        assert labels(step) == ["call", "sink", "result"]
        assert step.tasks[0].args == {"town": "{{ workload.town }}"}
        assert rules(step.tasks[0])[-1].then.set_ctx == {"vars": {"$merge": {"seen": "{{ outcome.result.n }}"}}}
        assert arcs(step) == [("end", True)]


class TestSection4Step:
    def test_4_every_key_of_a_step(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: sort_letters
                  desc: Sorts them all
                  args:
                    box: "{{ workload.box }}"
                  tool:
                    kind: http
                    url: "https://svc.test/{{ args.box }}"
                  case:
                    - when: "{{ event.name == 'call.error' }}"
                      then:
                        next:
                          - step: lost
                  vars:
                    sorted: "{{ result.count }}"
                  sink:
                    tool: {kind: postgres}
                    table: sorted
                  retry:
                    max_attempts: 2
                  next:
                    - step: end
                """,
                root="workload: {box: 7}\n",
                ends="end lost",
            )
        )
        step = book.step("sort_letters")
        assert step.desc == "Sorts them all"
        assert labels(step) == ["call", "sink", "result"]
        assert step.tasks[0].args == {"box": "{{ workload.box }}"}
        assert [do for _, do in directives(step.tasks[0])] == ["retry", "fail", "continue"]
        failed = "(event.name == 'step.failed') and (event.data.task | default('')) != 'sink'"
        assert arcs(step) == [("lost", f"{{{{ {failed} }}}}"), ("end", True)]

    def test_4_1_a_tool_has_a_kind(self) -> None:
        problem = refused_once(
            playbook("- step: start\n  tool: {code: 'result = 1'}  # NTL102\n  next: end\n", ends="end")
        )
        assert "'kind'" in problem.message

    @pytest.mark.parametrize(
        "tool",
        [
            'kind: python, code: "result = 1"',
            'kind: http, method: POST, url: "https://svc.test"',
            'kind: postgres, query: "SELECT 1"',
            'kind: duckdb, query: "SELECT 1"',
            "kind: playbook, path: post/other",
            "kind: secrets, provider: env, key: TOKEN",
            "kind: iterator, in: [1, 2], iterator: n, tool: {kind: noop}",
            'kind: snowflake, query: "SELECT 1"',
            "kind: gcs, operation: list, bucket: letters",
            "kind: container, image: alpine",
            "kind: script, path: sort.sh",
        ],
    )
    def test_4_2_supported_kinds(self, tool: str) -> None:
        book = compiled(classic(f"- step: start\n  tool: {{{tool}}}\n  next: end\n", ends="end"))
        assert task(book, "start").kind == tool.split()[1].rstrip(",")

    def test_4_2_classic_postgres_has_a_default_credential(self) -> None:
        book = compiled(
            classic('- step: start\n  tool: {kind: postgres, query: "SELECT 1"}\n  next: end\n', ends="end")
        )
        assert task(book, "start").inputs["auth"] == "postgres"
        assert book.keychain == (Credential("postgres", "postgres_credential"),)


class TestSection5Workbook:
    FORECAST = """\
        workload: {town: bergen}
        workbook:
          - name: forecast
            tool:
              kind: http
              method: GET
              url: "https://sky.test/v1"
              params:
                place: "{{ place }}"
        """

    def test_5_a_named_task_with_args_of_its_own(self) -> None:
        book = compiled(
            classic(
                """\
                - step: ask
                  tool:
                    kind: workbook
                    name: forecast
                    args: {place: "{{ workload.town }}"}
                  next: end
                """,
                root=self.FORECAST,
                ends="end",
            )
        )
        result = task(book, "ask")
        assert (result.kind, result.args) == ("http", {"place": "{{ workload.town }}"})
        assert result.inputs == {"method": "GET", "url": "https://sky.test/v1", "params": {"place": "{{ place }}"}}

    def test_5_a_name_that_no_caller_supplies_is_up_to_the_payload(self) -> None:
        compiled(
            playbook("- step: ask\n  tool: {kind: workbook, name: forecast}\n  next: end\n", ends="end")
            + 'workbook: [{name: forecast, tool: {kind: http, url: "https://sky.test/{{ place }}"}}]  # NTL502\n'
        )

    def test_5_an_unknown_task_is_refused(self) -> None:
        problem = refused_once(
            playbook(
                "- step: ask\n  tool: {kind: workbook, name: forecasts, args: {place: x}}  # NTL211\n  next: end\n",
                root=self.FORECAST.replace("{{ place }}", "x"),
                ends="end",
            )
        )
        assert problem.hint == "did you mean 'forecast'?"

    def test_5_its_sink_follows_the_call(self) -> None:
        book = rewritten(
            classic(
                "- step: ask\n  tool: {kind: workbook, name: forecast}\n  next: end\n",
                root="""\
                workbook:
                  - name: forecast
                    tool: {kind: http, url: "https://sky.test"}
                    sink: {tool: {kind: duckdb, database: sky.db}, table: forecasts}
                """,
                ends="end",
            )
        )
        assert labels(book.step("ask")) == ["call", "sink", "result"]
        assert task(book, "ask", "sink").inputs["rows"] == "{{ tasks.call.result.data }}"

    def test_5_in_a_loop_its_sink_runs_for_each_item(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: ask
                  loop: {in: [a, b], iterator: place, mode: parallel}
                  tool: {kind: workbook, name: forecast}
                """,
                root="""\
                workbook:
                  - name: forecast
                    tool: {kind: http, url: "https://sky.test/{{ place }}", retry: {max_attempts: 4}}
                    sink: {tool: {kind: duckdb, database: sky.db}, table: forecasts}
                """,
            )
        )
        assert labels(book.step("ask")) == ["call", "sink", "result"]
        assert rules(task(book, "ask", "call"))[0].then.attempts == 4
        assert book.step("ask").after_call is None


class TestSection6Loop:
    @pytest.mark.parametrize(
        ("mode", "becomes"), [("sequential", "sequential"), ("parallel", "parallel"), ("async", "parallel")]
    )
    def test_6_1_modes(self, mode: str, becomes: str) -> None:
        book = compiled(
            classic(
                f"""\
                - step: each
                  loop: {{in: "{{{{ workload.xs }}}}", iterator: x, mode: {mode}}}
                  tool: {{kind: noop}}
                """,
                root="workload: {xs: []}\n",
            )
        )
        assert book.step("each").loop == Loop("{{ workload.xs }}", "x", mode=becomes)  # type: ignore[arg-type]

    def test_6_1_sequential_is_the_default(self) -> None:
        book = compiled(
            classic("- step: each\n  loop: {in: [1], iterator: x}\n  tool: {kind: noop}\n  next: end\n", ends="end")
        )
        assert book.step("each").loop == Loop([1], "x")

    def test_6_2_loop_index_is_the_index(self) -> None:
        book = compiled(
            classic("""\
                - step: each
                  loop: {in: [1], iterator: x, mode: sequential}
                  tool: {kind: noop, result: "{{ loop_index }}: {{ x }}"}
                """)
        )
        assert task(book, "each").inputs["result"] == "{{ iter.index }}: {{ x }}"

    def test_6_2_a_loop_needs_both_names(self) -> None:
        refused_once(
            playbook(
                "- step: each\n  loop: {in: [1], mode: async}  # NTL209\n  tool: {kind: noop}\n  next: end\n",
                ends="end",
            )
        )

    def test_6_3_a_loop_over_workload_items(self) -> None:
        book = compiled(
            classic(
                """\
                - step: stamp_all
                  loop:
                    in: "{{ workload.items }}"
                    iterator: letter
                    mode: sequential
                  tool:
                    kind: python
                    args:
                      current: "{{ letter }}"
                    code: |
                      print("stamping", current)
                      result = {"stamped": current}
                  next:
                    - step: count
                """,
                root="workload: {items: [a, b]}\n",
                ends="count",
            )
        )
        step = book.step("stamp_all")
        assert step.loop == Loop("{{ workload.items }}", "letter")
        assert step.tasks[0].args == {"current": "{{ letter }}"}
        assert step.tasks[0].inputs["code"].startswith("print(")
        assert arcs(step) == [("count", True)]


class TestSection7Retry:
    def test_7_1_all_keys_on_error(self) -> None:
        first, second, third = retried("{max_attempts: 5, initial_delay: 0.5, backoff_multiplier: 2}")
        assert first == Rule(IS_ERROR, Then("retry", attempts=5, backoff="exponential", delay=0.5))
        assert second == Rule(IS_ERROR, Then("fail"))
        assert third == Rule(None, Then("continue"))

    def test_7_1_no_growth_is_a_fixed_wait(self) -> None:
        assert retried("{max_attempts: 2, initial_delay: 3}")[0].then == Then("retry", attempts=2, delay=3.0)

    def test_7_1_another_multiplier_is_computed(self) -> None:
        then = retried("{max_attempts: 4, initial_delay: 2, backoff_multiplier: 1.5}")[0].then
        assert then == Then("retry", attempts=4, delay="{{ 2 * 1.5 ** (_attempt - 1) }}")

    def test_7_2_retry_when(self) -> None:
        first = retried("{max_attempts: 6, retry_when: '{{ status_code in [500, 503] }}'}")[0]
        assert first.when == "{{ outcome.http.status in [500, 503] }}"
        assert first.then.attempts == 6

    def test_7_2_stop_when_keeps_the_last_outcome(self) -> None:
        first = retried("{max_attempts: 6, stop_when: '{{ result.ready }}'}")[0]
        assert first.when == "{{ not (outcome.result.data.ready) and _attempt < 6 }}"

    def test_7_2_both_predicates(self) -> None:
        first = retried("{max_attempts: 3, retry_when: '{{ not success }}', stop_when: '{{ attempt > 2 }}'}")[0]
        assert isinstance(first.when, str)
        assert "outcome.status == 'ok'" in first.when
        assert "not (_attempt > 2)" in first.when

    @pytest.mark.parametrize(
        ("name", "becomes"),
        [
            ("attempt == max_attempts", "_attempt == (9)"),
            ("status_code == 500", "outcome.http.status == 500"),
            ("error is defined", "outcome.error.message is defined"),
            ("success", "outcome.status == 'ok'"),
            ("result.a", "outcome.result.data.a"),
            ("data.a", "outcome.result.data.a"),
            ("response.status_code == 1", "outcome.http.status == 1"),
        ],
    )
    def test_7_3_names_of_a_predicate(self, name: str, becomes: str) -> None:
        first = retried(f"{{max_attempts: 9, retry_when: '{{{{ {name} }}}}'}}")[0]
        assert isinstance(first.when, str)
        assert becomes in first.when

    def test_7_3_they_exist_nowhere_else(self) -> None:
        problem = refused_once(
            playbook(
                "- step: ask\n  tool: {kind: noop, result: '{{ status_code }}'}  # NTL505\n  next: end\n", ends="end"
            )
        )
        assert "retry_when" in problem.message

    def test_7_rows_of_a_query_are_its_result(self) -> None:
        first = retried("{stop_when: '{{ result | length > 0 }}'}", 'kind: postgres, query: "SELECT 1"')[0]
        assert first.when == "{{ not (outcome.result.rows | length > 0) and _attempt < 3 }}"


class TestSection8Case:
    def test_8_1_next_sink_and_set(self) -> None:
        """A branch that does more than route becomes a step of its own."""
        book = rewritten(
            classic(
                """\
                - step: ask
                  tool: {kind: http, url: "https://svc.test"}
                  case:
                    - when: "{{ response.status_code == 201 }}"
                      then:
                        next:
                          - step: tell
                            args: {id: "{{ result.id }}"}
                        sink: {tool: {kind: duckdb, database: d.db}, table: answers, args: {id: "{{ result.id }}"}}
                        set: {last: "{{ this.data.id }}"}
                """,
                ends="tell",
            )
        )
        (arc,) = book.step("ask").router.arcs
        assert arc.step == "ask_case_0"
        assert arc.when == "{{ (steps.ask.result.status | default(steps.ask.error.details.status)) == 201 }}"
        branch = book.step("ask_case_0")
        assert labels(branch) == ["sink", "set"]
        assert branch.tasks[0].inputs["rows"] == [{"id": "{{ steps.ask.result.data.id }}"}]
        assert rules(branch.tasks[1])[0].then.set_ctx == {
            "vars": {"$merge": {"last": "{{ steps.ask.result.data.id }}"}}
        }
        assert branch.router.arcs == (Arc("tell", args={"id": "{{ steps.ask.result.data.id }}"}),)

    def test_8_2_the_first_true_branch_wins(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: ask
                  tool: {kind: noop, result: {n: 1}}
                  case:
                    - {when: "{{ result.n > 5 }}", then: {next: [{step: many}]}}
                    - {when: "{{ result.n > 0 }}", then: {next: [{step: few}]}}
                  next: [{step: none}]
                """,
                ends="many few none",
            )
        )
        assert book.step("ask").router.mode == "exclusive"
        assert arcs(book.step("ask")) == [
            ("many", "{{ steps.ask.result.n > 5 }}"),
            ("few", "{{ steps.ask.result.n > 0 }}"),
            ("none", True),
        ]

    @pytest.mark.parametrize(
        ("condition", "guard"),
        [
            ("event.name == 'call.done'", "event.name == 'step.done'"),
            ("event.name == 'call.error'", "event.name == 'step.failed'"),
            ("event.name == 'step.exit'", "event.name == 'step.done'"),
            (
                "event.name == 'step.exit' and this.status == 'error'",
                "event.name in ['step.done', 'step.failed'] and "
                "('ok' if steps.ask.status == 'succeeded' else 'error') == 'error'",
            ),
        ],
    )
    def test_8_3_events(self, condition: str, guard: str) -> None:
        book = rewritten(
            classic(
                f"""\
                - step: ask
                  tool: {{kind: noop}}
                  case: [{{when: "{{{{ {condition} }}}}", then: {{next: [{{step: on}}]}}}}]
                """,
                ends="on",
            )
        )
        assert arcs(book.step("ask")) == [("on", f"{{{{ {guard} }}}}")]

    def test_8_3_a_loop_is_done_with_loop_done(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: ask
                  loop: {in: [1], iterator: x}
                  tool: {kind: noop}
                  case: [{when: "{{ event.name == 'call.done' }}", then: {next: [{step: on}]}}]
                """,
                ends="on",
            )
        )
        assert arcs(book.step("ask")) == [("on", "{{ event.name == 'loop.done' }}")]

    @pytest.mark.parametrize("name", ["result", "response", "this"])
    def test_8_3_the_result_is_not_seen_before_the_call(self, name: str) -> None:
        refused_once(
            playbook(
                f"- step: a\n  tool: {{kind: noop, result: '{{{{ {name}.x }}}}'}}  # NTL505\n  next: end\n", ends="end"
            )
        )

    def test_8_4_branches_on_the_call_and_a_fallback(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: fetch_post
                  tool:
                    kind: http
                    method: GET
                    url: "{{ workload.post_url }}"
                  case:
                    - when: "{{ event.name == 'call.done' and response.status_code == 204 }}"
                      then:
                        next:
                          - step: nothing_today
                    - when: "{{ event.name == 'call.error' }}"
                      then:
                        next:
                          - step: complain
                  next:
                    - step: deliver
                """,
                ends="nothing_today complain deliver",
            )
        )
        code = "(steps.fetch_post.result.status | default(steps.fetch_post.error.details.status))"
        assert arcs(book.step("fetch_post")) == [
            ("nothing_today", f"{{{{ event.name == 'step.done' and {code} == 204 }}}}"),
            ("complain", "{{ event.name == 'step.failed' }}"),
            ("deliver", True),
        ]
        assert book.step("fetch_post").after_call is None


class TestSection9Next:
    def test_9_1_a_name(self) -> None:
        book = compiled(classic("- {step: a, tool: {kind: noop}, next: b}\n", ends="b"))
        assert (arcs(book.step("a")), book.step("a").router.mode) == ([("b", True)], "exclusive")

    def test_9_1_a_list_of_steps_is_a_fork(self) -> None:
        book = compiled(classic("- step: a\n  tool: {kind: noop}\n  next:\n    - step: b\n    - step: c\n", ends="b c"))
        assert (arcs(book.step("a")), book.step("a").router.mode) == ([("b", True), ("c", True)], "inclusive")

    def test_9_1_with_args(self) -> None:
        book = compiled(
            classic(
                """\
                - step: a
                  tool: {kind: postgres, query: "SELECT 7 AS n"}
                  next:
                    - step: b
                      args:
                        n: "{{ result[0].n }}"
                        all: "{{ a }}"
                """,
                ends="b",
            )
        )
        assert book.step("a").router.arcs == (Arc("b", args={"n": "{{ steps.a.result.rows[0].n }}", "all": "{{ a }}"}),)

    def test_9_1_several_fallback_targets_behind_a_case(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: a
                  tool: {kind: noop}
                  case: [{when: "{{ workload.quick }}", then: {next: [{step: c}]}}]
                  next: [{step: b}, {step: c}]
                """,
                ends="b c",
            )
        )
        assert arcs(book.step("a")) == [("c", "{{ workload.quick }}"), ("a_next", True)]
        assert (arcs(book.step("a_next")), book.step("a_next").router.mode) == ([("b", True), ("c", True)], "inclusive")

    def test_9_2_conditions_inside_next_are_refused(self) -> None:
        result = refused(
            playbook(
                """\
                - step: a
                  tool: {kind: noop}
                  next:
                    - when: "{{ workload.quick }}"  # NTL111
                      then:  # NTL111
                        - step: b
                    - step: c
                """,
                ends="b c",
            )
        )
        for problem in result:
            assert "`next: {arcs: [{step: ..., when: ...}]}`" in (problem.hint or "")
            assert "`case`" in (problem.hint or "")

    def test_9_2_else_inside_next_is_refused(self) -> None:
        refused_once(
            playbook(
                "- step: a\n  tool: {kind: noop}\n  next:\n    - else: [{step: b}]  # NTL111\n    - step: b\n", ends="b"
            )
        )

    def test_9_2_the_same_as_a_case(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: a
                  tool: {kind: noop}
                  case:
                    - when: "{{ workload.quick }}"
                      then:
                        next:
                          - step: b
                  next:
                    - step: c
                """,
                ends="b c",
            )
        )
        assert arcs(book.step("a")) == [("b", "{{ workload.quick }}"), ("c", True)]


class TestSection10Sink:
    def test_10_a_sink_with_columns_and_a_condition(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: read
                  tool: {kind: http, url: "https://svc.test"}
                  sink:
                    tool:
                      kind: postgres
                      auth: archive
                    table: readings
                    args:
                      level: "{{ result.level }}"
                      code: "{{ this.status_code }}"
                    when: "{{ result.level > 3 }}"
                  next: end
                """,
                ends="end",
            )
        )
        call, sink, result = book.step("read").tasks
        assert (call.label, sink.label, result.label) == ("call", "sink", "result")
        assert sink.inputs == {
            "auth": "archive",
            "table": "readings",
            "rows": [{"level": "{{ tasks.call.result.data.level }}", "code": "{{ tasks.call.http.status }}"}],
        }
        assert directives(sink) == [
            ("{{ not (tasks.call.result.data.level > 3) }}", "skip"),
            (IS_ERROR, "fail"),
            (None, "continue"),
        ]
        assert result.inputs == {"result": "{{ tasks.call.result }}"}, "a sink never changes the step's result"
        assert book.keychain == (Credential("archive", "postgres_credential"),)

    def test_10_a_tool_that_has_no_tables(self) -> None:
        problem = refused_once(
            playbook(
                """\
                - step: read
                  tool: {kind: noop}
                  sink:
                    tool: {kind: http, method: POST, url: "https://svc.test"}
                    table: readings  # NTL203
                """
            )
        )
        assert "'table'" in problem.message

    @pytest.mark.parametrize(
        ("sink", "code"), [("{table: t}", "NTL102"), ("{tool: {kind: nope}}", "NTL202"), ("{tool: []}", "NTL103")]
    )
    def test_10_a_sink_without_a_usable_tool(self, sink: str, code: str) -> None:
        refused_once(playbook(f"- step: read\n  tool: {{kind: noop}}\n  sink: {sink}  # {code}\n"))
        branch = f"{{when: true, then: {{sink: {sink}}}}}"
        refused_once(playbook(f"- step: read\n  tool: {{kind: noop}}\n  case: [{branch}]  # {code}\n"))

    def test_10_a_table_beside_a_statement(self) -> None:
        refused_once(
            playbook(
                """\
                - step: read
                  tool: {kind: noop}
                  sink:
                    tool: {kind: duckdb, command: "SELECT 1"}
                    table: readings  # NTL204
                """
            )
        )

    def test_10_without_args_the_result_is_stored(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: read
                  tool: {kind: postgres, query: "SELECT 1 AS n"}
                  sink: {tool: {kind: duckdb, database: d.db, table: copies}}
                  next: end
                """,
                ends="end",
            )
        )
        assert task(book, "read", "sink").inputs["rows"] == "{{ tasks.call.result.rows }}"

    def test_10_an_http_sink_sends_a_body(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: read
                  tool: {kind: python, code: "result = {'n': 1}"}
                  sink: {tool: {kind: http, method: POST, url: "https://svc.test"}, args: {n: "{{ result.n }}"}}
                  next: end
                """,
                ends="end",
            )
        )
        assert task(book, "read", "sink").inputs["body"] == {"n": "{{ tasks.call.result.n }}"}

    def test_10_a_loop_stores_all_its_results_at_the_end(self) -> None:
        book = compiled(
            classic(
                """\
                - step: read
                  loop: {in: [1, 2], iterator: n, mode: parallel}
                  tool: {kind: python, code: "result = {'n': n}", args: {n: "{{ n }}"}}
                  sink:
                    tool: {kind: http, method: POST, url: "https://svc.test"}
                    args: {count: "{{ result | length }}"}
                    when: "{{ result | length > 0 }}"
                    retry: {max_attempts: 5}
                  next: end
                """,
                ends="end",
            )
        )
        step = book.step("read")
        assert labels(step) == ["task_1"]
        assert step.after_call is not None
        assert step.after_call.sink is not None
        assert step.after_call.sink.inputs["body"] == {"count": "{{ result | length }}"}
        assert [do for _, do in directives(step.after_call.sink)] == ["skip", "retry", "fail", "continue"]
        assert arcs(step) == [("end", True)]


class TestSection11Vars:
    def test_11_1_variables_are_patches_of_ctx_vars(self) -> None:
        book = rewritten(
            classic("""\
                - step: read
                  tool: {kind: python, code: "result = {'field': 1, 'nested': {'value': 2}}"}
                  vars:
                    one: "{{ result.field }}"
                    two: "{{ result.nested.value }}"
                """)
        )
        result = rules(task(book, "read"))
        assert result[0] == Rule(IS_ERROR, Then("fail")), "only after success"
        assert result[1].then.set_ctx == {
            "vars": {"$merge": {"one": "{{ outcome.result.field }}", "two": "{{ outcome.result.nested.value }}"}}
        }

    def test_11_3_from_one_step_to_the_next(self) -> None:
        book = rewritten(
            classic("""\
                - step: find_reader
                  tool:
                    kind: postgres
                    query: "SELECT reader_id, phone FROM readers LIMIT 1"
                  vars:
                    reader_id: "{{ result[0].reader_id }}"
                    phone: "{{ result[0].phone }}"
                  next:
                    - step: call_reader
                - step: call_reader
                  tool:
                    kind: http
                    method: POST
                    url: "https://phone.test/call"
                    body:
                      reader: "{{ vars.reader_id }}"
                      phone: "{{ vars.phone }}"
                """)
        )
        patch = rules(task(book, "find_reader"))[1].then.set_ctx["vars"]["$merge"]
        assert patch["phone"] == "{{ outcome.result.rows[0].phone }}"
        assert task(book, "call_reader").inputs["body"] == {
            "reader": "{{ ctx.vars.reader_id }}",
            "phone": "{{ ctx.vars.phone }}",
        }

    def test_11_a_variable_that_nothing_writes_is_reported(self) -> None:
        compiled(
            classic("- step: a\n  tool: {kind: noop, result: '{{ vars.phne }}'}  # NTL409\n  next: end\n", ends="end")
        )

    def test_11_variables_of_a_loop_read_all_its_results(self) -> None:
        book = compiled(
            classic("""\
                - step: each
                  loop: {in: [1], iterator: n}
                  tool: {kind: noop}
                  vars: {count: "{{ result | length }}"}
                """)
        )
        part = book.step("each").after_call
        assert part is not None
        assert part.vars is not None
        assert rules(part.vars)[0].then.set_ctx == {"vars": {"$merge": {"count": "{{ result | length }}"}}}


class TestAppendixA:
    LIBRARY_CARD = """\
        apiVersion: noetl.io/v2
        kind: Playbook
        metadata:
          name: library_card
          path: library/cards/new
        workload:
          desk_url: "https://desk.test"
          letters_on: true
        workbook:
          - name: send_letter
            tool:
              kind: http
              method: POST
              url: "{{ workload.desk_url }}/letter"
              body:
                form: "new-card"
                to: "{{ address }}"
        workflow:
          - step: start
            tool:
              kind: python
              auth: {}
              libs: {}
              args: {}
              code: |
                result = {"state": "open"}
            case:
              - when: "{{ event.name == 'step.exit' }}"
                then:
                  next:
                    - step: find_reader
          - step: find_reader
            tool:
              kind: postgres
              query: "SELECT * FROM readers WHERE id = {{ workload.reader_id }}"
            vars:
              address: "{{ result[0].address }}"
              reader: "{{ result[0].full_name }}"
            case:
              - when: "{{ event.name == 'step.exit' and response is defined }}"
                then:
                  next:
                    - step: write_letter
          - step: write_letter
            tool:
              kind: workbook
              name: send_letter
              args:
                address: "{{ vars.address }}"
            case:
              - when: "{{ event.name == 'step.exit' }}"
                then:
                  next:
                    - step: end
          - step: end
            tool:
              kind: python
              auth: {}
              libs: {}
              args: {}
              code: |
                result = {"state": "done", "message": "the card is on its way"}
        """

    def test_the_complete_playbook(self) -> None:
        loaded = checked(self.LIBRARY_CARD)
        book = loaded.require()
        assert loaded.dialect == "classic"
        assert (book.name, book.path, book.entry) == ("library_card", "library/cards/new", "start")
        assert [step.name for step in book.steps] == ["start", "find_reader", "write_letter", "end"]
        exits = "event.name == 'step.done'"
        book = rewritten(self.LIBRARY_CARD)
        assert [arcs(step) for step in book.steps] == [
            [("find_reader", f"{{{{ {exits} }}}}")],
            [("write_letter", f"{{{{ {exits} and steps.find_reader.result is defined }}}}")],
            [("end", f"{{{{ {exits} }}}}")],
            [],
        ]
        assert all(step.after_call is None for step in book.steps)

    def test_its_workbook_call_is_resolved(self) -> None:
        letter = task(compiled(self.LIBRARY_CARD), "write_letter")
        assert (letter.kind, letter.args) == ("http", {"address": "{{ ctx.vars.address }}"})
        assert letter.inputs["body"]["to"] == "{{ address }}"

    def test_its_variables_are_patches(self) -> None:
        result = rules(task(rewritten(self.LIBRARY_CARD), "find_reader"))
        assert set(result[-1].then.set_ctx["vars"]["$merge"]) == {"address", "reader"}


class TestAppendixB:
    """Which variables each place can see."""

    def test_event_conditions_see_event_and_response(self) -> None:
        compiled(
            classic(
                """\
                - step: a
                  tool: {kind: http, url: "https://svc.test"}
                  case:
                    - when: "{{ event.name == 'call.done' and response.data.ok }}"
                      then: {next: [{step: end}]}
                """,
                ends="end",
            )
        )

    def test_retries_inside_a_branch_see_the_response(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: a
                  tool: {kind: noop}
                  case:
                    - when: true
                      then:
                        sink: {tool: {kind: http, method: POST, url: "https://svc.test"}}
                        retry: {max_attempts: 2, retry_when: "{{ response.status_code == 503 }}"}
                        next: [{step: end}]
                """,
                ends="end",
            )
        )
        first = rules(task(book, "a_case_0", "sink"))[0]
        assert (first.when, first.then.attempts) == ("{{ outcome.http.status == 503 }}", 2)

    def test_a_retry_of_a_branch_without_tools_is_a_rule_of_the_call(self) -> None:
        book = rewritten(
            classic(
                """\
                - step: a
                  tool: {kind: http, url: "https://svc.test"}
                  case:
                    - when: "{{ event.name == 'call.error' and response.status_code == 503 }}"
                      then:
                        retry: {max_attempts: 4, retry_when: "{{ attempt < 3 }}"}
                    - when: "{{ event.name == 'call.done' }}"
                      then: {next: [{step: end}]}
                """,
                ends="end",
            )
        )
        first = rules(task(book, "a"))[0]
        assert first.when == "{{ outcome.status == 'error' and outcome.http.status == 503 and _attempt < 3 }}"
        assert (first.then.do, first.then.attempts) == ("retry", 4)
        assert arcs(book.step("a")) == [("end", "{{ event.name == 'step.done' }}")]

    def test_step_args_see_workload_variables_and_earlier_results(self) -> None:
        book = compiled(
            classic("""\
                - step: a
                  tool: {kind: noop, result: 1}
                  vars: {x: "{{ result }}"}
                  next: b
                - step: b
                  args: {one: "{{ workload.w }}", two: "{{ vars.x }}", three: "{{ a }}"}
                  tool: {kind: python, code: "result = one + two + three"}
                """)
        )
        assert task(book, "b").args == {"one": "{{ workload.w }}", "two": "{{ ctx.vars.x }}", "three": "{{ a }}"}
