"""Every example is sound, without a warning, and can be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from noetl.drawing import Format, draw
from noetl.files import load_file

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.yaml"))
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)


def test_there_are_examples_of_both_dialects() -> None:
    assert {load_file(str(example)).dialect for example in EXAMPLES} == {"canonical", "classic"}


@every_example
def test_example_has_no_problem(example: Path) -> None:
    loaded = load_file(str(example))
    assert [str(problem) for problem in loaded.problems] == []
    assert loaded.playbook is not None


@every_example
@pytest.mark.parametrize("form", get_args(Format))
def test_example_is_drawn_with_all_its_steps(example: Path, form: Format) -> None:
    playbook = load_file(str(example)).require()
    drawing = draw(playbook, form)
    assert drawing.endswith("\n")
    assert [step.name for step in playbook.steps if step.name not in drawing] == []


@every_example
def test_example_is_filed_by_its_name(example: Path) -> None:
    playbook = load_file(str(example)).require()
    assert (playbook.name, playbook.path) == (example.stem, f"examples/{example.stem}")
    assert playbook.description


@every_example
def test_example_begins_with_a_comment_that_explains_it(example: Path) -> None:
    assert example.read_text("utf-8").startswith("# ")


@every_example
def test_child_playbooks_stand_beside_their_parent(example: Path) -> None:
    playbook = load_file(str(example)).require()
    called = [task.inputs["path"] for step in playbook.steps for task in step.tasks if task.kind == "playbook"]
    assert [path for path in called if not (example.parent / path).is_file()] == []
