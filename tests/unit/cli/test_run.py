"""noetl run: the contract of its JSON, its payload, its exit codes, and what it says on the way."""

from __future__ import annotations

import os
import pty
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from command import BAD, Done, environment, file, noetl
from terminal import ASKS, HEAD, WORKS, data, running, terminal, verified

from noetl.cli.main import noetl_command
from noetl.model.identity import uuid7
from noetl.tools.registry import KINDS

ECHO = (
    HEAD
    + """\
workload: {name: world, deep: {a: 1, b: 2}, items: [1]}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ workload }}"}
"""
)
TWO = (
    HEAD
    + """\
workflow:
  - step: start
    tool:
      - first: {kind: noop, result: 7, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {a: 1}}}}]}}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ steps.start.result + ctx.a }}"}
"""
)
FAILS = (
    HEAD
    + """\
workflow:
  - step: fetch
    tool:
      - before: {kind: noop, result: 1}
      - call:
          kind: noop
          result: "{{ workload.nothing }}"
"""
)
ITEMS_FAIL = (
    HEAD
    + """\
workflow:
  - step: start
    tool:
      - each:
          kind: iterator
          in: "{{ [{'a': 1}, {'b': 2}] }}"
          iterator: x
          tool:
            - one: {kind: noop, result: 1}
            - two:
                INNER
"""
)


def echoed(folder: Path, *args: str) -> Any:
    done = noetl("run", file(folder, ECHO), *args, "-o", "json", cwd=folder)
    assert done.code == 0, done.err
    return data(done)["result"]


def test_json_is_the_contract(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, TWO), "-o", "json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    run = data(done)
    keys = ["execution_id", "status", "result", "ctx", "steps", "error", "events", "duration_ms"]
    assert list(run) == [*keys, "continued_errors", "continued", "warnings"]
    assert (run["continued_errors"], run["continued"], run["warnings"]) == (0, [], [])
    assert (run["status"], run["result"], run["ctx"], run["error"]) == ("succeeded", 8, {"a": 1}, None)
    assert run["steps"] == {
        "start": {"status": "succeeded", "runs": 1, "result": 7, "error": None, "items": None},
        "end": {"status": "succeeded", "runs": 1, "result": 8, "error": None, "items": None},
    }
    assert run["events"] == len(noetl("runs", "events", "last", "-o", "jsonl", cwd=tmp_path).out.splitlines())
    assert run["duration_ms"] >= 0
    assert run["execution_id"][14] == "7"
    assert verified(tmp_path) == (1, [])


SWALLOWS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: swallows, path: tests/swallows}
workflow:
  - step: start
    loop: {in: "{{ range(7) }}", iterator: n}
    tool:
      - call:
          kind: python
          code: "raise ValueError(1)"
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
"""


def test_errors_that_a_policy_continued_past_are_shown(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, SWALLOWS), cwd=tmp_path)
    assert done.code == 0
    assert done.err.count("continued past python: ValueError: 1") == 5
    end = done.err.splitlines()[-7:]
    assert (end[0], end[-1]) == ("continued past 7 errors:", "  and 2 more")
    assert ":10:18: step start, item 0, task call, attempt 1: python: ValueError: 1" in end[1]
    shown = noetl("runs", "show", "last", cwd=tmp_path).out
    assert "continued past 7 errors:\n" in shown
    result = data(noetl("runs", "show", "last", "-o", "json", cwd=tmp_path))
    assert (result["continued_errors"], len(result["continued"])) == (7, 5)
    assert {error["line"] for error in result["continued"]} == {10}


@pytest.mark.parametrize("form", ["jsonl", "yaml", "table"])
def test_other_forms_say_the_same(tmp_path: Path, form: str) -> None:
    done = noetl("run", file(tmp_path, TWO), "-o", form, cwd=tmp_path)
    assert done.code == 0
    assert "succeeded" in done.out
    if form == "jsonl":
        assert done.out.count("\n") == 1


def test_in_a_pipe_lines_go_to_stderr_and_the_result_to_stdout(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, TWO), cwd=tmp_path)
    assert (done.code, done.out) == (0, "8\n")
    lines = done.err.splitlines()
    assert lines[1] == "start#1 started"
    assert lines[2].startswith("start#1 done in ")
    assert lines[-1].startswith("story succeeded in ")


def test_a_failure_shows_its_place_with_a_caret(tmp_path: Path) -> None:
    file(tmp_path, FAILS)
    done = noetl("run", "playbook.yaml", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    lines = done.err.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("playbook.yaml:"))
    assert lines[place].startswith("playbook.yaml:10:19: step fetch, task call, attempt 1: template: ")
    assert lines[place + 1 : place + 3] == [
        '10 |           result: "{{ workload.nothing }}"',
        "   |                   ^",
    ]
    assert lines[place + 3].startswith("   = ")


def test_of_several_templates_in_a_text_the_caret_is_at_the_one_that_fails(tmp_path: Path) -> None:
    head = FAILS.replace("workflow:", "workload: {name: x}\nworkflow:")
    block = """|
            {{ workload.name }}
            then {{ workload.name }} {{ workload.nothing }}
