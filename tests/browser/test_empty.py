"""A server on which nothing has happened yet: every list says so in a sentence, with what to do next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.opening import PageOpener, check_accessibility
from tests.browser.serving import PageServer, page_server
from tests.browser.test_views import check_targets, check_width

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: first, path: shop/first}
workflow: [{step: one, tool: {kind: noop}}]
"""


@pytest.fixture(scope="module")
def new_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with page_server(tmp_path_factory.mktemp("new")) as server:
        yield server


@pytest.fixture
def open_new(browser: Browser, new_server: PageServer) -> Iterator[PageOpener]:
    opener = PageOpener(browser, new_server)
    try:
        yield opener
    finally:
        opener.close()
    opener.check()


EMPTY = {
    "/runs": ("No runs yet.", "noetl exec PATH"),
    "/playbooks": ("No playbooks yet.", "noetl register FILE"),
    "/schedules": ("No schedules yet.", "noetl schedule add"),
    "/hooks": ("No hooks yet.", "Create a hook..."),
    "/credentials": ("No credentials yet.", "noetl credential set"),
}
"""By path: what is missing, and the next action."""


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_an_empty_list_says_so_and_what_to_do_next(open_new: PageOpener, width: int, theme: str) -> None:
    page = open_new("/runs", width=width, theme="dark" if theme == "dark" else "light")
    for path, (text, action) in EMPTY.items():
        page.goto(open_new.server.url + path)
        expect(page.locator(".empty")).to_contain_text(text)
        expect(page.locator("main")).to_contain_text(action)
        check_accessibility(page)
        check_targets(page, width)
        check_width(page, width)


def test_from_no_runs_to_the_first_one(open_new: PageOpener) -> None:
    page = open_new("/runs", role="author")
    empty = page.locator(".empty")
    expect(empty).to_contain_text("No runs yet.")
    page.goto(f"{open_new.server.url}/runs?status=failed&q=nothing")
    expect(empty).to_contain_text("No runs match these filters.")
    empty.get_by_role("button", name="Clear filters").click()
    expect(page).to_have_url(f"{open_new.server.url}/runs")
    empty.get_by_role("link", name="Start a run").click()
    expect(page).to_have_url(f"{open_new.server.url}/playbooks")
    expect(empty.get_by_role("link", name="New playbook")).to_be_visible()
    open_new.server.api.register(PLAYBOOK)
    page.reload()
    page.get_by_role("link", name="Start...").click()
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("heading", name="first")).to_be_visible()
    page.get_by_role("navigation", name="Sections").first.get_by_role("link", name="Runs").click()
    expect(page.get_by_role("grid", name="Runs").locator(".list-row")).to_contain_text(["shop/first@1"])


def test_a_viewer_of_an_empty_list_sees_why_nothing_can_be_started(open_new: PageOpener) -> None:
    page = open_new("/runs?q=nothing", role="viewer")
    expect(page.get_by_role("button", name="Clear filters")).to_be_visible()
    page.goto(f"{open_new.server.url}/schedules")
    action = page.get_by_role("button", name="Create a schedule...")
    expect(action).to_have_attribute("title", "Requires the author role. You are a viewer.")
