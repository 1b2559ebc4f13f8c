"""Seed 004, the brief for implementers of the canonical language: its rules and examples, section by section."""

from __future__ import annotations

import pytest

from noetl.model.playbook import AdmitRule, Arc, Credential, Executor, Loop, Rule, Task, Then

from .conftest import arcs, compiled, directives, labels, pipeline, playbook, policy, refused_once, rules, task

IS_ERROR = "{{ outcome.status == 'error' }}"


class TestSection1CanonicalRules:
    """One keyword for conditions, everything adjustable under `spec`, policies typed by their scope."""

    @pytest.mark.parametrize("word", ["expr", "eval"])
    def test_1_1_old_condition_keywords_are_refused_in_a_rule(self, word: str) -> None:
        problem = refused_once(
            policy(f"""\
            - {word}: "{{{{ outcome.status == 'error' }}}}"  # NTL109
              then: {{do: fail}}
            - else: {{then: {{do: continue}}}}
            """)
        )
        assert "`when`" in (problem.hint or "")

    def test_1_1_expr_is_refused_on_an_arc(self) -> None:
        problem = refused_once(
            playbook(
                """\
                - step: sort_mail
                  tool: {kind: noop}
                  next:
                    arcs:
                      - step: inbox
                        expr: "{{ workload.clean }}"  # NTL109
                """,
                ends="inbox",
            )
        )
        assert problem.source.strip().startswith("expr:")
        assert "`when`" in (problem.hint or "")

    def test_1_1_expr_is_refused_on_a_step(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: sort_mail
                  expr: "{{ workload.clean }}"  # NTL109
                  tool: {kind: noop}
                """)
        )
        assert "`when`" in (problem.hint or "")

    @pytest.mark.parametrize("word", ["if", "condition", "unless"])
    def test_1_1_conditions_of_ones_own_are_no_keys(self, word: str) -> None:
        problem = refused_once(
            playbook(
                f"""\
                - step: sort_mail
                  tool: {{kind: noop}}
                  next:
                    arcs:
                      - step: inbox
                        {word}: "{{{{ workload.clean }}}}"  # NTL101
                """,
                ends="inbox",
            )
        )
        assert repr(word) in problem.message

    def test_1_1_a_step_has_no_when(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: sort_mail
                  when: "{{ workload.clean }}"  # NTL108
                  tool: {kind: noop}
                """)
        )
        assert "spec: {policy: {admit: {rules:" in (problem.hint or "")

    @pytest.mark.parametrize("knob", ["timeout: 5", "pool: gpu", "retry: 2", "on_lost: error", "max_visits: 9"])
    def test_1_2_a_knob_outside_spec_is_moved_there(self, knob: str) -> None:
        problem = refused_once(
            pipeline(f"""\
            - call:
                kind: http
                url: "https://svc.test"
                {knob}  # NTL203
            """)
        )
        assert "`spec: {" in (problem.hint or "")

    def test_1_2_every_scope_has_a_spec(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: crawl
                  spec: {timeout: 2m}
                  loop:
                    spec: {mode: parallel, max_in_flight: 2}
                    in: [1, 2]
                    iterator: page
                  tool:
                    - fetch:
                        kind: http
                        url: "https://svc.test"
                        spec: {timeout: 9s}
                  next:
                    spec: {mode: inclusive}
                    arcs:
                      - step: report
                        spec: {delay: 1m}
                """,
                root="executor: {spec: {timeout: 1h}}\n",
                ends="report",
            )
        )
        step = book.step("crawl")
        assert book.executor.timeout == 3600
        assert step.spec == {"timeout": 120.0}
        assert step.loop is not None
        assert step.loop.max_in_flight == 2
        assert task(book, "crawl", "fetch").spec == {"timeout": 9.0}
        assert step.router.mode == "inclusive"
        assert step.router.arcs == (Arc("report", delay=60.0),)

    def test_1_3_rules_with_directives_exist_in_tasks_only(self) -> None:
        problem = refused_once(
            playbook("""\
                - step: gate
                  spec:
                    policy:
                      rules:  # NTL112
                        - else: {then: {do: fail}}
                  tool: {kind: noop}
                """)
        )
        assert "`spec.policy.rules` of a task" in (problem.hint or "")

    def test_1_4_task_policy_is_a_map_with_rules(self) -> None:
        book = compiled(
            policy("""\
            - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
              then: {do: retry, attempts: 4, backoff: linear, delay: 0.25}
            - else:  # NTL315
                then: {do: continue}
            """)
        )
        assert rules(task(book, "work", "call")) == (
            Rule(
                "{{ outcome.status == 'error' and outcome.error.retryable }}",
                Then("retry", attempts=4, backoff="linear", delay=0.25),
            ),
            Rule(None, Then("continue")),
        )

    def test_1_4_the_list_form_is_refused(self) -> None:
        problem = refused_once(
            pipeline("""\
            - call:
                kind: http
                url: "https://svc.test"
                spec:
                  policy:
                    - when: "{{ outcome.status == 'error' }}"  # NTL301
                      then: {do: retry}
            """)
        )
        assert problem.hint == "write `policy: {rules: [...]}`"

    def test_1_4_rules_are_required(self) -> None:
        problem = refused_once(
            pipeline("""\
            - call:
                kind: http
                url: "https://svc.test"
                spec:
                  policy: {}  # NTL301
            """)
        )
        assert "'rules'" in problem.message


class TestSection2RootStructure:
    def test_2_the_root_sections(self) -> None:
        book = compiled("""\
            apiVersion: noetl.io/v2
            kind: Playbook
            metadata: {name: ledger_close, path: finance/ledger_close}
            keychain:
              - {name: ledger_db, kind: postgres_credential}
            executor: {profile: local}
            workload: {month: "2031-04"}
            workflow:
              - step: start
                tool:
                  - sum_up:
                      kind: workbook
                      name: totals
            workbook:
              tasks:
                totals:
                  kind: postgres
                  auth: ledger_db
                  query: "SELECT sum(amount) FROM entries WHERE month = {{ workload.month }}"
            """)
        assert (book.name, book.path, book.entry) == ("ledger_close", "finance/ledger_close", "start")
        assert book.workload == {"month": "2031-04"}
        assert task(book, "start", "sum_up").kind == "postgres", "resolved when compiled"

    def test_2_root_vars_are_refused(self) -> None:
        problem = refused_once(
            playbook("- step: start\n  tool: {kind: noop}\n", root="vars: {tries: 0}  # NTL107\n"),
        )
        assert "`workload`" in (problem.hint or "")
        assert "set_ctx" in (problem.hint or "")

    def test_2_no_other_root_section_exists(self) -> None:
        problem = refused_once(
            playbook("- step: start\n  tool: {kind: noop}\n", root="workloads: {tries: 0}  # NTL101\n"),
        )
        assert problem.hint == "did you mean 'workload'?"

    def test_2_1_keychain(self) -> None:
        book = compiled(
            pipeline(
                """\
                - ask:
                    kind: http
                    url: "https://models.test/v1/complete"
                    headers: {Authorization: "Bearer {{ keychain.model_token.token }}"}
                - keep:
                    kind: postgres
                    auth: notes_db
                    command: "INSERT INTO answers (body) VALUES ({{ _prev.data }})"
                """,
                root="""\
                keychain:
                  - name: model_token
                    kind: secret_manager
                    provider: vault
                    key: models/token
                  - name: notes_db
                    kind: postgres_credential
                """,
            )
        )
        assert book.keychain == (
            Credential("model_token", "secret_manager", provider="vault", key="models/token"),
            Credential("notes_db", "postgres_credential"),
        )

    def test_2_1_a_credential_that_is_not_declared_is_refused(self) -> None:
        problem = refused_once(
            pipeline(
                """\
                - keep:
                    kind: postgres
                    auth: note_db  # NTL213
                    command: "SELECT 1"
                """,
                root="keychain: [{name: notes_db, kind: postgres_credential}]\n",
            )
        )
        assert problem.hint == "did you mean 'notes_db'?"

    def test_2_1_secrets_stay_inside_tool_inputs(self) -> None:
        problem = refused_once(
            policy(
                """\
                - else:  # NTL315
                    then:
                      do: continue
                      set_ctx: {leak: "{{ keychain.model_token.token }}"}  # NTL507
                """,
                root="keychain: [{name: model_token, kind: secret_manager}]\n",
            )
        )
        assert "auth" in (problem.hint or "")

    def test_2_2_executor(self) -> None:
        book = compiled(
            pipeline(
                """\
                - call: {kind: http, url: "https://svc.test"}
                - other: {kind: noop}
                """,
                root="""\
                executor:
                  profile: distributed
                  version: noetl-runtime/2
                  spec:
                    result:
                      store: {kind: nats_object, bucket: shelf}
                    http:
                      timeout: {connect: 3, read: 45s}
                """,
            )
        )
        assert book.executor == Executor(profile="distributed", result_store={"kind": "nats_object", "bucket": "shelf"})
        assert task(book, "work", "call").spec == {"timeout": {"connect": 3.0, "read": 45.0}}
        assert task(book, "work", "other").spec == {}, "defaults of a kind reach tasks of that kind only"

    def test_2_2_executor_is_optional(self) -> None:
        assert compiled(pipeline("- a: {kind: noop}\n")).executor == Executor()

    @pytest.mark.parametrize("version", ["noetl-runtime/2", "noetl-runtime/2.7", "2"])
    def test_2_2_runtime_versions_of_major_two(self, version: str) -> None:
        compiled(pipeline("- a: {kind: noop}\n", root=f"executor: {{version: {version}}}\n"))

    def test_2_2_another_runtime_is_refused(self) -> None:
        problem = refused_once(pipeline("- a: {kind: noop}\n", root="executor: {version: noetl-runtime/3}  # NTL116\n"))
        assert "noetl-runtime/2" in problem.message

    def test_2_a_a_playbook_with_profile_and_version_only(self) -> None:
        book = compiled(
            pipeline("- a: {kind: noop}\n", root="executor:\n  profile: distributed\n  version: noetl-runtime/2\n")
        )
        assert book.executor == Executor(profile="distributed")

    @pytest.mark.parametrize("key", ["keychain", "credentials"])
    def test_2_a_credentials_are_not_declared_under_executor(self, key: str) -> None:
        problem = refused_once(pipeline("- a: {kind: noop}\n", root=f"executor:\n  {key}: [{{name: db}}]  # NTL117\n"))
        assert "root `keychain`" in (problem.hint or "")


class TestSection3Normalization:
    """However a pipeline is written, it becomes a list of labelled tasks."""

    def test_3_1_a_single_task(self) -> None:
        book = compiled(playbook("- step: work\n  tool: {kind: noop, result: 7}\n"))
        assert book.step("work").tasks == (Task("task_1", "noop", {"result": 7}),)

    def test_3_1_a_list_of_tasks_is_numbered_by_place(self) -> None:
        book = compiled(
            playbook("""\
                - step: work
                  tool:
                    - {kind: noop}
                    - {kind: noop, name: second_one}
                    - {kind: noop}
                """)
        )
        assert labels(book.step("work")) == ["task_1", "second_one", "task_3"]

    def test_3_1_a_list_of_named_tasks(self) -> None:
        book = compiled(pipeline("- read: {kind: noop}\n- write: {kind: noop}\n"))
        assert labels(book.step("work")) == ["read", "write"]

    def test_3_1_all_forms_of_one_pipeline_are_one_playbook(self) -> None:
        named = compiled(pipeline("- task_1: {kind: noop}\n- task_2: {kind: noop}\n"))
        bare = compiled(pipeline("- kind: noop\n- kind: noop\n"))
        inner = compiled(pipeline("- {name: task_1, kind: noop}\n- kind: noop\n"))
        assert named.digest == bare.digest == inner.digest

    def test_3_1_generated_labels_are_jump_targets(self) -> None:
        book = compiled(
            pipeline("""\
            - kind: http
              url: "https://svc.test"
            - kind: noop
              spec:
                policy:
                  rules:
                    - when: "{{ _prev.data.more }}"
                      then: {do: jump, to: task_1}
                    - else: {then: {do: break}}
            """)
        )
        assert rules(task(book, "work", "task_2"))[0].then.to == "task_1"

    def test_3_2_the_router(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: decide
                  tool:
                    - ask: {kind: noop, result: {score: 7}}
                  next:
                    spec:
                      mode: exclusive
                      policy: {}
                    arcs:
                      - step: accept
                        when: "{{ steps.decide.result.score > 5 }}"
                        args: {score: "{{ steps.decide.result.score }}"}
                      - step: reject
                """,
                ends="accept reject",
            )
        )
        router = book.step("decide").router
        assert router.mode == "exclusive"
        assert router.arcs == (
            Arc("accept", "{{ steps.decide.result.score > 5 }}", {"score": "{{ steps.decide.result.score }}"}),
            Arc("reject", True),
        )

    def test_3_2_the_mode_is_exclusive_by_default(self) -> None:
        written = playbook("- step: a\n  next: {spec: {mode: exclusive}, arcs: [{step: b}]}\n", ends="b")
        left_out = playbook("- step: a\n  next: {arcs: [{step: b}]}\n", ends="b")
        assert compiled(written).digest == compiled(left_out).digest

    def test_3_2_next_mode_of_a_step_is_refused(self) -> None:
        problem = refused_once(
            playbook(
                """\
                - step: a
                  spec: {next_mode: inclusive}  # NTL110
                  next: {arcs: [{step: b}]}
                """,
                ends="b",
            )
        )
        assert problem.hint == "write `next: {spec: {mode: ...}, arcs: [...]}`"


