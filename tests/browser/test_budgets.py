"""Budgets of the page: sizes and counts. Times are measured by `make bench-page`."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, Response, expect
from tests.browser.opening import STREAM, PageOpener, Settling
from tests.browser.recorded import RECORDED
from tests.browser.serving import built_page

from noetl.server.page_files import FOLDER, MANIFEST

ENTRY, EDITOR = "index.html", "src/editor/code-mirror.ts"
KILOBYTE = 1_000


@cache
def manifest() -> dict[str, dict[str, Any]]:
    return msgspec.json.decode((FOLDER / MANIFEST).read_bytes(), type=dict[str, dict[str, Any]])


def needed_by(*entries: str, links: tuple[str, ...] = ("imports",), without: str = "") -> set[str]:
    """The chunks that are reached from these."""
    needed, found = set[str](), list(entries)
    while found:
        if (chunk := found.pop()) not in needed and chunk != without:
            needed.add(chunk)
            found += (other for link in links for other in manifest()[chunk].get(link, []))
    return needed


def without_editor() -> set[str]:
    """Every chunk that is reached without editing a text."""
    return needed_by(ENTRY, links=("imports", "dynamicImports"), without=EDITOR)


def gzipped_bytes(chunks: set[str]) -> int:
    """What scripts and styles weigh on the wire."""
    files = {file for chunk in chunks for file in (manifest()[chunk]["file"], *manifest()[chunk].get("css", []))}
    assets = [built_page().assets[file.partition("/")[2]] for file in files if file.endswith((".js", ".css"))]
    return sum(len(asset.gzipped or asset.content) for asset in assets)


@pytest.mark.parametrize(("view", "kilobytes"), [("src/runs/page.tsx", 45), ("src/run/page.tsx", 80)])
def test_first_load_of_a_view_stays_in_its_budget(view: str, kilobytes: int) -> None:
    assert gzipped_bytes(needed_by(ENTRY, view)) <= kilobytes * KILOBYTE


def test_the_page_without_the_editor_does_not_grow() -> None:
    """The budget is 120 kB. The views took 157 kB when they were complete; they may become smaller."""
    assert gzipped_bytes(without_editor()) <= 160 * KILOBYTE


def test_the_editor_stays_in_its_budget() -> None:
    editor = needed_by(EDITOR, links=("imports", "dynamicImports")) - without_editor()
    assert 0 < gzipped_bytes(editor) <= 150 * KILOBYTE


def test_fonts_stay_in_their_budget() -> None:
    fonts = [asset for name, asset in built_page().assets.items() if name.endswith(".woff2")]
    assert 0 < sum(len(font.content) for font in fonts) <= 95 * KILOBYTE


class Traffic:
    """The answers of the API that a page gets."""

    def __init__(self, page: Page) -> None:
        self.responses: list[Response] = []
        page.on("response", self._add)

    def _add(self, response: Response) -> None:
        if "/api/" in response.url and STREAM not in response.url:
            self.responses.append(response)


@pytest.mark.parametrize("name", ["short", "long", "million"])
def test_opening_a_run_costs_the_same_for_every_length_of_its_log(open_recorded: PageOpener, name: str) -> None:
    page = open_recorded.context("viewer").new_page()
    traffic, settling = Traffic(page), Settling(page)
    page.goto(f"{open_recorded.server.url}/runs/{RECORDED[name].execution}")
    expect(page.get_by_role("slider", name="event")).to_be_visible()
    settling.wait()
    paths = [response.url.partition("/api/v1")[2] for response in traffic.responses if "/sessions" not in response.url]
    assert len(paths) <= 5, paths
    assert max(len(response.body()) for response in traffic.responses) <= 500 * KILOBYTE
    assert max(response.request.sizes()["responseBodySize"] for response in traffic.responses) <= 150 * KILOBYTE
    assert page.evaluate("document.querySelectorAll('*').length") <= 3_000
