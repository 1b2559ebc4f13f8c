"""Seed 001, the canonical language as its users see it: root layout, scopes, pipelines, loops, arcs, pagination."""

from __future__ import annotations

import pytest

from noetl.model.playbook import Admit, AdmitRule, Arc, Credential, Executor, Loop, Rule, Then

from .conftest import arcs, compiled, directives, labels, pipeline, playbook, policy, refused_once, rules, task

IS_ERROR = "{{ outcome.status == 'error' }}"


class TestSection1Document:
    def test_1_1_only_the_known_root_sections(self) -> None:
        problem = refused_once(
            playbook("- step: start\n  tool: {kind: noop}\n", root="sections: []  # NTL101\n"),
        )
        for section in ("metadata", "keychain", "executor", "workload", "workflow", "workbook"):
            assert section in (problem.hint or "")

    def test_1_1_root_vars_must_not_exist(self) -> None:
        refused_once(playbook("- step: start\n  tool: {kind: noop}\n", root="vars: {n: 1}  # NTL107\n"))

    def test_1_2_the_root_layout(self) -> None:
        book = compiled("""\
            apiVersion: noetl.io/v2
            kind: Playbook

            metadata:
              name: tide_tables
              path: harbour/tide_tables
              version: "3.1"
              description: Collects the tides
              owner: harbour-office

            keychain:
              - name: tides_db
                kind: postgres_credential

            executor:
              kind: distributed
              spec:
                pool: coast
                policy:
                  results:
                    reference_first: true
                  limits:
                    max_payload_bytes: 32768

            workload:
              api_url: "https://tides.test"

            workflow:
              - step: start
                tool: {kind: noop}

            workbook:
              tasks: {}
            """)
        assert (book.name, book.path, book.version) == ("tide_tables", "harbour/tide_tables", "3.1")
        assert (book.description, book.metadata) == ("Collects the tides", {"owner": "harbour-office"})
        assert book.keychain == (Credential("tides_db", "postgres_credential"),)
        assert book.executor == Executor(profile="distributed", pool="coast", inline_bytes=32_768)

    def test_1_2_a_payload_limit_above_the_size_of_an_event_changes_nothing(self) -> None:
        limits = "executor: {spec: {policy: {limits: {max_payload_bytes: 1048576}}}}  # NTL118\n"
        assert compiled(pipeline("- a: {kind: noop}\n", root=limits)).executor.inline_bytes == 65_536

    def test_1_2_results_inline_are_not_to_be_had(self) -> None:
        compiled(
            pipeline(
                "- a: {kind: noop}\n",
                root="executor:\n  spec:\n    policy:\n      results: {reference_first: false}  # NTL118\n",
            )
        )


