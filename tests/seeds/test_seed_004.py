"""Seed 004, the brief for implementers of the canonical language: its rules and examples, section by section."""

from __future__ import annotations

import pytest

from noetl.model.playbook import AdmitRule, Arc, Credential, Executor, Loop, Rule, Task, Then

from .conftest import arcs, compiled, directives, labels, pipeline, playbook, policy, refused, refused_once, rules, task

IS_ERROR = "{{ outcome.status == 'error' }}"


class TestSection1CanonicalRules:
    """One keyword for conditions, everything adjustable under `spec`, policies typed by their scope."""

    @pytest.mark.parametrize("word", ["expr", "eval"])
    def test_1_1_old_condition_keywords_are_refused_in_a_rule(self, word: str) -> None:
        problem = refused(
            policy(f"""\
            - {word}: "{{{{ outcome.status == 'error' }}}}"  # NTL109 NTL303
              then: {{do: fail}}
            - else: {{then: {{do: continue}}}}
            """)
        )[0]
        assert problem.code == "NTL109"
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
            - else:
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
                - else:
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
        assert book.executor == Executor(
            profile="distributed", result_store={"kind": "nats_object", "bucket": "shelf"}
        )
        assert task(book, "work", "call").spec == {"timeout": {"connect": 3.0, "read": 45.0}}
        assert task(book, "work", "other").spec == {}, "defaults of a kind reach tasks of that kind only"

    def test_2_2_executor_is_optional(self) -> None:
        assert compiled(pipeline("- a: {kind: noop}\n")).executor == Executor()

    @pytest.mark.parametrize("version", ["noetl-runtime/2", "noetl-runtime/2.7", "2"])
    def test_2_2_runtime_versions_of_major_two(self, version: str) -> None:
        compiled(pipeline("- a: {kind: noop}\n", root=f"executor: {{version: {version}}}\n"))

    def test_2_2_another_runtime_is_refused(self) -> None:
        problem = refused_once(
            pipeline("- a: {kind: noop}\n", root="executor: {version: noetl-runtime/3}  # NTL116\n")
        )
        assert "noetl-runtime/2" in problem.message

    def test_2_a_a_playbook_with_profile_and_version_only(self) -> None:
        book = compiled(
            pipeline("- a: {kind: noop}\n", root="executor:\n  profile: distributed\n  version: noetl-runtime/2\n")
        )
        assert book.executor == Executor(profile="distributed")

    @pytest.mark.parametrize("key", ["keychain", "credentials"])
    def test_2_a_credentials_are_not_declared_under_executor(self, key: str) -> None:
        problem = refused_once(
            pipeline("- a: {kind: noop}\n", root=f"executor:\n  {key}: [{{name: db}}]  # NTL117\n")
        )
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

    def test_3_2_the_mode_is_exclusive_unless_said_otherwise(self) -> None:
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

    LAYERS = """\
        - step: work
          spec:
            {step}
          loop:
            in: [1]
            iterator: x
            spec:
              {loop}
          tool:
            - call:
                kind: http
                url: "https://svc.test"
                spec:
                  {task}
        """

    def layered(self, executor: str = "{}", step: str = "{}", loop: str = "{}", task: str = "{}") -> Task:
        def knobs(text: str, depth: int) -> str:
            return "retry: 0" if text == "{}" else text

        workflow = self.LAYERS
        for name, text in (("step", step), ("loop", loop), ("task", task)):
            where = f"spec:\n{' ' * 0}"
            del where
            workflow = workflow.replace(f"{{{name}}}", text.strip("{}") if text != "{}" else "@drop")
        kept, lines = [], workflow.splitlines()
        for i, line in enumerate(lines):
            empty_next = i + 1 < len(lines) and lines[i + 1].strip() == "@drop"
            if line.strip() == "@drop" or (line.strip() == "spec:" and empty_next):
                continue
            kept.append(line)
        root = "" if executor == "{}" else f"executor:\n  spec:\n    {executor.strip('{}')}\n"
        book = compiled(playbook("\n".join(kept) + "\n", root=root))
        return book.step("work").tasks[0]
