"""Errors in program text: the place is the line of the playbook, and Python shows its traceback."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from command import file, noetl
from places import Place
from terminal import HEAD, data

from noetl.printable import without_passwords

DIVIDE = (
    HEAD
    + """\
workflow:
  - step: start
    tool:
      - divide:
          kind: python
          code: |

            def share(total, people):
                return total / people

            def main():
                return share(9, 0)
"""
)
LINE = DIVIDE[: DIVIDE.index("return total")].count("\n") + 1
TRACEBACK = f"""\
  Traceback (most recent call last):
    File "p.yaml", line {LINE + 3}, in main
      return share(9, 0)
             ^^^^^^^^^^^
    File "p.yaml", line {LINE}, in share
      return total / people
             ~~~~~~^~~~~~~~
  ZeroDivisionError: division by zero
"""
RETRY = "{policy: {rules: [{else: {then: {do: retry, attempts: 2, delay: 0}}}]}}"
CARET = f"{LINE} |                 return total / people\n   |                        ^\n"


def sql_playbook(command: str) -> str:
    task = f"kind: duckdb\n          command: {command}\n"
    return f"{HEAD}workflow:\n  - step: start\n    tool:\n      - q:\n          {task}"


def test_a_python_failure_shows_its_traceback_and_its_line_everywhere(tmp_path: Path) -> None:
    file(tmp_path, DIVIDE, "p.yaml")
    failed = noetl("run", "p.yaml", cwd=tmp_path)
    assert failed.code == 1
    assert f"p.yaml:{LINE}:24: step start, task divide" in failed.err
    assert CARET + TRACEBACK in failed.err
    assert CARET + TRACEBACK in noetl("runs", "show", "last", cwd=tmp_path).out
    explained = noetl("explain", "last", "start", cwd=tmp_path).out
    indented = "".join(f"    {line}\n" for line in (CARET + TRACEBACK).splitlines())
    assert f"    p.yaml:{LINE}:24: step start, task divide" in explained
    assert indented in explained


def test_a_database_and_a_server_show_the_same(place: Place) -> None:
    error = place.run(DIVIDE)["error"]
    assert (error["line"], error["column"]) == (LINE, 24)
    shown = place("runs", "show", "last").out
    assert f":{LINE}:24: step start, task divide" in shown
    assert CARET in shown
    assert "  ZeroDivisionError: division by zero\n" in shown
    assert CARET.replace("\n", "\n    ").strip() in place("explain", "last", "start").out


def test_a_database_and_a_server_show_the_line_of_an_error_outside_of_programs(place: Place) -> None:
    place.run(f'{HEAD}workflow:\n  - step: start\n    tool: {{kind: noop, result: "{{{{ workload.nothing }}}}"}}\n')
    caret = '    tool: {kind: noop, result: "{{ workload.nothing }}"}\n  |                                ^\n'
    assert caret in place("runs", "show", "last").out
    assert caret in place("explain", "last").out
    assert caret in place("runs", "watch", "last").err


def test_json_of_a_python_failure_has_the_line_and_the_traceback(tmp_path: Path) -> None:
    error = data(noetl("run", file(tmp_path, DIVIDE, "p.yaml"), "-o", "json", cwd=tmp_path))["error"]
    assert (error["file"], error["line"], error["column"]) == ("p.yaml", LINE, 24)
    assert error["details"]["traceback"] == [line[2:] for line in TRACEBACK.splitlines()]


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ('code: "x = 1; y = x / 0"', 9, 29),
        ("code: y = 1 / 0", 9, 21),
        ('code: "x = 1\\ny = x / 0"', 9, 29),  # the line of the text is no line of the file
        ("""code: "x = \\"a\\"\\ny = 1 / 0\"""", 9, 33),
        ("code: >\n            y = 1 / 0", 10, 17),
        ("code: >-\n            x = 0\n\n            def main():\n                return 1 / x", 13, 24),
        ("code: x = 1 *\n            (1 / 0)", 10, 14),
        ("code: |\n            s = 'é'; y = 1 / 0", 10, 26),
        ("code: |\n            exec('x = (')", 10, 13),
        ("code: |\n            import json\n            json.loads('{')", 11, 13),
    ],
)
def test_the_caret_is_at_the_failing_line_however_the_code_is_written(
    tmp_path: Path, code: str, line: int, column: int
) -> None:
    text = f"{HEAD}workflow:\n  - step: start\n    tool:\n      - t:\n          kind: python\n          {code}\n"
    shift = text[: text.index("code:")].count("\n") + 1 - 9
    error = data(noetl("run", file(tmp_path, text), "-o", "json", cwd=tmp_path))["error"]
    assert (error["line"] - shift, error["column"]) == (line, column)


