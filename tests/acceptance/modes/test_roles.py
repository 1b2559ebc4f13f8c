"""The roles as processes: what they refuse, how they end, and what they leave behind."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import CASES
from tests.acceptance.modes.stage import Client, Process, make_token, noetl, until
from tests.servers.ports import reserved_port

IDLE_BYTES = 120 << 20
CHAIN = {"playbook": CASES["chain"].text, "payload": {"start": 4}}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "noetl.db")


def children(process: Process) -> list[int]:
    assert process.process is not None
    pid = process.process.pid
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_dev_needs_little_memory_and_keeps_its_token(tmp_path: Path) -> None:
    with stage.dev(tmp_path, stage.FreshProcess) as mode:
        assert mode.client.ended(mode.client.start(CHAIN))["result"] == [5, 50]
        process = mode.servers[0].process
        assert process is not None
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        assert resident * 1024 < IDLE_BYTES
        token = mode.client.token
    mode.verify()
    with stage.dev(tmp_path) as mode:
        answer = mode.client.http.get(
            f"{mode.client.urls[0]}/api/v1/executions", headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 200, "the folder keeps its token"
        assert mode.client.token == token


def test_a_file_has_one_server_at_a_time(tmp_path: Path) -> None:
    with stage.dev(tmp_path) as mode:
        for verb in ("server", "dev"):
            done = noetl(tmp_path, verb, "--port", "0", "--db", mode.db)
            assert (done.returncode, "another server uses" in done.stderr) == (6, True)
        mode.servers[0].kill()
        mode.servers[0].start()
        until(lambda: mode.servers[0].output_text().count("export ") == 2)


def test_an_address_that_is_taken_is_said_so(tmp_path: Path, db: str) -> None:
    with stage.dev(tmp_path) as mode:
        port = mode.client.urls[0].rpartition(":")[2]
        done = noetl(tmp_path, "server", "--port", port, "--db", f"{db}.other")
        message = f"cannot listen on 127.0.0.1:{port}: Address already in use; name another port with --port"
        assert (done.returncode, message in done.stderr) == (6, True)


def test_a_server_that_others_can_reach_wants_somebody_who_may_sign_in(tmp_path: Path, db: str) -> None:
    done = noetl(tmp_path, "server", "--host", "0.0.0.0", "--port", "0", "--db", db)
    assert done.returncode == 2
    assert "nobody can sign in yet" in done.stderr
    make_token(tmp_path, db, "admin")
    process = Process(tmp_path, "open", "server", "--host", "0.0.0.0", "--port", "0", "--db", db).start()
    process.until_said("noetl server at")
    assert process.stop() == 0


def test_workers_of_a_server_are_started_again_and_go_with_it(tmp_path: Path, db: str) -> None:
    token = make_token(tmp_path, db, "admin")
    server = Process(tmp_path, "server", "server", "--port", "0", "--workers", "2", "--db", db).start()
    url = server.until_said("noetl server at").split()[3].rstrip(",")
    client = Client([url], token)
    with client.http:
        until(lambda: len(client.ask("GET", "/workers")["items"]) == 2)
        before = children(server)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(children(server)) == 2 and children(server) != before)
        assert client.ended(client.start(CHAIN))["result"] == [5, 50]
    left = children(server)
    assert server.stop() == 0
    assert [pid for pid in left if is_alive(pid)] == []
    done = noetl(tmp_path, "token", "list", "--db", db, "-o", "json")
    assert done.stdout.count('"revoked": null') == 1, "the tokens of its workers are over"


def test_workers_of_a_server_that_was_killed_end_by_themselves(tmp_path: Path, db: str) -> None:
    server = Process(tmp_path, "server", "server", "--port", "0", "--workers", "2", "--db", db).start()
    until(lambda: server.output_text().count("takes work of pool") == 2)
    left = children(server)
    server.kill()
    until(lambda: not any(map(is_alive, left)))


def test_a_worker_can_be_many_processes(tmp_path: Path, db: str) -> None:
    with stage.served(tmp_path, db, workers=0) as mode:
        many = stage.worker(tmp_path, db, "many", mode.client.urls[0], "--processes", "2", "--name", "fred").start()
        assert mode.client.ended(mode.client.start(CHAIN))["result"] == [5, 50]
        result = until(lambda: len(result := mode.client.ask("GET", "/workers")["items"]) == 2 and result)
        assert {worker["worker"].partition("@")[0] for worker in result} == {"fred-1", "fred-2"}
        left = children(many)
        assert many.stop() == 0
        assert [pid for pid in left if is_alive(pid)] == []


def listening(pid: int) -> bool:
    """Whether a process takes connections of others."""
    held = set()
    for number in range(1024):
        with suppress(FileNotFoundError, ProcessLookupError):  # closed, or the process has ended
            held.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    lines = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")).splitlines()
    return any(row[3] == "0A" and f"socket:[{row[9]}]" in held for row in map(str.split, lines))


def test_a_worker_listens_to_nobody(tmp_path: Path, db: str) -> None:
    with stage.served(tmp_path, db, workers=1) as mode:
        assert mode.client.ended(mode.client.start(CHAIN))["result"] == [5, 50]
        (server,), (worker,) = mode.servers, mode.workers
        assert server.process is not None
        assert worker.process is not None
        assert listening(server.process.pid)
        assert not any(map(listening, [worker.process.pid, *children(worker)]))


def test_a_worker_waits_for_a_server_that_is_missing_yet(tmp_path: Path, db: str) -> None:
    token = make_token(tmp_path, db, "admin")
    port = reserved_port()
    worker = stage.worker(tmp_path, db, "early", f"http://127.0.0.1:{port}").start()
    worker.until_said("takes work of pool")
    time.sleep(1)
    server = stage.server(tmp_path, db, port).start()
    client = Client([f"http://127.0.0.1:{port}"], token)
    with client.http:
        assert client.ended(client.start(CHAIN))["result"] == [5, 50]
    assert worker.stop() == 0
    assert server.stop() == 0


def test_a_worker_with_a_token_that_is_not_good_ends_and_reports_it(tmp_path: Path, db: str) -> None:
    with stage.served(tmp_path, db, workers=0) as mode:
        url = mode.client.urls[0]
        for more in ((), ("--processes", "2")):
            done = noetl(tmp_path, "worker", "--server", url, *more, NOETL_TOKEN="noetl_wrong")
            assert (done.returncode, "rejected this worker's token" in done.stderr) == (5, True)
        viewer = make_token(tmp_path, db, "viewer")
        assert noetl(tmp_path, "worker", "--server", url, NOETL_TOKEN=viewer).returncode == 5
        assert noetl(tmp_path, "worker", "--server", url).returncode == 2
        assert noetl(tmp_path, "worker", NOETL_TOKEN=viewer).returncode == 2


def test_a_worker_whose_token_is_revoked_ends(tmp_path: Path, db: str) -> None:
    with stage.served(tmp_path, db, workers=1) as mode:
        until(lambda: mode.client.ask("GET", "/workers")["items"])
        (token,) = [item for item in mode.client.ask("GET", "/tokens")["items"] if item["role"] == "worker"]
        mode.client.ask("DELETE", f"/tokens/{token['id']}")
        process = mode.workers[0].process
        assert process is not None
        assert process.wait(stage.SECONDS) == 5


def test_work_of_another_pool_waits_for_its_workers(tmp_path: Path, db: str) -> None:
    text = CASES["chain"].text.replace("workload:", "executor: {spec: {pool: red}}\nworkload:")
    with stage.served(tmp_path, db, workers=1) as mode:
        execution = mode.client.start({"playbook": text, "payload": {"start": 4}})
        time.sleep(1)
        assert mode.client.show(execution)["status"] == "running"
        red = stage.worker(tmp_path, db, "red", mode.client.urls[0], "--pool", "red").start()
        assert mode.client.ended(execution)["result"] == [5, 50]
        assert red.stop() == 0
    mode.verify()


def test_what_a_worker_of_one_pool_has_opened_a_worker_of_another_hides(tmp_path: Path, db: str) -> None:
    secret, drop = "Tr0ub4dor-and-3", tmp_path / "drop"
    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: across, path: tests/across}}
workflow:
  - step: start
    tool:
      - handle: {{kind: secrets, key: shop, map: {{token: token}}}}
      - send: {{kind: shell, command: "printf %s {{{{ _prev.token }}}} > {drop}"}}
    next: {{arcs: [{{step: back}}]}}
  - step: back
    spec: {{pool: red}}
    tool: {{kind: shell, command: "cat {drop}"}}
"""
    with stage.served(tmp_path, db, workers=1) as mode:
        mode.client.ask("PUT", "/credentials/shop", {"kind": "bearer", "data": {"token": secret}})
        red = stage.worker(tmp_path, db, "red", mode.client.urls[0], "--pool", "red").start()
        try:
            result = mode.client.ended(mode.client.start({"playbook": text}))["result"]
        finally:
            assert red.stop() == 0
        assert result["stdout"] == "***"
    mode.verify()
    assert drop.read_text() == secret
    actual = [path for path in Path(db).parent.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert actual == []
