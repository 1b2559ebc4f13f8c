from __future__ import annotations

import pytest

from noetl.drawing import draw
from noetl.drawing.text import cells, columns, fit, wrapped
from noetl.model.playbook import Arc, Playbook

from .nets import BRANCH, CHAIN, CLASSIC, CYCLE, FAN, MIXED, POLL, playbook, step


def text(book: Playbook, width: int = 100) -> str:
    return "\n" + draw(book, "text", width=width)


def test_chain() -> None:
    assert (
        text(CHAIN)
        == """
    ┌─────────┐
    │ ● start │
    └────┬────┘
         │
         ▼
   ┌────────────┐
   │ fetch      │
   ├────────────┤
   │ get · http │
   └─────┬──────┘
         │
         ▼
┌──────────────────┐
│ load             │
├──────────────────┤
│ shape · python   │
│ write · postgres │
└──────────────────┘
"""
    )


def test_branch_with_a_failure_arc() -> None:
    assert (
        text(BRANCH)
        == """
           ┌────────────┐
           │ ● fetch    │
           ├────────────┤
           │ get · http │
           └─────┬──────┘
┌────────┬───────┴────────────────────────┐
│ n > 9  │ ✗ event.name == 'step.failed'  │ else
└────┐   └─────┐              ┌───────────┘
     ▼         ▼              ▼
  ┌─────┐  ┌───────┐      ┌───────┐
  │ big │  │ alert │      │ small │
  └──┬──┘  └───────┘      └───┬───┘
     │                        │
     └────────────┬───────────┘
                  ▼
               ┌──────┐
               │ done │
               └──────┘
"""
    )


def test_fan_out_and_join() -> None:
    assert (
        text(FAN)
        == """
 ┌───────────────┐
 │ ● start       │
 │ [fan-out all] │
 └───────┬───────┘
  ┌──────┼──────┐
  │      │      │
  ▼      ▼      ▼
┌───┐  ┌───┐  ┌───┐
│ a │  │ b │  │ c │
└─┬─┘  └─┬─┘  └─┬─┘
  │      │      │
  └──────┼──────┘
         ▼
  ┌──────────────┐
  │ sum          │
  │ [join all]   │
  ├──────────────┤
  │ add · duckdb │
  └──────────────┘
"""
    )


def test_cycle_is_marked_in_the_box_and_listed_beneath() -> None:
    assert (
        text(CYCLE)
        == """
┌─────────┐
│ ● fetch │
└────┬────┘
     │
     ▼
┌─────────┐
│ decide  │
├─────────┤
│ ↺ fetch │
└────┬────┘
     │ else
     ▼
  ┌──────┐
  │ done │
  └──────┘

↺ decide → fetch  when ctx.more
"""
    )


def test_step_that_leads_to_itself() -> None:
    assert (
        text(POLL)
        == """
┌────────┐
│ ● poll │
├────────┤
│ ↺ poll │
└───┬────┘
    │ else
    ▼
 ┌──────┐
 │ done │
 └──────┘

↺ poll → poll  when not ready  after 30s
"""
    )


def test_unreachable_and_unknown_steps_are_drawn() -> None:
    drawn = text(CLASSIC)
    assert "│ orphan │" in drawn
    assert "nowhere (no such step)" in drawn
    assert "│ ? │" in drawn


def test_cut_guards_are_told_in_full_beneath() -> None:
    drawn = text(MIXED)
    assert "… validate → orders  when steps.validate.result.kind == 'orders'" in drawn
    assert "↺ merge → extract  when stale  after 1m" in drawn


def test_final_step_stands_alone_at_the_bottom() -> None:
    lines = text(MIXED).splitlines()
    box = next(number for number, line in enumerate(lines) if "cleanup" in line)
    assert not lines[box - 2].strip()


@pytest.mark.parametrize("width", [10, 24, 40, 60, 80, 100, 200])
def test_no_line_is_wider_than_requested(any_playbook: Playbook, width: int) -> None:
    assert max(columns(line) for line in text(any_playbook, width).splitlines()) <= max(width, 24)


def test_net_too_wide_for_the_terminal_becomes_an_outline() -> None:
    names = [f"branch_{number}" for number in range(30)]
    arcs = [Arc(name, "{{ %s }}" % name) for name in names]  # noqa: UP031 (braces)
    drawn = text(playbook(step("start", *arcs, tasks="get:http"), *(step(name) for name in names)))
    assert drawn.startswith("\n● start\n│ get · http\n├─▶ branch_0  when branch_0\n")
    assert "└─▶ branch_29  when branch_29\n\nbranch_0\n\nbranch_1\n" in drawn


def test_wide_characters_take_two_columns() -> None:
    drawn = text(playbook(step("数据", tasks="取:http")))
    assert len({columns(line) for line in drawn.strip().splitlines()}) == 1


def test_cells_fit_and_wrapped_count_columns() -> None:
    assert cells("e\u0301数") == ["e\u0301", "数", ""]
    assert fit("数据数据", 4) == "数…"
    assert columns(fit("数据数据", 4)) <= 4
    assert list(wrapped("one two three", 8, "  ")) == ["one two", "  three"]
    assert list(wrapped("abcdefghij", 6, "  ")) == ["abcdef", "  ghij"]


@pytest.mark.parametrize("shape", ["chain", "fan", "ladder"])
def test_five_hundred_steps_are_drawn(shape: str) -> None:
    count = 500
    ways = {
        "chain": lambda n: [n + 1],
        "fan": lambda n: list(range(1, count)) if n == 0 else [],
        "ladder": lambda n: [n + 1, n + 2, max(n - 3, 0)],
    }[shape]
    steps = [step(f"s{n}", *(f"s{to}" for to in ways(n) if to < count)) for n in range(count)]
    assert "s499" in text(playbook(*steps))
