"""Budgets of the page: sizes and counts. Times are measured by `make bench-page`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, Response, expect
from tests.browser.opening import STREAM, PageOpener, Settling
from tests.browser.recorded import RECORDED
from tests.browser.serving import built_page

from noetl.server.page_files import FOLDER, MANIFEST

EDITOR = frozenset(["editor", "code-mirror"])
KILOBYTE = 1_000
SCRIPT = re.compile(r"/assets/(.+)-[\w-]{8}\.js$")  # the hash may begin with a hyphen


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """The chunks of the build by their names; vite.config.ts names them."""
    chunks = msgspec.json.decode((FOLDER / MANIFEST).read_bytes(), type=dict[str, dict[str, Any]])
    names = {key: chunk["name"] for key, chunk in chunks.items() if chunk["file"].endswith(".js")}
    assert len(set(names.values())) == len(names)
    links = ("imports", "dynamicImports")
    return {
        name: chunks[key] | {link: [names[other] for other in chunks[key].get(link, [])] for link in links}
        for key, name in names.items()
    }


def needed_by(chunk: str) -> set[str]:
    """The chunk and those that it loads at once."""
    return {chunk}.union(*(needed_by(other) for other in manifest()[chunk]["imports"]))


def gzipped_bytes(chunks: Iterable[str]) -> int:
    """What scripts and styles weigh on the wire."""
    files = {file for chunk in chunks for file in (manifest()[chunk]["file"], *manifest()[chunk].get("css", []))}
    assets = [built_page().assets[file.partition("/")[2]] for file in files]
    return sum(len(asset.gzipped or asset.content) for asset in assets)


@pytest.mark.parametrize(("chunk", "kilobytes"), [("start", 45), ("run", 80)])
def test_first_load_of_a_view_stays_in_its_budget(chunk: str, kilobytes: int) -> None:
    assert gzipped_bytes(needed_by(chunk)) <= kilobytes * KILOBYTE


def test_all_views_without_the_editor_stay_in_their_budget() -> None:
    assert gzipped_bytes(manifest().keys() - EDITOR) <= 120 * KILOBYTE


def test_the_editor_stays_in_its_budget() -> None:
    assert gzipped_bytes(EDITOR) <= 150 * KILOBYTE


def test_fonts_stay_in_their_budget() -> None:
    fonts = [asset for name, asset in built_page().assets.items() if name.endswith(".woff2")]
    assert 0 < sum(len(font.content) for font in fonts) <= 95 * KILOBYTE


class Traffic:
    """The answers of the API and the scripts that a page gets."""

    def __init__(self, page: Page) -> None:
        self.responses: list[Response] = []
        self.scripts: set[str] = set()
        page.on("response", self._add)

    def _add(self, response: Response) -> None:
        if "/api/" in response.url and STREAM not in response.url:
            self.responses.append(response)
        if match := SCRIPT.search(response.url):
            self.scripts.add(match[1])


def test_the_list_of_runs_loads_only_its_own_script(open_page: PageOpener) -> None:
    page = open_page.context("viewer").new_page()
    traffic, settling = Traffic(page), Settling(page)
    page.goto(f"{open_page.server.url}/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    settling.wait()
    assert traffic.scripts == needed_by("start")


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
    assert traffic.scripts == needed_by("run")