"""
    for text, line, column in (('"{{ workload.name }} and {{ workload.nothing }}"', 10, 44), (block, 12, 38)):
        file(tmp_path, head.replace('"{{ workload.nothing }}"', text))
        error = data(noetl("run", "playbook.yaml", "-o", "json", cwd=tmp_path))["error"]
        assert (error["kind"], error["line"], error["column"]) == ("template", line + 1, column)


def test_a_failure_in_json_has_all_its_fields(tmp_path: Path) -> None:
    file(tmp_path, FAILS)
    done = noetl("run", "playbook.yaml", "-o", "json", cwd=tmp_path)
    result = data(done)
    assert (done.code, result["status"], result["result"]) == (1, "failed", None)
    error = result["error"]
    keys = ["kind", "message", "step", "task", "attempt", "item", "file", "line", "column", "details"]
    assert list(error) == keys
    assert error.pop("item") is None
    message = error.pop("message")
    assert "nothing" in message
    assert error == {
        "kind": "template",
        "step": "fetch",
        "task": "call",
        "attempt": 1,
        "file": "playbook.yaml",
        "line": 10,
        "column": 19,
        "details": {"hint": "give it a value, or append | default(...)", "input": "result"},
    }
    assert result["steps"]["fetch"]["error"]["kind"] == "template"


@pytest.mark.parametrize(
    ("inner", "place"),
    [
        pytest.param(
            """kind: noop
                result:
                  first: 1
                  second: [2, "{{ iter.x.a }}"]""",
            "17:31: step start, task each, attempt 1: template: item 1: ",
            id="an input",
        ),
        pytest.param(
            """kind: noop
                spec:
                  policy:
                    rules:
                      - {when: "{{ iter.x.a | default('s') > 0 }}", then: {do: continue}}
                      - {else: {then: {do: fail}}}""",
            "18:25: step start, task each, attempt 1: template: item 1: rule 1 of task 'two'",
            id="a rule",
        ),
        pytest.param(
            """kind: iterator
                in: [1]
                iterator: y
                tool:
                  - deep: {kind: noop, result: "{{ iter.parent.x.a }}"}""",
            "18:48: step start, task each, attempt 1: template: item 1: item 0: ",
            id="an iterator inside",
        ),
    ],
)
def test_an_error_of_a_template_inside_an_iterator_points_at_the_template(
    tmp_path: Path, inner: str, place: str
) -> None:
    file(tmp_path, ITEMS_FAIL.replace("INNER", inner))
    done = noetl("run", "playbook.yaml", cwd=tmp_path)
    assert done.code == 1
    assert f"playbook.yaml:{place}" in done.err


TIMED = (
    HEAD
    + """\
workload: {limit: 200ms, seconds: 5}
workflow:
  - step: start
    tool:
      - TASK