class TestSection4SpecLayering:
    """From the outside in: kind, executor, step, loop, task. What is inherited is a short list."""

    def layered(
        self,
        executor: str = "{}",
        step: str = "{}",
        loop: str = "{}",
        task: str = "{}",
        call: str = "kind: http, url: 'https://svc.test'",
    ) -> Task:
        """The only task of a playbook whose scopes have these specs."""
        book = compiled(
            playbook(
                f"""\
                - step: work
                  spec: {step}
                  loop: {{in: [1], iterator: x, spec: {loop}}}
                  tool:
                    - call: {{{call}, spec: {task}}}
                """,
                root=f"executor: {{spec: {executor}}}\n",
            )
        )
        return book.step("work").tasks[0]

    @pytest.mark.parametrize(
        ("specs", "expected"),
        [
            (["{max_visits: 1}"], 1),
            (["{max_visits: 1}", "{max_visits: 2}"], 2),
            (["{max_visits: 1}", "{max_visits: 2}", "{max_visits: 3}"], 3),
            (["{max_visits: 1}", "{max_visits: 2}", "{max_visits: 3}", "{max_visits: 4}"], 4),
            (["{max_visits: 1}", "{}", "{}", "{}"], 1),
            (["{}", "{max_visits: 2}", "{}", "{}"], 2),
        ],
    )
    def test_4_1_scalars_the_inner_scope_wins(self, specs: list[str], expected: int) -> None:
        assert self.layered(*specs).spec == {"max_visits": expected}

    def test_4_1_maps_merge_deep(self) -> None:
        result = self.layered(
            executor="{sandbox: {kind: landlock, network: false}, results: {inline_bytes: 100, store: file}}",
            step="{results: {inline_bytes: 200}, sandbox: {kind: landlock, memory_bytes: 2097152}}",
            call="kind: shell, command: ls",
        )
        assert result.spec == {
            "sandbox": {"kind": "landlock", "network": False, "memory_bytes": 2097152},
            "results": {"inline_bytes": 200, "store": {"kind": "file"}},
        }

    def test_4_1_lists_replace(self) -> None:
        result = self.layered(
            executor="{sandbox: {kind: bubblewrap, read: [/usr, /opt], write: [/tmp]}}",
            loop="{sandbox: {kind: bubblewrap, read: [/data]}}",
            call="kind: shell, command: ls",
        )
        assert result.spec["sandbox"] == {"kind": "bubblewrap", "read": ["/data"], "write": ["/tmp"]}

    def test_4_1_inputs_of_a_kind_are_layered_too(self) -> None:
        result = self.layered(
            executor="{http: {method: POST, headers: {accept: text/csv, via: hub}}}",
            step="{http: {headers: {accept: text/html}}}",
            loop="{http: {params: {lang: eo}}}",
        )
        assert result.inputs == {
            "method": "POST",
            "headers": {"accept": "text/html", "via": "hub"},
            "params": {"lang": "eo"},
            "url": "https://svc.test",
        }

    def test_4_1_knobs_of_a_kind_obey_the_same_order(self) -> None:
        result = self.layered(
            executor="{http: {timeout: {connect: 1, read: 2}, retry: 5}, retry: 4}",
            step="{retry: 3}",
            task="{timeout: {read: 9}}",
        )
        assert result.spec == {"timeout": {"connect": 1.0, "read": 9.0}, "retry": {"attempts": 4}}

    def test_4_1_within_one_scope_the_kind_speaks_more_closely(self) -> None:
        assert self.layered(executor="{retry: 1, http: {retry: 2}}").spec == {"retry": {"attempts": 3}}

    def test_4_1_time_limits_and_pools_belong_to_their_own_scope(self) -> None:
        result = self.layered(executor="{timeout: 1h, pool: big}", step="{timeout: 2m, pool: small}")
        assert result.spec == {}

    @pytest.mark.parametrize(
        ("scope", "fragment"),
        [
            ("executor", "{policy: {do: retry}}"),
            ("step", "{policy: {do: fail}}"),
            ("loop", "{policy: {do: break}}"),
        ],
    )
    def test_4_2_no_directives_in_other_policies(self, scope: str, fragment: str) -> None:
        specs = {"executor": "{}", "step": "{}", "loop": "{}", scope: fragment}
        problem = refused_once(
            playbook(
                f"""\
                - step: work
                  spec: {specs["step"]}{"  # NTL112" if scope == "step" else ""}
                  loop:
                    in: [1]
                    iterator: x
                    spec: {specs["loop"]}{"  # NTL112" if scope == "loop" else ""}
                  tool: {{kind: noop}}
                """,
                root=f"executor:\n  spec: {specs['executor']}{'  # NTL112' if scope == 'executor' else ''}\n",
            )
        )
        assert "rule in `spec.policy.rules` of a task" in (problem.hint or "")

    def test_4_2_no_directives_in_the_policy_of_a_router(self) -> None:
        refused_once(
            playbook(
                """\
                - step: a
                  next:
                    spec:
                      policy: {do: jump}  # NTL112
                    arcs: [{step: b}]
                """,
                ends="b",
            )
        )


