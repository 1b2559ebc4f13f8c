"""A child's path leads to the same playbook with `noetl run` and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Done, file, noetl
from places import Place
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


def test_inputs_of_a_child_that_nothing_reads_are_warned_about_everywhere(tmp_path: Path) -> None:
    text = PARENT.replace("path: CHILD", "path: shop/notify, args: {mesage: hello}")
    noetl("register", file(tmp_path, text, "parent.yaml"), cwd=tmp_path)
    noetl("register", child(tmp_path), cwd=tmp_path)
    warning = "noetl: warning: shop/notify: "
    lines = [line for line in run(tmp_path).err.splitlines() if line.startswith(warning)]
    assert len(lines) == 1
    assert "mesage" in lines[0]
    with developing(tmp_path):
        waiting = noetl("exec", "shop/parent", "--wait", cwd=tmp_path)
        assert [line for line in waiting.err.splitlines() if line.startswith(warning)] == lines


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


WITH_ARGS = PARENT.replace("path: CHILD}", "path: CHILD, args: {ARGS}}")
INPUTS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: notify, path: shop/notify}
workload: {channel: ops, limit: 5, tags: []}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ workload }} {{ region }}"}
"""
SCHEMA = "executor: {spec: {schema: {workload: {properties: {limit: {maximum: 9}}}}}}\nworkload:"
ODD = "'limit' must be a number like its default in `workload`, but is text"


@pytest.mark.parametrize(
    ("args", "warnings"),
    [
        ("region: eu, chanel: x", ["workload has no 'chanel': did you mean 'channel'?"]),
        ("region: eu, limit: many", [f"{ODD}; write it as 5"]),
        ("channel: x", ["CHILD:7:59: nothing provides 'region', which is read in a tool's input"]),
        ("region: '{{ workload }}', limit: '{{ workload.x }}', tags: ['{{ workload.y }}']", []),
    ],
)
@pytest.mark.parametrize("is_registered", [False, True])
def test_register_checks_the_args_of_children(
    tmp_path: Path, args: str, warnings: list[str], is_registered: bool
) -> None:
    name = file(tmp_path, WITH_ARGS.replace("CHILD", "shop/notify").replace("ARGS", args), "parent.yaml")
    child = file(tmp_path, INPUTS.replace("{{ workload }}", "{{ workload.channel }}"), "tell.yaml")
    if is_registered:
        noetl("register", child, cwd=tmp_path)
    done = noetl("register", name, cwd=tmp_path)
    assert done.code == 0
    result = [line for line in done.err.splitlines() if "the args for" in line]
    child_name = "shop/notify" if is_registered else "tell.yaml"
    start = "parent.yaml:6:53: warning: the args for 'shop/notify': "
    assert result == [start + warning.replace("CHILD", child_name) for warning in warnings]


def test_register_checks_the_args_of_children_by_their_schema(tmp_path: Path) -> None:
    args = "region: eu, limit: 10, channel: '{{ workload.x }}'"
    name = file(tmp_path, WITH_ARGS.replace("CHILD", "tell").replace("ARGS", args), "parent.yaml")
    file(tmp_path, INPUTS.replace("workload:", SCHEMA, 1), "tell.yaml")
    done = noetl("register", name, cwd=tmp_path)
    violation = "the inputs violate the schema of the workload: limit: the value is greater than the maximum of 9"
    assert f"parent.yaml:6:46: warning: the args for 'tell': {violation}\n" in done.err


def test_a_run_on_a_server_warns_about_its_children_before_it_starts(place: Place) -> None:
    name = file(place.folder, WITH_ARGS.replace("CHILD", "shop/notify").replace("ARGS", "region: eu, chanel: x"))
    place("register", file(place.folder, INPUTS.replace("{{ workload }}", "{{ workload.channel }}"), "tell.yaml"))
    warnings = [line for line in place("run", name).err.splitlines() if "no 'chanel': did you mean 'channel'?" in line]
    assert len(warnings) == 1


def test_the_end_of_a_run_names_the_children_that_continued_past_errors(tmp_path: Path) -> None:
    loop = "loop: {in: '{{ range(8) }}', iterator: n}\n    tool: {kind: playbook, path: shop/notify}"
    file(tmp_path, PARENT.replace("tool: {kind: playbook, path: CHILD}", loop), "parent.yaml")
    failing = "loop: {in: [1, 2], iterator: n, spec: {on_error: continue}}\n    tool: {kind: python, code: 1 / 0}"
    file(tmp_path, CHILD.replace("tool: {kind: noop, result: RESULT}", failing), "tell.yaml")
    noetl("register", str(tmp_path / "parent.yaml"), str(tmp_path / "tell.yaml"), cwd=tmp_path)
    ends = [run(tmp_path)]
    with developing(tmp_path):
        ends.append(noetl("exec", "shop/parent", "--wait", cwd=tmp_path))
        ends.append(noetl("runs", "watch", "last:parent", cwd=tmp_path))
    for end in ends:
        assert end.code == 0
        lines = end.err.splitlines()
        first = lines.index("8 child runs continued past errors:")
        listed = data(noetl("runs", "list", "--name", "notify", "--limit", "100", "-o", "json", cwd=tmp_path))
        named = {f"  notify {child['execution_id']}: 2 errors" for child in listed}
        assert set(lines[first + 1 : first + 6]) <= named
        assert lines[first + 6] == "  and 3 more"
    file(tmp_path, CHILD.replace("RESULT", "fine"), "tell.yaml")
    noetl("register", str(tmp_path / "tell.yaml"), cwd=tmp_path)
    assert "child run" not in run(tmp_path).err
