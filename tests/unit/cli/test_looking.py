"""What a run is doing, what it waits for, what it gave and what its tasks printed: on a database and on a server."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from command import file, noetl
from places import Place
from pytest_httpserver import HTTPServer
from terminal import data, terminal
from tests.servers.patience import until

from noetl.cli.output import MIN_CELL, table
from noetl.cli.progress import Lines, StepRow, Tree
from noetl.engine.events import (
    ExecutionForked,
    IterationDone,
    IterationFailed,
    LoopDone,
    LoopStarted,
    StepFailed,
    StepPaused,
    StepRegranted,
    StepStarted,
    TaskDone,
    TaskRetryScheduled,
    TaskStarted,
    TokenEnqueued,
)
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.store.codec import ZERO, rows_of

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: story, path: tests/story}\nworkflow:\n"
SLEEPS = HEAD + '  - step: slow\n    tool:\n      - nap: {kind: shell, command: "sleep 60"}\n'
ASKS = (
    HEAD
    + """\
  - step: ask
    tool:
      - verdict: {kind: wait, signal: verdict, spec: {timeout: 1h}}
"""
)
FAILS = (
    HEAD
    + """\
  - step: many
    loop: {in: "{{ range(8) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4, on_error: continue}}
    tool:
      - parse: {kind: python, args: {n: "{{ iter.n }}"}, code: "result = 1 / (n % 3)"}
"""
)
LARGE = (
    HEAD
    + """\
  - step: start
    tool: {kind: python, code: "result = {'rows': ['x' * 100] * 2000}"}
    next: {arcs: [{step: end}]}
  - step: end
    loop: {in: "{{ range(3) }}", iterator: n}
    tool: {kind: python, args: {n: "{{ iter.n }}"}, code: "result = str(n) * 70_000"}
"""
)
RETRIES = (
    HEAD
    + """\
  - step: try
    tool:
      - again:
          kind: noop
          result: "{{ _attempt }}"
          spec:
            policy:
              rules:
                - {when: "{{ _attempt < 3 }}", then: {do: retry, attempts: 5, delay: 0}}
                - {else: {then: {do: continue}}}
      - broken: {kind: python, code: "1 / 0"}
"""
)
PRINTS = (
    HEAD
    + """\
  - step: first
    tool: {kind: shell, command: "echo one; echo two >&2"}
    next: {arcs: [{step: below}]}
  - step: below
    tool: {kind: playbook, path: PATH}
"""
)
CHILD = HEAD.replace("story", "child") + '  - step: start\n    tool: {kind: shell, command: "echo three"}\n'


def no_answers(step: str, names: tuple[str, ...]) -> list[str]:
    return []


@contextmanager
def begun(place: Place, text: str) -> Iterator[str]:
    """A run that goes on; it is cancelled at the end."""
    (place.folder / "story.yaml").write_text(text)
    if place.env:
        assert place("register", "story.yaml").code == 0
        execution = place.json("exec", "tests/story")["execution_id"]
        yield execution
        place("runs", "cancel", execution)
        return
    with terminal("run", "story.yaml", cwd=place.folder) as one:
        execution = one.line("story ").split()[1]
        yield execution
        place("runs", "cancel", execution)


def first_shown(place: Place, run: str, key: str) -> Any:
    """The first of what a run shows under a key, once there is something."""
    result: list[Any] = []
    until(lambda: result.extend(place.json("runs", "show", run)[key]) or result)
    return result[0]


def test_the_task_that_runs_is_shown_with_its_attempt_and_its_time(place: Place) -> None:
    with begun(place, SLEEPS) as execution:
        task = first_shown(place, execution, "running")
        assert (task["step"], task["run"], task["task"], task["item"]) == ("slow", "slow#1", "nap", None)
        assert task["attempt"] == 1
        assert task["duration_ms"] > 0
        assert re.search(r"slow#1/nap runs, [\d.]+ m?s\n", place("runs", "show", execution).out)
        (row,) = place.json("runs", "show", "--tasks", execution)["tasks"]
        assert (row["task"], row["status"], row["attempts"]) == ("slow#1/nap#1", "running", 1)
        explained = place.json("explain", execution)
        assert [step["step"] for step in explained["steps"]] == ["slow"]


def test_a_waiting_run_tells_what_it_waits_for_until_when_and_the_answer(place: Place) -> None:
    with begun(place, ASKS) as execution:
        wait = first_shown(place, execution, "waiting")
        answer = f"noetl runs signal {execution} verdict"
        assert (wait["kind"], wait["names"], wait["commands"]) == ("signal", ["verdict"], [answer])
        assert wait["until"].endswith("Z")
        lines = place("runs", "show", execution).out
        assert re.search(r"ask#1 waits for the signal 'verdict' until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", lines)
        assert f"  answer with `{answer}`\n" in lines
        explained = place("explain", execution).out
        assert "ask#1 waits for the signal 'verdict' until" in explained
        assert f"answer with `{answer}`" in explained
        assert place(*answer.split()[1:]).out == "accepted\n"


def test_a_failure_is_shown_while_the_run_continues(place: Place) -> None:
    steps = """\
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: bad}]}
  - {step: bad, tool: {kind: noop, result: "{{ workload.nothing }}"}}