class TestSection5Execution:
    def test_5_1_step_admission(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: charge
                  spec:
                    policy:
                      admit:
                        rules:
                          - when: "{{ workload.limit > 0 and args.amount <= workload.limit }}"
                            then: {allow: true}
                          - else:
                              then: {allow: false}
                  tool: {kind: noop}
                  next:
                    arcs: [{step: charge, args: {amount: 1}, when: "{{ workload.limit > 9 }}"}]
                """,
                root="workload: {limit: 5}\n",
            )
        )
        admit = book.step("charge").admit
        assert admit is not None
        assert admit.mode == "exclusive"
        assert admit.rules == (
            AdmitRule("{{ workload.limit > 0 and args.amount <= workload.limit }}", True),
            AdmitRule(None, False),
        )

    def test_5_1_without_a_gate_every_token_is_admitted(self) -> None:
        assert compiled(pipeline("- a: {kind: noop}\n")).step("work").admit is None

    def test_5_1_a_gate_may_look_at_the_event_that_sent_the_token(self) -> None:
        compiled(
            playbook("""\
                - step: gate
                  spec:
                    policy:
                      admit:
                        rules:
                          - when: "{{ event.name == 'step.done' }}"
                            then: {allow: true}
                  tool: {kind: noop}
                """)
        )

    @pytest.mark.parametrize("name", ["_prev", "outcome", "iter", "tasks"])
    def test_5_1_a_gate_sees_nothing_of_a_pipeline(self, name: str) -> None:
        problem = refused_once(
            playbook(f"""\
                - step: gate
                  spec:
                    policy:
                      admit:
                        rules:
                          - when: "{{{{ {name}.ready }}}}"  # NTL505
                            then: {{allow: true}}
                  tool: {{kind: noop}}
                """)
        )
        assert "admission rule" in problem.message

    def test_5_1_routing_by_boundary_events(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: import_rows
                  tool:
                    - load: {kind: http, url: "https://svc.test/rows"}
                  next:
                    arcs:
                      - step: publish
                        when: "{{ event.name == 'step.done' }}"
                      - step: alarm
                        when: "{{ event.name == 'step.failed' }}"
                """,
                ends="publish alarm",
            )
        )
        assert arcs(book.step("import_rows")) == [
            ("publish", "{{ event.name == 'step.done' }}"),
            ("alarm", "{{ event.name == 'step.failed' }}"),
        ]

    def test_5_1_a_boundary_that_never_comes_is_reported(self) -> None:
        compiled(
            playbook(
                """\
                - step: import_rows
                  tool: {kind: noop}
                  next:
                    arcs:
                      - step: publish
                        when: "{{ event.name == 'loop.done' }}"  # NTL406
                """,
                ends="publish",
            )
        )

    def test_5_1_a_missing_guard_is_true(self) -> None:
        book = compiled(playbook("- step: a\n  next: {arcs: [{step: b}]}\n", ends="b"))
        assert arcs(book.step("a")) == [("b", True)]

    def test_5_1_arc_args_reach_the_target(self) -> None:
        book = compiled(
            playbook("""\
                - step: a
                  next:
                    arcs:
                      - step: b
                        args: {colour: teal, size: "{{ workload.size }}"}
                - step: b
                  tool:
                    - paint: {kind: noop, result: "{{ args.colour }} {{ args.size }}"}
                """)
        )
        assert book.step("a").router.arcs[0].args == {"colour": "teal", "size": "{{ workload.size }}"}

    def test_5_2_outcome_fields_by_kind(self) -> None:
        book = compiled(
            pipeline(
                """\
                - call:
                    kind: http
                    url: "https://svc.test"
                    spec:
                      policy:
                        rules:
                          - when: "{{ outcome.http.status == 429 and outcome.http.headers['x-wait'] }}"
                            then: {do: retry}
                          - when: "{{ outcome.http.request_id is defined and outcome.meta.attempt > 2 }}"
                            then: {do: fail}
                          - else: {then: {do: continue}}  # NTL315
                - keep:
                    kind: postgres
                    auth: db
                    command: "SELECT 1"
                    spec:
                      policy:
                        rules:
                          - when: "{{ outcome.pg.code == '40001' or outcome.pg.sqlstate == '40P01' }}"
                            then: {do: retry}
                          - else: {then: {do: continue}}  # NTL315
                - count:
                    kind: python
                    code: "result = 1"
                    spec:
                      policy:
                        rules:
                          - when: "{{ outcome.py.exception_type == 'KeyError' }}"
                            then: {do: continue}
                          - when: "{{ outcome.error.kind == 'timeout' and outcome.error.details }}"
                            then: {do: fail}
                          - else: {then: {do: continue}}  # NTL315
                """,
                root="keychain: [{name: db, kind: postgres_credential}]\n",
            )
        )
        assert labels(book.step("work")) == ["call", "keep", "count"]

    def test_5_2_a_field_of_another_kind_is_reported(self) -> None:
        compiled(
            policy("""\
            - when: "{{ outcome.pg.code == '40001' }}"  # NTL414
              then: {do: fail}
            - else: {then: {do: continue}}  # NTL315
            """)
        )

    def test_5_2_no_policy_differs_from_one_without_a_match(self) -> None:
        omitted = compiled(pipeline('- call: {kind: http, url: "https://svc.test"}\n'))
        assert task(omitted, "work", "call").policy is None, "ok continues, error fails"
        present = compiled(
            pipeline("""\
            - call:
                kind: http
                url: "https://svc.test"
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.http.status == 404 }}"  # NTL308
                        then: {do: break}
            """)
        )
        assert directives(task(present, "work", "call")) == [("{{ outcome.http.status == 404 }}", "break")]

    @pytest.mark.parametrize("then", ["{}", "{set_ctx: {seen: true}}", "{attempts: 3}"])
    def test_5_2_then_must_say_what_to_do(self, then: str) -> None:
        problem = refused_once(policy(f"- else:\n    then: {then}  # NTL302\n"))
        assert "'do'" in problem.message
        assert "`do:`" in (problem.hint or "")


