"""The documentation shows commands with their outputs: each is run, and prints exactly that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import console
from console import PAGES, ROOT


def is_read_first(page: Path) -> bool:
    """Whether everybody begins with this page. The others are followed by `make soak-docs`."""
    return page.parent == ROOT or page.parent.name == "tutorial"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=() if is_read_first(page) else pytest.mark.slow(part="docs"),
        )
        for page in PAGES
    ],
)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for shown in console.follow(page, tmp_path):
        where = f"{page.relative_to(ROOT)}:{shown.line}: $ {shown.command}"
        if not shown.holds:  # equal texts would hold, so this fails and shows the difference
            assert shown.actual == shown.expected, f"{where}\n`python tests/console.py` rewrites the pages"


def test_the_main_pages_show_commands() -> None:
    for name in ("README.md", "docs/tutorial/first-playbook.md"):
        assert list(console.shown_commands(ROOT / name)), f"{name} shows no command"


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    (right, wrong, elided) = console.session("$ echo a\na\n$ echo b\nc\n$ seq 9\n1\n...\n9\n", tmp_path, 1)
    assert right.holds
    assert not wrong.holds
    assert elided.holds


def test_what_differs_from_run_to_run_is_a_placeholder(tmp_path: Path) -> None:
    row = "01a1e151-58eb-7b29-afbd-2b08a50b4ac0  hello  2026-11-15 22:26:07  43 ms"
    (shown,) = console.session(f"$ echo '{row}'\n", tmp_path, 1)
    assert shown.actual == f"{'<id>':36}  hello  {'<time>':19}  <ms>\n"
    assert (
        console.steady("done in 1.1 s, event 01a1e151-58eb-7b29-afbd-2b08a50b4ac0.7") == "done in <ms>, event <id>.7\n"
    )


def test_what_runs_in_the_background_ends_with_its_block(tmp_path: Path) -> None:
    block = "$ sleep 600 & echo $! > background\n$ echo on\non\n"
    assert [shown.holds for shown in console.session(block, tmp_path, 1)] == [True, True]
    background = Path("/proc") / (tmp_path / "background").read_text().strip() / "cmdline"
    while has_words(background):  # it was killed, and dies when its turn comes; one that lives on is never done here
        time.sleep(0.05)


def has_words(cmdline: Path) -> bool:
    """Whether a process is there; one that only waits to be buried has no words left."""
    try:
        return bool(cmdline.read_bytes())
    except OSError:
        return False


def test_a_block_is_one_session(tmp_path: Path) -> None:
    *_, code = console.session("$ (exit 3)\n$ echo $?\n3\n", tmp_path, 1)
    assert code.holds
