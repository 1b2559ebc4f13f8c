"""The list of runs: filters, selection, preview, keys, and rows that do not move while they are read."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener, Settling, set_visible
from tests.browser.recorded import MANY
from tests.browser.serving import PageServer

PAGE = 100


def rows(page: Page) -> list[str]:
    """The ids of the rows, from top to bottom."""
    expect(page.get_by_role("row").first).to_be_visible()
    links = page.get_by_role("grid", name="Runs").locator("a[title]").all()
    return [link.get_attribute("title") or "" for link in links]


def row(page: Page, execution: str) -> Locator:
    return page.locator(".list-row", has=page.locator(f"a[title='{execution}']"))


def new(runs: ExampleRuns, path: str) -> str:
    """A run that has just ended: it is at the top of the list, however many runs the other tests have started."""
    _ = runs["finished"]  # registers the playbooks
    return runs.ended(path)


def test_rows_are_ordered_by_start_and_say_what_a_run_does(open_page: PageOpener, runs: ExampleRuns) -> None:
    failed, waiting = new(runs, "shop/stock"), runs.until_waiting(runs.start("shop/release"))
    page = open_page("/runs?children=1")
    shown = rows(page)
    assert shown.index(waiting) < shown.index(failed)
    expect(row(page, failed)).to_contain_text("KeyError")
    expect(row(page, waiting)).to_contain_text("waiting for signal verdict")


def test_a_filter_is_in_the_url_and_back_undoes_it(open_page: PageOpener, runs: ExampleRuns) -> None:
    failed, finished = new(runs, "shop/stock"), new(runs, "shop/orders")
    page = open_page("/runs")
    expect(row(page, finished)).to_be_visible()
    page.get_by_role("button", name="failed").click()
    page.wait_for_url("**/runs?status=failed")
    expect(row(page, finished)).to_have_count(0)
    expect(row(page, failed)).to_be_visible()
    page.reload()
    expect(row(page, failed)).to_be_visible()
    page.go_back()
    expect(row(page, finished)).to_be_visible()


def test_no_match_offers_to_clear_the_filters(open_page: PageOpener, runs: ExampleRuns) -> None:
    finished = new(runs, "shop/orders")
    page = open_page("/runs?q=nothing-has-this-text&status=failed&other=kept")
    expect(page.get_by_text("No runs match these filters.")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(row(page, finished)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/runs\?other=kept$"))


def test_a_new_run_waits_behind_a_button(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["running"]  # an active row makes the list ask every two seconds
    page = open_page("/runs")
    before = rows(page)
    started = runs.ended("shop/orders")
    button = page.get_by_role("button", name="1 new run")
    expect(button).to_be_visible()
    assert rows(page) == before
    button.click()
    expect(row(page, started)).to_be_visible()


def test_a_run_that_leaves_the_filter_keeps_its_row(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    execution = runs.until_waiting(runs.start("shop/release"))
    page = open_page("/runs?status=waiting")
    expect(row(page, execution)).to_contain_text("waiting")
    runs.act(execution, "cancel", reason="tried")
    expect(row(page, execution)).to_contain_text("cancelled")


def test_keys_move_preview_select_and_open(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"], runs["failed"]
    page = open_page("/runs")
    first, second = rows(page)[:2]
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar", name="Selected runs")).to_contain_text("1 selected")
    page.keyboard.press("k")
    page.keyboard.press("Shift+X")
    page.keyboard.press("o")
    expect(page.get_by_role("complementary", name="Preview")).to_contain_text("Open the run")
    assert f"preview={first}" in page.url
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{second}")


def test_a_row_shows_its_selection_at_once(open_page: PageOpener, runs: ExampleRuns) -> None:
    finished = new(runs, "shop/orders")
    page = open_page("/runs", role="operator")
    checkbox = row(page, finished).get_by_role("checkbox")
    for is_checked in (True, False, True):
        checkbox.click()
        assert checkbox.is_checked() == is_checked


def test_bulk_cancel_reports_each_run_and_keeps_failures_selected(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    ended = new(runs, "shop/orders")
    waiting = [runs.until_waiting(runs.start("shop/release")) for _ in range(2)]
    page = open_page("/runs", role="operator", expect=["status of 409"])
    for execution in (*waiting, ended):
        row(page, execution).get_by_role("checkbox").click()
    page.get_by_role("button", name="Cancel...").click()
    dialog = page.get_by_role("dialog", name="Cancel runs")
    expect(dialog).to_contain_text("3 runs")
    dialog.get_by_role("button", name="Cancel runs").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 of 3 cancelled, 1 failed")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("toolbar", name="Selected runs")).to_contain_text("1 selected")
    for execution in waiting:
        assert server.api.ended(execution)["status"] == "cancelled"


def test_a_problem_of_the_list_is_as_high_as_its_text(open_page: PageOpener) -> None:
    page = open_page("/runs?since=yesterday", "viewer", expect=["status of 422"])
    problem = page.get_by_role("alert").filter(has_text="invalid query parameter 'since'")
    expect(problem).to_be_visible()
    assert (bounds := problem.bounding_box()) is not None
    assert bounds["height"] < 120


def test_bulk_cancel_says_so_when_all_runs_are_cancelled(open_page: PageOpener, runs: ExampleRuns) -> None:
    waiting = [runs.until_waiting(runs.start("shop/release")) for _ in range(2)]
    page = open_page("/runs", role="operator")
    for execution in waiting:
        row(page, execution).get_by_role("checkbox").click()
    page.get_by_role("button", name="Cancel...").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel runs").click()
    expect(page.locator(".toasts")).to_contain_text("2 runs cancelled.")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("toolbar", name="Selected runs")).to_have_count(0)


def test_all_matching_runs_are_selected_and_a_range_is_chosen_with_shift(open_recorded: PageOpener) -> None:
    page = open_recorded("/runs?status=succeeded", "operator")
    boxes, bar = page.get_by_role("checkbox", name="Select "), page.get_by_role("toolbar", name="Selected runs")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    expect(bar).to_contain_text("4 selected")
    bar.get_by_role("button", name="Select all").click()
    total = open_recorded.server.api.ask("GET", "/executions/counts")["succeeded"]
    assert total > PAGE
    expect(bar).to_contain_text(f"{total} selected")
    expect(bar.get_by_role("button", name="Select all")).to_have_count(0)
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_have_count(0)


def test_a_hidden_list_asks_for_nothing(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["running"]
    context = open_page.context("viewer")
    context.clock.install()
    page = context.new_page()
    page.goto(f"{open_page.server.url}/runs")
    with page.expect_request("**/executions?*"):
        expect(page.get_by_role("row").first).to_be_visible()
        context.clock.fast_forward(3_000)
    set_visible(page, False)
    Settling(page).wait()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    context.clock.run_for(30_000)
    assert not requests
    with page.expect_request("**/executions?*"):
        set_visible(page, True)
        context.clock.run_for(10_000)


def test_a_run_with_failed_items_has_a_mark_and_a_preview(open_page: PageOpener, runs: ExampleRuns) -> None:
    loop = new(runs, "shop/images")
    page = open_page("/runs")
    expect(row(page, loop)).to_contain_text("6 of 40 items failed")
    expect(row(page, loop).locator(".runs-mark")).to_be_visible()
    page.goto(f"{page.url}?preview={loop}")
    preview = page.get_by_role("complementary", name="Preview")
    expect(preview).to_contain_text("6 of 40 items failed")
    preview.get_by_role("link", name="resize").click()
    page.wait_for_url(f"**/runs/{loop}?step=resize")


def test_the_next_run_of_a_list_is_found_behind_its_first_page(open_recorded: PageOpener) -> None:
    server = open_recorded.server
    ids = [run["execution_id"] for run in server.api.ask("GET", f"/executions?limit={MANY}")["items"]]
    page = open_recorded("/runs", "viewer")
    expect(row(page, ids[0])).to_be_visible()
    page.goto(f"{server.url}/runs/{ids[PAGE - 1]}")
    for key, place in (("J", PAGE), ("J", PAGE + 1), ("K", PAGE)):
        expect(page.locator(".run-header")).to_be_visible()
        page.keyboard.press(key)
        expect(page).to_have_url(f"{server.url}/runs/{ids[place]}")


def test_two_selected_runs_are_compared(open_page: PageOpener, runs: ExampleRuns) -> None:
    a, b = new(runs, "shop/stock"), new(runs, "shop/orders")
    page = open_page("/runs")
    for execution in (a, b):
        row(page, execution).get_by_role("checkbox").click()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(f"**/compare/{a}/{b}")
    page.go_back()
    expect(row(page, a)).to_be_visible()


def test_the_time_zone_is_in_the_top_bar_and_can_be_changed(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs["finished"]
    page = open_page("/system")
    page.goto(f"{page.url.removesuffix('/system')}/runs/{execution}")
    started, bar = page.locator(".run-header time").first, page.get_by_role("banner")
    page.get_by_role("button", name="ada").click()
    page.get_by_role("menuitemradio", name="Times in another zone...").click()
    name = page.get_by_role("textbox", name="Name")
    name.fill("Mars/Base")
    use = page.get_by_role("button", name="Use this zone")
    expect(use).to_have_attribute("title", "There is no time zone of this name.")
    name.fill("Asia/Tokyo")
    use.click()
    expect(bar).to_contain_text("GMT+9")
    page.reload()
    expect(bar).to_contain_text("GMT+9")
    in_tokyo = started.inner_text()
    page.get_by_role("button", name="ada").click()
    page.get_by_role("menuitemradio", name="Times in UTC").click()
    expect(bar).to_contain_text("UTC")
    expect(started).not_to_have_text(in_tokyo)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_viewer_sees_why_an_action_is_disabled(open_page: PageOpener, runs: ExampleRuns, role: str) -> None:
    failed = new(runs, "shop/stock")
    page = open_page("/runs", role=role)
    row(page, failed).get_by_role("checkbox").click()
    retry = page.get_by_role("button", name="Retry...")
    if role == "viewer":
        expect(retry).to_have_attribute("title", "Requires the operator role. You are a viewer.")
        expect(retry).to_have_attribute("aria-disabled", "true")
    else:
        expect(retry).not_to_have_attribute("aria-disabled", "true")


def test_the_palette_opens_a_run_by_its_id(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs["finished"]
    page = open_page("/runs")
    expect(page.get_by_role("grid", name="Runs")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type(execution)
    expect(page.get_by_role("dialog").get_by_role("option").first).to_contain_text("shop/orders")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{execution}")


def test_the_palette_finds_a_playbook_by_a_part_of_its_path(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    page = open_page("/runs")
    page.get_by_role("button", name="Search").click()
    page.keyboard.type("P/ORDER")
    option = page.get_by_role("dialog").get_by_role("option").filter(has_text="playbook").first
    expect(option).to_contain_text("shop/orders")
    option.click()
    page.wait_for_url("**/playbooks/shop/orders")


PASTE = """(field, text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text", text);
  field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def test_an_id_that_is_pasted_opens_its_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs["finished"]
    page = open_page("/playbooks")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").evaluate(PASTE, f" {execution}\n")
    page.wait_for_url(f"**/runs/{execution}")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_every_filter_of_a_link_is_shown(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    page = open_page("/runs?status=failed,cancelled&until=2020-01-01T00:00:00Z&q=KeyError", width=390)
    shown = [page.get_by_role("combobox", name=name).locator("option:checked") for name in ("Status", "Started")]
    expect(shown[0]).to_have_text("failed,cancelled")
    expect(shown[1]).to_have_text("until 2020-01-01T00:00:00Z")
    expect(page.get_by_role("searchbox", name="Filter by text")).to_have_value("KeyError")
    page.get_by_role("combobox", name="Started").select_option("24h")
    expect(page).to_have_url(re.compile("since=24h"))
    expect(page).not_to_have_url(re.compile("until="))


@pytest.mark.parametrize(("path", "held"), [("/runs", "**/executions?*"), ("/runs/{}", "**/outline")])
def test_a_slow_load_is_cancelled_and_tried_again(
    open_page: PageOpener, runs: ExampleRuns, path: str, held: str
) -> None:
    context = open_page.context("viewer")
    context.clock.install()
    page = context.new_page()
    page.route(held, lambda route: None)
    page.goto(open_page.server.url + path.format(runs["finished"]))
    expect(page.locator(".loading")).to_be_visible()
    context.clock.fast_forward(6_000)
    expect(page.get_by_text("Still loading")).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Loading was cancelled.")
    page.unroute(held)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("main a", has_text="shop/orders").first).to_be_visible()
