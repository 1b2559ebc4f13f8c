"""noetl runs: looking at runs, and acting on one that is alive in another terminal, dead, or paused."""

from __future__ import annotations

import os
import pwd
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command import Done, file, noetl
from terminal import ASKS, DELAYED, HEAD, WORKS, Terminal, data, running, terminal, verified
from tests.acceptance.modes.stage import Process
from tests.servers.patience import until

from noetl.store.sqlite import SqliteStore

ONE = HEAD + "workflow:\n  - {step: start, tool: {kind: noop, result: 1}}\n"
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
USER = pwd.getpwuid(os.getuid()).pw_name
OTHER = "01900000-0000-7000-8000-000000000000"


def run(folder: Path, text: str = ONE) -> str:
    """Run a playbook to its end; its id."""
    execution: str = data(noetl("run", file(folder, text), "-o", "json", cwd=folder))["execution_id"]
    return execution


def runs(folder: Path, *args: str) -> Done:
    return noetl("runs", *args, cwd=folder)


def status(folder: Path, run: str = "last") -> Any:
    return data(runs(folder, "show", run, "-o", "json"))["status"]


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[tuple[Terminal, str]]:
    """A run in another terminal that waits for a signal."""
    with running(tmp_path, ASKS, "ask#1 waits for the signal 'go'") as result:
        yield result


@pytest.fixture
def killed(tmp_path: Path) -> str:
    """A run that waited for a signal when its process was killed."""
    with running(tmp_path, ASKS, "ask#1 waits for the signal 'go'") as (one, execution):
        one.send(signal.SIGKILL)
        assert one.end().code == -signal.SIGKILL
    return execution


# -- looking --------------------------------------------------------------------------------------------------------


