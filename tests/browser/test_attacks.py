"""The page under attack: wrong links, files that are gone, answers that come twice, a clock that is wrong."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener, Settling
from tests.browser.serving import USERS, PageServer, password_of

HUGE = "9" * 20
WRONG = {
    "a range of the timeline beyond the run": ("tab=timeline&from=99999999999999999&to=1", ".timeline-label >> nth=0"),
    "event 0": ("event=0", "text=Event 0 not found."),
    "an event that cannot be": (f"event={HUGE}&tab=events", ".run-inspector"),
    "a long search": ("tab=events&q=" + "x" * 5000, "text=No event matches"),
    "an item that cannot be": (f"run=price%231&item={HUGE}", ".run-inspector"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_link_shows_the_run_and_asks_for_nothing_that_cannot_be(
    open_page: PageOpener, runs: ExampleRuns, what: str
) -> None:
    query, shown = WRONG[what]
    page = open_page(f"/runs/{runs['finished']}?{query}")
    expect(page.locator(shown)).to_be_visible()
    expect(page.locator(".run-header")).to_contain_text("succeeded")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440, "the view is wider than its window"


@pytest.mark.parametrize("at", ["0", "99999999", HUGE])
def test_a_fork_at_an_event_that_cannot_be_begins_at_the_nearest_one(
    open_page: PageOpener, runs: ExampleRuns, at: str
) -> None:
    latest = len(runs.client.events(runs["waiting"]))
    page = open_page(f"/runs/{runs['waiting']}/fork?at={at}")
    expect(page.get_by_label("Event number")).to_have_value("1" if at == "0" else str(latest))
    expect(page.get_by_role("status").filter(has_text="are copied")).to_be_visible()


def test_a_version_that_does_not_exist_is_not_a_new_playbook(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/playbooks/shop/orders?version=999", expect=["status of 404"])
    expect(page.get_by_text("Version 999 of playbook shop/orders not found.")).to_be_visible()
    page.goto(f"{open_page.server.url}/edit/shop/orders?version=999")
    expect(page.get_by_role("alert")).to_contain_text("999")
    expect(page.get_by_role("button", name="Register")).to_have_count(0)


def test_a_token_that_is_not_encoded_well_leaves_a_page_that_asks_to_sign_in(open_page: PageOpener) -> None:
    page = open_page("/runs#token=%zz", role=None, expect=["status of 401"])
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()


def test_a_view_whose_files_are_gone_reports_it(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/runs", expect=["status of 404"])
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.route("**/assets/**", lambda route: route.fulfill(status=404, body=""))
    page.get_by_role("link", name="Workers").first.click()
    expect(page.get_by_role("alert")).to_contain_text("The view could not be loaded.")
    page.unroute("**/assets/**")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()


def test_an_answer_that_somebody_else_gave_is_not_given_again(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    execution = runs.until_waiting(runs.start("shop/release"))
    page = open_page(f"/runs/{execution}", "operator")
    page.locator(".run-header").get_by_role("button", name="Respond...").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("by").fill("otto")
    runs.act(execution, "signals", name="verdict", payload={"ship": True, "by": "ada"})
    expect(dialog.get_by_role("alert")).to_contain_text("no longer waits")
    expect(dialog.get_by_label("by")).to_have_value("otto")
    expect(dialog.get_by_role("button", name="Send")).to_have_attribute("aria-disabled", "true")


def test_a_page_without_https_has_keys_for_its_requests(open_page: PageOpener, runs: ExampleRuns) -> None:
    context = open_page.context("operator")
    context.add_init_script("delete Crypto.prototype.randomUUID")
    page = context.new_page()
    page.goto(f"{open_page.server.url}/runs/{runs['waiting']}")
    page.locator(".run-header").get_by_role("button", name="Respond...").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Send")).to_be_visible()


def test_a_double_click_pauses_once(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs.until_waiting(runs.start("shop/release"))
    page = open_page(f"/runs/{execution}")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.locator(".run-header").get_by_role("button", name="Pause").dblclick()
    expect(page.locator(".run-header").get_by_role("button", name="Resume")).to_be_visible()
    assert [url.rpartition("/")[2] for url in sent] == ["pause"]
    runs.act(execution, "cancel")


def test_signing_in_again_gives_the_focus_back(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/start/shop/orders", expect=["status of 401"])
    expect(page.get_by_role("heading", name="Start shop/orders")).to_be_visible()
    Settling(page).wait()  # a request without cookies would open the dialog before the click
    page.context.clear_cookies()
    page.get_by_role("link", name="Schedules").first.click()
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Name").fill(USERS["admin"])
    dialog.get_by_label("Password").fill(password_of("admin"))
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("link", name="Schedules").first).to_be_focused()


def test_a_view_that_does_not_poll_notices_that_the_server_is_back(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/schedules", expect=["ERR_FAILED"])
    expect(page.get_by_role("heading", name="Schedules")).to_be_visible()
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_role("link", name="Playbooks").first.click()
    expect(page.locator(".connection")).to_contain_text("Reconnecting")
    page.unroute("**/api/**")
    expect(page.get_by_role("img", name="Connected")).to_be_visible()


def test_the_dialog_of_the_list_stays_when_nothing_waits_any_more(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs.until_waiting(runs.start("shop/release"))
    page = open_page("/runs?status=succeeded", "operator")
    listed = page.request.get(f"{open_page.server.url}/api/v1/executions/{execution}").json()
    answers = [[listed], []]
    page.route(
        "**/executions?waits=signal**",
        lambda route: route.fulfill(json={"items": answers[0], "next": None}),
    )
    page.reload()
    page.locator(".attention").get_by_role("button", name="Respond...").click()
    page.get_by_role("dialog").get_by_label("by").fill("otto")
    runs.act(execution, "signals", name="verdict", payload={"ship": True, "by": "ada"})
    answers.pop(0)
    expect(page.locator(".attention")).to_have_count(0)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no longer waits")
    expect(page.get_by_role("dialog").get_by_label("by")).to_have_value("otto")