"""
)


@pytest.mark.parametrize(
    "task",
    [
        'call: {kind: wait, signal: never, spec: {timeout: "{{ workload.limit }}"}}',
        'call: {kind: shell, cmds: "sleep {{ workload.seconds }}", spec: {timeout: "{{ workload.limit }}"}}',
        "call: {kind: iterator, in: [1], iterator: x, tool: {kind: shell, cmds: sleep 5}, spec: {timeout: "
        '"{{ workload.limit }}"}}',
    ],
    ids=["wait", "shell", "iterator"],
)
def test_the_time_limit_of_a_task_may_be_a_template(tmp_path: Path, task: str) -> None:
    file(tmp_path, TIMED.replace("TASK", task))
    late = data(noetl("run", "playbook.yaml", "-o", "json", cwd=tmp_path))
    assert (late["status"], late["error"]["kind"]) == ("failed", "timeout")
    wrong = data(noetl("run", "playbook.yaml", "-o", "json", "--set-string", "limit=soon", cwd=tmp_path))
    error = wrong["error"]
    assert (error["kind"], error["line"], error["details"]["input"]) == ("template", 8, "timeout")
    assert "`timeout` must be a number of seconds or a duration" in error["message"]


def test_retries_are_reported(tmp_path: Path) -> None:
    text = WORKS.replace("not ctx.stop | default(false)", "outcome.result < 2")
    done = noetl("run", file(tmp_path, text), cwd=tmp_path)
    assert done.code == 0
    # less than its delay of 50 ms by the time until the event is stored
    assert re.search(r"try#1/again#1 attempt 2 in \d+ ms \(retried by a rule\)", done.err)


# -- the payload ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", True),
        ("on", "on"),
        ("12:30:00", "12:30:00"),
        ("null", None),
        ("0x1f", 31),
        ('"1"', "1"),
        ("'it''s'", "it's"),
        ('"open', '"open'),
        ("a=b", "a=b"),
        ("{{ x }}", "{{ x }}"),
        ("[1, two]", [1, "two"]),
        ("{a: {b: [yes]}}", {"a": {"b": ["yes"]}}),
        ("[]", []),
        ("a: b # c", "a: b # c"),
    ],
)
def test_set_takes_yaml(tmp_path: Path, text: str, value: Any) -> None:
    assert echoed(tmp_path, "--set", f"any={text}")["any"] == value


def test_set_reaches_into_maps_and_keeps_what_stands_beside(tmp_path: Path) -> None:
    result = echoed(tmp_path, "--set", "deep.a=5", "--set", "new.x.y=true", "--set-string", "name=1")
    assert result == {"name": "1", "deep": {"a": 5, "b": 2}, "items": [1], "new": {"x": {"y": True}}}


def test_payload_is_json_or_a_file_and_set_is_laid_over_it(tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"deep": {"b": 9}, "items": [2, 3], "name": "Ada"}')
    assert echoed(tmp_path, "--payload", "@payload.json", "--set", "name=Grace") == {
        "name": "Grace",
        "deep": {"a": 1, "b": 9},
        "items": [2, 3],
    }
    assert echoed(tmp_path, "--payload", '{"name": "{{ data }}"}')["name"] == "{{ data }}"


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--set", "a"], 2, "KEY=VALUE"),
        (["--set", "a..b=1"], 2, "KEY=VALUE"),
        (["--set", "a=1", "--set", "a.b=2"], 2, "'a' is not a map"),
        (["--set", f"a={10**30}"], 2, "64 bits"),
        (["--set", "a=.inf"], 2, "finite"),
        (["--payload", "[1]"], 2, "must be a map"),
        (["--payload", "{"], 2, "neither JSON nor YAML"),
        (["--set", "a=[1"], 2, "--set a=[1: neither JSON nor YAML"),
        (["--set", "a=[1"], 2, "--set-string"),
        (["--set", "a.b="], 2, "--set a.b= has no value: write a.b=null, or a.b='\"\"' for an empty text"),
        (["--payload", "@nothing.json"], 4, "no such file"),
    ],
)
def test_a_payload_that_makes_no_sense_is_refused(tmp_path: Path, args: list[str], code: int, says: str) -> None:
    done = noetl("run", file(tmp_path, ECHO), *args, cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert not (tmp_path / ".noetl").exists()


@pytest.mark.parametrize(
    ("step", "place", "says"),
    [
        ("loop: {in: '{{ workload.m }}', iterator: x}\n    tool: {kind: noop}", "7:16", "`| items`"),
        ("loop: {in: '{{ workload.m.b.c }}', iterator: x}\n    tool: {kind: noop}", "7:16", "`workload.m` has a"),
        (
            "tool: [each: {kind: iterator, in: '{{ workload.m }}', iterator: x, tool: {kind: noop}}]",
            "7:39",
            "`| items`",
        ),
    ],
)
def test_an_error_of_a_collection_points_at_it(tmp_path: Path, step: str, place: str, says: str) -> None:
    text = f"{HEAD}workload: {{m: {{a: 1}}}}\nworkflow:\n  - step: start\n    {step}\n"
    done = noetl("run", file(tmp_path, text), cwd=tmp_path)
    assert f"playbook.yaml:{place}: step start" in done.err
    assert says in done.err


NEEDS = ECHO.replace("{{ workload }}", "{{ region }} {{ workload.items }}")


def test_a_name_that_nothing_provides_is_refused_before_the_run_with_its_place(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, NEEDS), cwd=tmp_path)
    assert (done.code, done.out) == (3, "")
    assert "playbook.yaml:7:36: error NTL502: nothing provides 'region'" in done.err
    assert 'tool: {kind: noop, result: "{{ region }}' in done.err
    assert "pass it with `--set region=VALUE`" in done.err
    assert noetl("runs", "list", "-o", "json", cwd=tmp_path).out == "[]\n"
    for inputs in (["--set", "region=eu"], ["--payload", "region: eu"], ["--ctx", '{"region": "eu"}']):
        done = noetl("run", file(tmp_path, NEEDS), *inputs, cwd=tmp_path)
        assert (done.code, done.out) == (0, '"eu [1]"\n'), done.err
        assert "NTL502" not in done.err


def test_a_set_key_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, NEEDS), "--set", "itmes=[2]", "--set", "region=eu", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "workload has no 'itmes': did you mean 'items'?" in done.err
    done = noetl("run", file(tmp_path, NEEDS), "--set", "items=users", "--set", "region=eu", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "'items' must be a list like its default in `workload`, but is text; write it as [a, b]" in done.err


def test_the_remedy_for_a_refused_set_can_be_typed_in_a_shell(tmp_path: Path) -> None:
    playbook = file(tmp_path, NEEDS.replace("items: [1]", "items: [1], zip: '08001'"))
    done = noetl("run", playbook, "--set", "zip=12345", "--set", "region=eu", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "'zip' must be text like its default in `workload`, but is a number" in done.err
    assert "pass it with --set-string" in done.err
    done = noetl("run", playbook, "--set-string", "zip=12345", "--set", "region=eu", cwd=tmp_path)
    assert done.code == 0, done.err
    done = noetl("run", playbook, "--set", "workload.zip=a", "--set", "region=eu", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "workload has no 'workload.zip': did you mean 'zip'?" in done.err


def test_a_key_of_a_payload_file_that_nothing_reads_is_a_warning(tmp_path: Path) -> None:
    file(tmp_path, "# inputs\nregion: eu\nitmes:\n  - 2\n", "payload.yaml")
    done = noetl("run", file(tmp_path, NEEDS), "--payload", "@payload.yaml", "-o", "json", cwd=tmp_path)
    assert done.code == 0
    assert data(done)["warnings"] == ["workload has no 'itmes': did you mean 'items'?"]
    assert "noetl: warning: workload has no 'itmes': did you mean 'items'?" in done.err


def test_a_file_of_a_payload_needs_its_sign(tmp_path: Path) -> None:
    file(tmp_path, "region: eu\n", "payload.yaml")
    done = noetl("run", file(tmp_path, NEEDS), "--payload", "payload.yaml", cwd=tmp_path)
    assert (done.code, done.err.strip()) == (
        2,
        "noetl: --payload must be a map, to read a file write `--payload @payload.yaml`",
    )


@pytest.mark.parametrize("word", ["no", "0", "off"])
def test_the_remedy_for_a_boolean_chooses_no_side(tmp_path: Path, word: str) -> None:
    playbook = file(tmp_path, NEEDS.replace("items: [1]", "items: [1], strict: true"))
    done = noetl("run", playbook, "--set", f"strict={word}", "--set", "region=eu", cwd=tmp_path)
    assert (done.code, done.err.strip().endswith("; write it as true or false")) == (2, True)


def test_a_child_without_a_needed_name_fails_the_task_with_the_place(tmp_path: Path) -> None:
    file(tmp_path, NEEDS, "child.yaml")
    parent = HEAD + 'workflow:\n  - step: start\n    tool: {kind: playbook, path: child, args: {regoin: "eu"}}\n'
    done = noetl("run", file(tmp_path, parent, "parent.yaml"), cwd=tmp_path)
    assert done.code == 1
    assert (
        "child.yaml:7:36: NTL502 nothing provides 'region', which is read in a tool's input; "
        "did you mean 'regoin' of the payload?" in done.err
    )
    done = noetl("run", file(tmp_path, parent.replace("regoin", "x"), "parent.yaml"), cwd=tmp_path)
    assert "; pass it with `--set region=VALUE`, in the payload or in `args` of a child, or give it a" in done.err
    done = noetl("run", file(tmp_path, parent.replace("regoin:", "regoin: 1, region:")), cwd=tmp_path)
    assert done.code == 0, done.err
    assert "noetl: warning: tests/story: workload has no 'regoin': did you mean 'region'?" in done.err
    child = noetl("runs", "show", done.err.partition("the child ")[2].split()[0], cwd=tmp_path).out
    assert "\nwarning: workload has no 'regoin': did you mean 'region'?\n" in child


# -- what can't run -------------------------------------------------------------------------------------------------


def test_a_missing_file_is_exit_4(tmp_path: Path) -> None:
    done = noetl("run", "nothing.yaml", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (4, "", "noetl: no such file: nothing.yaml\n")


def test_an_invalid_playbook_is_exit_3_with_its_problems(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, BAD), "-o", "json", cwd=tmp_path)
    assert (done.code, done.out) == (3, "")
    assert "NTL" in done.err
    assert "nothing was run" in done.err
    assert not (tmp_path / ".noetl").exists()


def test_a_kind_that_this_version_cannot_run_is_exit_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(KINDS._runners, "noop", None)
    result = CliRunner().invoke(noetl_command, ["run", file(tmp_path, FAILS)])
    assert result.exit_code == 3
    assert "9:11: error: this version of noetl cannot run tools of kind 'noop'" in result.output
    assert not (tmp_path / ".noetl").exists()


def test_a_playbook_on_standard_input_runs(tmp_path: Path) -> None:
    assert noetl("run", "-", "-o", "json", stdin=TWO, cwd=tmp_path).code == 0


# -- where ----------------------------------------------------------------------------------------------------------


def test_the_database_is_private_and_below_the_working_folder(tmp_path: Path) -> None:
    noetl("run", file(tmp_path, TWO), cwd=tmp_path)
    made = tmp_path / ".noetl" / "noetl.db"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_a_flag_wins_over_the_environment(tmp_path: Path) -> None:
    playbook = file(tmp_path, TWO)
    assert noetl("run", playbook, cwd=tmp_path, NOETL_DB="a.db").code == 0
    assert noetl("run", playbook, "--db", "b.db", cwd=tmp_path, NOETL_DB="a.db").code == 0
    assert {path.name for path in tmp_path.glob("*.db")} == {"a.db", "b.db"}
    assert len(data(noetl("runs", "list", "-o", "json", cwd=tmp_path, NOETL_DB="a.db"))) == 1


def test_a_setting_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = noetl("run", file(tmp_path, TWO), cwd=tmp_path, NOETL_SYNCHRONOUS="sometimes")
    assert (done.code, "full, normal" in done.err) == (2, True)


def test_a_database_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = noetl("run", file(tmp_path, TWO), "--db", "taken/noetl.db", cwd=tmp_path)
    assert done.code == 1
    assert len(done.err.splitlines()) == 1


def test_a_pipe_needs_neither_rich_nor_a_client_for_http(tmp_path: Path) -> None:
    code = (
        "import sys; from noetl.cli.main import noetl_command as c; c(sys.argv[1:], standalone_mode=False); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    args = [sys.executable, "-c", code, "run", file(tmp_path, TWO)]
    done = subprocess.run(args, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment())
    assert set(done.stderr.splitlines()[-1].split()) & {"rich", "httpx2", "ruamel"} == set()


# -- a terminal -----------------------------------------------------------------------------------------------------


def on_a_terminal(folder: Path, *args: str) -> Done:
    """Run with a terminal for stderr and a pipe for stdout."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl.cli", *args],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="100", LINES="20"),
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert process.stdout is not None
    with process.stdout:
        out = process.stdout.read().decode()
    return Done(process.wait(), out, drawn.decode())