def test_a_failure_inside_an_iterator_has_its_line(tmp_path: Path) -> None:
    inner = "\n".join(f"      {line}" for line in DIVIDE.partition("    tool:\n")[2].splitlines())
    text = DIVIDE.partition("    tool:\n")[0] + (
        f"    tool:\n      - each:\n          kind: iterator\n          in: [1]\n          iterator: x\n"
        f"          tool:\n{inner}\n"
    )
    error = data(noetl("run", file(tmp_path, text), "-o", "json", cwd=tmp_path))["error"]
    assert text.splitlines()[error["line"] - 1].strip() == "return total / people"
    assert error["details"]["traceback"][-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    "retry", ["", "\n          spec: {policy: {rules: [{else: {then: {do: retry, attempts: 2, delay: 0}}}]}}"]
)
def test_an_sql_error_points_at_its_line_of_the_file(tmp_path: Path, retry: str) -> None:
    text = sql_playbook(f"|\n            SELECT 1;\n\n            SELECT *\n            FROM nope;{retry}")
    failed = noetl("run", file(tmp_path, text, "q.yaml"), cwd=tmp_path)
    line = text[: text.index("FROM nope")].count("\n") + 1
    assert f"q.yaml:{line}:18: step start, task q" in failed.err
    assert f"{line} |             FROM nope;\n   |                  ^\n" in failed.err


@pytest.mark.parametrize(
    "command",
    [
        "SELECT nope FROM range(3)",
        "\"SELECT 1, {{ workload.n }}, '{{ workload.n }}', nope\"",
        ">\n            SELECT 1,\n              {{ workload.n }}, nope\n            FROM range(3)",
        "SELECT 1,\n            nope",
        "\"SELECT 'a',\n            '\\t', nope\"",
        "|\n            SELECT\n            {% if workload.n > 9 %}\n              1,\n            {% endif %}\n"
        "              2, nope",
    ],
)
def test_the_caret_of_an_sql_error_is_at_the_position_that_the_database_reports(place: Place, command: str) -> None:
    text = sql_playbook(command).replace("workflow:", "workload: {n: 3}\nworkflow:")
    line = text[: text.index("nope")].count("\n") + 1
    column = text.splitlines()[line - 1].index("nope") + 1
    error = place.run(text)["error"]
    assert (error["line"], error["column"]) == (line, column)
    caret = f" | {' ' * (column - 1)}^\n"
    assert caret in place("runs", "show", "last").out
    assert caret in place("explain", "last", "start").out


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("[nr]", "`key` has 'nr', which is not one of the columns id, name"),
        ('"{{ workload.key }}"', 'found text; for one value write `key: ["{{ ... }}"]`'),
    ],
)
def test_a_wrong_key_of_an_upsert_points_at_the_key(tmp_path: Path, key: str, message: str) -> None:
    task = f"{{kind: duckdb, table: t, rows: [{{id: 1, name: a}}], mode: upsert, key: {key}}}"
    text = f"{HEAD}workload: {{key: id}}\nworkflow:\n  - step: start\n    tool: {task}\n"
    said = noetl("run", file(tmp_path, text, "q.yaml"), cwd=tmp_path).err
    line = text.splitlines().index(f"    tool: {task}") + 1
    assert f"q.yaml:{line}:{text.splitlines()[line - 1].index(key) + 1}: step start" in said
    assert message in said


def test_lines_of_a_traceback_are_cut(tmp_path: Path) -> None:
    code = "result = 1 / 0 # " + "x" * 500
    text = DIVIDE.replace("return total / people", code.removeprefix("result = "))
    error = data(noetl("run", file(tmp_path, text), "-o", "json", cwd=tmp_path))["error"]
    assert max(map(len, error["details"]["traceback"])) == 400
    assert len(error["details"]["source"]["text"]) == 400


LOOP = (
    HEAD
    + """\
workflow:
  - step: start
    loop: {in: "{{ range(25) | list }}", iterator: n, spec: {on_error: collect}}
    tool:
      - t:
          kind: python
          code: |
            1 / 0
"""
)


def test_a_loop_that_collects_failures_shows_the_line_and_traceback_of_the_first(tmp_path: Path) -> None:
    failed = noetl("run", file(tmp_path, LOOP, "p.yaml"), cwd=tmp_path)
    line = LOOP[: LOOP.index("1 / 0")].count("\n") + 1
    assert f"p.yaml:{line}:13: step start: items_failed: 25 of 25 items failed; item 0: ZeroDivisionError" in failed.err
    assert f"{line} |             1 / 0\n   |             ^\n  Traceback (most recent call last):\n" in failed.err