"""
    text = ASKS.replace("workflow:", "executor: {spec: {on_failure: finish}}\nworkflow:")
    text = text.replace("  - step: ask", f"{steps}  - step: ask")
    with begun(place, text) as execution, terminal("runs", "watch", execution, cwd=place.folder, **place.env) as watch:
        assert "template: 'workload.nothing' is undefined" in watch.line("bad#1 failed in ")
        assert place("runs", "signal", execution, "verdict").out == "accepted\n"
        assert watch.end().code == 1


def test_progress_tells_the_command_that_answers_a_wait(tmp_path: Path) -> None:
    (tmp_path / "story.yaml").write_text(ASKS)
    with terminal("run", "story.yaml", "--db", "other.db", cwd=tmp_path) as one:
        execution = one.line("story ").split()[1]
        one.line("ask#1 waits for the signal 'verdict' until ")
        line = one.line("  answer with")
        assert line == f"  answer with `noetl runs signal {execution} verdict --db other.db`"
        noetl("runs", "signal", "last", "verdict", "--db", "other.db", cwd=tmp_path)
        assert one.end().code == 0


def test_the_answer_to_a_wait_has_the_fields_that_the_playbook_reads(place: Place) -> None:
    text = (
        ASKS
        + """\
    next: {arcs: [{step: pay, when: "{{ event.data.result.approved }}"}, {step: end}]}
  - {step: pay, tool: {kind: noop, result: "paid by {{ steps.ask.result.by }}"}}
  - {step: end, tool: {kind: noop}}
"""
    )
    with begun(place, text) as execution:
        answer = f"""noetl runs signal {execution} verdict --data '{{"approved": true, "by": "..."}}'"""
        assert first_shown(place, execution, "waiting")["commands"] == [answer]
        assert f"  answer with `{answer}`\n" in place("runs", "show", execution).out
        assert f"answer with `{answer}`" in place("explain", execution, "ask").out
        with terminal("runs", "watch", execution, cwd=place.folder, **place.env) as watch:
            assert watch.line("  answer with") == f"  answer with `{answer}`"
            assert place(*shlex.split(answer)[1:]).out == "accepted\n"
            assert watch.end().out == '"paid by ..."\n'


def test_failed_items_of_a_run_that_succeeded_are_counted_with_the_first_reasons(place: Place) -> None:
    run = place.run(FAILS)
    assert (run["status"], run["continued_errors"]) == ("succeeded", 3)
    assert [(error["item"], error["kind"], error["task"]) for error in run["continued"]] == [
        (0, "python", "parse"),
        (3, "python", "parse"),
        (6, "python", "parse"),
    ]
    assert run["steps"]["many"]["items"] == {"total": 8, "ok": 5, "failed": 3, "running": 0}
    lines = place("runs", "show", "last").out
    assert "many  succeeded, 8 of 8 items, 3 failed  1" in lines
    assert "continued past 3 errors:\n" in lines
    assert "step many, item 3, task parse, attempt 1: python: ZeroDivisionError" in lines
    assert "succeeded (3 errors)" in place("runs", "list").out
    done = place("run", "playbook.yaml")
    assert "continued past 3 errors:\n" in done.err


def test_tasks_are_listed_with_attempts_and_durations(place: Place) -> None:
    place.run(RETRIES)
    tasks = place.json("runs", "show", "--tasks", "last")["tasks"]
    assert [(task["task"], task["status"], task["attempts"]) for task in tasks] == [
        ("try#1/again#1", "succeeded", 3),
        ("try#1/broken#1", "failed", 1),
    ]
    assert all(task["duration_ms"] >= 0 for task in tasks)
    assert tasks[1]["error"]["kind"] == "python"
    rows = place("runs", "show", "--tasks", "last").out.splitlines()
    assert any(re.match(r"try#1/again#1 +succeeded +3 +[\d.]+ m?s", row) for row in rows)


WAITS_AND_CALLS = (
    HEAD
    + """\
  - step: ask
    tool:
      - verdict:
          kind: wait
          signal: verdict
          spec:
            timeout: 200ms
            policy:
              rules: [{when: "{{ outcome.status == 'error' }}", then: {do: continue}}, {else: {then: {do: fail}}}]
      - took: {kind: python, args: {ms: "{{ tasks.verdict.meta.duration_ms }}"}, code: "result = ms"}
