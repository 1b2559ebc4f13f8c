"""The history of a run: the slider and its keys, what follows it, and the timeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.modes.stage import until
from tests.browser.examples import ExampleRuns
from tests.browser.opening import STREAM, PageOpener, Settling, check_accessibility
from tests.browser.recorded import RECORDED
from tests.browser.serving import PageServer

KEYS = Path(__file__).parents[2] / "ui" / "src" / "keys.ts"
SECONDS = 30_000
FAILS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails, path: shop/fails}
workflow:
  - step: fill
    tool:
      - pour:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {level: 7}}}}]}}
    next: {arcs: [{step: spill}]}
  - step: spill
    tool: {kind: python, code: "raise ValueError('too full')"}
    next: {arcs: [{step: mop, when: "{{ event.name == 'step.failed' }}"}]}
  - step: mop
    tool:
      - dry:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {level: 1}}}}]}}
"""


@pytest.fixture(scope="module")
def failed_run(server: PageServer) -> str:
    """`ctx.level` is 7 when `spill` fails, and 1 at the end."""
    execution = server.api.start({"playbook": FAILS})
    server.api.ended(execution)
    return execution


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="event")


def first_failure(server: PageServer, execution: str) -> int:
    markers = server.api.ask("GET", f"/executions/{execution}/outline")["markers"]
    return int(next(marker["seq"] for marker in markers if marker["kind"] == "failure"))


def event_at(page: Page, seq: int) -> None:
    """The view shows the event, and the URL has it."""
    expect(page.get_by_text(f"Viewing event {seq:,}.")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"[?&]at={seq}\b"))


def test_the_slider_leads_to_the_first_failure_and_its_link_shows_the_same(
    open_page: PageOpener, server: PageServer, failed_run: str
) -> None:
    seq = first_failure(server, failed_run)
    page = open_page(f"/runs/{failed_run}?tab=data", "viewer")
    expect(page.get_by_role("treeitem", name="level: 1")).to_be_visible()
    page.keyboard.press("Home")
    event_at(page, 1)
    page.keyboard.press("]")
    event_at(page, seq)
    other = open_page(page.url.removeprefix(server.url), "operator", "dark")
    for shown in (page, other):
        expect(shown.get_by_role("treeitem", name="level: 7")).to_be_visible()
        expect(shown.get_by_role("button", name="spill, failed")).to_be_visible()
        expect(slider(shown)).to_have_attribute("aria-valuetext", re.compile(rf"Event {seq} of \d+, .*step\.failed"))
    page.get_by_role("button", name="Back to latest (Esc)").click()
    expect(page.get_by_text("Viewing event")).to_be_hidden()
    expect(page.get_by_role("treeitem", name="level: 1")).to_be_visible()
    page.go_back()
    event_at(page, seq)


def slider_keys() -> set[str]:
    return set(re.findall(r'\["slider", "([^"]+)"', KEYS.read_text("utf-8")))


def test_every_key_of_the_slider_moves_the_view(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs["loop"]
    outline = runs.client.ask("GET", f"/executions/{execution}/outline")
    markers, latest = [marker["seq"] for marker in outline["markers"]], outline["seq"]
    page = open_page(f"/runs/{execution}?at=2&step=publish", "viewer")
    event_at(page, 2)
    expected: list[tuple[str, str, int]] = [
        ("ArrowRight", "ArrowRight", 3),
        ("ArrowLeft", "ArrowLeft", 2),
        ("Shift+ArrowRight", "ArrowRight", 102),
        ("Shift+ArrowLeft", "ArrowLeft", 2),
        ("]", "]", markers[0]),
        ("]", "]", markers[1]),
        ("[", "[", markers[0]),
        ("Home", "Home", 1),
    ]
    for press, _, seq in expected:
        page.keyboard.press(press)
        event_at(page, seq)
    decisions = runs.client.ask("GET", f"/executions/{execution}/explain?step=publish&limit=200")["decisions"]
    seqs = sorted(decision["seq"] for decision in decisions)
    page.keyboard.press("}")
    event_at(page, seqs[0])
    if seqs[1:]:
        page.keyboard.press("}")
        event_at(page, seqs[1])
        page.keyboard.press("{")
        event_at(page, seqs[0])
    page.keyboard.press("{")
    expect(page.get_by_text("No earlier decision about the selection.").first).to_be_visible()
    page.keyboard.press("T")
    expect(page.get_by_role("button", name="by time")).to_be_visible()
    event_at(page, seqs[0])
    page.keyboard.press("T")
    page.keyboard.press("Home")
    event_at(page, 1)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause (Space)")).to_be_visible()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play (Space)")).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_text("Viewing event")).to_be_hidden()
    assert slider(page).input_value() == str(latest)
    assert {key for _, key, _ in expected} | {"}", "{", "T", "Space", "End"} == slider_keys()