class TestSection2Net:
    def test_2_2_a_step_is_gate_pipeline_and_arcs(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: dock
                  spec: {policy: {admit: {rules: [{when: "{{ workload.free }}", then: {allow: true}}]}}}
                  tool:
                    - moor: {kind: noop}
                  next: {arcs: [{step: unload}]}
                """,
                ends="unload",
            )
        )
        step = book.step("dock")
        assert step.admit == Admit((AdmitRule("{{ workload.free }}", True),))
        assert (labels(step), arcs(step)) == (["moor"], [("unload", True)])

    def test_2_2_there_is_no_step_when(self) -> None:
        problem = refused_once(
            playbook("- step: dock\n  when: '{{ workload.free }}'  # NTL108\n  tool: {kind: noop}\n")
        )
        assert problem.source.strip() == "when: '{{ workload.free }}'  # NTL108"


class TestSection3Scopes:
    def test_3_1_workload_defaults_may_build_on_each_other(self) -> None:
        book = compiled(
            pipeline(
                "- a: {kind: noop}\n", root='workload: {host: tides.test, url: "https://{{ workload.host }}/v1"}\n'
            )
        )
        assert book.workload["url"] == "https://{{ workload.host }}/v1"

    def test_3_2_ctx_is_written_by_patches(self) -> None:
        book = compiled(
            policy(
                "- else:  # NTL315\n"
                "    then: {do: continue, set_ctx: {seen: {$add: 1}, last: '{{ outcome.result }}'}}\n"
            )
        )
        assert rules(task(book, "work", "call"))[0].then.set_ctx == {
            "seen": {"$add": 1},
            "last": "{{ outcome.result }}",
        }

    def test_3_2_a_ctx_key_that_nothing_writes_is_reported(self) -> None:
        compiled(pipeline("- show:\n    kind: noop\n    result: '{{ ctx.session }}'  # NTL409\n"))

    def test_3_3_iter_has_the_item_and_its_index(self) -> None:
        compiled(
            playbook("""\
                - step: read
                  loop: {in: [n, s], iterator: pier}
                  tool: {kind: noop, result: "{{ iter.pier }}{{ iter.index }}{{ pier }}"}
                """)
        )

    def test_3_3_an_iter_key_that_nothing_writes_is_reported(self) -> None:
        compiled(
            playbook("""\
                - step: read
                  loop: {in: [n, s], iterator: pier}
                  tool:
                    kind: noop
                    result: "{{ iter.piers }}"  # NTL412
                """)
        )

    def test_3_4_pipeline_locals(self) -> None:
        compiled(
            pipeline(
                "- a: {kind: noop, result: 1}\n- b: {kind: noop, result: '{{ _prev }}{{ _task }}{{ _attempt }}'}\n"
            )
        )

    def test_3_5_nested_loops_reach_their_parents(self) -> None:
        book = compiled(
            playbook("""\
                - step: coast
                  loop: {in: [[[1]]], iterator: region}
                  tool:
                    - towns:
                        kind: iterator
                        in: "{{ iter.region }}"
                        iterator: town
                        tool:
                          - piers:
                              kind: iterator
                              in: "{{ iter.town }}"
                              iterator: pier
                              tool:
                                kind: noop
                                result: "{{ iter.pier }} {{ iter.parent.town }} {{ iter.parent.parent.region }}"
                """)
        )
        (piers,) = book.step("coast").tasks[0].body
        assert (piers.label, piers.body[0].label) == ("piers", "task_1")


class TestSection4Step:
    def test_4_1_the_whole_shape(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: survey
                  desc: Asks every buoy

                  spec:
                    timeout: 10m
                    policy:
                      admit:
                        mode: inclusive
                        rules:
                          - when: "{{ workload.buoys | length > 0 }}"
                            then: { allow: true }
                          - else:
                              then: { allow: false }

                  loop:
                    spec:
                      mode: parallel
                      max_in_flight: 8
                      policy:
                        exec: distributed
                    in: "{{ workload.buoys }}"
                    iterator: buoy

                  tool:
                    - ask: { kind: http, url: "https://{{ iter.buoy }}" }
                    - keep: { kind: duckdb, database: tides.db, table: levels, rows: ["{{ _prev.data }}"] }

                  next:
                    spec:
                      mode: inclusive
                      policy: {}
                    arcs:
                      - step: chart
                        when: "{{ event.name == 'loop.done' }}"
                        args: { total: "{{ event.data.total }}" }
                      - step: alarm
                        when: "{{ event.name == 'step.failed' }}"
                """,
                root="workload: {buoys: [b1]}\n",
                ends="chart alarm",
            )
        )
        step = book.step("survey")
        assert step.spec == {"timeout": 600.0}
        assert step.admit == Admit(
            (AdmitRule("{{ workload.buoys | length > 0 }}", True), AdmitRule(None, False)), mode="inclusive"
        )
        assert step.loop == Loop("{{ workload.buoys }}", "buoy", mode="parallel", max_in_flight=8)
        assert labels(step) == ["ask", "keep"]
        assert step.router.mode == "inclusive"
        assert step.router.arcs[0].args == {"total": "{{ event.data.total }}"}

    def test_4_2_no_gate_admits(self) -> None:
        assert compiled(pipeline("- a: {kind: noop}\n")).step("work").admit is None

    def test_4_2_the_first_matching_rule_wins_by_default(self) -> None:
        book = compiled(
            playbook("""\
                - step: dock
                  spec: {policy: {admit: {rules: [{else: {then: {allow: true}}}]}}}
                  tool: {kind: noop}
                """)
        )
        assert book.step("dock").admit == Admit((AdmitRule(None, True),), mode="exclusive")


