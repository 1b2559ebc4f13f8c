"""The tabs below the graph of a run: events, logs, data, items and related runs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.acceptance.modes.stage import until
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener, Settling
from tests.browser.recorded import FAILED_ITEM, RECORDED
from tests.browser.serving import PageServer

LINES = 3_000
TALK = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: talk, path: shop/talk}}
workload: {{site: "https://example.org/orders", bad: "javascript:alert(1)"}}
workflow:
  - step: talk
    tool:
      - shout: {{kind: python, code: 'print("x" * 200_000)'}}
      - say:
          kind: python
          code: |
            import sys
            for n in range({LINES}):
                print(f"line {{n}} of many")
            print("\\x1b[31mred\\x1b[0m and \\x1b]0;title\\x07plain", file=sys.stderr)
            result = [{{"id": n, "name": f"row {{n}}", "text": "word " * 40}} for n in range(1_000)]
    next: {{arcs: [{{step: read}}]}}
  - step: read
    tool:
      - first:
          kind: noop
          result: "{{{{ steps.talk.result[0].name }}}}"
          spec:
            policy:
              rules: [{{else: {{then: {{do: continue, set_ctx: {{first: "{{{{ outcome.result }}}}"}}}}}}}}]
"""


@pytest.fixture(scope="module")
def talking_run(server: PageServer) -> str:
    """It has written thousands of lines, and has a result that is stored apart."""
    execution: str = server.api.start({"playbook": TALK})
    server.api.ended(execution)
    return execution


def grid(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name=name)


def row(page: Page, grid_name: str, text: str | re.Pattern[str]) -> Locator:
    return grid(page, grid_name).get_by_role("row").filter(has_text=text)


def allow_clipboard(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])


def clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


# -- items ------------------------------------------------------------------------------------------------------------


def test_the_failed_item_of_100_000_is_found(open_recorded: PageOpener) -> None:
    page = open_recorded(f"/runs/{RECORDED['items'].execution}?tab=items", "viewer")
    expect(page.get_by_role("button", name="failed 1", exact=True)).to_be_visible()
    page.keyboard.press("F")
    failed = row(page, "Items", "no price")
    expect(failed).to_contain_text(f"{FAILED_ITEM:,}")
    expect(grid(page, "Items").get_by_role("row")).to_have_count(1)
    failed.click()
    expect(page).to_have_url(re.compile(f"run=many%231&item={FAILED_ITEM}"))


def test_every_item_of_100_000_can_be_reached(open_recorded: PageOpener) -> None:
    page = open_recorded(f"/runs/{RECORDED['items'].execution}?tab=items", "viewer")
    page.get_by_label("Go to the item with this index").fill("70000")
    page.keyboard.press("Enter")
    expect(row(page, "Items", re.compile("^70,000ok"))).to_be_visible()
    grid(page, "Items").press("End")
    expect(row(page, "Items", re.compile("^99,999ok"))).to_be_visible()
    assert page.evaluate("document.querySelectorAll('[role=row]').length") < 100


LOOP_OF_10_000 = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: many, path: shop/many}
workflow:
  - step: begin
    tool: [{go: {kind: wait, signal: go}}]
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(10000) }}", iterator: n, spec: {mode: parallel, max_in_flight: 500, on_error: continue}}
    tool:
      - check:
          kind: noop
          result: "{{ iter.n }}"
          spec:
            policy:
              rules:
                - {when: "{{ iter.n == 7777 }}", then: {do: fail}}
                - {else: {then: {do: continue}}}
"""


def test_a_loop_of_10_000_items_is_watched_and_searched(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    execution = runs.until_waiting(server.api.start({"playbook": LOOP_OF_10_000}))
    page = open_page(f"/runs/{execution}?tab=items", "viewer")
    expect(page.get_by_role("button", name="each, has not run")).to_be_visible()
    runs.act(execution, "signals", name="go")
    expect(page.get_by_role("button", name=re.compile("^each, running, [0-9,]+ of 10,000"))).to_be_visible()
    expect(page.locator(".run-title")).to_contain_text("succeeded")
    expect(page.get_by_role("button", name=re.compile("^each, succeeded, 10,000 of 10,000, 1 failed"))).to_be_visible()
    page.keyboard.press("F")
    expect(grid(page, "Items").get_by_role("row")).to_have_count(1)
    row(page, "Items", "7,777").click()
    expect(page.get_by_role("complementary", name="Inspector")).to_contain_text("each#1, item 7,777 failed.")
    assert page.evaluate("document.querySelectorAll('*').length") <= 3_000


LOOP_THAT_FAILS_LATER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: later, path: shop/later}
workflow:
  - step: each
    loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, on_error: continue}}
    tool:
      - go:
          kind: wait
          signal: go
          spec: {policy: {rules: [{when: "{{ iter.n < 2 }}", then: {do: skip}}]}}
      - fail: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}
"""