def test_on_a_terminal_a_tree_is_drawn_and_the_result_is_data(tmp_path: Path) -> None:
    text = TWO + "    loop: {in: '{{ [1, 2, 3] }}', iterator: x}\n"
    done = on_a_terminal(tmp_path, "run", file(tmp_path, text))
    assert (done.code, msgspec.json.decode(done.out)) == (0, [8, 8, 8])
    for part in ("story", "start#1", "end#1", "3 of 3", "✔", "succeeded"):
        assert part in done.err


def test_a_failure_on_a_terminal_is_shown_in_the_tree_and_with_its_place(tmp_path: Path) -> None:
    done = on_a_terminal(tmp_path, "run", file(tmp_path, FAILS))
    assert done.code == 1
    assert "✘" in done.err
    assert "task call" in done.err


# -- children -------------------------------------------------------------------------------------------------------

PARENT = (
    HEAD
    + """\
workflow:
  - step: start
    tool:
      - child: {kind: playbook, path: PATH, args: {name: Ada}}
"""
)
CHILD = ECHO.replace("name: story", "name: child")


@pytest.mark.parametrize("path", ["child.yaml", "child", "below/child", "./below/../child"])
def test_a_child_is_a_file_beside_its_parent(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "playbooks"
    (folder / "below").mkdir(parents=True)
    file(folder, CHILD, "child.yaml")
    file(folder / "below", CHILD, "child.yml")
    parent = file(folder, PARENT.replace("PATH", path))
    done = noetl("run", parent, "-o", "json", cwd=tmp_path)
    assert (done.code, data(done)["result"]["name"]) == (0, "Ada"), done.err
    assert verified(tmp_path) == (2, [])


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("nothing", CHILD, "no playbook 'nothing'"),
        ("child", BAD, "problem"),
        ("{path: child, version: 3}", CHILD, "version"),
    ],
)
def test_a_child_that_cannot_be_found_or_run_fails_the_task(tmp_path: Path, path: str, text: str, says: str) -> None:
    file(tmp_path, text, "child.yaml")
    whole = PARENT.replace("path: PATH", path[1:-1] if path.startswith("{") else f"path: {path}")
    done = noetl("run", file(tmp_path, whole), "-o", "json", cwd=tmp_path)
    error = data(done)["error"]
    assert (done.code, error["kind"], error["step"], error["task"]) == (1, "not_found", "start", "child")
    assert says in error["message"]


