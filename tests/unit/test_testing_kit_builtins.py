"""The built-in kinds keep the contract that `noetl.testing` checks for everybody.

Those that speak to a server are asked to speak to a port where nobody listens: what they say then, and what they leave
behind, is part of the contract too. Against their servers they are tested elsewhere.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from noetl.testing import Example, ToolSuite, check_kind
from noetl.tools.registry import BUILTIN, KINDS

NOBODY = "127.0.0.1:9"
CANARY = "canary-3f9a1c7e5b2d"
CREDENTIALS: dict[str, dict[str, Any]] = {
    "bearer": {"kind": "bearer", "token": CANARY},
    "query": {"kind": "api_key", "value": CANARY, "query": "key"},
    "postgres": {
        "kind": "postgres_credential",
        "host": "127.0.0.1",
        "port": 9,
        "user": "ada",
        "password": CANARY,
        "database": "shop",
    },
    "nats": {"user": "ada", "password": CANARY},
    "s3": {"access_key_id": "AKIA0000", "secret_access_key": CANARY},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, without a proxy."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text("id,total\n1,12.5\n2,30\n")
    (tmp_path / "job.sh").write_text('#!/bin/sh\necho "$1"\n')
    return tmp_path


class TestNoop(ToolSuite):
    tool = "noop"
    examples = (Example(inputs={"result": {"a": 1}}), Example(context={"prev": 1}))


class TestPython(ToolSuite):
    tool = "python"
    examples = (
        Example(inputs={"code": "result = a + 1"}, context={"args": {"a": 1}}),
        Example(inputs={"code": "raise ValueError('no')"}, error="python"),
        Example(inputs={"code": "import time; time.sleep(60)"}, lasts=True),
    )


class TestShell(ToolSuite):
    tool = "shell"
    examples = (
        Example(inputs={"command": "echo {{ word }}"}, context={"args": {"word": "a b"}}),
        Example(inputs={"cmds": ["echo a", ["echo", "b"]]}),
        Example(
            inputs={"command": "echo $NOETL_AUTH_TOKEN >&2; exit 3", "auth": "bearer"},
            credentials=CREDENTIALS,
            error="exit_code",
        ),
        Example(inputs={"command": "sleep 60"}, lasts=True),
    )


class TestScript(ToolSuite):
    tool = "script"
    examples = (
        Example(inputs={"path": "job.sh", "interpreter": "sh", "argv": ["x"]}),
        Example(inputs={"ref": "#!/bin/sh\nexit 4\n"}, error="exit_code"),
        Example(inputs={"ref": "#!/bin/sh\nsleep 60\n"}, lasts=True),
    )


class TestHttp(ToolSuite):
    tool = "http"
    examples = (
        Example(inputs={"url": f"http://{NOBODY}/", "auth": "bearer"}, credentials=CREDENTIALS, error="connect"),
        Example(inputs={"url": f"http://{NOBODY}/", "auth": "query"}, credentials=CREDENTIALS, error="connect"),
        Example(inputs={"url": "ftp://127.0.0.1/", "method": "PUT", "body": "x"}, error="input"),
    )

    def test_call_can_be_cancelled(self) -> None:
        with _silent() as url:
            assert check_kind("http", [Example(inputs={"url": url}, lasts=True)]) == []


@contextmanager
def _silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


class TestDuckdb(ToolSuite):
    tool = "duckdb"
    examples = (
        Example(inputs={"query": "SELECT {{ n }} AS n"}, context={"args": {"n": 5}}),
        Example(inputs={"query": "SELECT * FROM nowhere"}, error="sql"),
        Example(inputs={"query": "SELECT count(*) FROM range(100000000000) t(i) WHERE i % 7 = 3"}, lasts=True),
    )


class TestTransfer(ToolSuite):
    tool = "transfer"
    examples = (
        Example(
            inputs={
                "source": {"kind": "file", "path": "orders.csv"},
                "target": {"kind": "file", "path": "orders.jsonl"},
                "mode": "replace",
            }
        ),
        Example(
            inputs={"source": {"kind": "file", "path": "no.csv"}, "target": {"kind": "file", "path": "orders.jsonl"}},
            error="not_found",
        ),
    )


class TestPostgres(ToolSuite):
    tool = "postgres"
    examples = (
        Example(inputs={"query": "SELECT 1", "auth": "postgres"}, credentials=CREDENTIALS, error="connect"),
        Example(inputs={"query": "SELECT 1", "auth": "nobody"}, error="auth"),
    )


class TestNats(ToolSuite):
    tool = "nats"
    examples = (
        Example(
            inputs={"operation": "publish", "subject": "a", "data": "x", "url": f"nats://{NOBODY}", "auth": "nats"},
            credentials=CREDENTIALS,
            error="connect",
        ),
    )


class TestObject(ToolSuite):
    tool = "object"
    examples = (
        Example(inputs={"operation": "list", "url": f"file://{os.path.dirname(__file__)}", "prefix": "none"}),
        Example(
            inputs={"operation": "get", "url": f"file://{os.path.dirname(__file__)}", "key": "no"}, error="not_found"
        ),
    )


class TestS3(ToolSuite):
    tool = "s3"
    examples = (
        Example(
            inputs={
                "operation": "get",
                "bucket": "shop-data",
                "key": "a",
                "endpoint": f"http://{NOBODY}",
                "auth": "s3",
            },
            credentials=CREDENTIALS,
            error="connect",
        ),
    )


class TestGcs(ToolSuite):
    tool = "gcs"
    examples = (
        Example(
            inputs={
                "operation": "get",
                "bucket": "shop-data",
                "key": "a",
                "endpoint": f"http://{NOBODY}",
                "auth": {"anonymous": True},
            },
            error="connect",
        ),
    )


BELL = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[2]; creg c[2]; h q[0]; cx q[0], q[1]; measure q -> c;'


class TestQuantum(ToolSuite):
    tool = "quantum"
    examples = (
        Example(inputs={"circuit": BELL, "shots": 10, "seed": 1}),
        Example(inputs={"circuit": "no circuit"}, error="input"),
    )


SUITES = {suite.tool for suite in ToolSuite.__subclasses__() if suite.__module__ == __name__}
PARKING = {"wait", "playbook"}
"""Kinds whose outcome comes later and from elsewhere: no other tool can do that."""
ELSEWHERE = {"secrets", "container", "snowflake"}
"""Kinds that need more than a call: a keychain, a container engine, an account."""


@pytest.mark.parametrize("name", BUILTIN)
def test_every_kind_that_runs_describes_itself(name: str) -> None:
    if KINDS.runner(name) is not None:
        assert check_kind(name) == []


def test_every_kind_that_runs_is_tried() -> None:
    assert {name for name in BUILTIN if KINDS.runner(name) is not None} == SUITES | PARKING | ELSEWHERE
