"""Back and reload restore what the user saw, because the URL has it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.browser.examples import PLAYBOOKS, ExampleRuns
from tests.browser.opening import PageOpener
from tests.browser.serving import PageServer

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


def opened_from_the_list(open_page: PageOpener, execution: str) -> Page:
    page = open_page("/runs?status=waiting", "operator")
    page.locator(f'a[href^="/runs/{execution}"]').first.click()
    expect(page.locator(".run-title")).to_contain_text("waiting")
    return page


def back_to_the_list(page: Page) -> None:
    """One step: the dialog left nothing behind."""
    page.go_back()
    expect(page).to_have_url(re.compile(r"/runs\?status=waiting$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_back_after_a_response_leads_to_the_list(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = opened_from_the_list(open_page, runs.until_waiting(runs.start("shop/release")))
    page.locator(".run-header").get_by_role("button", name="Respond...").click()
    page.get_by_role("dialog").get_by_text("yes", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.locator(".run-title")).not_to_contain_text("waiting")
    back_to_the_list(page)


def test_back_after_a_cancel_leads_to_the_list(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = opened_from_the_list(open_page, runs.until_waiting(runs.start("shop/release")))
    page.locator(".run-header").get_by_role("button", name="Cancel...").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    expect(page.locator(".run-title")).to_contain_text("cancelled")
    back_to_the_list(page)


def test_back_after_every_other_action_of_a_run_leads_to_the_list(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = opened_from_the_list(open_page, runs.until_waiting(runs.start("shop/release")))
    header = page.locator(".run-header")
    header.get_by_role("button", name="Pause").click()
    header.get_by_role("button", name="Resume").click()
    expect(header.get_by_role("button", name="Pause")).to_be_visible()
    header.get_by_role("button", name="Copy").first.click()
    page.get_by_role("menuitem", name="Run id").click()
    page.keyboard.press(".")
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export").click()
    assert b"playbook.execution.requested" in download.value.path().read_bytes()
    page.keyboard.press(".")
    page.get_by_role("menuitem", name="Send signal...").click()
    page.get_by_role("dialog").get_by_label("Name").fill("verdict")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.locator(".run-title")).to_contain_text("succeeded")
    back_to_the_list(page)


def test_back_after_a_bulk_action_leads_to_the_view_before(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    failed = runs.ended("shop/stock")
    page = open_page("/workers", "operator")
    page.get_by_role("link", name="Runs", exact=True).first.click()
    page.locator(".list-row", has=page.locator(f"a[title='{failed}']")).get_by_role("checkbox").click()
    page.get_by_role("button", name="Retry...").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry runs").dblclick()
    expect(page.get_by_role("toolbar", name="Selected runs")).to_have_count(0)
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    assert runs.client.show(failed)["forks"] == 1


def test_back_after_registering_leads_to_the_playbooks(open_page: PageOpener, server: PageServer) -> None:
    text = (PLAYBOOKS / "stock.yaml").read_text("utf-8").replace("shop/stock", "back/stock")
    server.api.register(text)
    page = open_page("/playbooks", "author")
    page.goto(f"{server.url}/edit/back/stock")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text.replace("nothing to order", "none"))
    page.get_by_role("button", name="Register as 2").click()
    expect(page.get_by_text("Registered back/stock as version 2.").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Playbooks")
    page.go_forward()
    expect(page.locator(".cm-content")).to_contain_text("result: none")


def test_back_after_a_deletion_says_that_the_schedule_is_gone(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    _ = runs["finished"]
    server.api.ask("PUT", "/schedules/back", {"path": "shop/orders", "cron": "0 3 * * *"})
    page = open_page("/schedules", "author", expect=["status of 404"])
    page.get_by_role("link", name="back", exact=True).click()
    expect(page.get_by_text("The schedule has not fired yet.")).to_be_visible()
    page.get_by_role("button", name="Delete...").click()
    page.get_by_role("button", name="Delete schedule").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")
    page.go_back()
    expect(page).to_have_url(re.compile("/schedules/back$"))
    expect(page.get_by_role("alert")).to_contain_text("back")
