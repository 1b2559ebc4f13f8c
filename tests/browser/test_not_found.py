"""Links that lead nowhere: the page itself says so, and shows what may have been meant."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener

MISSING = "status of 404"
GONE = "It may have been deleted by the retention policy."


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/foo", "There is no page at /foo."),
        ("/runs/nope", f"Run nope not found. {GONE}"),
        ("/runs/nope/fork", f"Run nope not found. {GONE}"),
        ("/compare/nope/nope", f"Run nope not found. {GONE}"),
        ("/playbooks/a/b/c", "Playbook a/b/c not found."),
        ("/schedules/a b", "Not Found"),
    ],
)
def test_an_unknown_path_shows_the_page(open_page: PageOpener, path: str, text: str) -> None:
    page = open_page(path, "viewer", expect=[MISSING])
    expect(page.get_by_role("main")).to_contain_text(text)
    expect(page.get_by_role("link", name="Runs", exact=True).first).to_be_visible()


def test_a_run_that_does_not_exist_shows_those_with_the_same_start(open_page: PageOpener, runs: ExampleRuns) -> None:
    finished = runs["finished"]
    whole = f"{finished[:8]}-0000-7000-8000-000000000000"
    page = open_page(f"/runs/{whole}", "viewer", expect=[MISSING])
    expect(page.get_by_role("main")).to_contain_text(f"Run {whole} not found. {GONE}")
    expect(page.get_by_role("main").get_by_role("link", name=finished[:8]).first).to_be_visible()
    cut = finished[:30]
    page.goto(f"{open_page.server.url}/runs/{cut}")
    expect(page.get_by_role("main")).to_contain_text(f"Run {cut} not found. {GONE}")
    page.get_by_role("main").get_by_role("link", name=finished).click()
    expect(page).to_have_url(f"{open_page.server.url}/runs/{finished}")
    expect(page.get_by_role("slider", name="event")).to_be_visible()