class TestSection6Directives:
    def test_6_continue_with_patches(self) -> None:
        book = compiled(
            policy("""\
            - else:  # NTL315
                then:
                  do: continue
                  set_iter: {seen: "{{ outcome.result.data }}"}
                  set_ctx: {last_call: "{{ _task }}"}
            """)
        )
        assert rules(task(book, "work", "call"))[0].then == Then(
            "continue", set_iter={"seen": "{{ outcome.result.data }}"}, set_ctx={"last_call": "{{ _task }}"}
        )

    def test_6_skip_is_decided_before_the_call(self) -> None:
        book = compiled(
            policy(
                """\
                - when: "{{ workload.dry_run }}"
                  then: {do: skip}
                - else: {then: {do: continue}}  # NTL315
                """,
                root="workload: {dry_run: true}\n",
            )
        )
        assert directives(task(book, "work", "call"))[0] == ("{{ workload.dry_run }}", "skip")

    def test_6_skip_sees_no_outcome(self) -> None:
        problem = refused_once(
            policy("""\
            - when: "{{ outcome.status == 'ok' }}"  # NTL309
              then: {do: skip}
            - else: {then: {do: continue}}  # NTL315
            """)
        )
        assert "`_prev`" in (problem.hint or "")

    def test_6_skip_is_no_else(self) -> None:
        problem = refused_once(policy("- else: {then: {do: skip}}  # NTL309\n"))
        assert "`when`" in (problem.hint or "")

    @pytest.mark.parametrize("backoff", ["none", "linear", "exponential"])
    def test_6_retry_with_backoff(self, backoff: str) -> None:
        book = compiled(
            policy(f"""\
            - when: "{{{{ outcome.status == 'error' }}}}"
              then: {{do: retry, attempts: 6, backoff: {backoff}, delay: 1.5, max_delay: 1m, jitter: true}}
            - else: {{then: {{do: continue}}}}
            """)
        )
        then = rules(task(book, "work", "call"))[0].then
        assert (then.attempts, then.backoff, then.delay, then.max_delay, then.jitter) == (6, backoff, 1.5, 60.0, True)

    def test_6_retry_with_a_computed_delay(self) -> None:
        book = compiled(
            policy("""\
            - when: "{{ outcome.http.status == 429 }}"
              then: {do: retry, delay: "{{ outcome.http.headers['x-wait'] | int }}"}
            - else: {then: {do: continue}}  # NTL315
            """)
        )
        assert rules(task(book, "work", "call"))[0].then.delay == "{{ outcome.http.headers['x-wait'] | int }}"

    def test_6_an_unknown_backoff_is_refused(self) -> None:
        problem = refused_once(
            policy("""\
            - when: "{{ outcome.status == 'error' }}"
              then: {do: retry, backoff: exponentially}  # NTL103
            - else: {then: {do: continue}}
            """)
        )
        assert problem.hint == "did you mean 'exponential'?"

    def test_6_jump_needs_a_label_that_exists(self) -> None:
        problem = refused_once(
            pipeline("""\
            - fetch_part: {kind: noop}
            - again:
                kind: noop
                spec:
                  policy:
                    rules:
                      - when: "{{ _attempt < 2 }}"
                        then: {do: jump, to: fetch_parts}  # NTL304
                      - else: {then: {do: break}}
            """)
        )
        assert problem.hint == "did you mean 'fetch_part'?"

    def test_6_jump_without_a_label(self) -> None:
        problem = refused_once(
            policy("""\
            - when: "{{ outcome.status == 'error' }}"
              then: {do: jump}  # NTL306
            - else: {then: {do: break}}
            """)
        )
        assert "call" in (problem.hint or "")

    def test_6_break_and_fail_end_the_pipeline(self) -> None:
        book = compiled(
            policy("""\
            - when: "{{ outcome.status == 'error' }}"
              then: {do: fail}
            - else: {then: {do: break}}
            """)
        )
        assert directives(task(book, "work", "call")) == [(IS_ERROR, "fail"), (None, "break")]

    def test_6_one_failed_iteration_fails_the_step_by_default(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: strict
                  loop: {in: [1], iterator: x}
                  tool: {kind: noop}
                  next: {arcs: [{step: lenient}]}
                - step: lenient
                  loop: {in: [1], iterator: x, spec: {on_error: continue}}
                  tool: {kind: noop}
                """
            )
        )
        assert [step.loop.on_error for step in book.steps if step.loop] == ["fail", "continue"]


class TestSection7Scopes:
    def test_7_1_workload_is_never_written(self) -> None:
        refused_once(policy("- else: {then: {do: continue, set_workload: {a: 1}}}  # NTL101 NTL315\n"))

    def test_7_2_ctx_written_by_parallel_iterations_is_reported(self) -> None:
        compiled(
            playbook("""\
                - step: work
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
                                    set_iter: {mine: 1}
                                    set_ctx:
                                      latest: "{{ iter.x }}"  # NTL311
                                      total: {$add: "{{ iter.x }}"}
                """)
        )

    def test_7_3_iter_holds_counters(self) -> None:
        book = compiled(
            pipeline("""\
            - begin:
                kind: noop
                spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1}}}}]}}
            - show: {kind: noop, result: "{{ iter.page }} of {{ iter.index }}"}
            """)
        )
        assert rules(task(book, "work", "begin"))[0].then.set_iter == {"page": 1}

    def test_7_4_nested_loops(self) -> None:
        book = compiled(NESTED)
        step = book.step("hotels")
        assert step.loop == Loop("{{ workload.cities }}", "city", mode="parallel", max_in_flight=4)
        (per_hotel,) = step.tasks
        assert (per_hotel.kind, per_hotel.inputs) == (
            "iterator",
            {"in": "{{ iter.city.hotels }}", "iterator": "hotel"},
        )
        assert [inner.label for inner in per_hotel.body] == ["rooms", "turn"]
        assert "iter.parent.city" in per_hotel.body[0].inputs["url"]


NESTED = playbook(
    """\
    - step: hotels
      loop:
        in: "{{ workload.cities }}"
        iterator: city
        spec: {mode: parallel, max_in_flight: 4}
      tool:
        - per_hotel:
            kind: iterator
            in: "{{ iter.city.hotels }}"
            iterator: hotel
            tool:
              - rooms:
                  kind: http
                  url: "https://book.test/{{ iter.parent.city.code }}/{{ iter.hotel }}"
                  params: {page: "{{ iter.page | default(1) }}"}
              - turn:
                  kind: noop
                  spec:
                    policy:
                      rules:
                        - when: "{{ _prev.data.more }}"
                          then:
                            do: jump
                            to: rooms
                            set_iter: {page: "{{ iter.page | default(1) + 1 }}"}
                        - else: {then: {do: break}}
    """,
    root="workload: {cities: [{code: lis, hotels: [a, b]}]}\n",
)


class TestSection8Loop:
    def test_8_the_canonical_loop(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: resize
                  loop:
                    in: "{{ workload.images }}"
                    iterator: image
                    spec:
                      mode: parallel
                      max_in_flight: 6
                      policy: {exec: local}
                  tool:
                    - scale: {kind: noop, result: "{{ iter.image }}"}
                """,
                root="workload: {images: [a.png]}\n",
            )
        )
        assert book.step("resize").loop == Loop(
            "{{ workload.images }}", "image", mode="parallel", max_in_flight=6, exec="local"
        )

    def test_8_defaults(self) -> None:
        book = compiled(playbook("- step: a\n  loop: {in: [1], iterator: x}\n  tool: {kind: noop}\n"))
        assert book.step("a").loop == Loop([1], "x", mode="sequential", max_in_flight=None, exec="distributed")

    def test_8_a_literal_list_may_be_looped_over(self) -> None:
        book = compiled(playbook("- step: a\n  loop: {in: [x, y], iterator: letter}\n  tool: {kind: noop}\n"))
        assert book.step("a").loop.collection == ["x", "y"]  # type: ignore[union-attr]

    def test_8_text_is_no_collection(self) -> None:
        refused_once(playbook("- step: a\n  loop: {in: images, iterator: x}  # NTL103\n  tool: {kind: noop}\n"))


