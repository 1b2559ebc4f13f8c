"""One mistake is reported once, at its own place, and what is right is not reported at all."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\n"


def problems(body: str) -> list[Problem]:
    return load("orders.yaml", HEAD + dedent(body), KINDS).problems


def step(tool: str, rest: str = "") -> list[Problem]:
    """The problems of a playbook with one step."""
    body = "workload: {city: Paris, table: orders}\nworkflow:\n  - step: fetch\n    tool:\n"
    return problems(body + indent(dedent(tool), " " * 6) + indent(dedent(rest), " " * 4))


def codes(found: list[Problem]) -> list[str]:
    return [problem.code for problem in found]


class TestWhatFollowsFromAMistakeIsNotReported:
    def test_a_task_of_an_unknown_kind_is_still_a_task_to_jump_to_and_to_read(self) -> None:
        result = step(
            """\
            - call: {kind: htpp, url: "https://shop.example"}
            - again:
                kind: noop
                spec:
                  policy:
                    rules:
                      - when: "{{ tasks.call.status == 'error' }}"
                        then: {do: jump, to: call}
                      - else: {then: {do: break}}
            """
        )
        assert codes(result) == ["NTL202"]

    def test_a_rule_with_an_old_keyword_does_not_lack_the_new_one(self) -> None:
        result = step(
            """\
            - call:
                kind: noop
                spec: {policy: {rules: [{expr: "{{ true }}", then: {do: break}}, {else: {then: {do: break}}}]}}
            """
        )
        assert codes(result) == ["NTL109"]

    def test_an_else_that_is_wrong_is_an_else(self) -> None:
        result = step("- call: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: fail}}, {else: 5}]}}}\n")
        assert codes(result) == ["NTL103"]

    def test_the_options_beside_the_default_inputs_of_a_kind_are_checked(self) -> None:
        step = 'workflow: [{step: a, tool: {kind: http, url: "http://shop.example"}}]\n'
        result = problems(step + "executor: {spec: {http: {retry: lots, timeout: [1]}}}")
        assert [problem.message.partition(":")[0] for problem in result] == ["'retry' of http", "'timeout' of http"]

    @pytest.mark.parametrize(
        ("tool", "message", "hint"),
        [
            (
                "- call: {kind: noop}\n  spec: {retry: 3}\n",
                "'spec' is beside the task 'call'",
                "indent it further: it belongs to the task 'call'",
            ),
            (
                "- call: {kind: noop}\n  other: {kind: noop}\n",
                "'other' is beside the task 'call'",
                "begin each task of the list with a dash: `- other: {kind: ...}`",
            ),
            (
                "- call:\n  kind: noop\n",
                "noop has no input 'call'",
                "indent the keys of the task below `call:`",
            ),
        ],
    )
    def test_keys_beside_the_label_of_a_task_are_to_be_indented(self, tool: str, message: str, hint: str) -> None:
        (problem,) = step(tool)
        assert (problem.message, problem.hint) == (message, hint)

    def test_a_step_whose_tool_is_wrong_has_a_tool(self) -> None:
        assert codes(problems("workflow: [{step: fetch, tool: http}]")) == ["NTL103"]

    @pytest.mark.parametrize("tool", ["[{call: {kind: noop}}]", "{kind: noop}"])
    def test_conditions_in_next_are_told_in_either_dialect(self, tool: str) -> None:
        result = problems(
            f"""\
            workflow:
              - step: fetch
                tool: {tool}
                next: [{{when: "{{{{ true }}}}", step: save}}]
              - step: save
                tool: {{kind: noop}}
            """
        )
        assert codes(result) == ["NTL111"]

    def test_a_circle_of_workbook_tasks_is_one_problem(self) -> None:
        result = problems(
            """\
            workflow: [{step: fetch, tool: {kind: workbook, name: one}}]
            workbook:
              one: {kind: workbook, name: two}
              two: {kind: workbook, name: one}
            """
        )
        assert codes(result) == ["NTL212"]


class TestWhatIsRightIsNotReported:
    def test_args_may_be_named_like_the_workload_key_they_are_made_from(self) -> None:
        result = step(
            '- call: {kind: python, args: {city: "{{ city }}"}, code: "result = city"}\n',
            """\
            next: {arcs: [{step: save, args: {city: "{{ city }}"}}]}
            """,
        )
        assert codes(result) == ["NTL401"]

    def test_an_arg_hides_a_workload_key_only_where_its_token_goes(self) -> None:
        body = """\
            workload: {{city: Paris}}
            workflow:
              - step: fetch
                tool: [{{call: {{kind: noop, result: "{{{{ {first} }}}}"}}}}]
                next: {{arcs: [{{step: save, args: {{city: Rome}}}}]}}
              - step: save
                tool: [{{call: {{kind: noop, result: "{{{{ {second} }}}}"}}}}]
            """
        assert codes(problems(body.format(first="city", second="args.city"))) == []
        assert codes(problems(body.format(first="workload.city", second="city"))) == ["NTL408"]

    def test_sql_may_stand_inside_a_map(self) -> None:
        query = "SELECT * FROM {{ workload.table | ident }}"
        ends = f'source: {{kind: duckdb, query: "{query}"}}, target: {{kind: file, path: orders.csv}}'
        assert step(f"- copy: {{kind: transfer, {ends}}}\n") == []

    def test_a_noop_with_a_template_may_fail_and_so_end_a_circle(self) -> None:
        result = step(
            """\
            - look: {kind: noop, result: "{{ workload.city.first }}"}
            - again: {kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: look}}}]}}}
            """
        )
        assert codes(result) == ["NTL313"]


class TestPlaces:
    def test_a_quote_that_is_never_closed_is_shown_where_it_opens(self) -> None:
        result = problems('workflow:\n  - step: fetch\n    desc: "Fetch\n    tool: {kind: noop}\n')
        assert [(problem.line, problem.column) for problem in result] == [(6, 11)]

    def test_the_engine_gives_the_index_and_the_parent(self) -> None:
        rules = "[{else: {then: {do: break, set_iter: {index: 1, parent: 2, page: 3}}}}]"
        assert codes(step(f"- call: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n")) == ["NTL207", "NTL207"]

    @pytest.mark.parametrize("scope", ["spec", "loop: {in: [1], iterator: item, spec"])
    def test_credentials_among_defaults_are_looked_up(self, scope: str) -> None:
        close = "}" if scope.startswith("loop") else ""
        result = step(
            '- call: {kind: http, url: "https://shop.example"}\n', f"{scope}: {{http: {{auth: shop}}}}{close}\n"
        )
        assert codes(result) == ["NTL213"]

    def test_credentials_of_a_transfer_are_looked_up(self) -> None:
        ends = "source: {kind: postgres, auth: shop, table: orders}, target: {kind: file, path: orders.csv}"
        assert codes(step(f"- copy: {{kind: transfer, {ends}}}\n")) == ["NTL213"]

    def test_the_path_shown_is_the_one_that_cannot_end(self) -> None:
        result = step(
            """\
            - ask: {kind: http, url: "https://shop.example"}
            - spin: {kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: spin}}}]}}}
            """
        )
        assert [problem.message for problem in result] == ["the pipeline cannot end: spin → spin"]


class TestRowsAreUpdatedByAKey:
    @pytest.mark.parametrize("kind", ["postgres, auth: {host: db}", "duckdb, database: shop.db", "snowflake, auth: {}"])
    def test_an_upsert_without_a_key_is_reported_and_so_is_a_key_without_an_upsert(self, kind: str) -> None:
        load = f"- load: {{kind: {kind}, table: t, rows: [{{id: 1}}], mode: %s}}\n"
        assert [problem.message for problem in step(load % "upsert")] == ["`mode: upsert` needs 'key'"]
        assert [problem.message for problem in step(load % "replace, key: [id]")] == ["`mode: replace` takes no 'key'"]
        assert step(load % "upsert, key: [id]") == []
        assert step(load % '"{{ workload.city }}"') == []

        assert step(load.replace(", mode: %s", "")) == []
        (problem,) = step(load.replace("mode: %s", "key: [id]"))
        assert (problem.message, problem.hint) == (
            "`mode: append` takes no 'key'",
            "set `mode: upsert`, or leave `key` out",
        )

    @pytest.mark.parametrize("kind", ["postgres, auth: {host: db}", "duckdb, database: shop.db", "snowflake, auth: {}"])
    def test_a_key_that_is_text_and_modes_of_other_engines_have_a_remedy(self, kind: str) -> None:
        load = f"- load: {{kind: {kind}, table: t, rows: [{{id: 1}}], mode: %s}}\n"
        (problem,) = step(load % "upsert, key: id")
        assert (problem.code, problem.hint) == ("NTL205", "write `key: [id]`")
        (problem,) = step(load % "upsert, key: 'id, day'")
        assert problem.hint == "write `key: [id, day]`"
        for mode, hint in (
            ("merge", "write `mode: upsert`, and `key: [id]` with the columns that identify a row"),
            ("insert", "write `mode: append`"),
            ("overwrite", "write `mode: replace`"),
            ("truncate", "write `mode: replace`"),
            ("upsrt", "did you mean 'upsert'?"),
            ("[merge]", f"`noetl tools schema {kind.partition(',')[0]}` shows what it takes"),
        ):
            assert [problem.hint for problem in step(load % mode)] == [hint]

    def test_exactly_once_is_an_option_of_postgres_and_duckdb(self) -> None:
        once = "- load: {kind: %s, command: SELECT 1, spec: {exactly_once: true}}\n"
        assert step(once % "duckdb, database: shop.db") == []
        assert [problem.hint for problem in step(once % "snowflake, auth: {}")] == [
            "it is an option of postgres and duckdb"
        ]


class TestAnInputOfAnotherType:
    @pytest.mark.parametrize(
        ("task", "name"),
        [
            ("kind: shell, command: ls, env: {A: [1]}", "'env.A' of shell"),
            ("kind: duckdb, database: a.db, table: t, rows: [{a: 1}, 5]", "'rows[1]' of duckdb"),
            ("kind: transfer, source: {kind: csv}, target: {kind: file, path: a}", "'source.kind' of transfer"),
        ],
    )
    def test_is_named_with_its_path(self, task: str, name: str) -> None:
        (problem,) = step(f"- call: {{{task}}}\n")
        assert (problem.code, problem.message.partition(":")[0]) == ("NTL205", name)


class TestAnInputWithoutAValue:
    @pytest.mark.parametrize(
        ("task", "message"),
        [
            ("kind: python, code: ", "'code' of python: expected a value, found nothing"),
            ("kind: shell, command: ", "'command' of shell: expected a value, found nothing"),
            ("kind: duckdb, table: , rows: [{a: 1}]", "'table' of duckdb: expected a value, found nothing"),
        ],
    )
    def test_is_reported_before_the_run(self, task: str, message: str) -> None:
        (problem,) = step(f"- call: {{{task}}}\n")
        assert (problem.code, problem.message) == ("NTL205", message)


class TestAConnectionStringAsAuth:
    DSN = "postgresql://app:hunter2@db.example/shop"

    def test_is_refused_without_its_text(self) -> None:
        (problem,) = step(f"- load: {{kind: postgres, auth: '{self.DSN}', query: SELECT 1}}\n")
        assert problem.code == "NTL213"
        assert problem.message == f"the keychain has no entry of that name ({len(self.DSN)} characters)"
        assert "`noetl credential set NAME --kind KIND`" in (problem.hint or "")
        assert "hunter2" not in str(problem)

    def test_may_be_the_default_of_an_input(self) -> None:
        tool = '- load: {kind: postgres, auth: "{{ workload.database }}", query: SELECT 1}\n'
        body = f"workload: {{database: '{self.DSN}'}}\nworkflow:\n  - step: fetch\n    tool:\n      {tool}"
        assert problems(body) == []


@pytest.mark.parametrize("dialect", ["next: {arcs: [{step: b}]}", "next: b"])
def test_a_template_as_time_limit_of_a_step_or_an_execution_names_the_place_that_may_have_one(dialect: str) -> None:
    result = problems(
        f"""\
        executor: {{spec: {{timeout: "{{{{ workload.t }}}}"}}}}
        workload: {{t: 5m}}
        workflow:
          - {{step: a, spec: {{timeout: "{{{{ workload.t }}}}"}}, tool: {{kind: noop}}, {dialect}}}
          - {{step: b, tool: {{kind: noop, spec: {{timeout: "{{{{ workload.t }}}}"}}}}}}
        """
    )
    places = [(problem.code, problem.line, problem.column, problem.hint) for problem in result]
    hint = "write a duration such as 5m; only `spec.timeout` of a task may be a template"
    assert places == [("NTL508", 4, 28, hint), ("NTL508", 7, 31, hint)]
