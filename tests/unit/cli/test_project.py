"""A project: the folder whose database, credentials and `noetl dev` the commands below it use."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from command import file, noetl
from terminal import ASKS, HEAD, Terminal, data, running, terminal
from tests.servers.patience import until

HELLO = HEAD + "workflow:\n  - {step: start, tool: {kind: noop, result: 1}}\n"


@contextmanager
def developing(folder: Path) -> Iterator[tuple[Terminal, str, str]]:
    """`noetl dev` in a folder, its address and its token."""
    with terminal("dev", "--port", "0", cwd=folder) as process:
        url, _, token = process.line("noetl dev: ").removeprefix("noetl dev: ").partition("/#token=")
        yield process, url, token


def test_commands_use_the_database_of_the_project_above(tmp_path: Path) -> None:
    below = tmp_path / "flows" / "daily"
    below.mkdir(parents=True)
    (tmp_path / "noetl.toml").write_text("")
    execution = data(noetl("run", file(below, HELLO), "-o", "json", cwd=below))["execution_id"]
    assert [run["execution_id"] for run in data(noetl("runs", "list", "-o", "json", cwd=tmp_path))] == [execution]
    assert not (below / ".noetl").exists()


def test_without_a_project_each_folder_has_a_database(tmp_path: Path) -> None:
    below = tmp_path / "flows"
    below.mkdir()
    noetl("run", file(below, HELLO), cwd=below)
    assert (below / ".noetl" / "noetl.db").exists()
    done = noetl("runs", "list", cwd=tmp_path)
    assert (done.code, "database .noetl/noetl.db does not exist" in done.err) == (4, True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_project_file_of_somebody_else_makes_no_project(tmp_path: Path) -> None:
    below = tmp_path / "flows"
    below.mkdir()
    (tmp_path / "noetl.toml").write_text("")
    os.chown(tmp_path / "noetl.toml", 12345, 12345)
    noetl("run", file(below, HELLO), cwd=below)
    assert (below / ".noetl").exists()


def test_git_ignores_the_folder(tmp_path: Path) -> None:
    noetl("run", file(tmp_path, HELLO), cwd=tmp_path)
    assert (tmp_path / ".noetl" / ".gitignore").read_text() == "*\n"


def test_commands_find_the_dev_server_of_their_folder_and_its_token(tmp_path: Path) -> None:
    (tmp_path / "noetl.toml").write_text("")
    below = tmp_path / "flows"
    below.mkdir()
    with developing(tmp_path) as (process, url, token):
        assert noetl("register", file(below, HELLO), cwd=below).code == 0
        execution = noetl("exec", "tests/story", cwd=below).out.strip()
        until(lambda: data(noetl("runs", "show", execution, "-o", "json", cwd=below))["status"] == "succeeded")
        shown = data(noetl("runs", "show", execution, "-o", "json", cwd=below))
        assert shown["actor"] == {"kind": "token", "name": "noetl dev"}
        secret = tmp_path / ".noetl" / "noetl.db.dev"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        page = httpx2.get(f"{url}/", trust_env=False)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        for link in re.findall('href="([^"]+)"', page.text):
            assert httpx2.get(f"{url}{link}", trust_env=False).status_code == 200
        process.send(signal.SIGTERM)
        process.end()
    with developing(tmp_path) as (_, _, again):
        assert again == token
    assert noetl("exec", "tests/story", cwd=below).out.strip() == "1"  # nobody serves the folder any more


def test_a_dev_server_that_was_killed_is_ignored(tmp_path: Path) -> None:
    with developing(tmp_path) as (process, _, _):
        process.send(signal.SIGKILL)
        process.end()
    assert noetl("runs", "list", cwd=tmp_path).code == 0


def test_a_missing_credential_has_one_exit_code_everywhere(tmp_path: Path) -> None:
    name = file(tmp_path, HELLO.replace("workflow:", "keychain: [{name: db, kind: bearer}]\nworkflow:"))
    assert noetl("run", name, cwd=tmp_path).code == 5
    with developing(tmp_path) as (_, url, token):
        assert noetl("register", name, cwd=tmp_path).code == 0
        assert noetl("exec", "tests/story", cwd=tmp_path).code == 5
        assert noetl("run", name, "--server", url, cwd=tmp_path, NOETL_TOKEN=token).code == 5


def test_resume_of_a_run_without_process_says_where_it_continues(tmp_path: Path) -> None:
    with running(tmp_path, ASKS, "ask#1 waits for the signal 'go'") as (process, execution):
        process.send(signal.SIGKILL)
        process.end()
    with developing(tmp_path):
        done = noetl("runs", "resume", execution, cwd=tmp_path)
        assert done.code == 6
        (command,) = re.findall("`(noetl runs resume .*)`", done.err)
        assert command == f"noetl runs resume {execution} --db {tmp_path}/.noetl/noetl.db"


def test_run_stays_in_its_process_beside_a_dev_server(tmp_path: Path) -> None:
    with developing(tmp_path):
        execution = data(noetl("run", file(tmp_path, HELLO), "-o", "json", cwd=tmp_path))["execution_id"]
        shown = data(noetl("runs", "show", execution, "-o", "json", cwd=tmp_path))
        assert shown["actor"]["kind"] == "local"
