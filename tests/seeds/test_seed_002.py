"""Seed 002, the formal specification of the canonical language: documents, namespaces, policies, and its refusals."""

from __future__ import annotations

import pytest

from noetl.model.playbook import Admit, AdmitRule, Arc, Loop, Rule, Then

from .conftest import (
    arcs,
    checked,
    compiled,
    directives,
    labels,
    pipeline,
    playbook,
    policy,
    refused,
    refused_once,
    rules,
    task,
)


class TestSection2DocumentModel:
    def test_2_1_the_least_a_document_needs(self) -> None:
        book = compiled("""\
            apiVersion: noetl.io/v2
            kind: Playbook
            metadata: {name: tiny, path: lab/tiny}
            workflow:
              - step: start
                tool: {kind: noop}
            """)
        assert (book.name, book.path, book.entry, book.workload, book.keychain) == ("tiny", "lab/tiny", "start", {}, ())

    @pytest.mark.parametrize("version", ["noetl.io/v1", "v2", "2"])
    def test_2_1_another_api_version_is_refused(self, version: str) -> None:
        problem = refused_once(f"""\
            apiVersion: {version}  # NTL104
            kind: Playbook
            metadata: {{name: tiny, path: lab/tiny}}
            workflow: [{{step: start, tool: {{kind: noop}}}}]
            """)
        assert "noetl.io/v2" in problem.message

    def test_2_1_another_kind_is_refused(self) -> None:
        problem = refused_once("""\
            apiVersion: noetl.io/v2
            kind: Workflow  # NTL105
            metadata: {name: tiny, path: lab/tiny}
            workflow: [{step: start, tool: {kind: noop}}]
            """)
        assert problem.hint == "write `kind: Playbook`"

    @pytest.mark.parametrize("missing", ["apiVersion", "kind", "metadata", "workflow"])
    def test_2_1_required_sections(self, missing: str) -> None:
        sections = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": "{name: tiny, path: lab/tiny}",
            "workflow": "[{step: start, tool: {kind: noop}}]",
        }
        lines = [f"{key}: {value}" for key, value in sections.items() if key != missing]
        lines[0] += "  # NTL102"
        problem = refused_once("\n".join(lines))
        assert repr(missing) in problem.message

    def test_2_1_the_name_is_required(self) -> None:
        problem = refused_once("""\
            apiVersion: noetl.io/v2
            kind: Playbook
            metadata: {path: lab/tiny}  # NTL102
            workflow: [{step: start, tool: {kind: noop}}]
            """)
        assert "'name'" in problem.message

    def test_2_1_a_missing_path_is_reported_and_defaults_to_the_name(self) -> None:
        book = compiled("""\
            apiVersion: noetl.io/v2
            kind: Playbook
            metadata: {name: tiny}  # NTL115
            workflow: [{step: start, tool: {kind: noop}}]
            """)
        assert book.path == "tiny"

    def test_2_1_no_root_vars(self) -> None:
        problem = refused_once(playbook("- step: a\n  tool: {kind: noop}\n", root="vars:  # NTL107\n  n: 1\n"))
        assert "`workload`" in (problem.hint or "")

    def test_2_2_a_step_with_all_its_parts(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: weigh
                  desc: Weighs every parcel
                  spec: {timeout: 5m, pool: scales, join: all}
                  loop: {in: "{{ workload.parcels }}", iterator: parcel}
                  tool:
                    - put: {kind: noop}
                    - read: {kind: http, url: "https://scale.test/{{ iter.parcel }}"}
                  next:
                    arcs: [{step: sum_up}]
                """,
                root="workload: {parcels: [p1]}\n",
                ends="sum_up",
            )
        )
        step = book.step("weigh")
        assert (step.desc, step.join, step.spec) == ("Weighs every parcel", "all", {"timeout": 300.0, "pool": "scales"})
        assert labels(step) == ["put", "read"]
        assert step.loop is not None
        assert step.router.arcs == (Arc("sum_up"),)

    def test_2_2_a_step_without_tools_only_routes(self) -> None:
        book = compiled(playbook("- step: fork\n  next: {arcs: [{step: on}]}\n", ends="on"))
        assert book.step("fork").tasks == ()

    def test_2_2_neither_tool_nor_next_is_reported(self) -> None:
        compiled(playbook("- step: idle  # NTL208\n  desc: nothing\n"))

    def test_2_2_no_when_on_a_step(self) -> None:
        problem = refused_once(playbook("- step: a\n  when: '{{ workload.go }}'  # NTL108\n  tool: {kind: noop}\n"))
        assert "admit" in (problem.hint or "")

    @pytest.mark.parametrize(("mode", "cap", "where"), [("sequential", None, "local"), ("parallel", 12, "distributed")])
    def test_2_3_the_loop(self, mode: str, cap: int | None, where: str) -> None:
        limit = "" if cap is None else f"max_in_flight: {cap}, "
        book = compiled(
            playbook(
                f"""\
                - step: scan
                  loop:
                    spec: {{mode: {mode}, {limit}policy: {{exec: {where}}}}}
                    in: "{{{{ workload.shelves }}}}"
                    iterator: shelf
                  tool: {{kind: noop}}
                """,
                root="workload: {shelves: [1]}\n",
            )
        )
        expected = Loop("{{ workload.shelves }}", "shelf", mode=mode, max_in_flight=cap, exec=where)  # type: ignore[arg-type]
        assert book.step("scan").loop == expected

    def test_2_4_the_task(self) -> None:
        book = compiled(
            pipeline("""\
            - ping:
                kind: http
                spec: {timeout: 2s, retry: 1}
                method: HEAD
                url: "https://svc.test"
            """)
        )
        result = task(book, "work", "ping")
        assert (result.kind, result.inputs) == ("http", {"method": "HEAD", "url": "https://svc.test"})
        assert result.spec == {"timeout": 2.0, "retry": {"attempts": 2}}

    @pytest.mark.parametrize(
        "call",
        [
            'kind: http, url: "https://svc.test"',
            'kind: postgres, auth: db, query: "SELECT 1"',
            'kind: duckdb, query: "SELECT 1"',
            'kind: python, code: "result = 1"',
            "kind: secrets, provider: env, key: TOKEN",
            "kind: playbook, path: lab/other, args: {n: 1}",
            "kind: workbook, name: shared",
            "kind: noop",
            "kind: quantum, circuit: bell.qasm",
        ],
    )
    def test_2_4_public_kinds(self, call: str) -> None:
        book = compiled(
            pipeline(
                f"- one: {{{call}}}\n",
                root="keychain: [{name: db, kind: postgres_credential}]\nworkbook: {shared: {kind: noop}}\n",
            )
        )
        assert labels(book.step("work")) == ["one"]


class TestSection3Namespaces:
    def test_3_2_every_namespace_where_it_lives(self) -> None:
        compiled(
            playbook(
                """\
                - step: start
                  tool:
                    - note:
                        kind: noop
                        spec:
                          policy:
                            rules:
                              - when: "{{ outcome.status == 'ok' and _attempt == 1 and _task == 'note' }}"
                                then: {do: continue, set_ctx: {mark: "{{ execution_id }}"}}
                              - else: {then: {do: continue}}
                    - pass_on: {kind: noop, result: "{{ _prev }}"}
                  next:
                    arcs:
                      - step: each
                        when: "{{ event.name == 'step.done' and ctx.mark and workload.go }}"
                        args: {who: "{{ ctx.mark }}"}
                - step: each
                  loop: {in: "{{ workload.list }}", iterator: item}
                  tool:
                    - show: {kind: noop, result: "{{ iter.index }} {{ iter.item }} {{ args.who }}"}
                """,
                root="workload: {go: true, list: [1]}\n",
            )
        )

    @pytest.mark.parametrize(
        ("name", "home"), [("outcome", "rules of a task"), ("event", "arcs"), ("result", "classic case")]
    )
    def test_3_2_a_namespace_away_from_home(self, name: str, home: str) -> None:
        problem = refused_once(pipeline(f"- show:\n    kind: noop\n    result: '{{{{ {name}.x }}}}'  # NTL505\n"))
        assert home in problem.message

    def test_3_2_iter_is_not_seen_on_arcs(self) -> None:
        problem = refused_once(
            playbook("- step: a\n  next: {arcs: [{step: b, when: '{{ iter.x }}'}]}  # NTL505\n", ends="b")
        )
        assert "set_ctx" in (problem.hint or "")

    def test_3_2_names_nobody_provides(self) -> None:
        (problem,) = checked(
            pipeline("- show:\n    kind: noop\n    result: '{{ citty }}'  # NTL502\n", root="workload: {city: x}\n")
        ).problems
        assert problem.severity == "warning"  # a payload may bring it; a run without it does not start
        assert problem.hint == "did you mean 'city'?"

    def test_3_3_bare_names_are_found_in_every_namespace(self) -> None:
        compiled(
            playbook(
                """\
                - step: start
                  tool:
                    - note:
                        kind: noop
                        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {from_ctx: 1}}}}]}}
                  next: {arcs: [{step: show, args: {from_args: 2}}]}
                - step: show
                  loop: {in: [1], iterator: from_iter}
                  tool: {kind: noop, result: "{{ from_args + from_ctx + from_iter + from_workload }}"}
                """,
                root="workload: {from_workload: 3}\n",
            )
        )

    def test_3_3_a_name_that_hides_another_is_reported(self) -> None:
        compiled(
            playbook(
                """\
                - step: start
                  next: {arcs: [{step: show, args: {size: 2}}]}
                - step: show
                  tool:
                    kind: noop
                    result: "{{ size }}"  # NTL408
                """,
                root="workload: {size: 3}\n",
            )
        )


class TestSection4Execution:
    @pytest.mark.parametrize(
        ("head", "steps", "entry"),
        [
            ("", ["start", "other"], "start"),
            ("", ["other", "start"], "start"),
            ("", ["alpha", "beta"], "alpha"),
            ("executor: {spec: {entry_step: beta}}\n", ["alpha", "beta", "start"], "beta"),
        ],
    )
    def test_4_1_the_first_token(self, head: str, steps: list[str], entry: str) -> None:
        text = playbook("", root=head, ends=" ".join(steps))
        loaded = checked(_mark_unreachable(text, entry))
        assert loaded.require().entry == entry

    @pytest.mark.parametrize(("first", "last"), [(True, False), (False, True)])
    def test_4_2_admission(self, first: bool, last: bool) -> None:
        book = compiled(
            playbook(
                f"""\
                - step: pay
                  spec:
                    policy:
                      admit:
                        rules:
                          - when: "{{{{ workload.open }}}}"
                            then: {{allow: {str(first).lower()}}}
                          - else:
                              then: {{allow: {str(last).lower()}}}
                  tool: {{kind: noop}}
                """
            )
        )
        assert book.step("pay").admit == Admit((AdmitRule("{{ workload.open }}", first), AdmitRule(None, last)))

    def test_4_2_admission_defaults_to_allow(self) -> None:
        assert compiled(pipeline("- a: {kind: noop}\n")).step("work").admit is None

    def test_4_2_a_rule_must_say_whether_it_allows(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: pay
                  spec:
                    policy:
                      admit:
                        rules:
                          - when: "{{ workload.open }}"
                            then: {}  # NTL102
                  tool: {kind: noop}
                """)
        )
        assert "'allow'" in problem.message

    def test_4_2_a_gate_holds_no_directive(self) -> None:
        problem = refused(
            playbook("""\
                - step: pay
                  spec:
                    policy:
                      admit:
                        rules:
                          - when: "{{ workload.open }}"
                            then: {do: continue}  # NTL102 NTL112
                  tool: {kind: noop}
                """)
        )[-1]
        assert problem.code == "NTL112"