class TestSection5Pipeline:
    def test_5_1_a_task_with_limits_and_rules(self) -> None:
        book = compiled(
            pipeline(
                """\
                - fetch_levels:
                    kind: http
                    spec:
                      timeout: { connect: 2, read: 20 }
                      policy:
                        rules:
                          - when: "{{ outcome.status == 'error' and outcome.http.status in [408, 503] }}"
                            then: { do: retry, attempts: 8, backoff: exponential, delay: 0.5 }
                          - else:  # NTL315
                              then: { do: continue }
                    method: GET
                    url: "{{ workload.api_url }}/levels"
                    params: { unit: cm }
                """,
                root='workload: {api_url: "https://tides.test"}\n',
            )
        )
        result = task(book, "work", "fetch_levels")
        assert result.spec == {"timeout": {"connect": 2.0, "read": 20.0}}
        assert result.inputs == {"method": "GET", "url": "{{ workload.api_url }}/levels", "params": {"unit": "cm"}}
        assert rules(result)[0].then == Then("retry", attempts=8, backoff="exponential", delay=0.5)

    @pytest.mark.parametrize(
        ("knobs", "effective"),
        [
            ("timeout: 90s", {"timeout": 90.0}),
            ("sandbox: landlock", {"sandbox": "landlock"}),
            ("retry: 2", {"retry": {"attempts": 3}}),
            ("on_lost: error", {"on_lost": "error"}),
        ],
    )
    def test_5_2_runtime_knobs_live_under_spec(self, knobs: str, effective: dict[str, object]) -> None:
        book = compiled(pipeline(f'- run: {{kind: python, code: "result = 1", spec: {{{knobs}}}}}\n'))
        assert task(book, "work", "run").spec == effective

    def test_5_2_a_pool_is_for_the_whole_step(self) -> None:
        book = compiled(pipeline("- run:\n    kind: noop\n    spec: {pool: gpu}  # NTL118\n"))
        assert book.step("work").spec == {}

    def test_5_2_two_time_limits_are_for_http_only(self) -> None:
        refused_once(pipeline("- run:\n    kind: python\n    code: x\n    spec: {timeout: {connect: 1}}  # NTL314\n"))