def test_a_loop_keeps_the_tracebacks_of_its_first_failures(tmp_path: Path) -> None:
    text = LOOP.replace("collect", "continue") + (
        '    next: {arcs: [{step: end}]}\n  - step: end\n    tool: {kind: noop, result: "{{ steps.start.failures }}"}\n'
    )
    failures = data(noetl("run", file(tmp_path, text), "-o", "json", cwd=tmp_path))["result"]
    assert [("traceback" in failure["error"]["details"]) for failure in failures] == [True] * 20 + [False] * 5
    assert all("source" in failure["error"]["details"] for failure in failures)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a?api_key=s3cret&page=1",
        "http://127.0.0.1:1/a?page=1&access_token=s3cret-w0rd",
        "http://127.0.0.1:1/a?TOKEN=s3cret",
        "http://127.0.0.1:1/a?key=s3cret",
        "http://127.0.0.1:1/a?sv=1&sig=s3cret%2Fw0rd",
        "http://127.0.0.1:1/a?X-Amz-Signature=s3cret",
        "http://127.0.0.1:1/a?client_secret={{ workload.page }}s3cret&page={{ workload.page }}",
        "http://127.0.0.1:1/a#id_token=s3cret",
        "http://ada:s3cret@127.0.0.1:1/a?page=1",
        "http://ada:s3c/re@t-s3cret@127.0.0.1:1/a",
        "https://s3cret@127.0.0.1:1/a",
    ],
)
def test_the_line_of_an_error_shows_no_token_of_a_url(tmp_path: Path, url: str) -> None:
    text = f'{HEAD}workload: {{page: 1}}\nworkflow:\n  - step: a\n    tool: {{kind: http, url: "{url}", nosuch: 1}}\n'
    file(tmp_path, text, "p.yaml")
    for verb in ("validate", "run"):
        done = noetl(verb, "p.yaml", cwd=tmp_path)
        said = done.out + done.err
        assert ("****" in said, "s3c" in said) == (True, False)
        quoted, caret = next((line, below) for line, below in pairwise(said.splitlines()) if below.strip(" |") == "^")
        assert quoted[caret.index("^") :].startswith("nosuch: 1}")
    file(tmp_path, text.replace(", nosuch: 1", ""), "p.yaml")
    assert "s3c" not in noetl("run", "p.yaml", cwd=tmp_path).err
    for show in (("runs", "show", "last"), ("explain", "last")):
        assert "s3c" not in noetl(*show, cwd=tmp_path).out


@pytest.mark.parametrize(
    "inputs",
    [
        "kind: http, url: http://127.0.0.1:1/, params: {api_key: s3cret, page: 1}",
        "kind: http, url: http://127.0.0.1:1/, params: {page: 1, api_key: 's3cret w0rd'}",
        "kind: http, url: http://127.0.0.1:1/, method: POST, json: {password: s3cret-w0rd}",
        'kind: http, url: http://127.0.0.1:1/, method: POST, json: {"client_secret": "{{ workload.page }}s3cret"}',
        "kind: http, url: http://127.0.0.1:1/, headers: {X-Api-Key: s3cret}",
        "kind: http, url: http://127.0.0.1:1/, headers: {Authorization: Bearer s3cret}",
        "kind: http, url: http://127.0.0.1:1/, headers: {Authorization: 's3cret s3cret'}",
        "kind: shell, cmds: ['exit 1; curl -u ada:s3cret http://127.0.0.1:1/']",
        "kind: shell, cmds: [\"exit 1; curl -H 'X-Api-Key: s3cret' http://127.0.0.1:1/\"]",
        'kind: shell, cmds: ["exit 1; curl -H \\"Authorization: Bearer s3cret\\" http://127.0.0.1:1/"]',
        'kind: shell, cmds: ["exit 1; export API_TOKEN=s3cret; call --token s3cret"]',
    ],
)
def test_the_line_of_an_error_shows_no_secret_of_a_field_or_an_option(tmp_path: Path, inputs: str) -> None:
    text = f"{HEAD}workload: {{page: 1}}\nworkflow:\n  - step: a\n    tool: {{{inputs}, nosuch: 1}}\n"
    file(tmp_path, text, "p.yaml")
    said = noetl("validate", "p.yaml", cwd=tmp_path).out
    assert ("****" in said, "s3c" in said) == (True, False)
    quoted, caret = next((line, below) for line, below in pairwise(said.splitlines()) if below.strip(" |") == "^")
    assert quoted[caret.index("^") :].startswith("nosuch: 1}")
    file(tmp_path, text.replace(", nosuch: 1", ""), "p.yaml")
    assert "s3c" not in noetl("run", "p.yaml", cwd=tmp_path).err


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("  password: s3c,r{e}t # of ada", "  password: ******************"),
        ("- X-Auth-Token: s3cret", "- X-Auth-Token: ******"),
        ("requests.get(url, api_key='s3cret', page=1)", "requests.get(url, api_key='******', page=1)"),
        ("  -u 'ada:s3cret' \\", "  -u 'ada:******' \\"),
        ("headers: {Cookie: 'a=s3cret; b=s3cret'}", "headers: {Cookie: '******************'}"),
        ("command: PGPASSWORD=s3cret psql -h db", "command: PGPASSWORD=****** psql -h db"),
        ("command: echo a; TOKEN=s3cret run", "command: echo a; TOKEN=****** run"),
        ("command: mysql -h db -ps3cret -u root", "command: mysql -h db -p****** -u root"),
        ("command: docker login -p s3cret", "command: docker login -p ******"),
        ("args: [--all, --api-key, s3cret ]", "args: [--all, --api-key, ****** ]"),
        ("args: ['--token', 's3cret']", "args: ['--token', '******']"),
        ("os.environ['TOKEN'] = 's3cret'", "os.environ['TOKEN'] = '******'"),
        ("CREATE USER ada WITH PASSWORD 's3cret'", "CREATE USER ada WITH PASSWORD '******'"),
        ("CREATE SECRET (TYPE s3, SECRET 's3cret')", "CREATE SECRET (TYPE s3, SECRET '******')"),
        ("url: https://hooks.slack.com/services/T/B/s3c", "url: https://hooks.slack.com/services/*******"),
        ("private_key: s3cret", "private_key: ******"),
        ("{access_key_id: ada, access_key: s3cret}", "{access_key_id: ada, access_key: ******}"),
    ],
)
def test_the_value_of_a_secret_name_is_masked(line: str, masked: str) -> None:
    assert without_passwords(line) == masked


