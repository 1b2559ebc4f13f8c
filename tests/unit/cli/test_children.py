"""A child's path leads to the same playbook with `noetl run` and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Done, file, noetl
from terminal import data
from test_project import developing

PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: shop/parent}
workflow:
  - step: call
    tool: {kind: playbook, path: CHILD}
"""
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: notify, path: shop/notify}
workflow:
  - step: start
    tool: {kind: noop, result: RESULT}
"""


def parent(folder: Path, child: str) -> str:
    return file(folder, PARENT.replace("CHILD", child), "parent.yaml")


def child(folder: Path, result: str = "from the file", name: str = "tell.yaml") -> str:
    return file(folder, CHILD.replace("RESULT", result), name)


def run(folder: Path) -> Done:
    return noetl("run", str(folder / "parent.yaml"), cwd=folder)


@pytest.mark.parametrize("path", ["shop/notify", "tell.yaml", "tell"])
def test_a_child_beside_its_parent_is_found_by_path_and_by_file_everywhere(tmp_path: Path, path: str) -> None:
    parent(tmp_path, path)
    child(tmp_path)
    assert run(tmp_path).out == '"from the file"\n'
    registered = noetl("register", str(tmp_path / "parent.yaml"), cwd=tmp_path)
    assert (registered.code, registered.err) == (0, "")
    assert noetl("exec", "shop/parent", cwd=tmp_path).out == '"from the file"\n'
    with developing(tmp_path):
        assert noetl("exec", "shop/parent", "--wait", cwd=tmp_path).out == '"from the file"\n'


def test_the_catalog_comes_first(tmp_path: Path) -> None:
    parent(tmp_path, "shop/notify")
    noetl("register", child(tmp_path, "from the catalog"), cwd=tmp_path)
    child(tmp_path, "from the file")
    assert run(tmp_path).out == '"from the catalog"\n'
    with developing(tmp_path):
        noetl("register", str(tmp_path / "parent.yaml"), cwd=tmp_path)
        assert noetl("exec", "shop/parent", "--wait", cwd=tmp_path).out == '"from the catalog"\n'


def test_two_files_with_the_path_are_refused(tmp_path: Path) -> None:
    parent(tmp_path, "shop/notify")
    child(tmp_path)
    child(tmp_path, name="tell2.yaml")
    assert "several files have the metadata.path 'shop/notify'" in run(tmp_path).err


def test_problems_of_the_file_with_the_path_are_reported(tmp_path: Path) -> None:
    parent(tmp_path, "shop/notify")
    file(tmp_path, CHILD.replace("noop", "nop"), "tell.yaml")
    assert "nop" in run(tmp_path).err


def test_register_warns_about_a_child_that_nobody_finds(tmp_path: Path) -> None:
    done = noetl("register", parent(tmp_path, "shop/nobody"), cwd=tmp_path)
    assert done.code == 0
    assert "parent.yaml:6:11: warning: no playbook is registered as 'shop/nobody'" in done.err


def test_register_at_a_server_warns_about_a_child_that_is_only_a_file(tmp_path: Path) -> None:
    name = parent(tmp_path, "tell.yaml")
    child(tmp_path)
    with developing(tmp_path) as (_, url, token):
        done = noetl("register", name, "--server", url, cwd=tmp_path, NOETL_TOKEN=token)
    assert "register it with `noetl register tell.yaml`, and call it by its path: `path: shop/notify`" in done.err
    assert data(noetl("catalog", "list", "-o", "json", cwd=tmp_path))[0]["path"] == "shop/parent"


def test_register_of_both_warns_about_nothing(tmp_path: Path) -> None:
    with developing(tmp_path) as (_, url, token):
        names = parent(tmp_path, "shop/notify"), child(tmp_path)
        done = noetl("register", *names, "--server", url, cwd=tmp_path, NOETL_TOKEN=token)
        assert (done.code, done.err) == (0, "")
        result = noetl("exec", "shop/parent", "--wait", "--server", url, cwd=tmp_path, NOETL_TOKEN=token)
        assert result.out == '"from the file"\n'
