"""noetl runs list: the order of runs, what can be asked for, and the names of the last runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from places import Place

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: NAME, path: tests/NAME}\nworkflow:\n"
ONE = HEAD + "  - {step: start, tool: {kind: noop, result: 1}}\n"
PARENT = HEAD + "  - step: start\n    tool: {kind: playbook, path: PATH}\n"
PASSES = (
    HEAD
    + """\
  - step: start
    tool:
      - call:
          kind: python
          code: "1 / 0"
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
"""
)


def playbook_named(name: str) -> str:
    return ONE.replace("NAME", name)


def family(place: Place) -> str:
    """A run that has started another one; its id."""
    path = "child.yaml"
    Path(place.folder / path).write_text(playbook_named("child"))
    if place.env:
        assert place("register", path).code == 0
        path = "tests/child"
    execution: str = place.run(PARENT.replace("NAME", "parent").replace("PATH", path))["execution_id"]
    return execution


def names(found: Any) -> list[str]:
    return [run["name"] for run in found]


def test_runs_are_listed_by_their_start_with_children_below_their_parent(place: Place) -> None:
    place.run(playbook_named("first"))
    parent = family(place)
    place.run(playbook_named("last"))
    body = place.json("runs", "list")
    assert names(body) == ["last", "parent", "child", "first"]
    assert [run["parent"] for run in body] == [None, None, parent, None]
    lines = [line.split("  ", 1)[1] for line in place("runs", "list").out.splitlines()[1:]]
    assert [line.split()[0] for line in lines] == ["last", "parent", "child", "first"]
    assert lines[2].startswith("  child")
    assert names(place.json("runs", "list", "--limit", "2")) == ["last", "parent", "child"]
    assert names(place.json("runs", "list", "--limit", "1")) == ["last"]


def test_runs_are_found_by_name_path_status_start_and_parent(place: Place) -> None:
    place.run(playbook_named("other"))
    between = time.time()
    parent = family(place)
    asked = {
        ("--name", "child"): ["child"],
        ("--path", "tests/other"): ["other"],
        ("--status", "succeeded"): ["parent", "child", "other"],
        ("--status", "failed"): [],
        ("--status", "failed,succeeded", "--path", "tests/*"): ["parent", "child", "other"],
        ("--status", "failed", "--status", "succeeded", "--name", "other"): ["other"],
        ("--path", "tests/o*"): ["other"],
        ("--until", "1h"): [],
        ("--until", "2999-01-01"): ["parent", "child", "other"],
        ("--waits", "signal"): [],
        ("--waits", "worker"): [],
        ("--since", "1h"): ["parent", "child", "other"],
        ("--since", "2020-01-01"): ["parent", "child", "other"],
        ("--since", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(between + 3600))): [],
        ("--parent", parent): ["child"],
        ("--parent", "last", "--name", "other"): [],
    }
    assert {args: names(place.json("runs", "list", *args)) for args in asked} == asked
    assert place("runs", "list", "--name", "nobody").err == "no runs\n"
    assert "--status broken: write one or more of pending" in place("runs", "list", "--status", "failed,broken").err
    wrong = place("runs", "list", "--since", "yesterday")
    assert (wrong.code, wrong.err) == (
        2,
        "noetl: --since yesterday: write an age such as 2h, or a time such as 2026-03-01T12:00\n",
    )


def test_errors_that_a_policy_continued_past_are_counted_in_lists(place: Place) -> None:
    place.run(PASSES.replace("NAME", "passes"))
    (run,) = place.json("runs", "list")
    assert (run["status"], run["continued_errors"]) == ("succeeded", 1)
    assert "succeeded (1 error)" in place("runs", "list").out


def test_the_last_runs_have_names(place: Place) -> None:
    first, second = (place.run(playbook_named(name))["execution_id"] for name in ("first", "second"))
    parent = family(place)
    (child,) = (run["execution_id"] for run in place.json("runs", "list", "--parent", "last"))
    asked = {"last": parent, "last~1": second, "last~2": first, "last:first": first, "last:child": child}
    assert {run: place.json("runs", "show", run)["execution_id"] for run in asked} == asked
    place.run(playbook_named("first"))
    assert place.json("runs", "show", "last:first~1")["execution_id"] == first


@pytest.mark.parametrize("run", ["last~7", "last:nobody"])
def test_a_last_run_that_is_missing_is_not_found(place: Place, run: str) -> None:
    place.run(playbook_named("first"))
    done = place("runs", "show", run)
    assert (done.code, done.err) == (4, f"noetl: run {run!r} not found: `noetl runs list` lists all runs\n")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("schedule", "no schedules"),
        ("hook", "no hooks"),
        ("credential", "no credentials"),
        ("user", "no users"),
        ("catalog", "no registered playbooks"),
    ],
)
def test_an_empty_list_says_so_on_stderr_and_is_empty_data(place: Place, group: str, message: str) -> None:
    place.run(playbook_named("one"))
    done = place(group, "list")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{message}\n"
    assert place.json(group, "list") == []
    assert place(group, "list", "-o", "jsonl").err == ""