@pytest.mark.parametrize(
    "line",
    [
        "auth: pg_main",
        "destination: {kind: postgres, auth: pg_main, table: t}",
        "credential: shop_api",
        "author: Ada",
        "token_url: https://127.0.0.1/token",
        "def main(token: str, password: str = None):",
        'token = response["token"]',
        'args: {token: "{{ keychain.shop_api.token }}"}',
        'headers: {Authorization: "Bearer {{ keychain.shop_api.token }}"}',
        "docker run -u 1000:1000 image",
        "docker run -p 80:80 image && mkdir -p a",
        "mysql -h db --port 3306",
        "if TOKEN == 3:",
        "SELECT password FROM users WHERE password = {{ workload.p }}",
        "auth: {type: bearer, credential: shop_api}",
        "- get_token: {kind: noop}",
        "json: {max_tokens: 100}",
        "url: http://127.0.0.1/?page=1&token={{ workload.token }}",
        "url: http://127.0.0.1/design?assignee=ada&monkey=1&design=2",
        "desc: tokens and keys = secret",
        "in: keychain.api_key == workload.key",
        "url: http://127.0.0.1/a@b",
    ],
)
def test_a_line_without_a_secret_is_quoted_as_it_is(line: str) -> None:
    assert without_passwords(line) == line


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("postgresql://ada:s3cret-w0rd@127.0.0.1:1/db", "connect: no connection to PostgreSQL"),
        ("host=127.0.0.1 port=1 user=ada password=s3cret-w0rd", "connect: no connection to PostgreSQL"),
        ("postgresql+psycopg2://ada:s3cret-w0rd@127.0.0.1:1/db", "the dsn is invalid"),
        ("ada:s3cret-w0rd@127.0.0.1:1/db", "the dsn is invalid"),
        ("postgres//ada:s3cret-w0rd@nowhere", "the dsn is invalid"),
        ("postgresql://ada:pass@s3cret-w0rd:1@127.0.0.1/db", "the dsn is invalid: write special characters"),
    ],
)
def test_the_line_of_an_error_shows_no_password(tmp_path: Path, dsn: str, message: str) -> None:
    tool = f'tool: {{kind: postgres, auth: "{dsn}", query: "SELECT 1", tabel: 5}}'
    text = f"{HEAD}workflow:\n  - step: start\n    {tool}\n    next: end\n  - {{step: end, tool: {{kind: noop}}}}\n"
    file(tmp_path, text, "p.yaml")
    checked = noetl("validate", "p.yaml", cwd=tmp_path)
    assert ("'tabel'" in checked.out, "****" in checked.out, "s3cret" in checked.out) == (True, True, False)
    assert "s3cret" not in noetl("validate", "p.yaml", "-o", "json", cwd=tmp_path).out
    file(tmp_path, text.replace(", tabel: 5", ""), "p.yaml")
    failed = noetl("run", "p.yaml", cwd=tmp_path)
    assert (message in failed.err, "s3cret" in failed.err) == (True, False)
    for verb in (("runs", "show", "last"), ("explain", "last")):
        assert "s3cret" not in noetl(*verb, cwd=tmp_path).out
