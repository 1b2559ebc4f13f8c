"""`noetl graph`: a picture on stdout and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import BAD, CLASSIC, GOOD, SECONDS, WARNED, file, noetl


@pytest.mark.parametrize(
    ("form", "first"), [("text", "┌"), ("mermaid", "flowchart"), ("dot", "digraph"), ("svg", "<svg"), ("json", "{")]
)
@pytest.mark.parametrize("text", [GOOD, CLASSIC, WARNED])
def test_each_format_is_the_only_thing_printed(tmp_path: Path, form: str, first: str, text: str) -> None:
    done = noetl("graph", file(tmp_path, text), "--format", form)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(first)
    assert done.out.endswith("\n")
    assert not done.out.endswith("\n\n")
    assert "start" in done.out
    assert "end" in done.out


def test_text_is_the_default(tmp_path: Path) -> None:
    name = file(tmp_path, GOOD)
    assert noetl("graph", name).out == noetl("graph", name, "--format", "text").out


def test_svg_is_well_formed(tmp_path: Path) -> None:
    ElementTree.fromstring(noetl("graph", file(tmp_path, GOOD), "--format", "svg").out)


def test_standard_input_can_be_drawn() -> None:
    assert noetl("graph", "-", "--format", "dot", stdin=GOOD).code == 0


def test_an_invalid_playbook_prints_its_problems_to_stderr(tmp_path: Path) -> None:
    done = noetl("graph", file(tmp_path, BAD))
    assert (done.code, done.out) == (3, "")
    assert "error NTL202" in done.err
    assert "2 errors" in done.err


def test_a_missing_file_is_four(tmp_path: Path) -> None:
    done = noetl("graph", "nothing.yaml", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (4, "", "noetl: no such file: nothing.yaml\n")


def test_a_folder_is_four(tmp_path: Path) -> None:
    assert noetl("graph", str(tmp_path)).code == 4


@pytest.mark.parametrize("args", [[], ["x", "y"], ["x", "--format", "png"], ["x", "--nope"]])
def test_a_usage_error_is_two(args: list[str]) -> None:
    done = noetl("graph", *args)
    assert (done.code, done.out) == (2, "")


def test_a_pipe_gets_no_colours(tmp_path: Path) -> None:
    assert "\x1b" not in noetl("graph", file(tmp_path, GOOD), TERM="xterm-256color").out


def test_a_reader_that_leaves_early_is_no_error_to_talk_about(tmp_path: Path) -> None:
    steps = "".join(f"  - {{step: s{i}, next: {{arcs: [{{step: s{i + 1}}}]}}}}\n" for i in range(400))
    name = file(tmp_path, f"{GOOD.split('workflow:')[0]}workflow:\n{steps}  - {{step: s400}}\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m noetl.cli graph --format svg {name} | head -1"],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""