class TestSection6FlowControl:
    def test_6_2_the_syntax(self) -> None:
        book = compiled(
            pipeline("""\
            - look:
                kind: http
                url: "https://tides.test"
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.http.status == 202 }}"
                        then: {do: jump, to: look, delay: 10, set_iter: {looks: {$add: 1}}}
                      - when: "{{ outcome.http.status == 204 }}"
                        then: {do: break, set_ctx: {empty: true}}
                      - when: "{{ outcome.status == 'error' }}"
                        then: {do: retry, attempts: 2, backoff: none, delay: 1}
                      - else:
                          then:
                            do: continue
            """)
        )
        assert [rule.then for rule in rules(task(book, "work", "look"))] == [
            Then("jump", to="look", delay=10.0, set_iter={"looks": {"$add": 1}}),
            Then("break", set_ctx={"empty": True}),
            Then("retry", attempts=2, backoff="none", delay=1.0),
            Then("continue"),
        ]

    def test_6_3_an_omitted_policy(self) -> None:
        assert task(compiled(pipeline("- a: {kind: noop}\n")), "work", "a").policy is None

    def test_6_3_rules_without_else_are_reported(self) -> None:
        compiled(
            policy("""\
            - when: "{{ outcome.status == 'error' }}"  # NTL308
              then: {do: retry}
            """)
        )

    def test_6_4_two_layers_of_retry(self) -> None:
        book = compiled(
            pipeline("""\
            - call:
                kind: http
                url: "https://tides.test"
                spec:
                  retry: 1
                  policy:
                    rules:
                      - when: "{{ outcome.status == 'error' }}"
                        then: {do: retry, attempts: 5}
                      - else: {then: {do: continue}}
            """)
        )
        result = task(book, "work", "call")
        assert (result.spec["retry"], rules(result)[0].then.attempts) == ({"attempts": 2}, 5)

    @pytest.mark.parametrize("do", ["continue", "break", "fail"])
    def test_6_5_plain_directives(self, do: str) -> None:
        mark = "" if do == "fail" else "  # NTL315"
        book = compiled(policy(f"- else: {{then: {{do: {do}}}}}{mark}\n"))
        assert directives(task(book, "work", "call")) == [(None, do)]

    def test_6_6_parallel_writes(self) -> None:
        compiled(
            playbook("""\
                - step: survey
                  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
                  tool:
                    - note:
                        kind: noop
                        spec:
                          policy:
                            rules:
                              - else:
                                  then:
                                    do: continue
                                    set_iter: {mine: 1}
                                    set_ctx:
                                      level: "{{ iter.n }}"  # NTL311
                                      levels: {$append: "{{ iter.n }}"}
                """)
        )

    def test_6_6_an_unknown_reducer_is_refused(self) -> None:
        rule = "- else: {then: {do: continue, set_ctx: {levels: {$push: 1}}}}  # NTL310 NTL315\n"
        problem = refused_once(policy(rule))
        assert "$append" in (problem.hint or "")


class TestSection7Loop:
    def test_7_1_the_syntax(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: chart
                  loop:
                    spec:
                      mode: parallel
                      max_in_flight: 3
                      policy:
                        exec: local
                    in: "{{ workload.sheets }}"
                    iterator: sheet
                  tool: {kind: noop}
                """,
                root="workload: {sheets: []}\n",
            )
        )
        assert book.step("chart").loop == Loop(
            "{{ workload.sheets }}", "sheet", mode="parallel", max_in_flight=3, exec="local"
        )

    def test_7_1_the_mode_of_a_canonical_loop_stands_in_its_spec(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: chart
                  loop:
                    in: [1]
                    iterator: sheet
                    mode: parallel  # NTL113
                  tool:
                    - draw: {kind: noop}
                """)
        )
        assert "`loop: {spec: {mode: ...}}`" in (problem.hint or "")

    def test_7_2_the_step_ends_with_loop_done(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: chart
                  loop: {in: [1], iterator: sheet}
                  tool: {kind: noop}
                  next: {arcs: [{step: bind, when: "{{ event.name == 'loop.done' }}"}]}
                """,
                ends="bind",
            )
        )
        assert arcs(book.step("chart")) == [("bind", "{{ event.name == 'loop.done' }}")]


class TestSection8Routing:
    def test_8_2_guards_read_the_event_ctx_and_workload(self) -> None:
        compiled(
            playbook(
                """\
                - step: measure
                  tool:
                    - read:
                        kind: noop
                        result: 4
                        spec:
                          policy: {rules: [{else: {then: {do: continue, set_ctx: {level: "{{ outcome.result }}"}}}}]}
                  next:
                    arcs:
                      - {step: flood, when: "{{ ctx.level > workload.mark }}"}
                      - {step: broken, when: "{{ event.name == 'step.failed' and event.data.error.kind == 'timeout' }}"}
                      - {step: calm}
                """,
                root="workload: {mark: 3}\n",
                ends="flood broken calm",
            )
        )

    @pytest.mark.parametrize("guard", ["workload.mark", "'{{ workload.a }} and {{ workload.b }}'", "'yes'"])
    def test_8_2_a_guard_is_one_expression(self, guard: str) -> None:
        problem = refused_once(
            playbook(f"- step: a\n  next: {{arcs: [{{step: b, when: {guard}}}]}}  # NTL504\n", ends="b")
        )
        assert "{{" in (problem.hint or "") or "braces" in (problem.hint or "")

    def test_8_3_args_travel_with_the_token(self) -> None:
        book = compiled(
            playbook("""\
                - step: measure
                  next: {arcs: [{step: warn, args: {level: 4, at: {pier: n}}}]}
                - step: warn
                  tool: {kind: noop, result: "{{ args.level }} at {{ args.at.pier }}"}
                """)
        )
        assert book.step("measure").router.arcs == (Arc("warn", args={"level": 4, "at": {"pier": "n"}}),)

    def test_8_3_an_arg_no_arc_supplies_is_reported(self) -> None:
        compiled(
            playbook("""\
                - step: measure
                  next: {arcs: [{step: warn, args: {level: 4}}]}
                - step: warn
                  tool:
                    kind: noop
                    result: "{{ args.levle }}"  # NTL411
                """)
        )

    def test_8_4_exclusive_is_the_default(self) -> None:
        book = compiled(playbook("- step: a\n  next: {arcs: [{step: b}]}\n", ends="b"))
        assert book.step("a").router.mode == "exclusive"


class TestSection10Sink:
    def test_10_2_a_sink_is_a_task_that_stores(self) -> None:
        book = compiled(
            pipeline(
                """\
                - read: {kind: http, url: "https://tides.test"}
                - store:
                    kind: postgres
                    auth: tides_db
                    command: "INSERT INTO levels (body) VALUES ({{ _prev.data }}) RETURNING id"
                    spec:
                      policy:
                        rules:
                          - when: "{{ outcome.status == 'error' }}"
                            then: {do: fail}
                          - else: {then: {do: continue, set_ctx: {stored: "{{ outcome.result.rows[0].id }}"}}}
                """,
                root="keychain: [{name: tides_db, kind: postgres_credential}]\n",
            )
        )
        assert labels(book.step("work")) == ["read", "store"]

    def test_10_2_there_is_no_keyword_for_it(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: work
                  tool:
                    - read: {kind: noop}
                  sink: {tool: {kind: duckdb, table: t}}  # NTL113
                """)
        )
        assert "storage task" in (problem.hint or "")


