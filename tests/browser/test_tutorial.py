"""The tutorial of the page: every control that it names is there, and does what it says."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.browser.opening import PageOpener
from tests.browser.serving import PageServer
from tests.console import ROOT

TUTORIAL = ROOT / "docs" / "tutorial" / "the-page.md"


class Reader:
    """Somebody who follows the tutorial, and remembers which of its controls were used."""

    def __init__(self, page: Page) -> None:
        self.page, self.used = page, set[str]()

    def use(self, role: str, name: str) -> None:
        self.used.add(name)
        self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]

    def answer(self, approved: str) -> None:
        self.use("button", "Respond...")
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_role("radio", name=approved, exact=True).check()
        dialog.get_by_label("by", exact=True).fill("ada")
        self.use("button", "Send")
        expect(self.page.get_by_role("banner").or_(self.page.locator(".run-header")).last).to_contain_text("succeeded")


def test_the_tutorial_leads_from_a_start_to_a_comparison(open_page: PageOpener, server: PageServer) -> None:
    server.api.register((ROOT / "examples" / "approval.yaml").read_text("utf-8"))
    page = open_page("/runs")
    reader = Reader(page)
    reader.use("link", "Runs")
    reader.use("link", "Playbooks")
    page.goto(f"{server.url}/playbooks/examples/approval")
    reader.use("link", "Start...")
    reader.use("button", "Start run")
    expect(page.locator(".run-header")).to_contain_text("waiting")
    reader.answer("yes")
    first = page.url.split("/runs/")[1].partition("?")[0]
    page.get_by_role("button", name=re.compile("^pay, succeeded")).click()
    reader.use("tab", "Why")
    page.locator(".arc-list").get_by_role("button", name=re.compile("^ask")).click()
    expect(page.get_by_role("complementary", name="Inspector")).to_contain_text("steps.ask.result.approved = true")
    events, handle = server.api.events(first), page.get_by_role("slider", name="event")
    for event in reversed(events):
        if event["event_type"] == "step.paused":
            break
        handle.press("ArrowLeft")
    expect(handle).to_have_attribute("aria-valuetext", re.compile("step.paused"))
    expect(page.get_by_role("button", name="ask, waiting")).to_be_visible()
    reader.use("button", "Fork from here...")
    reader.use("button", "Fork this run")
    page.wait_for_url(lambda url: "/fork" not in url and first not in url)
    expect(page.locator(".run-header")).to_contain_text("waiting")
    reader.answer("no")
    reader.use("button", "More actions")
    reader.use("menuitem", "Compare...")
    reader.use("button", "Compare")
    expect(page.get_by_text("First difference: event")).to_be_visible()
    expect(page.locator("main")).to_contain_text("refuse")
    named = set(re.findall(r"\*\*(.+?)\*\*", TUTORIAL.read_text("utf-8")))
    assert named == reader.used