class TestSection6TaskPolicy:
    def test_6_2_every_field_of_a_rule(self) -> None:
        book = compiled(
            pipeline("""\
            - draw:
                kind: http
                url: "https://dice.test"
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.status == 'error' }}"
                        then: {do: retry, attempts: 7, backoff: linear, delay: "{{ _attempt * 2 }}"}
                      - when: "{{ outcome.result.data == 1 }}"
                        then:
                          do: jump
                          to: draw
                          delay: 3
                          set_iter: {ones: "{{ (iter.ones | default(0)) + 1 }}"}
                          set_ctx: {last: "{{ outcome.result.data }}"}
                      - else:
                          then: {do: continue}
            """)
        )
        assert rules(task(book, "work", "draw")) == (
            Rule(
                "{{ outcome.status == 'error' }}",
                Then("retry", attempts=7, backoff="linear", delay="{{ _attempt * 2 }}"),
            ),
            Rule(
                "{{ outcome.result.data == 1 }}",
                Then(
                    "jump",
                    to="draw",
                    delay=3.0,
                    set_iter={"ones": "{{ (iter.ones | default(0)) + 1 }}"},
                    set_ctx={"last": "{{ outcome.result.data }}"},
                ),
            ),
            Rule(None, Then("continue")),
        )

    def test_6_3_rules_keep_their_order(self) -> None:
        book = compiled(
            policy("""\
            - {when: "{{ outcome.http.status == 404 }}", then: {do: break}}
            - {when: "{{ outcome.http.status == 410 }}", then: {do: fail}}
            - {when: "{{ outcome.status == 'error' }}", then: {do: retry}}
            - else: {then: {do: continue}}
            """)
        )
        assert [do for _, do in directives(task(book, "work", "call"))] == ["break", "fail", "retry", "continue"]

    def test_6_3_else_comes_last(self) -> None:
        problem = refused_once(
            policy("""\
            - else: {then: {do: continue}}  # NTL307
            - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
            """)
        )
        assert problem.hint == "move it to the end"

    @pytest.mark.parametrize(
        ("then", "owner"),
        [
            ("do: continue, attempts: 3", "retry"),
            ("do: fail, to: call", "jump"),
            ("do: break, delay: 2", "retry and jump"),
        ],
    )
    def test_6_4_a_knob_belongs_to_its_directive(self, then: str, owner: str) -> None:
        more = "" if "fail" in then else " NTL315"
        problem = refused_once(policy(f"- else: {{then: {{{then}}}}}  # NTL305{more}\n"))
        assert problem.hint == f"it is an option of {owner}"

    def test_6_4_no_other_directive_exists(self) -> None:
        problem = refused_once(policy("- else: {then: {do: retries}}  # NTL103\n"))
        assert "retry" in (problem.hint or "")