class TestSection12Deprecations:
    """Words of older designs, each refused with what to write instead."""

    def test_12_pipe(self) -> None:
        problem = refused_once(playbook("- step: a\n  pipe: [{kind: noop}]  # NTL109\n  tool: {kind: noop}\n"))
        assert "`tool`" in (problem.hint or "")

    def test_12_eval(self) -> None:
        problem = refused_once(playbook("- step: a\n  eval: [{expr: true}]  # NTL109\n  tool: {kind: noop}\n"))
        assert "`when`" in (problem.hint or "")

    def test_12_eval_in_a_task(self) -> None:
        refused_once(pipeline("- a:\n    kind: noop\n    eval: []  # NTL109\n"))

    def test_12_expr(self) -> None:
        problem = refused_once(
            playbook("- step: a\n  next:\n    arcs:\n      - step: b\n        expr: true  # NTL109\n", ends="b")
        )
        assert "`when`" in (problem.hint or "")

    def test_12_step_when(self) -> None:
        refused_once(playbook("- step: a\n  when: true  # NTL108\n  tool: {kind: noop}\n"))

    @pytest.mark.parametrize(
        ("construct", "rewrite"),
        [
            ("case: [{when: true, then: [{next: b}]}]", "next.arcs"),
            ("vars: {x: 1}", "set_ctx"),
            ("retry: {max_attempts: 2}", "do: retry"),
            ("args: {x: 1}", "`args`"),
        ],
    )
    def test_12_step_level_constructs_of_the_classic_dialect(self, construct: str, rewrite: str) -> None:
        problem = refused_once(
            playbook(
                f"""\
                - step: a
                  tool:
                    - read: {{kind: noop}}
                  {construct}  # NTL113
                  next: {{arcs: [{{step: b}}]}}
                """,
                ends="b",
            )
        )
        assert rewrite in (problem.hint or "")

    def test_12_root_vars(self) -> None:
        refused_once(playbook("- step: a\n  tool: {kind: noop}\n", root="vars: {}  # NTL107\n"))