"""
)


def test_the_duration_of_a_task_includes_the_time_that_it_waited(place: Place) -> None:
    run = place.run(WAITS_AND_CALLS)
    assert run["result"] >= 200
    tasks = place.json("runs", "show", "--tasks", "last")["tasks"]
    assert (tasks[0]["task"], tasks[0]["duration_ms"]) == ("ask#1/verdict#1", run["result"])


def test_results_are_printed_also_from_behind_a_reference(place: Place) -> None:
    run = place.run(LARGE)
    assert run["steps"]["start"]["result"]["store"] == "db"
    assert place.json("runs", "result", "last", "start") == {"rows": ["x" * 100] * 2000}
    assert data(place("runs", "result", "last")) == [str(n) * 70_000 for n in range(3)]
    wrong = place("runs", "result", "last", "strt")
    assert (wrong.code, "did you mean 'start'?" in wrong.err) == (4, True)
    place.run(RETRIES)
    failed = place("runs", "result", "last")
    assert (failed.code, "has no result: it is failed; see `noetl runs show " in failed.err) == (6, True)


def test_a_long_result_is_cut_below_the_steps_and_the_command_for_all_of_it_is_shown(place: Place) -> None:
    run = place.run(HEAD + "  - {step: a, tool: {kind: noop, result: \"{{ 'x' * 30000 }}\"}}\n")
    text = place("runs", "show", "last").out
    assert max(map(len, text.splitlines())) <= 4_001
    assert f"\nprint all of it with `noetl runs result {run['execution_id']}" in text


def test_children_are_listed_with_their_parent(place: Place) -> None:
    path = "child.yaml"
    (place.folder / path).write_text(CHILD)
    if place.env:
        assert place("register", path).code == 0
        path = "tests/child"
    place.run(PRINTS.replace("PATH", path))
    lines = place("runs", "show", "last").out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.split() == ["run", "child", "status", "took"])
    assert lines[head + 1].split()[1:3] == ["child", "succeeded"]
    assert place("runs", "show", lines[head + 1].split()[0]).code == 0


def test_the_status_of_a_child_has_the_errors_that_it_continued_past(place: Place) -> None:
    (place.folder / "child.yaml").write_text(FAILS.replace("path: tests/story", "path: tests/child"))
    if place.env:
        assert place("register", "child.yaml").code == 0
    place.run(HEAD + "  - {step: a, tool: {kind: playbook, path: tests/child}}\n")
    assert "  succeeded (3 errors)  " in place("runs", "show", "last").out


def test_the_body_of_a_failed_response_is_shown_with_the_error(place: Place, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/shop").respond_with_json({"error": "no such entity"}, status=404)
    text = HEAD + "  - {step: a, tool: {kind: http, url: URL}}\n"
    place.run(text.replace("URL", httpserver.url_for("/shop")))
    for verb in (("runs", "show", "last"), ("explain", "last")):
        assert '  = the response: {"error":"no such entity"}\n' in place(*verb).out


def test_a_retry_waits_for_the_date_that_a_server_asks_for(place: Place, httpserver: HTTPServer) -> None:
    due = math.ceil(time.time()) + 2
    headers = {"Retry-After": formatdate(due, usegmt=True)}
    httpserver.expect_ordered_request("/shop").respond_with_data("", status=503, headers=headers)
    httpserver.expect_ordered_request("/shop").respond_with_json({"open": True})
    text = HEAD + "  - {step: a, tool: {kind: http, url: URL, spec: {retry: {attempts: 2, delay: 0}}}}\n"
    place.run(text.replace("URL", httpserver.url_for("/shop")))
    (retry,) = place.json("runs", "events", "last", "--type", "task.retry.scheduled")
    assert retry["payload"]["due"] >= due
    assert place.json("runs", "result", "last", "a")["data"] == {"open": True}


def test_output_has_time_and_stream_and_that_of_children_is_indented(place: Place) -> None:
    path = "child.yaml"
    (place.folder / path).write_text(CHILD)
    if place.env:
        assert place("register", path).code == 0
        path = "tests/child"
    run = place.run(PRINTS.replace("PATH", path))
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    lines = place("runs", "logs", "last").out.splitlines()
    expected = [rf"{moment} stdout first#1/\S+ \| one", rf"{moment} stderr first#1/\S+ \| two"]
    expected.append(rf"  {moment} stdout start#1/\S+ \| three")
    assert all(any(re.fullmatch(pattern, line) for line in lines) for pattern in expected)
    assert len(lines) == 3
    assert lines[2].startswith("  ")
    body = place.json("runs", "logs", "last", "--step", "first")
    assert {(line["execution_id"], line["line"]) for line in body} == {
        (run["execution_id"], "one"),
        (run["execution_id"], "two"),
    }
    assert place.json("runs", "logs", "last", "--since", "2100-01-01") == []
    for options in ((), ("--follow",)):
        unknown = place("runs", "logs", "last", "--step", "fist", *options)
        assert (unknown.code, "step 'fist' not found: did you mean 'first'?" in unknown.err) == (4, True)
        unknown = place("runs", "logs", "last", "--step", "nowhere", *options)
        assert (unknown.code, "step 'nowhere' not found: steps: " in unknown.err) == (4, True)
    assert len(place.json("runs", "logs", "last", "--since", "1h", "--follow")) == 3


def test_output_of_a_step_has_that_of_the_children_it_started_and_no_other(place: Place) -> None:
    child = (
        HEAD.replace("story", "child") + "  - step: work\n    tool: {kind: shell, command: 'echo {{ workload.who }}'}\n"
    )
    (place.folder / "child.yaml").write_text(child)
    path = "child.yaml"
    if place.env:
        assert place("register", path).code == 0
        path = "tests/child"
    text = (
        HEAD
        + f"""\
  - step: work
    tool:
      - say: {{kind: shell, command: echo own}}
      - call: {{kind: playbook, path: {path}, args: {{who: ours}}}}
    next: {{arcs: [{{step: later}}]}}
  - step: later
    tool: {{kind: playbook, path: {path}, args: {{who: theirs}}}}
