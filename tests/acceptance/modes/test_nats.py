"""NATS beside the database: what it gives, and that nothing is missing without it."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.acceptance.modes import stage
from tests.acceptance.modes.playbooks import playbook
from tests.acceptance.modes.stage import noetl, until
from tests.acceptance.modes.test_returned_work import ITEMS, check, request
from tests.servers.nats import TOKEN, RestartedNats, nats_server, restarted_nats
from tests.servers.ports import reserved_port
from tests.servers.postgres import PostgresServer
from tests.servers.s3 import KEYS, REGION, s3_server

SOAK = pytest.mark.slow(part="modes")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RestartedNats]:
    folder = tmp_path / "nats"
    folder.mkdir()
    with restarted_nats(folder) as running:
        yield running


@pytest.fixture
def db(postgres: PostgresServer) -> str:
    return stage.database(postgres, f"nats_{uuid.uuid4().hex}")


def health(mode: stage.Served, number: int = 0) -> dict[str, Any]:
    answer = mode.client.http.get(f"{mode.client.urls[number]}/readyz")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def is_ok(mode: stage.Served) -> bool:
    return all(health(mode, number)["checks"]["nats"] == "ok" for number in range(len(mode.servers)))


def test_runs_continue_while_nats_goes_and_comes(tmp_path: Path, db: str, broker: RestartedNats) -> None:
    with stage.served(tmp_path, db, 2, 3, "--nats", broker.url) as mode:
        until(lambda: is_ok(mode))
        execution = mode.client.start(request(ITEMS))
        broker.stop()
        other = mode.client.start(request(ITEMS))
        broker.start()
        check(mode, execution)
        check(mode, other)
        until(lambda: is_ok(mode))
    mode.verify()


def test_a_server_starts_works_and_is_ready_without_nats(tmp_path: Path, broker: RestartedNats) -> None:
    broker.stop()
    with stage.served(tmp_path, str(tmp_path / "data" / "noetl.db"), 1, 1, "--nats", broker.url) as mode:
        result = until(lambda: one if "no connection" in (one := health(mode))["checks"]["nats"] else None)
        assert (result["status"], result["checks"]["store"]) == ("ok", "ok")
        check(mode, mode.client.start(request(ITEMS)))
        broker.start()
        until(lambda: is_ok(mode))
        until(lambda: "is available again" in mode.servers[0].output_text())
        assert mode.servers[0].output_text().count("NATS is unavailable") == 1
    mode.verify()


def test_a_login_that_nats_refuses_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("not-the-token\n")
    db = str(tmp_path / "data" / "noetl.db")
    with nats_server(TOKEN) as server:
        token = stage.make_token(tmp_path, db, "admin")
        environment = {"NOETL_NATS": server.url, "NOETL_NATS_TOKEN_FILE": str(word)}
        port = reserved_port()
        process = stage.Process(tmp_path, "server", "server", "--port", str(port), "--db", db, **environment).start()
        try:
            process.until_said("rejected the login")
            process.until_said("noetl server at")
            client = stage.Client([f"http://127.0.0.1:{port}"], token)
            with client.http:
                response = client.http.get(f"{client.urls[0]}/readyz")
                assert (response.status_code, "rejected the login" in response.json()["checks"]["nats"]) == (200, True)
            assert "not-the-token" not in process.output_text() + response.text
        finally:
            assert process.stop() == 0, process.output_text()


@pytest.mark.parametrize("address", ["127.0.0.1:4222", "http://127.0.0.1:4222", "nats://", "nats://a,b"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    done = noetl(tmp_path, "server", "--port", "0", "--nats", address)
    assert (done.returncode, "nats://HOST:4222" in done.stderr) == (2, True), done.stderr


# -- results --------------------------------------------------------------------------------------------------------

LARGE = playbook(
    "shelved",
    """\
    executor: {spec: {result: {store: {kind: nats_object, bucket: BUCKET}}}}
    workload: {count: 20000}
    workflow:
      - step: make
        tool:
          - rows:
              kind: python
              args: {count: "{{ workload.count }}"}
              code: "result = list(range(count))"
          - again: {kind: noop, result: "{{ tasks.rows.result | length }}"}
          - rows_again: {kind: noop, result: "{{ tasks.rows.result }}"}
        next: {arcs: [{step: use, args: {last: "{{ steps.make.result[-1] }}"}}]}
      - step: use
        tool:
          - total:
              kind: python
              args: {rows: "{{ steps.make.result }}", last: "{{ args.last }}"}
              code: "result = [sum(rows), last]"
    """,
)
TOTAL = [sum(range(20000)), 19999]


def shelved(mode: stage.Served, bucket: str) -> dict[str, Any]:
    """A run whose large result is in NATS: the reference to it."""
    process = mode.run(LARGE.replace("BUCKET", bucket), {})
    assert (process["status"], process["result"]) == ("succeeded", TOTAL), process["error"]
    reference: dict[str, Any] = process["steps"]["make"]["result"]
    return reference


def in_bucket(url: str, bucket: str) -> dict[str, bytes]:
    """Everything in a bucket, by its name."""

    async def look() -> dict[str, bytes]:
        connection = await nats.connect(url)
        try:
            objects = await connection.jetstream().object_store(bucket)
            return {str(one.name): (await objects.get(str(one.name))).data or b"" for one in await objects.list()}
        except nats.js.errors.NotFoundError:
            return {}
        finally:
            await connection.close()

    return asyncio.run(look())


@pytest.mark.parametrize(
    "direct",
    [pytest.param(False, id="through the server", marks=SOAK), pytest.param(True, id="by the worker")],
)
def test_large_results_are_in_nats_and_in_the_database(tmp_path: Path, broker: RestartedNats, direct: bool) -> None:
    db = str(tmp_path / "data" / "noetl.db")
    environment = {"NOETL_NATS": broker.url} if direct else {}
    with stage.served(tmp_path, db, 1, 0, "--nats", broker.url) as mode:
        worker = stage.worker(tmp_path, db, "worker", mode.client.urls[0], **environment).start()
        until(lambda: is_ok(mode))
        reference = shelved(mode, "shelf")
        digest = reference["checksum"].removeprefix("sha256:")
        assert (reference["store"], reference["key"]) == ("nats_object", f"shelf/{digest}")
        assert (reference["schema_hint"], reference["preview"]) == ("list", {"count": 20000})
        # a busy machine may let NATS answer too late; then the next run puts it there
        content = until(lambda: in_bucket(broker.url, "shelf").get(digest) or (shelved(mode, "shelf") and None))
        assert (len(content), sha256(content).hexdigest()) == (reference["size"], digest)
        assert json.loads(content) == list(range(20000))
        answer = mode.client.http.get(f"{mode.client.urls[0]}/api/v1/results/{digest}")
        assert answer.content == content
        broker.stop()  # what is in NATS is a copy
        mode.verify()
        assert shelved(mode, "other")["store"] == "nats_object"
        broker.start()
        until(lambda: is_ok(mode))
        assert worker.stop() == 0
    mode.verify()


def test_a_run_without_a_server_uses_nats_too(tmp_path: Path, broker: RestartedNats) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(LARGE.replace("{kind: nats_object, bucket: BUCKET}", "nats_object"))

    def is_there() -> bool:
        done = noetl(tmp_path, "run", str(file), "-o", "json", NOETL_NATS=broker.url)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["result"] == TOTAL
        bucket, _, digest = result["steps"]["make"]["result"]["key"].partition("/")
        assert bucket == "noetl-results"
        return digest in in_bucket(broker.url, bucket)

    until(is_there)
    assert noetl(tmp_path, "verify").returncode == 0


def test_a_store_that_is_not_configured_is_reported_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(LARGE)
    done = noetl(tmp_path, "run", str(file))
    assert done.returncode == 3, done.stderr
    assert "large.yaml:4:" in done.stderr
    assert "set NOETL_NATS" in done.stderr
    assert noetl(tmp_path, "runs", "list").returncode == 4, "nothing was begun"
    db = str(tmp_path / "data" / "noetl.db")
    assert noetl(tmp_path, "register", str(file), "--db", db).returncode == 0
    assert "set NOETL_NATS" in noetl(tmp_path, "exec", "modes/shelved", "--db", db).stderr
    with stage.served(tmp_path, db, 1, 0) as mode:
        for request in ({"playbook": LARGE}, {"path": "modes/shelved"}):
            answer = mode.client.http.post(f"{mode.client.urls[0]}/api/v1/executions", json=request)
            assert (answer.status_code, "set NOETL_NATS" in answer.text) == (422, True), answer.text
        there = {"NOETL_SERVER": mode.client.urls[0], "NOETL_TOKEN": mode.client.token}
        done = noetl(tmp_path, "run", str(file), **there)
        assert done.returncode not in (0, 1)
        assert "set NOETL_NATS" in done.stderr
        assert mode.client.ask("GET", "/executions")["items"] == []


def test_results_in_an_object_store(tmp_path: Path) -> None:
    db = str(tmp_path / "data" / "noetl.db")
    with s3_server() as s3:
        bucket = s3.bucket()
        environment = {
            "AWS_ENDPOINT_URL": s3.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEYS["secret_access_key"],
        }
        text = LARGE.replace("{kind: nats_object, bucket: BUCKET}", f'{{kind: object, url: "s3://{bucket}/noetl"}}')
        port, token = reserved_port(), stage.make_token(tmp_path, db, "admin")
        args = ("server", "--port", str(port), "--db", db)
        url = f"http://127.0.0.1:{port}"
        processes = [stage.Process(tmp_path, "server", *args, **environment).start()]
        try:
            processes[0].until_said("noetl server at")
            processes.append(stage.worker(tmp_path, db, "worker", url, **environment).start())
            client = stage.Client([url], token)
            with client.http:
                result = client.ended(client.start({"playbook": text}))
                assert (result["status"], result["result"]) == ("succeeded", TOTAL), result["error"]
                reference = result["steps"]["make"]["result"]
                assert reference["store"] == "object"
                assert reference["key"].startswith(f"s3://{bucket}/noetl/")
                done = noetl(tmp_path, "verify", "--db", db, **environment)
                assert done.returncode == 0, done.stdout + done.stderr
                s3.client.delete_object(Bucket=bucket, Key=reference["key"].removeprefix(f"s3://{bucket}/"))
                done = noetl(tmp_path, "verify", "--db", db, **environment)
                assert (done.returncode, "references" in done.stdout) == (1, True)
        finally:
            for process in reversed(processes):
                assert process.stop() == 0, process.output_text()