class TestSection9Pagination:
    def test_9_fetch_store_and_turn_the_page(self) -> None:
        book = compiled(
            playbook(
                """\
                - step: mirror
                  loop:
                    in: "{{ workload.feeds }}"
                    iterator: feed
                    spec: {mode: parallel, max_in_flight: 3}
                  tool:
                    - first:
                        kind: noop
                        spec:
                          policy:
                            rules:
                              - else: {then: {do: continue, set_iter: {page: 1, more: true}}}
                    - fetch_page:
                        kind: http
                        url: "{{ iter.feed }}"
                        params: {page: "{{ iter.page }}"}
                        spec:
                          policy:
                            rules:
                              - when: "{{ outcome.http.status == 404 }}"
                                then: {do: jump, to: keep_missing}
                              - when: "{{ outcome.status == 'error' }}"
                                then: {do: fail}
                              - else:
                                  then:
                                    do: continue
                                    set_iter: {more: "{{ outcome.result.data.more | default(false) }}"}
                    - keep_page: {kind: duckdb, database: feeds.db, table: pages, rows: "{{ _prev.data.rows }}"}
                    - turn:
                        kind: noop
                        spec:
                          policy:
                            rules:
                              - when: "{{ iter.more }}"
                                then: {do: jump, to: fetch_page, set_iter: {page: "{{ iter.page + 1 }}"}}
                              - else: {then: {do: break}}
                    - keep_missing:
                        kind: duckdb
                        database: feeds.db
                        command: "INSERT INTO gone VALUES ({{ iter.feed }})"
                """,
                root='workload: {feeds: ["https://a.test"]}\n',
            )
        )
        turn = rules(task(book, "mirror", "turn"))
        assert (turn[0].then.do, turn[0].then.to, turn[0].then.set_iter) == (
            "jump",
            "fetch_page",
            {"page": "{{ iter.page + 1 }}"},
        )
        assert turn[1] == Rule(None, Then("break"))
        assert rules(task(book, "mirror", "fetch_page"))[0].then == Then("jump", to="keep_missing")

    def test_9_a_circle_of_jumps_needs_a_way_out(self) -> None:
        problem = refused_once(
            pipeline("""\
            - turn:  # NTL312
                kind: noop
                spec: {policy: {rules: [{else: {then: {do: jump, to: turn}}}]}}
            """)
        )
        assert "turn → turn" in problem.message
        assert "do: break" in (problem.hint or "")