def test_playing_ends_at_the_latest_event(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    page.get_by_role("button", name="10 per s").click()
    page.get_by_role("button", name="Play (Space)").click()
    expect(page.get_by_text("Viewing event")).to_be_visible()
    expect(page.get_by_role("button", name="Play (Space)")).to_be_visible(timeout=SECONDS)
    expect(page.get_by_text("Viewing event")).to_be_hidden()


def test_nothing_is_requested_while_the_slider_moves(open_page: PageOpener, runs: ExampleRuns) -> None:
    context = open_page.context("viewer")
    context.clock.install()
    page = context.new_page()
    settling = Settling(page)
    page.goto(f"{open_page.server.url}/runs/{runs['loop']}?step=resize")
    expect(page.get_by_role("button", name=re.compile("resize, succeeded"))).to_be_visible()
    settling.wait()
    context.clock.pause_at(page.evaluate("Date.now() + 1000"))
    requests: list[str] = []
    page.on("request", lambda request: None if STREAM in request.url else requests.append(request.url))
    entries = page.evaluate("history.length")
    for seq in range(200, 60, -20):
        slider(page).evaluate(MOVE, seq)
        context.clock.run_for(100)
        assert not requests
    expect(page.get_by_text("Viewing event 80.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("resize, running, ~"))).to_be_visible()
    slider(page).dispatch_event("change")
    event_at(page, 80)
    context.clock.run_for(200)
    expect(page.get_by_role("button", name=re.compile(r"resize, running, \d"))).to_be_visible()
    assert any("/state?at=80" in url for url in requests)
    assert page.evaluate("history.length") == entries + 1


MOVE = "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }"


def test_live_data_extends_the_slider_and_nothing_else(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs.until_waiting(runs.start("shop/release"))
    page = open_page(f"/runs/{execution}?at=5", "viewer")
    event_at(page, 5)
    before = int(slider(page).get_attribute("max") or 0)
    runs.act(execution, "signals", name="verdict", payload={"ship": True, "by": "ada"})
    last = int(runs.client.ended(execution)["events"])
    assert last > before
    expect(slider(page)).to_have_attribute("max", str(last))
    event_at(page, 5)
    expect(page.get_by_role("button", name="ask, has not run")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="ask, succeeded")).to_be_visible()


def test_a_long_run_is_shown_at_the_event_that_is_typed(open_recorded: PageOpener) -> None:
    page = open_recorded(f"/runs/{RECORDED['long'].execution}", "viewer")
    field = page.get_by_role("textbox", name="Event number")
    field.fill("31204")
    field.press("Enter")
    event_at(page, 31_204)
    expect(slider(page)).to_have_value("31204")
    expect(slider(page)).to_have_attribute("aria-valuetext", re.compile(r"Event 31,204 of 50,\d{3}, \d\d.*, \w+\.\w+"))
    expect(page.get_by_role("button", name=re.compile(r"many, running, [\d,]+ of [\d,]+"))).to_be_visible()
    page.keyboard.press("Shift+ArrowRight")
    event_at(page, 31_304)
    field.fill("99999999")
    field.press("Enter")
    expect(page.get_by_text("Viewing event")).to_be_hidden()
    assert page.evaluate("document.querySelectorAll('*').length") <= 3_000


def test_a_lost_connection_is_announced_with_the_next_attempt(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs.until_waiting(runs.start("shop/release"))
    context = open_page.context("viewer")
    context.clock.install()
    page = context.new_page()
    settling = Settling(page)
    open_page.expected.append("ERR_FAILED")
    page.route(f"**{STREAM}*", lambda route: route.abort())
    page.goto(f"{open_page.server.url}/runs/{execution}")
    expect(slider(page)).to_be_visible()
    settling.wait()
    banner = page.get_by_text("No connection to the server since")

    def waited() -> bool:
        context.clock.fast_forward(10_000)
        return banner.is_visible()

    until(waited)
    expect(page.get_by_text(re.compile(r"Next attempt in \d+ s\.|Connecting\."))).to_be_visible()
    page.unroute(f"**{STREAM}*")
    page.get_by_role("button", name="Try now").click()
    expect(banner).to_be_hidden(timeout=SECONDS)
    runs.act(execution, "cancel", reason="the test is over")
    expect(page.locator(".run-header")).to_contain_text("cancelled", timeout=SECONDS)


def test_the_timeline_has_steps_step_runs_and_tasks(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=timeline", "viewer")
    rows = page.get_by_role("grid", name="Timeline").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="reserve")).to_contain_text("1 retry")
    expect(page.get_by_text(re.compile(r"^worked .*, waited .* \(worker [^,]*\), critical path"))).to_be_visible()
    page.get_by_role("button", name="Expand reserve").click()
    expect(rows).to_have_count(5)
    expect(rows.nth(3)).to_contain_text("2 attempts")
    check_accessibility(page)
    rows.nth(2).click()
    expect(page).to_have_url(re.compile("run=reserve%231"))


def test_the_timeline_is_that_of_the_event_of_the_view(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=timeline&at=12", "viewer")
    rows = page.get_by_role("grid", name="Timeline").get_by_role("row")
    expect(rows.filter(has_text="price")).to_contain_text("scheduled")
    expect(rows.filter(has_text="report")).to_contain_text("has not run")
    expect(page.get_by_text(re.compile("^Whole run: worked"))).to_be_visible()
    summary = page.get_by_role("complementary", name="Inspector")
    expect(summary).to_contain_text(re.compile(r"Run at event 12.*Events12 of \d+"))
    page.keyboard.press("Escape")
    expect(rows.filter(has_text="report")).to_contain_text("succeeded")
    page.get_by_role("button", name="Expand reserve").click()
    page.keyboard.press("e")
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Collapse reserve")).to_be_visible()


def test_the_timeline_zooms_and_collapses_idle_time(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?tab=timeline", "viewer")
    bar = page.locator(".timeline-bar").first
    expect(bar).to_be_visible()
    box = bar.bounding_box()
    assert box
    page.mouse.move(box["x"] + 100, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 10, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    assert "run=" not in page.url
    page.mouse.dblclick(box["x"] + 100, box["y"] + 60)
    expect(page).not_to_have_url(re.compile("from="))
    waits = open_page(f"/runs/{runs['waiting']}?tab=timeline", "viewer")
    gaps = waits.get_by_role("button", name="Expand gaps")
    until(lambda: gaps.is_visible())
    waits.keyboard.press("G")
    expect(waits.get_by_role("button", name="Collapse gaps")).to_be_visible()