"""
    )
    place.run(text)
    lines = place("runs", "logs", "last", "--step", "work").out.splitlines()
    assert [(line.startswith("  "), line.rpartition("| ")[2]) for line in lines] == [(False, "own"), (True, "ours")]
    assert [line["line"] for line in place.json("runs", "logs", "last", "--step", "later")] == ["theirs"]


def test_output_is_followed_to_the_end_of_the_run(place: Place) -> None:
    text = HEAD + '  - {step: start, tool: {kind: shell, command: "echo one; sleep 2; echo two"}}\n'
    with begun(place, text) as execution:
        done = place("runs", "logs", "--follow", execution)
        assert [line.rpartition("| ")[2] for line in done.out.splitlines()] == ["one", "two"]


def test_without_a_step_the_failure_is_explained(place: Place) -> None:
    place.run(RETRIES)
    lines = place("explain", "last").out
    assert lines.startswith("story  failed  ")
    assert "step try, task broken" in lines
    assert "\ntry  failed, 1 run" in lines
    explained = place.json("explain", "last")
    assert explained["error"]["task"] == "broken"
    assert [step["step"] for step in explained["steps"]] == ["try"]


def test_a_run_that_succeeded_tells_how_its_steps_are_explained(place: Place) -> None:
    place.run(HEAD + "  - {step: start, tool: {kind: noop}}\n")
    assert re.search(r"`noetl explain \S{36} start` explains one of its steps: start\n", place("explain", "last").out)


@pytest.mark.parametrize("code", ["NTL308", "ntl308"])
def test_the_page_of_a_problem_is_printed(tmp_path: Path, code: str) -> None:
    done = noetl("explain", code, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("NTL308\n\n**Warning:** Rules without `else`")
    assert "NTL309" not in done.out


def test_a_problem_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    done = noetl("explain", "NTL999", cwd=tmp_path)
    assert (done.code, done.err) == (
        4,
        "noetl: problem 'NTL999' not found: `noetl validate FILE` prints the codes of a playbook\n",
    )


def test_lanes_that_are_lost_and_start_again_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    lost = [StepPaused("many#1", fence, "lost") for fence in range(1, 5)]
    again = [StepRegranted("many#1", fence, "local", reason="lost") for fence in range(5, 9)]
    lines = Lines()
    lines.show(rows_of(lost, 1, 1.0, ZERO), list)
    lines.show(rows_of(again[:3], 5, 2.0, ZERO), list)
    lines.show(rows_of(again[3:], 8, 2.0, ZERO), list)
    assert capsys.readouterr().err == "many#1 was lost, 4 times\nmany#1 started again (lost), 3 times\n"


def test_times_of_a_fork_count_from_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    items = [IterationDone("many#1", 0), IterationFailed("many#1", 1, Error("python", "no"), "call", 1)]
    source = [StepStarted("many#1", 1), LoopStarted("many#1", 2, "in"), *items]
    fork = [ExecutionForked("a" * 32, 4, "retry", reopened="many#1"), StepStarted("many#1", 2)]
    events = [*rows_of(source, 1, 1_000.0, ZERO), *rows_of(fork, 5, 9_000.0, ZERO)]
    events += rows_of([IterationDone("many#1", 1), LoopDone("many#1", 2, 2, 0)], 7, 9_002.0, ZERO)
    lines, tree = Lines(), Tree()
    lines.begin("many", "b" * 32, 4, no_answers)
    lines.show(events, list)
    assert capsys.readouterr().err.splitlines()[-1] == "many#1 done in 2.0 s, 2 items"
    tree.begin("many", "b" * 32, 4, no_answers)
    tree.show(events, list)
    tree.close()
    (step,) = tree.steps.values()
    assert (tree.started, step.started, step.ended) == (9_000.0, 9_000.0, 9_002.0)
    assert (step.done, step.failed, step.total) == (2, 0, 2)


def test_wide_cells_of_a_table_are_cut_and_ids_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    head, row = table([{"run": "i" * 36, "status": "succeeded", "result": "x" * 30_000}]).splitlines()
    assert (len(row), row.split()[0], row[-1]) == (80, "i" * 36, "…")
    assert head.split() == ["run", "status", "result"]
    monkeypatch.setenv("COLUMNS", "20")
    assert len(table([{"run": "i" * 36, "result": "x" * 30_000}]).splitlines()[1]) == 38 + MIN_CELL


def test_the_tree_says_why_a_task_is_tried_again() -> None:
    step, task = StepRow("load#1"), TaskId("load#1", "get#1", None)
    step.update(TaskStarted(task, 1, at=1_000_000), 1_000.0)
    step.update(TaskDone(task, 1, Outcome("error", error=Error("http_status", "429")), "retry", "get"), 1_001.0)
    step.update(TaskRetryScheduled(task, 2, 1_002.0), 1_001.0)
    assert step.row(1_001.5)[-1].plain == "get, attempt 2 (http_status: 429)"
    step.update(TaskStarted(task, 2, at=1_002_000), 1_002.0)
    assert step.row(1_003.0)[-1].plain == "get, attempt 2, 1.0 s (http_status: 429)"
    step.update(TaskDone(task, 2, Outcome(), "continue"), 1_003.0)
    step.update(TaskStarted(TaskId("load#1", "put#1", None), 1, at=1_003_000), 1_003.0)
    assert step.row(1_003.0)[-1].plain == "put, 0 ms"


def test_the_tree_has_the_task_that_runs_longest_with_its_attempt_and_its_time() -> None:
    step = StepRow("many#1")
    first, second = TaskId("many#1", "fetch#1", 3), TaskId("many#1", "fetch#1", 4)
    for event in (StepStarted("many#1", 1), TaskStarted(first, 2, at=1_000_000), TaskStarted(second, 1, at=1_002_000)):
        step.update(event, 1_003.0)
    assert step.row(1_004.0)[-1].plain == "[3]/fetch, attempt 2, 4.0 s"
    step.update(TaskDone(first, 2, Outcome(), "continue"), 1_004.0)
    assert step.row(1_004.0)[-1].plain == "[4]/fetch, 2.0 s"


@pytest.mark.parametrize(
    ("on_error", "item", "reasons"),
    [("fail", 2, [": step many, item 2,"]), ("collect", None, ["[2] failed: ", "items_"])],
)
def test_an_error_that_the_result_of_a_run_prints_is_in_no_other_line(
    place: Place, on_error: str, item: int | None, reasons: list[str]
) -> None:
    run = place.run(FAILS.replace("n % 3", "n - 2").replace("on_error: continue", f"on_error: {on_error}"))
    assert run["error"]["item"] == item
    lines = place("runs", "watch", run["execution_id"]).err.splitlines()
    result = [line for line in lines if "division by zero" in line and not line.startswith("  ")]
    assert [reason in line for reason, line in zip(reasons, result, strict=True)] == [True] * len(reasons), result
    assert [line.rpartition(" in ")[0] for line in lines if line.startswith("many#1 failed")] == ["many#1 failed"]


def test_failed_items_tell_their_reasons_and_their_step_does_not_repeat_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = Error("python", "division by zero")
    events = [StepStarted("many#1", 1), *(IterationFailed("many#1", index, error) for index in (0, 1))]
    lines = Lines()
    for seq, event in enumerate([*events, StepFailed("many#1", error), TokenEnqueued(2, "next")], 1):
        lines.show(rows_of([event], seq, 1.0, ZERO), list)  # one by one, as a server sends them
    assert capsys.readouterr().err.splitlines()[1:] == [
        "many#1[0] failed: python: division by zero",
        "many#1[1] failed: python: division by zero",
        "many#1 failed in 0 ms",
    ]


DIVIDES = (
    HEAD.replace("workflow:", "workload: {bad: 2}\nworkflow:")
    + """\
  - step: many
    loop: {in: [1, 2, 3], iterator: n, spec: {on_error: continue}}
    tool:
      - parse: {kind: noop, result: "{{ 1 / (iter.n - workload.bad) }}"}
"""
)


def test_a_retry_shows_its_own_events_only(place: Place) -> None:
    assert place.run(DIVIDES)["continued_errors"] == 1
    lines = place("runs", "retry", "last", "--failed-items", "--set", "bad=9").err.splitlines()
    assert [line for line in lines if "failed" in line] == []
    assert len([line for line in lines if line.startswith("many#1 done in ")]) == 1


def test_errors_that_a_run_continued_past_are_shown_in_the_file_that_was_run(place: Place) -> None:
    lines = place("run", file(place.folder, DIVIDES, "shop.yaml")).err.splitlines()
    (line,) = [line for line in lines if "step many, item 1, task parse" in line]
    assert re.search(r"shop\.yaml:9:", line)


def test_a_loop_that_collected_its_failures_points_at_the_task_of_the_first(place: Place) -> None:
    error = place.run(DIVIDES.replace("on_error: continue", "on_error: collect"))["error"]
    assert (error["kind"], error["line"], error["column"]) == ("items_failed", 9, 37)


def test_a_run_of_a_playbook_that_is_not_registered_is_replayed(place: Place) -> None:
    run = place.run(DIVIDES)
    assert place("runs", "replay", run["execution_id"]).out.splitlines()[-1].startswith("equal")