class TestSection10Results:
    def test_10_sink_is_no_kind(self) -> None:
        problem = refused_once(pipeline("- keep:\n    kind: sink  # NTL202\n    table: t\n"))
        assert "sink" in problem.message

    def test_10_a_storage_task_and_its_reference(self) -> None:
        book = compiled(
            pipeline("""\
            - keep:
                kind: object
                operation: put
                url: "s3://shelf"
                key: "runs/{{ execution_id }}.json"
                data: "{{ workload.report }}"
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.status == 'error' }}"
                        then: {do: fail}
                      - else: {then: {do: continue, set_ctx: {report: "{{ outcome.result }}"}}}
            """)
        )
        assert rules(task(book, "work", "keep"))[1].then.set_ctx == {"report": "{{ outcome.result }}"}

    def test_10_size_limits(self) -> None:
        book = compiled(
            pipeline("- a: {kind: noop}\n", root="executor: {spec: {results: {inline_bytes: 2048, store: file}}}\n")
        )
        assert (book.executor.inline_bytes, book.executor.result_store) == (2048, {"kind": "file"})


class TestSection12Validator:
    """What must be refused, and what is only told. The first three are in section 1."""

    def test_12_a_rule_without_then(self) -> None:
        problem = refused_once(
            policy("""\
            - when: "{{ outcome.status == 'error' }}"  # NTL303
            - else: {then: {do: continue}}
            """)
        )
        assert "'then'" in problem.message

    def test_12_duplicate_labels(self) -> None:
        problem = refused_once(pipeline("- read: {kind: noop}\n- read: {kind: noop}  # NTL206\n"))
        assert "line 7" in problem.message

    def test_12_a_written_label_may_not_equal_a_generated_one(self) -> None:
        refused_once(pipeline("- task_2: {kind: noop}\n- kind: noop  # NTL206\n"))

    def test_12_next_without_arcs(self) -> None:
        problem = refused_once(playbook("- step: a\n  next:\n    spec: {mode: inclusive}  # NTL102\n"))
        assert "'arcs'" in problem.message

    def test_12_next_as_a_name_beside_canonical_constructs(self) -> None:
        problem = refused_once(
            playbook(
                """\
                - step: a
                  tool:
                    - read: {kind: noop}
                  next: b  # NTL113
                """,
                ends="b",
            )
        )
        assert "`next: {arcs: [{step: NAME}]}`" in (problem.hint or "")

    def test_12_next_as_a_list_beside_canonical_constructs(self) -> None:
        problem = refused_once(
            playbook(
                """\
                - step: a
                  tool:
                    - read: {kind: noop}
                  next:
                    - step: b  # NTL113
                """,
                ends="b",
            )
        )
        assert "mode: inclusive" in (problem.hint or "")

    def test_12_warn_about_a_step_with_neither_tool_nor_next(self) -> None:
        compiled(playbook("- step: idle  # NTL208\n"))

    def test_12_warn_about_rules_without_else(self) -> None:
        compiled(
            policy("""\
            - when: "{{ outcome.status == 'error' }}"  # NTL308
              then: {do: fail}
            """)
        )


