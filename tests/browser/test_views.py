"""What holds for every view: it opens without an error, is accessible, and fits its window."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import HEIGHTS, THEMES, PageOpener, Settling, check_accessibility
from tests.browser.views import VIEWS


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_and_fits_its_window(open_page: PageOpener, runs: ExampleRuns, view: str) -> None:
    """In both themes and widths; the open view changes, as when a window is resized."""
    signed_out = view == "sign in"
    path, role = VIEWS[view].format_map(runs), None if signed_out else "admin"
    page = open_page(path, role, expect=["status of 401"] if signed_out else [])
    devtools, settling = page.context.new_cdp_session(page), Settling(page)
    for width, height in HEIGHTS.items():
        page.set_viewport_size({"width": width, "height": height})
        devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": width < 900})
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        settling.wait()
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the view is wider than its window"