class TestSection7Loops:
    @pytest.mark.parametrize("name", ["index", "parent", "ctx", "workload", "steps"])
    def test_7_1_given_names_are_no_iterators(self, name: str) -> None:
        refused_once(playbook(f"- step: a\n  loop: {{in: [1], iterator: {name}}}  # NTL207\n  tool: {{kind: noop}}\n"))

    def test_7_1_an_iterator_may_not_be_hidden_by_ctx(self) -> None:
        refused_once(
            playbook("""\
                - step: a
                  loop: {in: [1], iterator: part}  # NTL210
                  tool:
                    - note:
                        kind: noop
                        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {part: 1}}}}]}}
                """)
        )

    def test_7_2_set_iter_is_safe_and_set_ctx_is_reported(self) -> None:
        compiled(
            playbook("""\
                - step: a
                  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
                  tool:
                    - note:
                        kind: noop
                        spec:
                          policy:
                            rules:
                              - else:
                                  then:
                                    do: continue
                                    set_iter: {mine: "{{ iter.x }}"}
                                    set_ctx: {ours: "{{ iter.x }}"}  # NTL311
                """)
        )

    def test_7_2_the_same_inside_a_parallel_iterator(self) -> None:
        compiled(
            pipeline("""\
            - each:
                kind: iterator
                in: [1, 2]
                iterator: x
                spec: {mode: parallel, max_in_flight: 2}
                tool:
                  - note:
                      kind: noop
                      spec:
                        policy:
                          rules:
                            - else: {then: {do: continue, set_ctx: {ours: "{{ iter.x }}"}}}  # NTL311
            """)
        )

    @pytest.mark.parametrize("reducer", ["$add", "$append", "$max", "$min", "$merge"])
    def test_7_2_reducers_are_allowed_anywhere(self, reducer: str) -> None:
        compiled(
            playbook(f"""\
                - step: a
                  loop: {{in: [1, 2], iterator: x, spec: {{mode: parallel}}}}
                  tool:
                    - note:
                        kind: noop
                        spec:
                          policy:
                            rules: [{{else: {{then: {{do: continue, set_ctx: {{all: {{{reducer}: 1}}}}}}}}}}]
                """)
        )

    def test_7_3_a_loop_ends_with_loop_done(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: a
                  loop: {in: [1], iterator: x}
                  tool: {kind: noop}
                  next:
                    arcs:
                      - {step: b, when: "{{ event.name == 'loop.done' and event.data.failed == 0 }}"}
                      - {step: c, when: "{{ event.name == 'step.done' }}"}  # NTL406
                """,
                ends="b c",
            )
        )
        assert [target for target, _ in arcs(book.step("a"))] == ["b", "c"]


class TestSection8Routing:
    def test_8_1_the_router(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: sort
                  next:
                    spec: {mode: inclusive}
                    arcs:
                      - step: letters
                        when: "{{ workload.letters | length > 0 }}"
                        args: {count: "{{ workload.letters | length }}"}
                      - step: always
                """,
                root="workload: {letters: []}\n",
                ends="letters always",
            )
        )
        assert book.step("sort").router.mode == "inclusive"
        assert book.step("sort").router.arcs[0].args == {"count": "{{ workload.letters | length }}"}
        assert book.step("sort").router.arcs[1] == Arc("always", True)

    def test_8_2_exclusive_arcs_behind_an_open_one_are_dead(self) -> None:
        compiled(
            playbook(
                """\
                - step: sort
                  next:
                    arcs:
                      - {step: first}
                      - {step: second, when: "{{ workload.x }}"}  # NTL403
                      - {step: rescue, when: "{{ event.name == 'step.failed' }}"}
                """,
                ends="first second rescue",
            )
        )

    def test_8_2_inclusive_arcs_are_all_alive(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: sort
                  next:
                    spec: {mode: inclusive}
                    arcs: [{step: first}, {step: second}]
                """,
                ends="first second",
            )
        )
        assert arcs(book.step("sort")) == [("first", True), ("second", True)]

    def test_8_2_branches_that_meet_should_declare_the_join(self) -> None:
        diamond = """\
            - step: sort
              next:
                spec: {mode: inclusive}
                arcs: [{step: first}, {step: second}]
            - {step: first, next: {arcs: [{step: both}]}}
            - {step: second, next: {arcs: [{step: both}]}}
            - {step: both, tool: {kind: noop}, spec: %s}
            """
        assert compiled(playbook(diamond % "{}}  # NTL405 {")).step("both").join == "any"
        assert compiled(playbook(diamond % "{join: all}")).step("both").join == "all"


class TestSection9References:
    def test_9_2_references_in_ctx(self) -> None:
        book = compiled(
            pipeline("""\
            - keep:
                kind: duckdb
                database: shelf.db
                table: pages
                rows: "{{ workload.pages }}"
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.status == 'error' }}"
                        then: {do: fail}
                      - else:
                          then:
                            do: continue
                            set_ctx:
                              pages: {store: duckdb.table, key: pages, size: "{{ outcome.result.row_count }}"}
            """)
        )
        patch = rules(task(book, "work", "keep"))[1].then.set_ctx["pages"]
        assert patch == {"store": "duckdb.table", "key": "pages", "size": "{{ outcome.result.row_count }}"}

    def test_9_2_there_is_no_sink_kind(self) -> None:
        refused_once(pipeline("- keep:\n    kind: sink  # NTL202\n"))


class TestSection12Quantum:
    def test_12_submit_poll_and_fetch_over_a_sweep(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: sweep
                  loop:
                    in: "{{ workload.angles }}"
                    iterator: angle
                    spec: {mode: parallel, max_in_flight: 2}
                  tool:
                    - submit:
                        kind: quantum
                        operation: submit
                        circuit: "{{ workload.circuit }}"
                        parameters: {theta: "{{ iter.angle }}"}
                        shots: 512
                        spec:
                          policy:
                            rules:
                              - when: "{{ outcome.status == 'error' }}"
                                then: {do: fail}
                              - else: {then: {do: continue, set_iter: {job: "{{ outcome.result.job }}"}}}
                    - poll:
                        kind: quantum
                        operation: poll
                        job: "{{ iter.job }}"
                        spec:
                          policy:
                            rules:
                              - when: "{{ outcome.status == 'error' }}"
                                then: {do: fail}
                              - when: "{{ outcome.result.state in ['queued', 'running'] }}"
                                then: {do: jump, to: poll, delay: 30s}
                              - else: {then: {do: continue}}
                    - fetch:
                        kind: quantum
                        operation: fetch
                        job: "{{ iter.job }}"
                """,
                root="workload: {angles: [0.1, 0.2], circuit: OPENQASM 3}\n",
            )
        )
        assert labels(book.step("sweep")) == ["submit", "poll", "fetch"]
        again = rules(task(book, "sweep", "poll"))[1].then
        assert (again.do, again.to, again.delay) == ("jump", "poll", 30.0)


