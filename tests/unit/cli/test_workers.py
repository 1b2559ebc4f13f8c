"""noetl workers, noetl server status and stop: what operators do with real processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command import file, noetl
from terminal import HEAD, data, terminal
from test_project import developing
from tests.servers.patience import until

SLOW = (
    HEAD
    + """\
workflow:
  - step: start
    tool:
      - first: {kind: shell, command: "touch FOLDER/started; while [ ! -e FOLDER/go ]; do sleep 0.05; done"}
      - second: {kind: noop, result: done}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: end}
"""
)


def test_a_drained_worker_finishes_what_it_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    with developing(tmp_path) as (_, url, admin):
        env = {"NOETL_SERVER": url, "NOETL_TOKEN": admin}

        def status(name: str) -> str:
            workers = data(noetl("workers", "list", "-o", "json", cwd=tmp_path, **env))
            return next((worker["status"] for worker in workers if worker["worker"].startswith(name)), "")

        secret = data(noetl("token", "create", "--role", "worker", "-o", "json", cwd=tmp_path, **env))["token"]
        text = SLOW.replace("workflow:", "executor: {spec: {pool: slow}}\nworkflow:").replace("FOLDER", str(tmp_path))
        noetl("register", file(tmp_path, text), cwd=tmp_path)
        worker = ("worker", "--server", url, "--pool", "slow", "--name", "w1")
        with terminal(*worker, cwd=tmp_path, NOETL_TOKEN=secret) as process:
            process.line("takes work of pool slow")
            execution = noetl("exec", "tests/story", cwd=tmp_path).out.strip()
            until(lambda: (tmp_path / "started").exists())
            assert "worker w1@" in noetl("workers", "drain", "w1", cwd=tmp_path).err
            assert status("w1@") == "draining"
            pools = {
                pool["pool"]: pool for pool in data(noetl("server", "status", "-o", "json", cwd=tmp_path))["pools"]
            }
            assert (pools["slow"]["workers"], pools["slow"]["slots"], pools["slow"]["draining"]) == (0, 0, 1)
            process.line("draining")
            (tmp_path / "go").touch()

            def steps() -> dict[str, str]:
                run = data(noetl("runs", "show", execution, "-o", "json", cwd=tmp_path))
                return {name: step["status"] for name, step in run["steps"].items()}

            until(lambda: steps() == {"start": "succeeded", "end": "scheduled"})
            listed = noetl("workers", "list", cwd=tmp_path)
            assert re.search(r"^slow +0 +0 +\d +1 +1 +20\d\d-", listed.out, re.MULTILINE)
            assert "pool 'slow' has no active worker" in listed.err
            shown = noetl("runs", "show", execution, cwd=tmp_path).out
            assert "pool 'slow' has no active worker: start one with `noetl worker --server" in shown
            assert noetl("workers", "stop", "--pool", "slow", cwd=tmp_path).code == 0
            assert process.end().code == 0
        assert steps() == {"start": "succeeded", "end": "scheduled"}


def test_a_server_shows_its_status_and_stops(tmp_path: Path) -> None:
    with developing(tmp_path) as (process, url, _):
        status = data(noetl("server", "status", "-o", "json", cwd=tmp_path))
        assert (status["url"], status["pools"][0]["pool"]) == (url, "default")
        assert noetl("server", "stop", cwd=tmp_path).err == "the server is stopping\n"
        assert process.end().code == 0
    done = noetl("server", "status", "--server", url, cwd=tmp_path)
    assert done.code == 7
    assert noetl("server", "status", cwd=tmp_path).code == 2


@pytest.mark.parametrize("verb", ["status", "stop"])
def test_a_server_is_named_by_its_address_only(tmp_path: Path, verb: str) -> None:
    assert "--db" not in noetl("server", verb, "--help", cwd=tmp_path).out
    done = noetl("server", verb, cwd=tmp_path)
    assert (done.code, done.err) == (2, "noetl: name a server: use --server URL, or set NOETL_SERVER\n")
    for host, address in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")):
        done = noetl("server", "--host", host, "--port", "9000", verb, cwd=tmp_path)
        command = f"noetl server {verb} --server http://{address}:9000"
        message = f"noetl: options before `{verb}` are those of a new server: write `{command}`\n"
        assert (done.code, done.err) == (2, message)


def test_a_worker_or_a_pool_must_be_named(tmp_path: Path) -> None:
    done = noetl("workers", "drain", cwd=tmp_path)
    assert (done.code, "`noetl workers drain NAME`, or --pool NAME" in done.err) == (2, True)


def test_a_run_that_no_worker_takes_reports_it(tmp_path: Path) -> None:
    text = HEAD + "executor: {spec: {pool: gpu}}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n"
    with developing(tmp_path) as (_, url, _):
        noetl("register", file(tmp_path, text), cwd=tmp_path)
        done = noetl("exec", "tests/story", "--timeout", "6", cwd=tmp_path)
        message = "pool 'gpu' has no active worker: start one with `noetl worker --server {} --pool gpu`"
        assert (done.code, message.format(url) in done.err) == (124, True)
        assert message.format(url) in noetl("runs", "show", "last", cwd=tmp_path).out
        assert message.format(url) in noetl("workers", "list", cwd=tmp_path).err
        assert data(noetl("runs", "show", "last", "-o", "json", cwd=tmp_path))["missing_pools"] == ["gpu"]
    local = "set NOETL_SERVER to the address of the server, and start one with `noetl worker --pool gpu`"
    assert f"has no active worker: {local}\n" in noetl("runs", "show", "last", cwd=tmp_path).out
    assert f"has no active worker: {local}\n" in noetl("workers", "list", cwd=tmp_path).err


def test_events_name_the_worker_that_reported_them_at_the_server_and_on_its_database(tmp_path: Path) -> None:
    def reported(after: int = 0, **env: str) -> dict[str, str]:
        events = data(noetl("runs", "events", "last", "--after", str(after), "-o", "json", cwd=tmp_path, **env))
        return {event["event_type"]: event["actor"]["name"] for event in events if actor_kind(event) == "worker"}

    def actor_kind(event: dict[str, Any]) -> str | None:
        return event["actor"] and event["actor"]["kind"]

    text = HEAD + "executor: {spec: {pool: own}}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n"
    with developing(tmp_path) as (_, url, admin):
        env = {"NOETL_SERVER": url, "NOETL_TOKEN": admin}
        secret = data(noetl("token", "create", "--role", "worker", "-o", "json", cwd=tmp_path, **env))["token"]
        noetl("register", file(tmp_path, text), cwd=tmp_path)
        worker = ("worker", "--server", url, "--pool", "own", "--name", "w1")
        with terminal(*worker, cwd=tmp_path, NOETL_TOKEN=secret) as process:
            process.line("takes work of pool own")
            assert noetl("exec", "tests/story", "--wait", cwd=tmp_path).code == 0
        result = reported()
        assert list(result) == ["step.started", "task.started", "task.done", "step.done"]
        assert {name.partition("@")[0] for name in result.values()} == {"w1"}
        assert re.search(r"task.done .* worker w1@", noetl("runs", "events", "last", cwd=tmp_path).out)
        assert reported(after=8) == {
            name: result[name] for name in result if name not in ("step.started", "task.started")
        }
    assert reported() == result