PAGES = playbook(
    """\
    - step: collect_tides

      spec:
        policy:
          admit:
            rules:
              - else:
                  then: { allow: true }

      loop:
        spec:
          mode: sequential
        in: "{{ workload.stations }}"
        iterator: station

      tool:
        - prepare:
            kind: noop
            spec:
              policy:
                rules:
                  - else:
                      then:
                        do: continue
                        set_iter: { page: 1, more: true }

        - fetch:
            kind: http
            method: GET
            url: "{{ workload.api_url }}{{ iter.station.path }}"
            params:
              page: "{{ iter.page }}"
              size: "{{ iter.station.page_size }}"
            spec:
              timeout: { connect: 4, read: 12 }
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}"
                    then: { do: retry, attempts: 9, backoff: exponential, delay: 1.0 }
                  - when: "{{ outcome.status == 'error' }}"
                    then: { do: fail }
                  - else:
                      then:
                        do: continue
                        set_iter:
                          more: "{{ outcome.result.data.pages.more | default(false) }}"
                          page: "{{ outcome.result.data.pages.number | default(iter.page) }}"
                          levels: "{{ outcome.result.data.levels | default([]) }}"

        - save:
            kind: postgres
            auth: tides_db
            command: "INSERT INTO level (station, body) VALUES ({{ iter.station.id }}, {{ iter.levels }})"
            spec:
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' and outcome.pg.code in ['40001', '40P01'] }}"
                    then: { do: retry, attempts: 4, backoff: exponential, delay: 2.0 }
                  - when: "{{ outcome.status == 'error' }}"
                    then: { do: fail }
                  - else:
                      then: { do: continue }

        - turn:
            kind: noop
            spec:
              policy:
                rules:
                  - when: "{{ iter.more == true }}"
                    then:
                      do: jump
                      to: fetch
                      set_iter:
                        page: "{{ iter.page | int + 1 }}"
                  - else:
                      then: { do: break }

      next:
        spec:
          mode: exclusive
        arcs:
          - step: check
            when: "{{ event.name == 'loop.done' }}"
          - step: tidy
            when: "{{ event.name == 'step.failed' }}"
    """,
    root="""\
    keychain: [{name: tides_db, kind: postgres_credential}]
    workload:
      api_url: "https://tides.test"
      stations: [{id: 1, path: /n, page_size: 20}]
    """,
    ends="check tidy",
)


class TestSection11And13Pagination:
    """The pattern of section 11 is the appendix of section 13."""

    def test_13_the_gate_admits_everything(self) -> None:
        assert compiled(PAGES).step("collect_tides").admit == Admit((AdmitRule(None, True),))

    def test_13_the_pipeline(self) -> None:
        assert labels(compiled(PAGES).step("collect_tides")) == ["prepare", "fetch", "save", "turn"]

    def test_13_fetching_retries_fails_or_notes_the_page(self) -> None:
        fetch = task(compiled(PAGES), "collect_tides", "fetch")
        assert [do for _, do in directives(fetch)] == ["retry", "fail", "continue"]
        assert set(rules(fetch)[2].then.set_iter) == {"more", "page", "levels"}
        assert fetch.spec == {"timeout": {"connect": 4.0, "read": 12.0}}

    def test_11_the_decision_jumps_back_or_breaks(self) -> None:
        turn = task(compiled(PAGES), "collect_tides", "turn")
        assert rules(turn) == (
            Rule("{{ iter.more == true }}", Then("jump", to="fetch", set_iter={"page": "{{ iter.page | int + 1 }}"})),
            Rule(None, Then("break")),
        )

    def test_13_the_way_on(self) -> None:
        assert arcs(compiled(PAGES).step("collect_tides")) == [
            ("check", "{{ event.name == 'loop.done' }}"),
            ("tidy", "{{ event.name == 'step.failed' }}"),
        ]
