"""Files that playbooks may not name, and that every kind which opens a path asks before it does."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.file_access import FileRefused, OwnFiles, check, check_folder, open_checked
from noetl.keychain.keychain import Keychain
from noetl.model.outcome import Failure, Outcome
from noetl.model.playbook import Credential
from noetl.program_files import with_programs
from noetl.settings import own_files
from noetl.sql import prepare_sql
from noetl.store.sqlite import SqliteStore
from noetl.tools import container_engine, nats_operations
from noetl.tools.base import Context
from noetl.tools.object_store import content as objects
from noetl.tools.object_store import stores
from noetl.tools.registry import BUILTIN


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """Files of noetl itself, each in a folder of its own."""
    result = {name: tmp_path / name / name for name in ("master.key", "token", "noetl.db", "other")}
    for path in result.values():
        path.parent.mkdir()
        if path.name != "noetl.db":
            path.write_text("s3cret")
    monkeypatch.setenv("NOETL_MASTER_KEY_FILE", str(result["master.key"]))
    monkeypatch.setenv("NOETL_TOKEN_FILE", str(result["token"]))
    monkeypatch.setenv("NOETL_PROTECTED_FILES", str(result["other"]))
    store = SqliteStore(result["noetl.db"])
    try:
        yield result
    finally:
        store.close()


# -- the rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/1/root/etc/passwd", "/sys/kernel/x", "/dev/shm/x", "/dev/null"]
)
def test_files_of_the_kernel_are_refused(path: str, tmp_path: Path) -> None:
    for given in (path, f"/usr/..{path}"):
        with pytest.raises(FileRefused, match="/proc, /sys and /dev are closed"):
            check(given)


@pytest.mark.parametrize("name", ["master.key", "token", "noetl.db", "other"])
def test_files_of_noetl_are_refused_by_any_name(name: str, own: dict[str, Path], tmp_path: Path) -> None:
    path, hard, soft = own[name], tmp_path / "hard", tmp_path / "soft"
    os.link(path, hard)
    soft.symlink_to(path)
    for given in (path, hard, soft, path.parent / ".." / name / name):
        for use in ("secret", "tool"):
            with pytest.raises(FileRefused, match="belongs to noetl itself"):
                check(given, use)  # type: ignore[arg-type]
        assert OwnFiles().inside(str(given)) is not None


def test_what_sqlite_writes_beside_the_database_is_refused_before_it_exists(own: dict[str, Path]) -> None:
    with pytest.raises(FileRefused, match="belongs to noetl itself"):
        check(f"{own['noetl.db']}-journal")


def test_a_folder_that_contains_such_a_file_is_refused(own: dict[str, Path], tmp_path: Path) -> None:
    for folder in (own["noetl.db"].parent, tmp_path, Path("/")):
        with pytest.raises(FileRefused, match=r"contains .*, which belongs to noetl itself"):
            check_folder(folder)
    (tmp_path / "data").mkdir()
    assert check_folder(tmp_path / "data") == str(tmp_path / "data")


def test_other_files_can_be_read_unless_there_is_an_allow_list(tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out" / "file")
    with open_checked(tmp_path / "out" / "file") as file:
        assert file.read() == b"out"
    for use, variable in (("tool", "NOETL_TOOL_FILES"), ("secret", "NOETL_SECRET_FILES")):
        environment = {variable: f"/nowhere:{tmp_path / 'in'}"}
        with open_checked(tmp_path / "in" / "file", use, environment) as file:  # type: ignore[arg-type]
            assert file.read() == b"in"
        for refused in ("out/file", "in/link", "in/../out/file", "in2", "new"):
            with pytest.raises(FileRefused, match=f"outside of the folders that {variable} allows"):
                check(tmp_path / refused, use, environment)  # type: ignore[arg-type]


def test_only_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileRefused, match="is not a file"):
        open_checked(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        open_checked(tmp_path / "none")


def test_the_database_that_is_used_by_default_is_noetls_own() -> None:
    assert ".noetl/noetl.db" in own_files({})
    assert "/data/noetl.db" in own_files({"NOETL_DB": "sqlite:/data/noetl.db"})
    assert not [file for file in own_files({"NOETL_DB": "postgresql://h/d"}) if "postgres" in file]


SQL = prepare_sql("SELECT 1")({})


# -- who asks ---------------------------------------------------------------------------------------------------------

NOT_A_READ = {
    ("http", "Upload.content"): "content in the place of a file",
    ("http", "Tls.ca"): "read by OpenSSL; nothing of it is sent or returned",
    ("http", "Tls.cert"): "read by OpenSSL; nothing of it is sent or returned",
    ("http", "Tls.key"): "read by OpenSSL; nothing of it is sent or returned",
    ("duckdb", "Inputs.read_only"): "a switch",
    ("shell", "Inputs.cwd"): "where code runs: its user and sandbox decide what it reads",
    ("script", "Inputs.cwd"): "where code runs: its user and sandbox decide what it reads",
    ("container", "Inputs.workdir"): "a folder in the container",
    ("playbook", "Inputs.path"): "a path of the catalog; read as a playbook or not at all",
    ("transfer", "TransferSource.rows"): "a path in data",
    ("transfer", "TransferSource.format"): "a word",
    ("transfer", "TransferTarget.format"): "a word",
}
"""Inputs whose description speaks of a file or path, and which open none for the playbook."""

CALLS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("http", "Inputs.files"): [{"method": "POST", "url": "http://127.0.0.1:9/", "files": {"f": "PATH"}}],
    ("http", "Upload.path"): [{"method": "POST", "url": "http://127.0.0.1:9/", "files": {"f": {"path": "PATH"}}}],
    ("duckdb", "Inputs.database"): [{"database": "PATH", "command": "SELECT 1"}],
    ("duckdb", "Inputs.paths"): [{"paths": ["PATH"], "command": "SELECT 1"}, {"paths": ["/"], "command": "SELECT 1"}],
    ("script", "Inputs.path"): [{"path": "PATH"}],
    ("s3", "Inputs.file"): [
        {"operation": "put", "bucket": "bucket", "key": "k", "file": "PATH", "endpoint": "http://127.0.0.1:9"}
    ],
    ("object", "Inputs.file"): [{"operation": "put", "url": "memory://b", "key": "k", "file": "PATH"}],
    ("object", "Inputs.url"): [
        {"operation": operation, "url": "file://FOLDER", "key": "NAME"} for operation in ("get", "delete")
    ]
    + [{"operation": "put", "url": "file://FOLDER", "key": "NAME", "data": "x"}]
    + [{"operation": "copy", "url": "file://FOLDER", "key": "NAME", "destination": "memory://b/k"}],
    ("transfer", "TransferSource.path"): [
        {"source": {"kind": "file", "path": "PATH", "format": "csv"}, "target": {"kind": "file", "path": "/tmp/x.csv"}}
    ],
    ("transfer", "TransferTarget.path"): [
        {"source": {"kind": "file", "path": "/tmp/x.csv"}, "target": {"kind": "file", "path": "PATH", "format": "csv"}}
    ],
    ("transfer", "TransferSource.database"): [
        {
            "source": {"kind": "duckdb", "database": "PATH", "query": "SELECT 1"},
            "target": {"kind": "file", "path": "/tmp/x.csv"},
        }
    ],
    ("transfer", "TransferTarget.database"): [
        {
            "source": {"kind": "file", "path": "/tmp/x.csv"},
            "target": {"kind": "duckdb", "database": "PATH", "table": "t"},
        }
    ],
}
ELSEWHERE = {
    ("gcs", "Inputs.file"),
    ("container", "Mount.source"),
    ("nats", "Inputs.file"),
    ("secrets", "Inputs.key"),
    ("python", "Inputs.file"),
}
"""Tested below: they need a daemon, a server or a keychain before the file, or are read with the playbook."""


def path_inputs() -> set[tuple[str, str]]:
    """Every input of every kind that speaks of a file, a folder or a path."""
    result = set()
    for kind, module in BUILTIN.items():
        parts = msgspec.json.schema(import_module(module).KIND.inputs).get("$defs", {})
        for part, described in parts.items():
            for name, field in described.get("properties", {}).items():
                if re.search(r"\b(files?|folders?|paths?|file:)\b", f"{name} {field.get('description', '')}", re.I):
                    result.add((kind, f"{part}.{name}"))
    return result


@pytest.mark.parametrize("name", ["master.key", "token", "noetl.db", "other"])
def test_the_program_of_a_task_is_none_of_noetls_files(name: str, own: dict[str, Path]) -> None:
    task = f"{{kind: python, file: {own[name]}}}"
    (problem,) = with_programs("p.yaml", f"workflow: [{{step: start, tool: {task}}}]".encode(), "").problems
    assert "belongs to noetl itself" in problem.message


def test_every_input_that_names_a_file_is_known_here() -> None:
    """A new input with a path: let it go through `noetl.tools.files`, and add a call that proves it."""
    assert path_inputs() == CALLS.keys() | NOT_A_READ.keys() | ELSEWHERE


def call(kind: str, given: dict[str, Any]) -> Outcome:
    module = import_module(BUILTIN[kind])
    bound = {"command": SQL, "source": {"query": SQL}}
    context = Context(
        execution="e", action="a", attempt=1, step="s", task="t", timeout=None, args={}, prev=None,
        log=lambda stream, line: None, bound=bound, spec={},
    )  # fmt: skip

    async def story() -> Outcome:
        try:
            async with asyncio.timeout(120):
                process: Outcome = await module.run(msgspec.convert(given, module.Inputs), context)
                return process
        except Failure as failure:
            return failure.outcome
        finally:
            if hasattr(module, "close"):
                await module.close()

    return asyncio.run(story())


def filled(given: Any, path: Path) -> Any:
    text = msgspec.json.encode(given).decode()
    text = text.replace("PATH", str(path)).replace("FOLDER", str(path.parent)).replace("NAME", path.name)
    return msgspec.json.decode(text)


@pytest.mark.parametrize("name", ["master.key", "noetl.db"])
@pytest.mark.parametrize("place", CALLS, ids=" ".join)
def test_it_is_refused(place: tuple[str, str], name: str, own: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "data" / "innocent"
    path.parent.mkdir()
    os.link(own[name], path)
    for given in CALLS[place]:
        outcome = call(place[0], filled(given, path))
        assert outcome.error is not None, given
        assert (outcome.error.kind, "belongs to noetl itself" in outcome.error.message) == ("input", True), (
            outcome.error
        )


def test_mounts_of_containers(own: dict[str, Path]) -> None:
    for source in (str(own["noetl.db"]), str(own["noetl.db"].parent), "/", "/proc"):
        with pytest.raises(Failure, match="`mounts`: "):
            container_engine._mount(f"{source}:/x:ro")


def test_files_of_objects_in_nats_and_at_google(own: dict[str, Path]) -> None:
    assert (nats_operations.readable, nats_operations.incoming) == (objects.readable, objects.incoming)
    assert (stores.readable, stores.incoming) == (objects.readable, objects.incoming)
    for path in ("/proc/self/environ", str(own["master.key"])):
        with pytest.raises(Failure, match="`file`: "):
            objects.readable(path)
        with pytest.raises(Failure, match="`file`: "), objects.incoming(path):
            pass


@pytest.mark.parametrize("key", ["/proc/self/environ", "/proc/thread-self/environ", "/dev/stdin", "HARD LINK"])
def test_secrets(key: str, own: dict[str, Path], tmp_path: Path) -> None:
    """M8: a template read the whole environment of the worker, and the master key by a hard link."""
    if key == "HARD LINK":
        os.link(own["master.key"], tmp_path / "link")
        key = str(tmp_path / "link")

    async def fetch(name: str) -> Any:
        raise AssertionError(name)

    entries = {"e": Credential("e", "secret_manager", provider="file", key=key)}
    with pytest.raises(Failure, match=r"belongs to noetl itself|are closed to playbooks"):
        asyncio.run(Keychain(entries, fetch, "p", "default").fields("e"))
