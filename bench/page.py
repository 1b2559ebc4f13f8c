"""The page in Chromium: how soon views can be used, how smoothly they move, and how much memory they take.

`make bench-page` runs it on a built page and stores the figures in `bench/page.json`. Times are medians of five, beside
a blank page of the same server: what the machine and the browser take for anything. There is no GPU in between: frames
are drawn by the processor.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from playwright.sync_api import Browser, Locator, Page
from tests.acceptance.modes.stage import FreshProcess
from tests.browser.chromium import launched
from tests.browser.opening import PageOpener, Settling
from tests.browser.recorded import RECORDED, record
from tests.browser.serving import PageServer, database_in, page_server

from bench import lists
from bench.measure import Figure, print_figures
from noetl.store.sqlite import SqliteStore

RESULTS = Path(__file__).with_suffix(".json")
TRIES, STEPS = 5, 150
MEGABYTE = 1 << 20
SLIDER, BOX, ROW = "main input[type=range]", "main button:has-text('many')", "main a[href^='/runs/']"
SHOWN = """
addEventListener('DOMContentLoaded', () => {
  const look = () => {
    const all = SELECTORS.every((selector) => document.querySelector(selector));
    if (all) requestAnimationFrame(() => { window.shownAt = performance.now(); });
    else requestAnimationFrame(look);
  };
  look();
});
"""
SHOWN_AT = """new Promise((resolve) => {
  const look = () => (window.shownAt ? resolve(window.shownAt) : requestAnimationFrame(look));
  look();
})"""
FRAMES = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const tick = (now) => {
    window.frames_ms.push(now - last);
    last = now;
    window.ticking = requestAnimationFrame(tick);
  };
  window.ticking = requestAnimationFrame(tick);
}"""


class Metric(NamedTuple):
    """A figure of the page and its budget; `least` if more is better."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    least: bool = False

    def figure(self) -> Figure:
        if self.budget is None:
            return Figure(self.name, f"{self.value:,.0f} {self.unit}")
        reached = self.value >= self.budget if self.least else self.value <= self.budget
        bar = f"{'at least' if self.least else 'at most'} {self.budget:,.0f} {self.unit}"
        return Figure(self.name, f"{self.value:,.0f} {self.unit}", bar, reached)


def metrics() -> Iterator[Metric]:
    with _opener() as opener:
        yield Metric("blank page", _median_ms(opener, "/version", ["body"]), "ms")
        yield Metric("list of 100,000 runs", _median_ms(opener, "/runs", [ROW]), "ms", 500)
        for name, limit_ms in (("short", None), ("long", 1_000), ("million", 1_500)):
            path = f"/runs/{RECORDED[name].execution}"
            about = f"run of {RECORDED[name].events:,} events"
            yield Metric(about, _median_ms(opener, path, [SLIDER, "main button"]), "ms", limit_ms)
        yield from _movements(opener)


def _movements(opener: PageOpener) -> Iterator[Metric]:
    """Frames while the slider is dragged over the whole log, a list is scrolled and the graph is zoomed, and the memory
    after it."""
    page = opener.context("viewer").new_page()
    settling = Settling(page)
    page.goto(f"{opener.server.url}/runs/{RECORDED['million'].execution}?tab=events")
    settling.wait()
    movements = {"slider": _drag(page.locator(SLIDER).first), "events": _scroll(page), "graph": _zoom(page)}
    for about, move in movements.items():
        frames = _frames(page, move)
        yield Metric(f"{about}: frames a second", 1000 * len(frames) / sum(frames), "fps", 30, least=True)
        yield Metric(f"{about}: longest frame", max(frames), "ms", 100)
        settling.wait()
    heap, process = _memory(opener.browser, page)
    yield Metric("JavaScript heap after that", heap / MEGABYTE, "MB", 60)
    yield Metric("memory of the page's process", process / MEGABYTE, "MB", 200)


@contextmanager
def _opener() -> Iterator[PageOpener]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        record(database := database_in(folder), "short", "long", "million")
        with closing(SqliteStore(database, synchronous="normal")) as store:
            lists.fill(store)
        server: PageServer = stack.enter_context(page_server(folder, FreshProcess))
        opener = PageOpener(stack.enter_context(launched()), server)
        stack.callback(opener.close)
        yield opener


def _median_ms(opener: PageOpener, path: str, selectors: list[str]) -> float:
    """From the start of the navigation until all of the selectors are drawn; the cache has the page's own files."""
    context = opener.context("viewer")
    context.add_init_script(SHOWN.replace("SELECTORS", json.dumps(selectors)))
    times = []
    for _ in range(TRIES + 1):  # the first fills the cache
        page = context.new_page()
        page.goto(opener.server.url + path)
        times.append(float(page.evaluate(SHOWN_AT)))
        page.close()
    context.close()
    return median(times[1:])


Movement = Callable[[], None]


def _drag(slider: Locator) -> Movement:
    """Drag the handle over the whole log and back to its middle."""

    def move() -> None:
        page, box = slider.page, slider.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 1, y)
        page.mouse.down()
        for step in (*range(STEPS), STEPS // 2):
            page.mouse.move(box["x"] + box["width"] * step / STEPS, y)
        page.mouse.up()
        assert "at=" in page.url, "the slider did not move"

    return move


def _scroll(page: Page) -> Movement:
    def move() -> None:
        grid = page.get_by_role("grid").last
        text, box = grid.inner_text(), grid.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + min(box["height"], 200) / 2)
        for _ in range(STEPS):
            page.mouse.wheel(0, -400)
        page.wait_for_timeout(500)
        assert grid.inner_text() != text, "the list of events did not scroll"

    return move


def _zoom(page: Page) -> Movement:
    """Zoom into the graph and out again."""

    def move() -> None:
        graph = page.get_by_role("group", name="Steps")
        box, step = graph.bounding_box(), graph.get_by_role("button").first
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        before = step.bounding_box()
        for count in range(STEPS):
            page.mouse.wheel(0, -20 if count < STEPS // 2 else 60)
        assert step.bounding_box() != before, "the graph did not zoom"

    return move


def _frames(page: Page, move: Movement) -> list[float]:
    """The times between frames, in milliseconds, while something moves."""
    page.evaluate(FRAMES)
    move()
    frames: list[float] = page.evaluate("() => { cancelAnimationFrame(window.ticking); return window.frames_ms }")
    return frames[1:]


def _memory(browser: Browser, page: Page) -> tuple[float, float]:
    """Bytes of the JavaScript heap, and of the process of the page without what it shares, after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    heap = float(session.send("Runtime.getHeapUsage")["usedSize"])
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return heap, max(_own_bytes(process["id"]) for process in processes if process["type"] == "renderer")


def _own_bytes(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(size) * 1024.0 for size in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE))


def main() -> None:
    measured = []
    for metric in metrics():
        print_figures([metric.figure()])
        measured.append(metric)
    RESULTS.write_text(json.dumps([metric._asdict() for metric in measured], indent=1) + "\n")


if __name__ == "__main__":
    main()
