"""Back and reload restore what the user saw, because the URL has it."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener

SECTIONS = ["Runs", "Playbooks", "Schedules", "Workers"]
TABS = ["Timeline", "Events", "Logs", "Data", "Items", "Related"]


def test_back_leads_through_the_sections(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/runs")
    for section in SECTIONS[1:]:
        page.get_by_role("navigation", name="Sections").first.get_by_role("link", name=section).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(section)
    for section in reversed(SECTIONS[:-1]):
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text(section)


def selected_tab(page: Page, name: str) -> None:
    expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")


def test_back_leads_through_the_tabs_of_a_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=timeline")
    for tab in TABS[1:]:
        page.get_by_role("tab", name=tab, exact=True).click()
        selected_tab(page, tab)
    page.reload()
    for tab in reversed(TABS[:-1]):
        page.go_back()
        selected_tab(page, tab)


def test_a_link_shows_another_user_the_same_event_and_selection(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=events")
    page.get_by_role("button", name="price, succeeded").click()
    page.get_by_label("Event number").fill("14")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Viewing event 14.")).to_be_visible()
    other = open_page(page.url.removeprefix(open_page.server.url), "viewer")
    expect(other.get_by_text("Viewing event 14.")).to_be_visible()
    selected_tab(other, "Events")
    texts = [view.get_by_role("complementary", name="Inspector").inner_text() for view in (page, other)]
    assert "price" in texts[0]
    assert texts[0].splitlines()[0] == texts[1].splitlines()[0]
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Viewing event 14.")).to_have_count(0)