class TestSection13AcceptanceTests:
    """The eight acceptance tests, as far as a playbook shows before it runs."""

    def test_13_2_retry_n_times_then_fail(self) -> None:
        book = compiled(
            policy("""\
            - when: "{{ outcome.status == 'error' and outcome.http.status == 500 }}"
              then: {do: retry, attempts: 3}
            - when: "{{ outcome.status == 'error' }}"
              then: {do: fail}
            - else: {then: {do: continue}}
            """)
        )
        assert rules(task(book, "work", "call"))[0].then == Then("retry", attempts=3)

    def test_13_3_jump_by_status_code(self) -> None:
        book = compiled(
            pipeline("""\
            - call:
                kind: http
                url: "https://svc.test"
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.http.status == 404 }}"
                        then: {do: jump, to: note_missing}
                      - when: "{{ outcome.http.status == 200 }}"
                        then: {do: jump, to: note_found}
                      - else: {then: {do: fail}}
            - note_missing:
                kind: noop
                spec: {policy: {rules: [{else: {then: {do: break}}}]}}
            - note_found: {kind: noop}
            """)
        )
        assert [rule.then.to for rule in rules(task(book, "work", "call"))] == ["note_missing", "note_found", None]

    def test_13_6_parallel_outside_and_pages_inside(self) -> None:
        book = compiled(NESTED)
        inner = book.step("hotels").tasks[0].body
        assert directives(inner[1]) == [("{{ _prev.data.more }}", "jump"), (None, "break")]

    @pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
    def test_13_7_both_routing_modes(self, mode: str) -> None:
        book = compiled(
            playbook(
                f"""\
                - step: split
                  next:
                    spec: {{mode: {mode}}}
                    arcs:
                      - {{step: left, when: "{{{{ workload.l }}}}"}}
                      - {{step: right, when: "{{{{ workload.r }}}}"}}
                """,
                ends="left right",
            )
        )
        assert book.step("split").router.mode == mode
        assert arcs(book.step("split")) == [("left", "{{ workload.l }}"), ("right", "{{ workload.r }}")]