def test_new_items_of_a_filter_wait_behind_a_button(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    execution = runs.until_waiting(server.api.start({"playbook": LOOP_THAT_FAILS_LATER}))
    page = open_page(f"/runs/{execution}?tab=items&status=failed", "viewer")
    rows = grid(page, "Items").get_by_role("row")
    expect(rows).to_have_count(2)
    runs.act(execution, "signals", name="go")
    expect(page.get_by_role("button", name="failed 3")).to_be_visible()
    new_items = page.get_by_role("button", name="New items")
    expect(new_items).to_be_visible()
    expect(rows).to_have_count(2)
    new_items.click()
    expect(rows).to_have_count(3)
    expect(new_items).to_be_hidden()


def test_items_are_shown_as_of_the_event_of_the_view(open_page: PageOpener, runs: ExampleRuns) -> None:
    ends = ("loop.iteration.done", "loop.iteration.failed")
    done = [event for event in runs.client.events(runs["loop"]) if event["event_type"] in ends]
    page = open_page(f"/runs/{runs['loop']}?tab=items&run=resize%231&at={done[9]['seq']}", "viewer")
    failed = sum(event["event_type"] == ends[1] for event in done[:10])
    chips = page.get_by_role("group", name="Status of items")
    expect(chips).to_contain_text(f"failed {failed}")
    expect(chips).to_contain_text(f"ok {10 - failed}")
    last, selected = done[-1]["iteration"], page.get_by_role("complementary", name="Inspector")
    page.get_by_label("Go to the item with this index").fill(str(last))
    page.keyboard.press("Enter")
    expect(row(page, "Items", re.compile(f"^{last}(pending|running)"))).to_be_visible()
    expect(selected.get_by_role("heading", level=2)).to_have_text(f"resize#1, item {last}")
    expect(selected.locator(".status")).to_have_text(re.compile("scheduled|running"))
    page.get_by_role("button", name="Back to latest (Esc)").click()
    expect(row(page, "Items", re.compile(f"^{last}(ok|failed)"))).to_be_visible()
    expect(selected.locator(".status").first).to_have_text(re.compile("succeeded|failed"))


def test_failures_are_grouped_and_filter_the_items(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['loop']}?tab=items", "viewer")
    page.get_by_role("button", name=re.compile("MemoryError")).click()
    expect(grid(page, "Items").get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("img", name=re.compile("Durations: median"))).to_be_visible()
    retry = page.get_by_role("button", name="Retry failed items...")
    expect(retry).to_have_attribute("title", "Requires the operator role. You are a viewer.")


def test_failed_items_are_retried_after_a_dry_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    source = runs.ended("shop/images")
    page = open_page(f"/runs/{source}?tab=items", "operator")
    page.get_by_role("button", name="Retry failed items...").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Creates a new run in which 6 failed items run again.")
    expect(dialog).to_contain_text("Runs again: resize#1 (6 items)")
    dialog.get_by_role("button", name="Retry 6 items").click()
    expect(page).not_to_have_url(re.compile(source))
    expect(page.get_by_role("heading", level=1)).to_have_text("images")


# -- events -----------------------------------------------------------------------------------------------------------


def test_a_click_on_an_event_moves_the_view_to_it(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=events", "viewer")
    scheduled = row(page, "Events", "step.done").first
    expect(scheduled).to_be_visible()
    scheduled.click(modifiers=["Alt"])
    expect(page).to_have_url(re.compile(r"event=\d+$"))
    scheduled.click()
    expect(page).to_have_url(re.compile(r"event=(\d+)&at=\1$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"tab=events$|event=\d+$"))


def test_levels_groups_and_a_search_select_events(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=events", "viewer")
    expect(row(page, "Events", "playbook.processed")).to_be_visible()
    page.keyboard.press("1")
    expect(page).to_have_url(re.compile("level=step"))
    expect(row(page, "Events", "task.done")).to_have_count(0)
    page.keyboard.press("3")
    page.get_by_role("group", name="Types of events").get_by_role("button", name="Failures").click()
    expect(page).to_have_url(re.compile("types=failures"))
    expect(grid(page, "Events").get_by_role("row")).to_have_count(1)
    expect(row(page, "Events", "task.retry.scheduled")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("there is no such text")
    page.get_by_role("button", name="Clear filters").click()
    expect(row(page, "Events", "playbook.processed")).to_be_visible()


def test_a_search_of_a_long_log_says_how_far_it_has_come(open_recorded: PageOpener) -> None:
    page = open_recorded(f"/runs/{RECORDED['items'].execution}?tab=events&q=row+{FAILED_ITEM}", "viewer")
    status = page.get_by_text(re.compile(r"Searched up to event [\d,]+\."))
    expect(status).to_contain_text("100,000")
    page.get_by_role("button", name="Continue").click()
    expect(status).to_contain_text("200,000")
    page.get_by_role("button", name="Continue").click()
    expect(row(page, "Events", "no price").first).to_be_visible()


def test_a_filter_begins_at_the_event_of_the_view(open_recorded: PageOpener) -> None:
    page = open_recorded(f"/runs/{RECORDED['items'].execution}?tab=events&level=step&at=200000", "viewer")
    expect(row(page, "Events", re.compile("^197,914"))).to_have_attribute("aria-selected", "true")
    expect(page.get_by_text("Searched up to event 220,000.")).to_be_visible()


# Frames are slow, and the later events are there as soon as they are requested: as on a busy machine.
LATE_FRAMES = """
const { fetch } = window;
let later;
window.requestAnimationFrame = (draw) => window.setTimeout(() => draw(performance.now()), 300);
window.fetch = async (address, options) => {
  if (!address.includes("level=step")) return fetch(address, options);
  if (address.includes("after=200000&")) return new Response(later, {headers: {"content-type": "application/json"}});
  if (address.includes("before=200001&"))
    later = await (await fetch(address.replace("before=200001", "after=200000"))).text();
  return fetch(address, options);
};
"""


def test_a_late_frame_does_not_continue_a_search(open_recorded: PageOpener) -> None:
    page = open_recorded("/runs", "viewer")
    page.add_init_script(LATE_FRAMES)
    settling = Settling(page)
    page.goto(page.url.replace("/runs", f"/runs/{RECORDED['items'].execution}?tab=events&level=step&at=200000"))
    expect(row(page, "Events", re.compile("^197,914"))).to_have_attribute("aria-selected", "true")
    settling.wait()
    expect(page.get_by_text("Searched up to event 220,000.")).to_be_visible()


def test_the_list_of_events_is_as_long_as_the_log(open_recorded: PageOpener) -> None:
    recorded = RECORDED["million"]
    page = open_recorded(f"/runs/{recorded.execution}?tab=events&at=500000", "viewer")
    expect(row(page, "Events", re.compile("^500,000"))).to_contain_text(re.compile(r"\w+\.\w+"))
    grid(page, "Events").press("Home")
    expect(row(page, "Events", "playbook.execution.requested")).to_be_visible()


def test_events_follow_a_run_and_wait_while_the_user_reads(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['running']}?tab=events", "viewer")
    grid(page, "Events").get_by_role("row").last.wait_for()
    last = grid(page, "Events").get_by_role("row").last
    before = last.inner_text()
    expect(last).not_to_have_text(before)
    grid(page, "Events").evaluate("(list) => { list.scrollTop = 0 }")
    new = page.get_by_role("button", name=re.compile(r"^[\d,]+ new$"))
    expect(new).to_be_visible()
    expect(row(page, "Events", "playbook.execution.requested")).to_be_visible()
    new.click()
    expect(row(page, "Events", "playbook.execution.requested")).to_have_count(0)


# -- logs -------------------------------------------------------------------------------------------------------------


def test_the_log_is_searched_beyond_the_rendered_rows(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=logs", "viewer")
    expect(row(page, "Output", "red and plain")).to_be_visible()
    expect(row(page, "Output", "line 17 of many")).to_have_count(0)
    lines = int(grid(page, "Output").get_attribute("aria-rowcount") or 0)
    assert lines > LINES
    grid(page, "Output").evaluate("(list, top) => { list.scrollTop = top }", (lines - 1 - LINES + 1_500) * 20)
    expect(row(page, "Output", "line 1500 of many")).to_be_visible()
    page.keyboard.press("Control+f")
    page.keyboard.type("LINE 17 of")
    page.keyboard.press("Enter")
    expect(row(page, "Output", "line 17 of many")).to_be_visible()
    expect(page).to_have_url(re.compile(r"line=\d+"))
    page.reload()
    expect(row(page, "Output", "line 17 of many")).to_have_attribute("aria-selected", "true")


SEARCH = """async () => {
  document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'f', ctrlKey: true, bubbles: true, cancelable: true}))
  for (let turn = 0; turn < 10; turn += 1) await null
  return document.activeElement.ariaLabel
}"""
"""What has the focus before the next key can arrive, whether or not the browser draws in between."""


def test_what_is_typed_right_after_opening_the_search_is_in_its_field(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=logs", "viewer")
    expect(row(page, "Output", "red and plain")).to_be_visible()
    assert page.evaluate(SEARCH) == "Search all lines"


def test_a_line_is_found_while_the_lines_are_counted(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['running']}?tab=logs", "viewer")
    first = grid(page, "Output").get_by_role("row").first
    text = first.locator(".log-text").inner_text()
    held: list[Route] = []
    counts = re.compile(r"/logs\?.*before=.*count=true")
    page.route(counts, lambda route: held.append(route))
    until(lambda: page.evaluate("true") and held)
    page.keyboard.press("Control+f")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"line=\d+"))
    page.route(counts, lambda route: route.continue_())
    for route in held:
        route.continue_()
    expect(row(page, "Output", text).first).to_have_attribute("aria-selected", "true")


def test_lines_are_copied_that_are_not_rendered(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=logs", "viewer")
    allow_clipboard(page)
    row(page, "Output", "red and plain").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    expect(page.locator(".toasts")).to_contain_text(re.compile("Copied 3,[0-9]+ lines."))
    lines = clipboard(page).split("\n")
    assert lines[-LINES - 1 :] == [*(f"line {n} of many" for n in range(LINES)), "red and plain"]
    assert "".join(lines[: -LINES - 1]) == "x" * 200_000


def test_lines_that_were_selected_and_scrolled_away_are_copied(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=logs&stream=stdout", "viewer")
    allow_clipboard(page)
    row(page, "Output", f"line {LINES - 1} of many").click()
    grid(page, "Output").evaluate("(list) => { list.scrollTop -= 2000 }")
    first = row(page, "Output", f"line {LINES - 101} of many")
    expect(first).to_be_visible()
    expect(row(page, "Output", f"line {LINES - 1} of many")).to_have_count(0)
    first.click(modifiers=["Shift"])
    page.get_by_role("button", name="Copy lines").click()
    expect(page.locator(".toasts")).to_contain_text("Copied 101 lines.")
    assert clipboard(page).split("\n") == [f"line {n} of many" for n in range(LINES - 101, LINES)]


def test_lines_are_filtered_wrapped_and_downloaded(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=logs", "viewer")
    page.get_by_label("Stream").select_option("stderr")
    expect(grid(page, "Output").get_by_role("row")).to_have_count(1)
    assert page.locator(".hue-red").evaluate("(span) => getComputedStyle(span).color") == "rgb(180, 35, 24)"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert "red" in download.value.path().read_text()
    page.get_by_label("Stream").select_option("")
    page.get_by_label("Filter lines").fill("of many")
    expect(row(page, "Output", f"line {LINES - 1} of many").locator("mark")).to_have_text("of many")
    page.keyboard.press("Alt+z")
    expect(page.get_by_role("button", name="Earlier lines")).to_be_attached()


def test_a_long_line_is_cut_and_shown_on_request(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=logs&q=xxx", "viewer")
    long = row(page, "Output", "xxxxx").first
    assert len(long.inner_text()) < 3_000
    long.get_by_role("button", name=re.compile("Show all [0-9,]+ characters")).click()
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text("x" * 10_000)


def test_the_log_follows_a_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['running']}?tab=logs", "viewer")
    last = grid(page, "Output").get_by_role("row").last
    before = last.inner_text()
    expect(last).not_to_have_text(before)


# -- data -------------------------------------------------------------------------------------------------------------


def item(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("tree", name="Data of the run").get_by_role("treeitem").filter(has_text=name)


def test_data_is_opened_searched_and_copied_as_an_expression(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=data", "viewer")
    allow_clipboard(page)
    item(page, re.compile("^order{")).click()
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile(r"path=workload.order.id"))
    page.keyboard.press("/")
    page.keyboard.type("B7")
    result = item(page, re.compile('^sku"B7"'))
    result.click()
    result.get_by_role("button", name="as expression").click()
    until(lambda: page.evaluate("navigator.clipboard.readText()") == "workload.order.lines[1].sku")
    page.get_by_label("Find a key or value").fill("")
    expect(item(page, re.compile("^steps"))).to_be_attached()
    expect(result).to_have_attribute("aria-selected", "true")
    page.reload()
    expect(result).to_have_attribute("aria-selected", "true")
    lines = item(page, re.compile("^lines"))
    lines.click()
    lines.get_by_role("button", name="Raw").click()
    expect(lines.locator("pre")).to_contain_text('"sku": "A1"')


def test_data_is_that_of_the_event_of_the_view_and_compared_with_another(
    open_page: PageOpener, runs: ExampleRuns
) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=data&at=3", "viewer")
    expect(page.get_by_text("After event 3")).to_be_visible()
    expect(item(page, "total")).to_have_count(0)
    page.goto(page.url.replace("&at=3", ""))
    page.get_by_label("Compare ctx").select_option("start")
    changes = page.get_by_role("table", name="Changes of ctx since the start")
    expect(changes.get_by_role("row").filter(has_text="ctx.total")).to_contain_text("added")


def test_a_stored_value_is_loaded_in_pages_on_request(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=data&path=steps.talk.result", "viewer")
    stored = item(page, re.compile("^resultstored list of 1,000 items"))
    expect(stored).to_contain_text("sha256:")
    stored.get_by_text("stored list").click()
    expect(item(page, re.compile(r"^99\{id: 99"))).to_be_attached()
    item(page, "Show 100 more of 1,000 entries").click()
    expect(item(page, re.compile(r"^199\{id: 199"))).to_be_attached()
    stored.get_by_text("stored list").click()
    stored.get_by_role("button", name="Table").click()
    table = page.get_by_role("region", name="Table of steps.talk.result")
    expect(table.get_by_role("columnheader", name="name")).to_be_visible()


def test_only_addresses_of_the_web_become_links(open_page: PageOpener, talking_run: str) -> None:
    page = open_page(f"/runs/{talking_run}?tab=data", "viewer")
    link = item(page, "site").get_by_role("link")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(item(page, "bad").get_by_role("link")).to_have_count(0)


# -- related ----------------------------------------------------------------------------------------------------------


def test_sentences_of_the_server_have_times_of_the_page(open_page: PageOpener, runs: ExampleRuns) -> None:
    source = runs.until_waiting(runs.start("shop/release"))
    at = runs.client.events(source)[-1]["seq"]
    runs.until_waiting(runs.act(source, "fork", at=at)["execution_id"])
    page = open_page(f"/runs/{source}?tab=events", "viewer")
    due = re.compile(r"^Waits for the signal 'verdict' until \d+ \w{3} (\d{4} )?\d\d:\d\d$")
    paused = row(page, "Events", "step.paused")
    expect(paused.locator(".event-summary")).to_have_text(due)
    expect(paused.locator(".event-summary")).to_have_attribute("title", re.compile(r"until 2.*Z$"))
    page.get_by_role("tab", name="Related").click()
    expect(page.locator(".related-activity").first).to_have_text(re.compile(r"^waiting for signal verdict, \d+ "))
    runs.act(source, "pause")
    page.goto(f"{open_page.server.url}/runs/{source}?at={at}")
    expect(page.locator(".history-note")).to_contain_text(re.compile(r"until \d+ \w{3} (\d{4} )?\d\d:\d\d$"))


def test_related_runs_are_a_tree_with_links(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['parent']}?tab=related", "viewer")
    expect(page.get_by_text("Children 2")).to_be_visible()
    page.locator(".related").get_by_role("link", name="orders").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    page.goto(page.url + "?tab=related")
    expect(page.locator(".related").get_by_role("link", name="nightly")).to_be_visible()
    fork = runs["fork"]
    page.goto(f"{page.url.partition('/runs/')[0]}/runs/{fork}?tab=related")
    expect(page.get_by_text(re.compile(r"forked at event \d+"))).to_be_visible()
    link = page.locator(".related").get_by_role("link", name="Compare")
    expect(link).to_have_attribute("href", f"/compare/{runs['failed']}/{fork}")


def test_the_log_of_a_parent_links_to_the_output_of_its_children(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['parent']}?tab=logs", "viewer")
    Settling(page).wait()
    expect(page.get_by_text("Output of child runs:").get_by_role("link")).to_have_count(2)