FILLS = """\
workflow:
  - step: start
    loop: {in: "{{ range(1, 61) | list }}", iterator: n}
    tool:
      - write:
          kind: noop
          result: "{{ 'x' * 20000 }}"
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {last: "{{ iter.n }}"}}}}]}}
      - then: {kind: noop, result: "{{ iter.n }}"}
"""

# -- interruptions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("text", "until"), [(ASKS, "waits for the signal 'go'"), (WORKS, "attempt 3")])
def test_an_interrupted_run_says_how_to_resume_it(
    tmp_path: Path, number: signal.Signals, text: str, until: str
) -> None:
    with running(tmp_path, text, until) as (one, execution):
        one.send(number)
        done = one.end()
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == f"noetl: interrupted; continue with `noetl runs resume {execution}`"
    assert "Traceback" not in done.err
    assert data(noetl("runs", "show", "last", "-o", "json", cwd=tmp_path))["status"] in ("running", "waiting")
    assert verified(tmp_path) == (1, [])


def test_an_interrupted_run_names_its_database(tmp_path: Path) -> None:
    with running(tmp_path, ASKS, "waits", "--db", "some where.db") as (one, execution):
        one.send(signal.SIGINT)
        assert f"noetl runs resume {execution} --db 'some where.db'" in one.end().err


