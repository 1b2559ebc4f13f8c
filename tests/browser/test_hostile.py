"""A run whose every text tries to break the page: no dialog, no request elsewhere, no violation, no broken layout.

`open_page` checks all but the last.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page
from tests.browser.hostile import MARKUP, start_hostile_run
from tests.browser.opening import HEIGHTS, PageOpener, Settling, Theme
from tests.browser.serving import PageServer

VIEWS = {
    "runs": "/runs?q=hostile",
    "preview": "/runs?preview={run}",
    "run": "/runs/{run}",
    "in the past": "/runs/{run}?at=9",
    "step": "/runs/{run}?step=each",
    "why": "/runs/{run}?step=start",
    "item": "/runs/{run}?run=each%231&item=0",
    "fork": "/runs/{run}/fork",
    "retry": "/runs/{run}/fork?retry=1",
    "comparison": "/compare/{run}/{run}?all=1",
    "compared events": "/compare/{run}/{run}?all=1&tab=events",
    "compared data": "/compare/{run}/{run}?all=1&tab=data",
    **{tab: f"/runs/{{run}}?tab={tab}" for tab in ("timeline", "events", "logs", "data", "items", "related")},
}
WIDTHS: dict[Theme, int] = {"light": 1440, "dark": 390}


@pytest.fixture(scope="session")
def hostile_run(server: PageServer) -> str:
    return start_hostile_run(server.api)


@pytest.mark.parametrize("view", VIEWS)
def test_a_hostile_run_does_no_harm(open_page: PageOpener, hostile_run: str, view: str) -> None:
    """Every second view is opened in a narrow window, which becomes a wide one; the others vice versa."""
    themes = list(WIDTHS)[:: -1 if list(VIEWS).index(view) % 2 else 1]
    page = open_page(VIEWS[view].format(run=hostile_run), "operator", themes[0], WIDTHS[themes[0]])
    devtools, settling = page.context.new_cdp_session(page), Settling(page)
    for theme in themes:
        width = WIDTHS[theme]
        page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        page.emulate_media(color_scheme=theme)
        devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": width < 900})
        settling.wait()
        check_harmless(page, width)


@pytest.mark.slow(part="views")
@pytest.mark.parametrize("theme", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_hostile_run_does_no_harm_in_a_fresh_window(
    open_page: PageOpener, hostile_run: str, view: str, theme: Theme
) -> None:
    page = open_page(VIEWS[view].format(run=hostile_run), "operator", theme, WIDTHS[theme])
    Settling(page).wait()
    check_harmless(page, WIDTHS[theme])


def check_harmless(page: Page, width: int) -> None:
    assert page.locator("main").inner_text()
    assert page.locator("main b, main img[src=x], main script").count() == 0, "markup became elements"
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the view is wider than its window"


@pytest.mark.parametrize("theme", WIDTHS)
def test_a_long_line_of_a_log_is_not_cut_in_half(open_page: PageOpener, hostile_run: str, theme: Theme) -> None:
    page = open_page(f"/runs/{hostile_run}?tab=logs", "viewer", theme, WIDTHS[theme])
    row = page.locator(".log-row", has=page.get_by_role("button", name="Show all")).first
    bounds, button = row.bounding_box(), row.get_by_role("button", name="Show all").bounding_box()
    assert bounds is not None
    assert button is not None
    assert bounds["y"] <= button["y"]
    assert button["y"] + button["height"] <= bounds["y"] + bounds["height"]


def test_hostile_text_is_shown_as_it_is(open_page: PageOpener, hostile_run: str) -> None:
    page = open_page(f"/runs/{hostile_run}")
    page.get_by_text(MARKUP).first.wait_for()
