"""What holds for every view: it opens without an error, is accessible, and fits its window."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener, Settling, Theme, check_accessibility
from tests.browser.views import VIEWS


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_and_fits_its_window(
    open_page: PageOpener, runs: ExampleRuns, view: str, theme: Theme, width: int
) -> None:
    signed_out = view == "sign in"
    path, role = VIEWS[view].format_map(runs), None if signed_out else "admin"
    page = open_page(path, role, theme, width, expect=["status of 401"] if signed_out else [])
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    Settling(page).wait()
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the view is wider than its window"
