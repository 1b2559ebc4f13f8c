"""The page of figures of the web page, made from what `make bench-page` has measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tools.docs.markdown import page, table

RESULTS = Path(__file__).parents[2] / "bench" / "page.json"
INTRO = """`make bench-page` measures the web page in Chromium, without a GPU, and stores these figures. Times to
open a view are medians of five, next to a blank page of the same server. Frames are counted while a script drags the
history slider over a log of 1,000,000 events, scrolls the list of these events, and zooms into the graph."""
SIZES = """Sizes are asserted by tests (`tests/browser/test_budgets.py`): compressed scripts and styles of the list of
runs (at most 45 kB), of a run (80 kB), of all views without the editor (120 kB), and of the editor on top of these
(150 kB); fonts (95 kB)."""


class Measured(msgspec.Struct, frozen=True):
    name: str
    value: float
    unit: str
    budget: float | None
    least: bool  # the budget is a minimum


def pages() -> Iterator[tuple[str, str]]:
    measured = msgspec.json.decode(RESULTS.read_bytes(), type=list[Measured])
    rows = [(one.name, f"{one.value:,.0f} {one.unit}", _budget(one)) for one in measured]
    yield (
        "reference/page-figures.md",
        page("Figures of the web page", INTRO, table(["What", "Measured", "Budget"], rows), SIZES),
    )


def _budget(one: Measured) -> str:
    if one.budget is None:
        return ""
    return f"{'at least' if one.least else 'at most'} {one.budget:,.0f} {one.unit}"
