"""Whatever the text and the position: an answer, and soon."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from noetl.assist import Assist, assist
from noetl.assist.assist import MAX_COMPLETIONS
from noetl.assist.loose_reader import read_loosely
from noetl.assist.names import DocumentNames
from noetl.dsl.reader import MAX_BYTES, read
from noetl.dsl.tree import Map, plain
from noetl.tools.registry import KINDS

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
PLAYBOOKS = [*EXAMPLES, *sorted((ROOT / "tests").rglob("*.yaml"))]
NOISE = "{}[]:'\"|>&*!#%-\n \t,.x█é\0"


def shape_of(value: object) -> object:
    """A value without the texts in it, which this reader does not unescape or fold."""
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape_of(item) for item in value]
    return "text" if isinstance(value, str) else value


def test_a_sound_document_is_read_as_the_reader_of_playbooks_reads_it() -> None:
    compared = 0
    for path in PLAYBOOKS:
        text = path.read_bytes().decode("utf-8", "replace")
        root, _ = read(path.name, text)
        if root is None or ("&" in text and "*" in text):  # aliases are skipped
            continue
        compared += 1
        assert shape_of(plain(read_loosely(text, -1).root)) == shape_of(plain(root)), path.name
    assert compared > 100


@pytest.mark.parametrize("cut", [True, False])
def test_every_position_has_an_answer(cut: bool) -> None:
    chance = random.Random(11)
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        for _ in range(20):
            offset = chance.randrange(len(text))
            line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
            answer = assist(text[:offset] if cut else text, line, column, KINDS)
            assert len(answer.completions) <= MAX_COMPLETIONS
            assert msgspec.json.decode(msgspec.json.encode(answer), type=Assist) == answer


def test_half_a_template_or_bracket_anywhere_has_an_answer() -> None:
    chance = random.Random(3)
    for path in PLAYBOOKS:
        text = path.read_bytes().decode("utf-8", "replace")[:20_000]
        for typed in ("{{ ", '"{{ steps.a.', "\n  - ", "{", "[", ": "):
            offset = chance.randrange(len(text) + 1)
            before = text[:offset] + typed
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            assist(before + text[offset:], line, column, KINDS)


def test_noise_has_an_answer() -> None:
    chance = random.Random(7)
    for path in EXAMPLES:
        characters = list(path.read_text(encoding="utf-8"))
        for _ in range(30):
            for _ in range(5):
                characters[chance.randrange(len(characters))] = chance.choice(NOISE)
            text = "".join(characters)
            offset = chance.randrange(len(text))
            assist(text, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset), KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "a:\n" + "".join(f"{' ' * depth}a:\n" for depth in range(1, 600)),
        '"' + "\\" * 200_000,
        "a: '" + "''" * 200_000,
        "a: {{ " + "x." * 100_000,
        "a: {{ " + "x | " * 100_000,
        "a: [" + "'{{ ', " * 100_000,
        "a: [" + "{{a}}, " * 100_000,
        "".join(f"{' ' * depth}a: 'x\n" for depth in range(1_000)),
        "#" * 500_000,
        ": " * 200_000,
        " " * 500_000,
        "\n" * 500_000,
        "a: &a [*a]\nb: *a\n",
        "- a\n" * 100_000,
        "x" * (MAX_BYTES + 1),
        "\0\ud800",
        "? complex\n: key\n",
        "a: |\n" + "  b\n" * 100_000,
    ],
)
def test_hostile_texts_have_an_answer_at_both_ends(text: str) -> None:
    lines = text.split("\n")
    for line, column in ((1, 1), (len(lines), len(lines[-1]) + 1), (len(lines) // 2, 3), (10**9, 10**9), (-5, 0)):
        assist(text, line, column, KINDS)


def test_names_of_a_document_are_its_steps_labels_and_ctx() -> None:
    text = (ROOT / "examples" / "cycle.yaml").read_text(encoding="utf-8")
    names = DocumentNames(read_loosely(text, -1).root).public()
    assert names.steps == ["begin", "look", "halve", "triple", "done"]
    assert names.labels["halve"] == ["halve"]
    assert names.ctx == ["current", "rounds"]


def test_names_of_an_empty_document_are_none() -> None:
    assert DocumentNames(Map()).public() == DocumentNames(read_loosely("workflow: 5\n", -1).root).public()