class TestSection13Validation:
    """The seven reasons for which a playbook must be refused."""

    def test_13_step_names_are_unique(self) -> None:
        problem = refused_once(playbook("- step: a\n  tool: {kind: noop}\n- step: a  # NTL201\n  tool: {kind: noop}\n"))
        assert "line 5" in problem.message

    def test_13_arcs_lead_to_steps_that_exist(self) -> None:
        problem = refused_once(
            playbook("- step: a\n  next:\n    arcs:\n      - step: finsh  # NTL401\n", ends="finish")
        )
        assert problem.hint == "did you mean 'finish'?"

    @pytest.mark.parametrize(
        ("loop", "missing"), [("{in: [1]}", "iterator"), ("{iterator: x}", "in"), ("{spec: {mode: parallel}}", "in")]
    )
    def test_13_a_loop_has_both_in_and_iterator(self, loop: str, missing: str) -> None:
        marks = "NTL209" if missing != "in" or "iterator" in loop else "NTL209 NTL209"
        problem = refused(playbook(f"- step: a\n  loop: {loop}  # {marks}\n  tool: {{kind: noop}}\n"))[0]
        assert repr(missing) in problem.message
        assert "iterator: item" in (problem.hint or "")

    def test_13_the_kind_is_known(self) -> None:
        problem = refused_once(pipeline("- a:\n    kind: postgress  # NTL202\n"))
        assert problem.hint == "did you mean 'postgres'?"

    def test_13_no_root_vars(self) -> None:
        refused_once(playbook("- step: a\n  tool: {kind: noop}\n", root="vars: {}  # NTL107\n"))

    def test_13_no_top_level_when(self) -> None:
        refused_once(playbook("- step: a\n  tool: {kind: noop}\n  when: true  # NTL108\n"))

    @pytest.mark.parametrize("shape", ["[]", "retry", "{do: retry}", "{rule: []}"])
    def test_13_a_task_policy_is_a_map_with_rules(self, shape: str) -> None:
        more = {"{do: retry}": " NTL112", "{rule: []}": " NTL101"}.get(shape, "")
        refused(pipeline(f"- a:\n    kind: noop\n    spec:\n      policy: {shape}  # NTL301{more}\n"))

    def test_13_all_reasons_are_told_at_once(self) -> None:
        result = refused(
            playbook(
                """\
                - step: a
                  when: true  # NTL108
                  loop: {in: [1]}  # NTL209
                  tool:
                    - x: {kind: nope}  # NTL202
                  next: {arcs: [{step: zz}]}  # NTL401
                - step: a  # NTL201
                  tool:
                    - y:
                        kind: noop
                        spec: {policy: []}  # NTL301
                """,
                root="vars: {}  # NTL107\n",
            )
        )
        assert len({problem.code for problem in result}) == 7


class TestAppendixAGrammar:
    def test_arc_spec_and_empty_maps_are_part_of_it(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: a
                  desc: text
                  spec: {}
                  loop: {in: [1, 2], iterator: n, spec: {}}
                  tool:
                    - t: {kind: noop, spec: {}}
                  next:
                    spec: {}
                    arcs:
                      - {step: b, when: true, args: {}, spec: {}}
                """,
                ends="b",
            )
        )
        assert book.step("a").router.arcs == (Arc("b"),)


def _mark_unreachable(text: str, entry: str) -> str:
    """Steps that nothing leads to are told; here that is beside the point."""
    lines = []
    for line in text.splitlines():
        result = line.strip().startswith("- step:") and not line.endswith(f" {entry}")
        lines.append(f"{line}  # NTL402" if result else line)
    return "\n".join(lines)