def test_list_is_the_contract_newest_first(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    result = data(runs(tmp_path, "list", "-o", "json"))
    assert [one["execution_id"] for one in result] == [second, first]
    about = ["execution_id", "name", "path", "status", "started", "ended", "duration_ms", "parent", "continued_errors"]
    about += [
        "activity",
        "progress",
        "failed_items",
        "waits",
        "error",
        "trigger",
        "version",
        "source",
        "local",
        "events",
    ]
    assert list(result[0]) == about
    assert (result[0]["name"], result[0]["path"], result[0]["status"]) == ("story", "tests/story", "succeeded")
    assert RFC3339.fullmatch(result[0]["started"])
    assert RFC3339.fullmatch(result[0]["ended"])
    assert result[0]["duration_ms"] >= 0


def test_show_and_events_name_who_started_it(tmp_path: Path) -> None:
    run(tmp_path)
    assert data(runs(tmp_path, "show", "last", "-o", "json"))["actor"] == {"kind": "local", "name": USER}
    assert f" by local {USER}, " in runs(tmp_path, "show", "last").out
    first, second = runs(tmp_path, "events", "last").out.splitlines()[1:3]
    assert first.endswith(f"  local {USER}")
    assert second.endswith("  -")


def test_list_of_a_status(tmp_path: Path, killed: str) -> None:
    run(tmp_path)
    result = data(runs(tmp_path, "list", "--status", "waiting", "-o", "json"))
    assert [(one["execution_id"], one["ended"]) for one in result] == [(killed, None)]
    assert data(runs(tmp_path, "list", "--status", "failed", "-o", "json")) == []
    assert f"{killed}  story  waiting (no process)" in runs(tmp_path, "list").out
    assert (
        f"its process has ended: `noetl runs resume {killed}` continues it\n"
        in noetl("explain", killed, cwd=tmp_path).out
    )


def test_show_has_the_json_of_run_with_times(tmp_path: Path) -> None:
    before = data(noetl("run", file(tmp_path, ONE), "-o", "json", cwd=tmp_path))
    result = data(runs(tmp_path, "show", "last", "-o", "json"))
    assert RFC3339.fullmatch(result.pop("started"))
    assert RFC3339.fullmatch(result.pop("ended"))
    assert (result.pop("running"), result.pop("waiting")) == ([], [])
    assert (result.pop("actor"), result.pop("missing_pools")) == ({"kind": "local", "name": USER}, [])
    related = {"version": None, "payload": {}, "forked_from": None, "children": 0, "forks": 0}
    assert result == before | {"cancelled_by": None, "cancel_reason": None} | related
    assert "start  succeeded  1     1" in runs(tmp_path, "show", "last").out


def test_show_of_a_failed_run_shows_the_place(tmp_path: Path) -> None:
    run(tmp_path, ONE.replace("result: 1", "result: '{{ 1 / 0 }}'"))
    out = runs(tmp_path, "show", "last").out
    assert "playbook.yaml:5:" in out
    assert "step start" in out


def test_events_are_envelopes(tmp_path: Path) -> None:
    execution = run(tmp_path)
    lines = [msgspec.json.decode(line) for line in runs(tmp_path, "events", "last", "-o", "jsonl").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["execution_id"] for line in lines} == {execution}
    assert lines[-1]["event_type"] == "playbook.processed"
    assert lines[0]["event_id"] == f"{execution}.1"
    assert data(runs(tmp_path, "events", "last", "-o", "json", "--after", "3")) == lines[3:]
    assert runs(tmp_path, "events", "last", "--after", "99").out == ""
    assert "playbook.processed" in runs(tmp_path, "events", "last").out


def test_logs_are_what_tasks_wrote(tmp_path: Path) -> None:
    execution = run(tmp_path)
    store = SqliteStore(tmp_path / ".noetl" / "noetl.db")
    store.append_output(
        [(execution, "start#1/task_1#1", 1.5, "stdout", "hello"), (execution, "x", 2.0, "stderr", "ouch")]
    )
    store.close()
    lines = runs(tmp_path, "logs", "last").out.splitlines()
    assert [line.partition(" std")[2] for line in lines] == ["out start#1/task_1#1 | hello", "err x | ouch"]
    first = data(runs(tmp_path, "logs", "last", "-o", "json"))[0]
    assert first == {
        "execution_id": execution,
        "number": 1,
        "task": "start#1/task_1#1",
        "timestamp": "1970-01-01T00:00:01.500Z",
        "stream": "stdout",
        "line": "hello",
    }


# -- naming ---------------------------------------------------------------------------------------------------------


def test_a_run_is_an_id_a_prefix_or_last(tmp_path: Path) -> None:
    execution = run(tmp_path)
    for name in (execution, execution[:-1], execution[:4], "last"):
        assert data(runs(tmp_path, "show", name, "-o", "json"))["execution_id"] == execution


def test_several_runs_of_one_prefix_are_listed(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    done = runs(tmp_path, "show", first[:4])
    assert (done.code, done.out) == (2, "")
    assert first in done.err
    assert second in done.err


@pytest.mark.parametrize("name", [OTHER, "ffff", "nonsense", "", "0190_"])
@pytest.mark.parametrize("verb", ["show", "events", "watch", "logs", "cancel", "pause", "resume"])
def test_a_run_that_is_missing_is_exit_4(tmp_path: Path, verb: str, name: str) -> None:
    SqliteStore(tmp_path / ".noetl" / "noetl.db").close()
    done = runs(tmp_path, verb, name)
    assert (done.code, done.out) == (4, "")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("args", [["list"], ["show", "last"], ["cancel", "last"], ["resume", "--all"]])
def test_without_a_database_there_are_no_runs(tmp_path: Path, args: list[str]) -> None:
    done = runs(tmp_path, *args)
    assert (done.code, done.out) == (4, "")
    assert "database .noetl/noetl.db does not exist" in done.err
    assert not (tmp_path / ".noetl").exists()


# -- in another terminal --------------------------------------------------------------------------------------------


def test_a_signal_reaches_a_run_in_another_terminal(tmp_path: Path, asking: tuple[Terminal, str]) -> None:
    one, execution = asking
    assert data(runs(tmp_path, "show", "last", "-o", "json"))["steps"]["ask"]["status"] == "waiting"
    assert runs(tmp_path, "signal", "last", "other", "--if-awaited").out == "dropped\n"
    answers = [runs(tmp_path, "signal", "last", "go", "--data", '{"by": "Ada"}', "--id", "7").out for _ in range(2)]
    assert answers[0] == "accepted\n"
    assert answers[1] in ("duplicate\n", "late\n")
    assert (done := one.end()).code == 0
    assert msgspec.json.decode(done.out) == {"by": "Ada"}
    assert runs(tmp_path, "signal", execution, "go", "--id", "7").out == "duplicate\n"
    late = runs(tmp_path, "signal", execution, "go")
    assert (late.out, late.err) == ("late\n", "the run has ended, so nothing receives the signal\n")
    assert verified(tmp_path) == (1, [])


def test_a_signal_that_nothing_waits_for_is_named_with_those_that_are(tmp_path: Path, killed: str) -> None:
    said = runs(tmp_path, "signal", "last", "goo").out
    assert said == "accepted, nobody waits for 'goo' yet (waiting: go)\n"
    runs(tmp_path, "pause", "last")
    assert runs(tmp_path, "signal", "last", "go").out == "accepted\n"


def test_a_signal_in_json(tmp_path: Path, killed: str) -> None:
    result = data(runs(tmp_path, "signal", "last", "go", "--id", "a", "-o", "json"))
    assert result.pop("execution_id") == killed
    assert result == {"name": "go", "id": "a", "answer": "accepted", "pending": False, "awaited": []}
    assert data(runs(tmp_path, "signal", "last", "other", "--id", "a", "-o", "json"))["answer"] == "duplicate"
    assert runs(tmp_path, "signal", "last", "go", "--data", "{").code == 2


@pytest.mark.parametrize(("text", "until"), [(ASKS, "waits"), (WORKS, "attempt 3"), (DELAYED, "start#1 done")])
def test_a_run_in_another_terminal_is_cancelled(tmp_path: Path, text: str, until: str) -> None:
    with running(tmp_path, text.replace("DELAY", "1h"), until) as (one, execution):
        assert runs(tmp_path, "cancel", "last", "--reason", "enough").out == f"{execution} cancelled\n"
        done = one.end()
    assert (done.code, done.out) == (1, "")
    assert "cancelled: enough" in done.err
    assert "Traceback" not in done.err
    assert runs(tmp_path, "cancel", execution).code == 0
    cancelled = data(runs(tmp_path, "events", execution, "-o", "json"))[-3]
    assert cancelled["payload"] == {"reason": "enough", "actor": cancelled["actor"]}
    assert cancelled["actor"] == {"kind": "local", "name": USER}
    assert verified(tmp_path) == (1, [])


def test_cancel_reaches_children(tmp_path: Path) -> None:
    file(tmp_path, ASKS, "child.yaml")
    parent = HEAD + "workflow:\n  - step: start\n    tool:\n      - child: {kind: playbook, path: child}\n"
    with running(tmp_path, parent, "waits for the child") as (one, execution):
        child = one.seen[-1].split()[-1]
        until(lambda: runs(tmp_path, "show", child).code == 0)  # it is created after its parent waits for it
        assert runs(tmp_path, "resume", child).code == 6
        assert runs(tmp_path, "cancel", execution).code == 0
        assert one.end().code == 1
    assert status(tmp_path, child) == "cancelled"
    assert verified(tmp_path) == (2, [])


def test_cancel_of_a_dead_run_reaches_its_children(tmp_path: Path) -> None:
    file(tmp_path, ASKS, "child.yaml")
    parent = HEAD + "workflow:\n  - step: start\n    tool:\n      - child: {kind: playbook, path: child}\n"
    with running(tmp_path, parent, "waits for the child") as (one, _):
        child = one.seen[-1].split()[-1]
        while runs(tmp_path, "show", child).code:
            pass
        one.send(signal.SIGKILL)
        one.end()
    assert runs(tmp_path, "cancel", "last").code == 0
    assert status(tmp_path, child) == "cancelled"


CALLS = HEAD + "workflow:\n  - step: start\n    tool:\n      - child: {kind: playbook, path: PATH}\n"


def test_the_end_of_a_run_reaches_children_of_its_children(tmp_path: Path) -> None:
    file(tmp_path, ASKS, "grandchild.yaml")
    file(tmp_path, CALLS.replace("PATH", "grandchild"), "child.yaml")
    parent = (
        HEAD
        + """\
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: call}, {step: fail}]}
  - step: call
    tool:
      - child: {kind: playbook, path: child}
  - step: fail
    tool:
      - ask: {kind: wait, signal: fail}
      - fail: {kind: noop, result: "{{ workload.nothing }}"}
"""
    )
    with running(tmp_path, parent, "waits for the child") as (one, execution):
        until(lambda: len(data(runs(tmp_path, "list", "--status", "waiting", "-o", "json"))) == 3)
        runs(tmp_path, "signal", execution, "fail")
        assert one.end().code == 1
    result = data(runs(tmp_path, "list", "-o", "json"))
    assert sorted(one["status"] for one in result) == ["cancelled", "cancelled", "failed"]


def test_a_task_of_a_child_that_has_failed_is_stopped_though_its_parent_continues(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"""\
workflow:
  - step: start
    tool: {{kind: noop}}
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: long}}, {{step: fail}}]}}
  - step: long
    tool: {{kind: shell, command: "echo $$ > {pid}; exec sleep 300"}}
  - step: fail
    tool: {{kind: shell, command: "until [ -s {pid} ]; do sleep 0.05; done; exit 1"}}
"""
    file(tmp_path, HEAD + child, "child.yaml")
    call = """\
workflow:
  - step: call
    tool:
      - child: {kind: playbook, path: child, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}
    next: {arcs: [{step: ask}]}
"""
    with running(tmp_path, ASKS.replace("workflow:\n", call), "waits for the signal") as (one, execution):
        until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
        runs(tmp_path, "signal", execution, "go", "--data", "1")
        assert one.end()[:2] == (0, "1\n")


def test_pause_and_resume_in_another_terminal(tmp_path: Path, asking: tuple[Terminal, str]) -> None:
    one, execution = asking
    assert runs(tmp_path, "pause", "last").out == f"{execution} paused\n"
    one.line("paused")
    assert runs(tmp_path, "pause", "last").code == 0
    assert runs(tmp_path, "signal", "last", "go", "--data", "1").out == "accepted\n"
    assert status(tmp_path) == "paused"
    again = runs(tmp_path, "resume", "last")
    assert (again.code, again.out) == (0, "1\n")
    assert one.end()[:2] == (0, "1\n")
    assert verified(tmp_path) == (1, [])


def test_a_paused_run_stays_paused_without_its_process_and_is_resumed(
    tmp_path: Path, asking: tuple[Terminal, str]
) -> None:
    one, execution = asking
    assert runs(tmp_path, "pause", execution).code == 0
    one.line("paused")
    one.send(signal.SIGINT)
    assert one.end().code == 130
    runs(tmp_path, "signal", execution, "go", "--data", "2")
    assert status(tmp_path) == "paused"
    done = runs(tmp_path, "resume", execution, "-o", "json")
    assert (done.code, data(done)["result"]) == (0, 2)


def test_watch_follows_a_run_to_its_end(tmp_path: Path, asking: tuple[Terminal, str]) -> None:
    one, execution = asking
    with (
        terminal("runs", "watch", execution, cwd=tmp_path) as watch,
        terminal("runs", "watch", "last", "-o", "jsonl", cwd=tmp_path) as events,
    ):
        watch.line("ask#1 waits")
        runs(tmp_path, "signal", "last", "go", "--data", "3")
        done, told = watch.end(), events.end()
    assert (done.code, done.out) == (0, "3\n")
    assert "end#1 done" in done.err
    types = [msgspec.json.decode(line)["event_type"] for line in told.out.splitlines()]
    assert (told.code, types[0], types[-1]) == (0, "playbook.execution.requested", "playbook.processed")
    assert one.end().code == 0


def test_a_resumed_run_says_what_it_still_waits_for(tmp_path: Path, killed: str) -> None:
    with terminal("runs", "resume", killed, cwd=tmp_path) as resumed:
        resumed.line("ask#1 waits for the signal 'go'")
        assert f"`noetl runs signal {killed} go`" in resumed.line("answer with")
        assert runs(tmp_path, "signal", killed, "go", "--data", "4").code == 0
        done = resumed.end()
    assert (done.code, done.out) == (0, "4\n")
    assert done.err.count("ask#1 waits") == 1


def test_a_forked_run_says_what_it_still_waits_for(tmp_path: Path, killed: str) -> None:
    with terminal("runs", "fork", killed, cwd=tmp_path) as forked:
        forked.line("ask#1 waits for the signal 'go'")
        command = forked.line("answer with").partition("`noetl ")[2].rstrip("`").split()
        assert noetl(*command, "--data", "5", cwd=tmp_path).code == 0
        assert forked.end().out == "5\n"


def test_watch_of_a_dead_run_says_so_and_can_be_left(tmp_path: Path, killed: str) -> None:
    with terminal("runs", "watch", "last", cwd=tmp_path) as watch:
        assert f"noetl runs resume {killed}" in watch.line("no process")
        watch.line("waits")
        watch.send(signal.SIGINT)
        assert watch.end().code == 130
    assert status(tmp_path) == "waiting"


# -- carrying on ----------------------------------------------------------------------------------------------------


def test_a_killed_run_is_resumed_and_behaves_as_run(tmp_path: Path, killed: str) -> None:
    assert runs(tmp_path, "signal", "last", "go", "--data", "4").out == "accepted\n"
    done = runs(tmp_path, "resume", killed, "-o", "json")
    assert (done.code, done.err) == (0, "")
    result = data(done)
    assert (result["execution_id"], result["status"], result["result"]) == (killed, "succeeded", 4)
    assert result["steps"]["ask"]["runs"] == 1
    assert verified(tmp_path) == (1, [])


def test_a_run_that_was_killed_at_work_is_resumed(tmp_path: Path) -> None:
    with running(tmp_path, WORKS.replace("not ctx.stop | default(false)", "outcome.result < 8"), "attempt 3") as (
        one,
        _,
    ):
        one.send(signal.SIGKILL)
        one.end()
    done = runs(tmp_path, "resume", "last")
    assert (done.code, done.out) == (0, "8\n")
    assert "try#1 started again (lost)" in done.err
    assert "try#1 started\n" not in done.err
    assert verified(tmp_path) == (1, [])


def test_a_killed_run_is_resumed_from_another_folder_and_finds_its_children(tmp_path: Path) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    file(home, ONE, "child.yaml")
    call = "  - step: call\n    tool:\n      - child: {kind: playbook, path: child}\n"
    with running(home, ASKS.replace("{step: end}", "{step: call}") + call, "waits") as (one, _):
        one.send(signal.SIGKILL)
        one.end()
    db = str(home / ".noetl" / "noetl.db")
    (home / "story.yaml").unlink()
    assert noetl("runs", "signal", "last", "go", "--db", db, cwd=away).code == 0
    done = noetl("runs", "resume", "last", "--db", db, cwd=away)
    assert (done.code, done.out) == (0, "1\n")


def test_a_resumed_run_can_be_interrupted_and_resumed_again(tmp_path: Path, killed: str) -> None:
    with terminal("runs", "resume", "last", cwd=tmp_path) as one:
        one.line("story ")
        one.send(signal.SIGINT)
        assert one.end().code == 130
    with terminal("runs", "resume", "last", cwd=tmp_path) as one:
        one.line("story ")
        runs(tmp_path, "signal", killed, "go", "--data", "5")
        assert one.end()[:2] == (0, "5\n")


def test_a_run_that_is_alive_or_over_cannot_be_resumed(tmp_path: Path, asking: tuple[Terminal, str]) -> None:
    one, execution = asking
    done = runs(tmp_path, "resume", execution)
    assert (done.code, done.out) == (6, "")
    assert "is running in another process" in done.err
    runs(tmp_path, "signal", execution, "go")
    one.end()
    for verb in ("resume", "cancel", "pause"):
        done = runs(tmp_path, verb, execution)
        assert (done.code, done.out) == (6, "")
        assert "succeeded" in done.err


def test_who_resumes_a_run_of_another_process_takes_over_when_that_dies(
    tmp_path: Path, asking: tuple[Terminal, str]
) -> None:
    one, execution = asking
    runs(tmp_path, "pause", execution)
    one.line("paused")
    with terminal("runs", "resume", execution, cwd=tmp_path) as two:
        two.line("story ")
        one.send(signal.SIGKILL)
        one.end()
        two.line("story ")
        runs(tmp_path, "signal", execution, "go", "--data", "6")
        assert two.end()[:2] == (0, "6\n")
    assert verified(tmp_path) == (1, [])


def test_resume_all_continues_everything_that_nobody_runs(tmp_path: Path, killed: str) -> None:
    run(tmp_path)
    with running(tmp_path, ASKS, "waits") as (_, alive):
        with terminal("runs", "resume", "--all", cwd=tmp_path) as two:
            assert two.line("story ").split()[1] == killed
            runs(tmp_path, "signal", killed, "go", "--data", "8")
            assert two.end()[:2] == (0, "8\n")
        assert status(tmp_path, alive) == "waiting"


def test_resume_all_resumes_at_once_and_is_interrupted_as_one(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with running(tmp_path, ASKS, "waits") as (one, execution):
            one.send(signal.SIGKILL)
            one.end()
            ids.append(execution)
    with terminal("runs", "resume", "--all", cwd=tmp_path) as both:
        started = {both.line("story ").split()[1], both.line("story ").split()[1]}
        both.send(signal.SIGINT)
        done = both.end()
    assert (started, done.code) == (set(ids), 130)
    for execution in ids:
        runs(tmp_path, "signal", execution, "go", "--data", "1")
    done = runs(tmp_path, "resume", "--all", "-o", "json")
    assert {one["execution_id"]: one["result"] for one in data(done)} == dict.fromkeys(ids, 1)
    assert verified(tmp_path) == (2, [])


CALLS_AFTER_WAITING = (
    HEAD
    + """\
workflow:
  - step: ask
    tool:
      - gate: {kind: wait, signal: go}
    next: {arcs: [{step: last}]}
  - step: last
    tool:
      - call:
          kind: python
          args: {gate: "{{ steps.ask.result }}"}
          code: |
            import os, time
            while gate and not os.path.exists(gate):
                time.sleep(0.05)
"""
)
"""Waits for the signal `go`, then until the file exists that it names, in a process of its own."""


def test_the_end_of_a_run_leaves_the_tasks_of_others_alone(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with running(tmp_path, CALLS_AFTER_WAITING, "waits") as (one, execution):
            one.send(signal.SIGKILL)
            one.end()
            ids.append(execution)
    first, second = ids
    with terminal("runs", "resume", "--all", cwd=tmp_path) as both:
        runs(tmp_path, "signal", first, "go", "--data", f'"{tmp_path}/gate"')
        both.line("last#1 started")
        runs(tmp_path, "signal", second, "go", "--data", '""')
        both.line("story succeeded")
        (tmp_path / "gate").touch()
        done = both.end()
    assert (done.code, [status(tmp_path, execution) for execution in ids]) == (0, ["succeeded"] * 2)


@pytest.mark.parametrize("args", [[], ["last", "--all"]])
def test_resume_wants_a_run_or_all(tmp_path: Path, args: list[str]) -> None:
    assert runs(tmp_path, "resume", *args).code == 2


def test_resume_all_with_nothing_to_do(tmp_path: Path) -> None:
    run(tmp_path)
    done = runs(tmp_path, "resume", "--all")
    assert (done.code, done.out, done.err) == (0, "", "nothing to resume\n")


def test_a_task_may_print_much_at_once_also_beside_a_server(tmp_path: Path) -> None:
    text = HEAD + "workflow:\n  - {step: start, tool: {kind: shell, command: seq 1 50000}}\n"
    process = Process(tmp_path, "dev", "dev", "--port", "0", "--db", str(tmp_path / "noetl.db")).start()
    try:
        server = dict(part.split("=", 1) for part in process.until_said("export ").split()[1:])
        for env in (server | {"NO_PROXY": "*"}, {"NOETL_DB": str(tmp_path / "local.db")}):
            execution = data(noetl("run", file(tmp_path, text), "-o", "json", cwd=tmp_path, **env))["execution_id"]
            lines = noetl("runs", "logs", execution, cwd=tmp_path, **env).out.splitlines()
            assert [line.rpartition(" ")[2] for line in lines] == [str(number) for number in range(1, 50001)]
    finally:
        process.stop()