def test_a_full_disk_ends_the_command_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    text = HEAD + FILLS
    command = f"ulimit -f 400; exec {sys.executable} -m noetl.cli run {file(tmp_path, text)}"
    full = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert full.returncode == 1, full.stderr
    assert "noetl runs resume" in full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr
    assert verified(tmp_path) == (1, [])
    done = noetl("runs", "resume", "last", "-o", "json", cwd=tmp_path)
    assert (done.code, data(done)["ctx"]) == (0, {"last": 60})
    assert verified(tmp_path) == (1, [])


def test_two_runs_at_once_on_one_database(tmp_path: Path) -> None:
    with running(tmp_path, ASKS, "waits") as (one, first), running(tmp_path, ASKS, "waits") as (two, second):
        for execution in (first, second):
            assert noetl("runs", "signal", execution, "go", "--data", "5", cwd=tmp_path).out == "accepted\n"
        assert [one.end()[:2], two.end()[:2]] == [(0, "5\n"), (0, "5\n")]
    assert verified(tmp_path) == (2, [])


def test_a_terminal_with_json_stays_silent(tmp_path: Path) -> None:
    file(tmp_path, TWO)
    with terminal("run", "playbook.yaml", "-o", "json", cwd=tmp_path) as one:
        done = one.end()
    assert (done.code, done.err) == (0, "")


