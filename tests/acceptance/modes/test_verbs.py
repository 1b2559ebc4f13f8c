"""The verbs with `--server`: the same output and the same exit codes as on a database."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import CASES, playbook
from tests.acceptance.modes.stage import Served, environment, noetl, until

WAITS = playbook(
    "waits",
    """\
    workflow:
      - step: ask
        tool: [{decision: {kind: wait, signal: decision}}]
    """,
)
PARALLEL = CASES["parallel_loop"]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with stage.dev(tmp_path_factory.mktemp("verbs")) as mode:
        yield mode
    mode.verify()


class Verbs:
    """`noetl ...` against a server."""

    def __init__(self, mode: Served) -> None:
        self.mode = mode

    def __call__(self, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        address = {"NOETL_SERVER": self.mode.client.urls[0], "NOETL_TOKEN": self.mode.client.token}
        return noetl(self.mode.folder, *args, stdin=stdin, **{**address, **env})

    def here(self, *args: str) -> subprocess.CompletedProcess[str]:
        """The same on the database itself."""
        return noetl(self.mode.folder, *args, "--db", self.mode.db)

    def json(self, *args: str, code: int = 0) -> Any:
        done = self(*args, "-o", "json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def waiting(self) -> str:
        """A run that waits for a signal."""
        execution = self.mode.client.start({"playbook": WAITS})
        until(lambda: self.mode.client.show(execution)["status"] == "waiting")
        return execution


@pytest.fixture
def verbs(dev: Served) -> Verbs:
    return Verbs(dev)


# -- the catalog ----------------------------------------------------------------------------------------------------


def test_a_playbook_is_registered_found_and_run(verbs: Verbs) -> None:
    text = playbook("greets", "workload: {name: world}\nworkflow: [{step: a, tool: [{x: {kind: noop, result: A}}]}]\n")
    assert verbs("register", "-", stdin=text).stdout == "modes/greets@1\n"
    assert verbs("register", "-", stdin=text).stdout == "modes/greets@1\n"
    newer = text.replace("result: A", 'result: "{{ workload.name }}"')
    assert verbs("register", "-", stdin=newer).stdout == "modes/greets@2\n"
    listed = verbs.json("catalog", "list", "--prefix", "modes/greets")
    assert [(one["path"], one["version"]) for one in listed] == [("modes/greets", 2)]
    assert verbs("catalog", "show", "modes/greets@1").stdout == text
    assert [version["version"] for version in verbs.json("catalog", "show", "modes/greets")["versions"]] == [2, 1]
    done = verbs("exec", "modes/greets", "--set", "name=Ada", "--wait")
    assert (done.returncode, done.stdout) == (0, '"Ada"\n')
    assert verbs.json("exec", "modes/greets@1", "--wait")["result"] == "A"
    assert verbs.here("catalog", "list", "-o", "json").stdout == verbs("catalog", "list", "-o", "json").stdout


NEEDS = playbook(
    "needs",
    """\
    workload: {endpoints: [a]}
    workflow:
      - step: load
        tool: [{x: {kind: noop, result: "{{ region }} {{ workload.endpoints }}"}}]
    """,
)


def test_inputs_are_checked_by_the_server_as_on_a_database(verbs: Verbs, tmp_path: Path) -> None:
    file = tmp_path / "needs.yaml"
    file.write_text(NEEDS)
    assert "warning NTL502" in verbs("register", str(file)).stderr
    for verb in (("run", str(file)), ("exec", "modes/needs", "--wait"), ("exec", "modes/needs")):
        refused = verbs(*verb)
        assert (refused.returncode, refused.stdout) == (3, "")
        name = str(file) if verb[0] == "run" else "modes/needs"
        assert f"{name}:{NEEDS[: NEEDS.index('{{ region')].count(chr(10)) + 1}:" in refused.stderr
        assert "error NTL502: nothing provides 'region'" in refused.stderr
        refused = verbs(*verb, "--set", "region=eu", "--set", "endpoint=b")
        assert (refused.returncode, "did you mean 'endpoints'?" in refused.stderr) == (2, True)
        refused = verbs(*verb, "--set", "region=eu", "--set", "endpoints=b")
        assert (refused.returncode, "must be a list" in refused.stderr) == (2, True)
    done = verbs("exec", "modes/needs", "--payload", "{region: eu, endpoint: b}", "-o", "json")
    assert json.loads(done.stdout)["warnings"] == ["workload has no 'endpoint': did you mean 'endpoints'?"]
    assert "noetl: warning: workload has no 'endpoint'" in done.stderr
    ran = verbs.json("run", str(file), "--set", "endpoints=[b, c]", "--ctx", "region: us")
    assert (ran["result"], ran["warnings"]) == ("us ['b', 'c']", [])


def test_without_wait_the_id_is_printed_and_nothing_waited_for(verbs: Verbs) -> None:
    verbs("register", "-", stdin=WAITS)
    done = verbs("exec", "modes/waits")
    assert done.returncode == 0
    execution = done.stdout.strip()
    assert verbs("runs", "signal", execution[:30], "decision", "--data", '{"go": true}').stdout == "accepted\n"
    done = verbs("runs", "watch", execution)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"go": True})
    assert "ask#1 waits for the signal 'decision'" in done.stderr


def test_the_catalog_of_a_file_is_run_without_a_server(tmp_path: Path) -> None:
    def here(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return noetl(tmp_path, *args, stdin=stdin)

    assert here("register", "-", stdin=PARALLEL.text).stdout == "modes/parallel_loop@1\n"
    done = here("exec", "modes/parallel_loop", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, PARALLEL.result)
    assert here("exec", "modes/parallel_loop@7").returncode == 4
    assert here("exec", "modes/parallel_loop@x").returncode == 2
    assert here("catalog", "show", "nobody").returncode == 4
    assert here("verify").returncode == 0


# -- the same as on a database --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ended(dev: Served) -> str:
    """A run that has failed, with output."""
    process = dev.run(CASES["failure"].text, {})
    execution = str(process["execution_id"])
    until(lambda: dev.logs(execution))
    return execution


@pytest.mark.parametrize(
    "words",
    [("show", "RUN"), ("events", "RUN"), ("events", "RUN", "--after", "5"), ("logs", "RUN"), ("list",)],
    ids=" ".join,
)
@pytest.mark.parametrize("form", [(), ("-o", "json"), ("-o", "jsonl")], ids="".join)
def test_a_server_shows_what_its_database_does(
    verbs: Verbs, ended: str, words: tuple[str, ...], form: tuple[str, ...]
) -> None:
    args = ("runs", *(ended if word == "RUN" else word for word in words), *form)
    there, here = verbs(*args), verbs.here(*args)
    assert (there.returncode, here.returncode) == (0, 0), there.stderr
    assert comparable(there.stdout, form) == comparable(here.stdout, form)


def comparable(text: str, form: tuple[str, ...]) -> Any:
    """Without how long runs have taken that still go on, and the line of the playbook that only its owner has."""
    if not form:
        return [line.rsplit("  ", 1)[0] for line in text.splitlines() if not line.lstrip(" 8").startswith("|")]
    data = json.loads(text) if form[1] == "json" else [json.loads(line) for line in text.splitlines()]
    return [without_time(one) for one in data] if isinstance(data, list) else without_time(data)


def without_time(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "duration_ms"}


def test_a_run_on_a_server_prints_what_a_run_here_prints(verbs: Verbs, tmp_path: Path) -> None:
    for name, code in (("parallel_loop", 0), ("failure", 1)):
        file = verbs.mode.folder / f"{name}.yaml"
        file.write_text(CASES[name].text, "utf-8")
        there, here = verbs("run", str(file), "-o", "json"), noetl(tmp_path, "run", str(file), "-o", "json")
        assert (there.returncode, here.returncode) == (code, code)
        ours, theirs = json.loads(here.stdout), json.loads(there.stdout)
        assert list(ours) == list(theirs)
        for key in ("status", "result", "ctx"):
            assert ours[key] == theirs[key]
        assert ours["steps"].keys() == theirs["steps"].keys()
    shown = verbs("run", str(file))
    assert "failure.yaml:11:22: step break, task divide, attempt 1: python: ZeroDivisionError" in shown.stderr
    assert "11 |             result = 1 / 0" in shown.stderr


def test_events_are_printed_as_they_come(verbs: Verbs) -> None:
    execution = verbs.waiting()
    with subprocess.Popen(
        [sys.executable, "-m", "noetl.cli", "runs", "watch", execution, "-o", "jsonl"],
        env=environment(verbs.mode.folder, NOETL_SERVER=verbs.mode.client.urls[0], NOETL_TOKEN=verbs.mode.client.token),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        verbs("runs", "signal", execution, "decision")
        rest = [json.loads(line) for line in watching.stdout]
    assert watching.returncode == 0
    assert [event["seq"] for event in (first, *rest)] == list(range(1, len(rest) + 2))
    assert rest[-1]["event_type"] == "playbook.processed"


# -- looking back ---------------------------------------------------------------------------------------------------

SHAKY = playbook(
    "shaky",
    """\
    workflow:
      - step: first
        tool: [{count: {kind: noop, result: 7}}]
        next: {arcs: [{step: low, when: "{{ steps.first.result < 5 }}"}, {step: second}]}
      - step: second
        tool: [{divide: {kind: noop, result: "{{ steps.first.result / ctx.by }}"}}]
      - step: low
    """,
)


def test_a_step_is_explained_as_on_the_database(verbs: Verbs) -> None:
    execution = verbs.mode.client.start({"playbook": SHAKY})
    until(lambda: verbs.mode.client.show(execution)["status"] == "failed")
    for step in ("first", "second", "low"):
        there, here = verbs("explain", execution, step), verbs.here("explain", execution, step)
        assert (there.returncode, there.stdout) == (0, here.stdout)
    assert "steps.first.result = 7" in verbs("explain", execution, "low").stdout
    assert verbs("explain", execution, "lwo").returncode == 4


def test_runs_are_forked_and_retried_at_the_server(verbs: Verbs) -> None:
    source = verbs.mode.client.start({"playbook": SHAKY})
    until(lambda: verbs.mode.client.show(source)["status"] == "failed")
    assert verbs("runs", "retry", source).returncode == 1
    done = verbs("runs", "retry", source, "--set-ctx", "by=2")
    assert (done.returncode, done.stdout) == (0, "3.5\n"), done.stderr
    assert f"from {source}, up to its event " in done.stderr
    assert "  kept: first\n  again: second#1 at task divide\n" in done.stderr
    edited = verbs.mode.folder / "edited.yaml"
    edited.write_text(SHAKY.replace("ctx.by", "7"), "utf-8")
    fork = verbs.json("runs", "fork", source, "--at", "8", "--playbook", str(edited))
    assert (fork["status"], fork["result"], fork["steps"]["first"]["runs"]) == ("succeeded", 1.0, 1)
    assert verbs("runs", "fork", source).returncode == 6
    assert verbs("runs", "fork", source, "--at", "999").returncode == 2
    operator = stage.make_token(verbs.mode.folder, verbs.mode.db, "operator")
    assert verbs("runs", "retry", source, "--playbook", str(edited), NOETL_TOKEN=operator).returncode == 5


ITEMS = playbook(
    "items",
    """\
    workload: {bad: 2}
    workflow:
      - step: each
        loop: {in: [1, 2, 3], iterator: x, spec: {on_error: continue}}
        tool: {kind: noop, result: "{{ iter.x / (iter.x - workload.bad) }}"}
        next: {arcs: [{step: end}]}
      - {step: end, tool: {kind: noop, result: "{{ steps.each.result }}"}}
    """,
)


def test_failed_items_run_again_at_the_server_with_other_inputs(verbs: Verbs) -> None:
    source = verbs.mode.client.start({"playbook": ITEMS})
    until(lambda: verbs.mode.client.show(source)["status"] == "succeeded")
    again = verbs.json("runs", "retry", source, "--failed-items", "--set", "bad=4")
    assert (again["status"], again["result"]) == ("succeeded", [-1.0, -1.0, 3.0])
    again = verbs.json("runs", "retry", source, "--from", "each", "--set", "bad=4")
    assert again["result"] == [pytest.approx(-1 / 3), -1.0, -3.0]
    assert verbs("runs", "retry", source).returncode == 6


REPLAYED = playbook(
    "replayed",
    """\
    workflow:
      - step: make
        tool: [{text: {kind: noop, result: "{{ 'x' * 70000 }}"}}]
        next: {arcs: [{step: again, when: "{{ steps.make.result | length > 9 }}"}]}
      - step: again
        loop: {in: "{{ [1, 2, 3] }}", iterator: n}
        tool:
          - count:
              kind: noop
              result: "{{ _attempt }}"
              spec:
                policy:
                  rules:
                    - {when: "{{ outcome.result < 2 }}", then: {do: retry, attempts: 3, delay: 0.05}}
                    - {else: {then: {do: continue}}}
    """,
)


def test_a_log_of_a_server_is_replayed_and_exported(verbs: Verbs) -> None:
    assert verbs("register", "-", stdin=REPLAYED).returncode == 0
    done = verbs("exec", "modes/replayed", "--wait", "-o", "json")
    assert done.returncode == 0, done.stderr
    execution = json.loads(done.stdout)["execution_id"]
    replayed = verbs.json("runs", "replay", execution)
    assert replayed["equal"]
    assert replayed == json.loads(verbs.here("runs", "replay", execution, "-o", "json").stdout)
    file = verbs.mode.folder / "replayed.yaml"
    for text, code in ((REPLAYED, 0), (REPLAYED.replace("> 9 }}", "< 9 }}"), 1)):
        file.write_text(text, "utf-8")
        args = ("runs", "replay", execution, "--playbook", str(file), "-o", "json")
        there, here = verbs(*args), verbs.here(*args)
        assert (there.returncode, there.stdout) == (code, here.stdout), there.stderr
    there, here = (json.loads(run("runs", "export", execution, "-f", "-").stdout) for run in (verbs, verbs.here))
    assert there == here
    assert list(there["results"].values()) == ["x" * 70000]


def test_runs_are_compared_at_the_server_as_on_the_database(verbs: Verbs) -> None:
    source = verbs.mode.client.start({"playbook": SHAKY})
    until(lambda: verbs.mode.client.show(source)["status"] == "failed")
    retried = verbs.json("runs", "retry", source, "--set-ctx", "by=2")["execution_id"]
    for second, code in ((retried, 1), (source, 0)):
        args = ("runs", "diff", source, second, "-o", "json")
        there, here = verbs(*args), verbs.here(*args)
        assert (there.returncode, there.stdout) == (code, here.stdout), there.stderr
    compared = verbs.json("runs", "diff", source, retried, code=1)
    assert (compared["status"], compared["ctx"]["by"]["b"]) == ({"a": "failed", "b": "succeeded"}, 2)


def test_a_log_without_a_registered_playbook_is_replayed(verbs: Verbs) -> None:
    text, file = SHAKY.replace("modes/shaky", "modes/unregistered"), verbs.mode.folder / "unregistered.yaml"
    file.write_text(text, "utf-8")
    execution = verbs.mode.client.start({"playbook": text})
    until(lambda: verbs.mode.client.show(execution)["status"] == "failed")
    assert verbs("runs", "replay", execution).returncode == 0
    assert verbs("runs", "replay", execution, "--playbook", str(file)).returncode == 0
    assert json.loads(verbs("runs", "export", execution, "-f", "-").stdout)["playbook"] is None


# -- speaking to runs -----------------------------------------------------------------------------------------------


def test_signals_are_accepted_once_and_not_after_the_end(verbs: Verbs) -> None:
    execution = verbs.waiting()
    signal_to = ("runs", "signal", execution, "other", "--id", "n1")
    early = "accepted, nobody waits for 'other' yet (waiting: decision)\n"
    assert [verbs(*signal_to).stdout for _ in range(2)] == [early, "duplicate\n"]
    assert verbs.json("runs", "signal", execution, "decision")["answer"] == "accepted"
    until(lambda: verbs.mode.client.show(execution)["status"] == "succeeded")
    assert verbs("runs", "signal", execution, "decision").stdout == "late\n"


def test_runs_are_paused_resumed_and_cancelled(verbs: Verbs) -> None:
    execution = verbs.waiting()
    assert verbs("runs", "pause", execution).stdout == f"{execution} paused\n"
    assert verbs("runs", "signal", execution, "decision", "--data", "5").stdout == "accepted\n"
    done = verbs("runs", "resume", execution)
    assert (done.returncode, done.stdout) == (0, "5\n")
    other = verbs.waiting()
    assert verbs.json("runs", "cancel", other, "--reason", "enough") == {"execution_id": other, "status": "cancelled"}
    done = verbs("runs", "watch", other)
    assert done.returncode == 1
    assert "cancelled: enough" in done.stderr


def test_paused_runs_are_resumed_all_at_once(verbs: Verbs) -> None:
    executions = [verbs.waiting() for _ in range(2)]
    for execution in executions:
        verbs("runs", "pause", execution)
        verbs("runs", "signal", execution, "decision")
    assert verbs("runs", "resume", "--all").returncode == 0
    assert {verbs.mode.client.show(execution)["status"] for execution in executions} == {"succeeded"}


def test_credentials_go_in_and_never_come_out(verbs: Verbs) -> None:
    done = verbs("credential", "set", "deep/api", "--kind", "bearer", stdin='{"token": "very-secret"}')
    assert done.returncode == 0, done.stderr
    listed = verbs("credential", "list", "-o", "json")
    assert "deep/api" in [load["name"] for load in json.loads(listed.stdout)]
    assert "very-secret" not in listed.stdout
    assert verbs.here("credential", "list", "-o", "json").stdout == listed.stdout
    assert verbs("credential", "delete", "deep/api").returncode == 0
    assert verbs("credential", "delete", "deep/api").returncode == 4
    assert verbs("credential", "rotate").returncode == 2


# -- exit codes -----------------------------------------------------------------------------------------------------


def test_a_server_checks_playbooks_as_they_are_checked_here(verbs: Verbs, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(WAITS)
    bad.write_text(WAITS.replace("kind: wait", "kind: wiat"))
    url = ("--server", verbs.mode.client.urls[0])
    done = verbs("validate", str(good), *url)
    assert (done.returncode, f"{good}: sound (checked by " in done.stderr) == (0, True)
    here, there = (verbs("validate", str(good), str(bad), "--strict", *more) for more in ((), url))
    assert (here.returncode, there.returncode) == (3, 3)
    assert here.stdout == there.stdout
    assert verbs.json("validate", str(bad), *url, code=3) == verbs.json("validate", str(bad), code=3)
    assert verbs("validate", str(tmp_path / "none.yaml"), *url).returncode == 4
    assert verbs("validate", str(good), "--server", "http://127.0.0.1:1").returncode == 7
    assert verbs("validate", str(good)).returncode == 0  # done here, whatever NOETL_SERVER says


def test_a_server_proves_its_logs(verbs: Verbs, ended: str) -> None:
    assert verbs.json("verify", ended) == {"executions": 1, "violations": []}
    assert verbs.json("verify") == json.loads(verbs.here("verify", "-o", "json").stdout)
    assert verbs("verify", "last").stderr.endswith("1 execution: sound\n")
    assert verbs("verify", "ffffffff-0000-7000-8000-000000000000").returncode == 4


def test_old_runs_are_removed_at_the_server(verbs: Verbs) -> None:
    execution = verbs.mode.client.ended(verbs.mode.client.start({"playbook": CASES["parallel_loop"].text}))
    name = execution["execution_id"]
    assert verbs.json("runs", "prune")["removed"] == 0
    listed = verbs.json("runs", "prune", "--older-than", "0", "--dry-run")
    assert name in {run["execution_id"] for run in listed["runs"]}
    assert verbs.json("runs", "show", name)["execution_id"] == name


def test_who_has_no_place_on_a_server_reports_it(verbs: Verbs) -> None:
    for verb in (("backup", "copy.db"), ("restore", "copy.db"), ("credential", "rotate")):
        done = verbs(*verb)
        assert (done.returncode, "--db" in done.stderr) == (2, True), verb


def test_people_and_tokens_of_a_server(verbs: Verbs) -> None:
    assert verbs("user", "add", "ada", "--role", "operator", stdin="a long password\n").returncode == 0
    assert "ada" in {one["name"] for one in verbs.json("user", "list")}
    assert verbs("user", "delete", "ada").returncode == 0
    made = verbs.json("token", "create", "--role", "viewer", "--name", "dashboard")
    assert verbs("runs", "prune", NOETL_TOKEN=made["token"]).returncode == 5
    assert verbs("verify", NOETL_TOKEN=made["token"]).returncode == 5
    assert verbs("runs", "list", NOETL_TOKEN=made["token"]).returncode == 0
    assert verbs("token", "revoke", made["id"]).returncode == 0
    (listed,) = [one for one in verbs.json("token", "list") if one["id"] == made["id"]]
    assert listed["revoked"] is not None


def test_invalid_playbooks_are_3(verbs: Verbs) -> None:
    done = verbs("register", "-", stdin=WAITS.replace("kind: wait", "kind: wiat"))
    assert done.returncode == 3
    assert "did you mean 'wait'?" in done.stderr


def test_what_does_not_exist_is_4(verbs: Verbs) -> None:
    nobody = "0198a000-0000-7000-8000-000000000009"
    for args in (("exec", "nobody"), ("runs", "show", nobody), ("runs", "cancel", nobody), ("runs", "watch", nobody)):
        assert verbs(*args).returncode == 4, args
    assert verbs("runs", "show", "ffff").returncode == 4
    assert verbs("catalog", "show", "no/body").returncode == 4


def test_who_may_not_is_5(verbs: Verbs, tmp_path: Path) -> None:
    assert verbs("runs", "list", NOETL_TOKEN="").returncode == 5
    assert verbs("runs", "list", NOETL_TOKEN="noetl_wrong").returncode == 5
    viewer = stage.make_token(verbs.mode.folder, verbs.mode.db, "viewer")
    assert verbs("runs", "list", NOETL_TOKEN=viewer).returncode == 0
    assert verbs("exec", "modes/waits", NOETL_TOKEN=viewer).returncode == 5
    file = tmp_path / "token"
    file.write_text(f"{viewer}\n")
    assert verbs("runs", "list", NOETL_TOKEN="", NOETL_TOKEN_FILE=str(file)).returncode == 0


def test_what_does_not_fit_is_6(verbs: Verbs, ended: str) -> None:
    for verb in ("cancel", "pause", "resume"):
        assert verbs("runs", verb, ended).returncode == 6, verb


def test_no_server_is_7(tmp_path: Path) -> None:
    done = noetl(tmp_path, "runs", "list", "--server", "http://127.0.0.1:9")
    assert done.returncode == 7
    assert done.stderr.startswith("noetl: no server responds at http://127.0.0.1:9")


def test_who_waits_too_long_gets_124(verbs: Verbs) -> None:
    execution = verbs.waiting()
    assert verbs("runs", "watch", execution, "--timeout", "0.5").returncode == 124
    assert verbs.here("runs", "watch", execution, "--timeout", "0.5").returncode == 124
    verbs("register", "-", stdin=WAITS)
    done = verbs("exec", "modes/waits", "--timeout", "0.5")
    assert done.returncode == 124
    assert "it goes on" in done.stderr


def test_ctrl_c_leaves_a_run_to_the_server(verbs: Verbs) -> None:
    execution = verbs.waiting()
    with subprocess.Popen(
        [sys.executable, "-m", "noetl.cli", "runs", "watch", execution],
        env=environment(verbs.mode.folder, NOETL_SERVER=verbs.mode.client.urls[0], NOETL_TOKEN=verbs.mode.client.token),
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stderr is not None
        while "waits for the signal" not in watching.stderr.readline():
            pass
        watching.send_signal(signal.SIGINT)
        rest = watching.stderr.read()
    assert watching.returncode == 130
    assert f"{execution} goes on at the server" in rest
    assert verbs.mode.client.show(execution)["status"] == "waiting"


def test_one_place_at_a_time(verbs: Verbs) -> None:
    assert verbs("runs", "list", "--db", "x.db", "--server", "http://127.0.0.1:9").returncode == 2
    assert verbs("runs", "list", "--server", "127.0.0.1:9").returncode == 2
    done = verbs("runs", "list", "--db", "nowhere.db")  # a flag wins over the variable
    assert (done.returncode, "does not exist" in done.stderr) == (4, True)
    assert verbs.here("runs", "resume", verbs.waiting()).returncode == 6  # a server has it
