"""The documentation shows commands with their outputs: each is run, and prints exactly that."""

from __future__ import annotations

from pathlib import Path

import pytest

import console
from console import PAGES, ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for shown in console.follow(page, tmp_path):
        where = f"{page.relative_to(ROOT)}:{shown.line}: $ {shown.command}"
        if not shown.holds:  # equal texts would hold, so this fails and shows the difference
            assert shown.actual == shown.expected, f"{where}\n`python tests/console.py` rewrites the pages"


def test_the_main_pages_show_commands(tmp_path: Path) -> None:
    for name in ("README.md", "docs/tutorial/first-playbook.md"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        assert list(console.follow(ROOT / name, folder)), f"{name} shows no command"


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    (right, wrong, elided) = console.session("$ echo a\na\n$ echo b\nc\n$ seq 9\n1\n...\n9\n", tmp_path, 1)
    assert right.holds
    assert not wrong.holds
    assert elided.holds


def test_a_block_is_one_session(tmp_path: Path) -> None:
    *_, code = console.session("$ (exit 3)\n$ echo $?\n3\n", tmp_path, 1)
    assert code.holds