def test_uuid7_sorts_by_time() -> None:
    ids = [uuid7(1_700_000_000 + i / 10_000, bytes(range(i % 200, i % 200 + 8))) for i in range(5_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {(len(one), one[14], one[19]) for one in ids} <= {(36, "7", digit) for digit in "89ab"}


def test_a_classic_playbook_without_a_canonical_spelling_runs(tmp_path: Path) -> None:
    (tmp_path / "inclusive.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: inclusive, path: inclusive}\nworkflow:\n"
        "  - step: start\n    spec: {case_mode: inclusive}\n    tool: {kind: noop}\n"
        "    case: [{when: '{{ true }}', then: [{next: {to: [{step: after}]}}]}]\n"
        "  - {step: after, tool: {kind: noop}}\n"
    )
    done = noetl("run", "inclusive.yaml", cwd=tmp_path)
    assert done.code == 0


@pytest.mark.parametrize(
    ("line", "other", "says"),
    [
        ("apiVersion: noetl.io/v2\n", "apiVersion: noetl.io/v1\n", "NTL104"),
        ("apiVersion: noetl.io/v2\n", "", "NTL102"),
        ("kind: Playbook\n", "kind: Pipeline\n", "NTL105"),
    ],
)
def test_a_document_of_another_version_or_kind_is_not_started(tmp_path: Path, line: str, other: str, says: str) -> None:
    assert line in ECHO
    done = noetl("run", file(tmp_path, ECHO.replace(line, other)), cwd=tmp_path)
    assert (done.code, says in done.err) == (3, True), done
    assert noetl("runs", "list", "-o", "json", cwd=tmp_path).out.strip() in ("", "[]")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(tmp_path: Path, closed: str) -> None:
    """Tables broke off without a standard output, and runs without a standard error."""
    path = file(tmp_path, TWO)
    for words in (f"run {path}", "runs list", "verify last", "runs watch last"):
        command = f"exec {sys.executable} -m noetl.cli {words} {closed}"
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment())
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (words, done.stderr)


def test_a_working_folder_that_was_deleted_is_reported(tmp_path: Path) -> None:
    path, deleted = file(tmp_path, TWO), tmp_path / "deleted"
    for words in (f"run {path}", "runs list"):
        command = f"mkdir {deleted} && cd {deleted} && rmdir {deleted} && exec {sys.executable} -m noetl.cli {words}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment())
        message = "noetl: the working folder was deleted: change to another folder\n"
        assert (done.returncode, done.stderr) == (4, message), words
