"""The view of a run: its header and actions, its graph, and Why."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.modes.stage import Process, until
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener, check_accessibility
from tests.browser.recorded import DIFFERENT
from tests.browser.serving import PageServer, database_in
from tests.servers.echo import echo_server

GATE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gated, path: shop/gated}
workflow:
  - step: arrive
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: enter}, {step: keeper}]}
  - step: keeper
    tool: [{key: {kind: wait, signal: key}}]
  - step: enter
    spec:
      policy:
        admit:
          rules: [{when: "{{ ctx.open | default(false) }}", then: {allow: true}}, {else: {then: {allow: false}}}]
    tool: {kind: noop}
"""


@pytest.fixture(scope="module")
def gated_run(server: PageServer, runs: ExampleRuns) -> str:
    """A token is held at the gate of `enter`."""
    return runs.until_waiting(server.api.start({"playbook": GATE}))


REFUSED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: refused, path: shop/refused}
workflow: [{step: ask, tool: [{get: {kind: http, url: "URL"}}]}]
"""


def box(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name="Steps").get_by_role("button", name=name)


GRAPHS = {
    "finished": ["start, succeeded", "price, succeeded", "approve, has not run", "report, succeeded"],
    "failed": ["count, succeeded", "order, failed", "rest, has not run"],
    "loop": ["resize, succeeded, 40 of 40, 6 failed", "publish, succeeded"],
    "waiting": ["build, succeeded", "ask, waiting, waits for signal verdict", "ship, has not run"],
    "queued": ["train, scheduled, waits for worker in pool gpu"],
    "running": ["connect, succeeded", "fetch, running", "finish, has not run"],
}


@pytest.mark.parametrize("example", GRAPHS)
def test_the_graph_shows_the_status_of_every_step(open_page: PageOpener, runs: ExampleRuns, example: str) -> None:
    page = open_page(f"/runs/{runs[example]}", "viewer")
    for name in GRAPHS[example]:
        expect(box(page, name)).to_be_visible()


def test_the_graph_follows_the_event_of_the_view(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?at=9", "viewer")
    expect(box(page, "start, succeeded")).to_be_visible()
    expect(box(page, "price, has not run")).to_be_visible()
    page.keyboard.press("Escape")
    expect(box(page, "price, succeeded")).to_be_visible()


def test_a_held_token_is_shown_at_its_step(open_page: PageOpener, gated_run: str) -> None:
    page = open_page(f"/runs/{gated_run}")
    expect(box(page, "enter, held by admission")).to_contain_text("1 token held")
    expect(page.locator(".token-held")).to_have_text("1 held")


OTHER_GRAPH = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stock, path: shop/stock}
workflow:
  - step: count
    tool: [{sum: {kind: noop}}]
    next: {arcs: [{step: order}]}
  - {step: order, tool: {kind: noop}, next: {arcs: [{step: check}]}}
  - {step: check, tool: {kind: noop}}
"""


def test_the_graph_is_that_of_the_playbook_in_force(open_page: PageOpener, runs: ExampleRuns) -> None:
    source = runs["failed"]
    at = next(event["seq"] for event in runs.client.events(source) if event["event_type"] == "next.evaluated")
    fork = runs.act(source, "fork", at=at, playbook=OTHER_GRAPH)["execution_id"]
    runs.client.ended(fork)
    page = open_page(f"/runs/{fork}", "viewer")
    expect(box(page, "check, succeeded")).to_be_visible()
    expect(box(page, "rest")).to_have_count(0)
    page.keyboard.press("Home")
    expect(box(page, "rest, has not run")).to_be_visible()
    expect(box(page, "check")).to_have_count(0)


def test_boxes_are_found_selected_and_walked_by_key(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    expect(box(page, "start, succeeded")).to_be_visible()
    page.keyboard.press("s")
    page.get_by_role("combobox", name="Find a step").fill("pri")
    page.keyboard.press("Enter")
    expect(box(page, "price, succeeded")).to_be_focused()
    expect(box(page, "price, succeeded")).to_have_attribute("aria-pressed", "true")
    walk = [
        ("ArrowRight", "reserve"),
        ("ArrowLeft", "price"),
        ("ArrowRight", "reserve"),
        ("ArrowUp", "start"),
        ("ArrowDown", "price"),
        ("ArrowDown", "report"),
    ]
    for key, name in walk:
        page.keyboard.press(key)
        expect(box(page, f"{name}, succeeded")).to_be_focused()
    page.keyboard.press("Enter")
    expect(inspector(page).get_by_role("heading", name="report#1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(inspector(page).get_by_role("heading", name="Run")).to_be_visible()


def test_the_graph_shows_less_at_a_distance(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    task = page.locator(".box-tasks").first
    expect(task).to_be_visible()
    for _ in range(3):
        page.keyboard.press("-")
    expect(task).to_be_hidden()
    expect(page.locator(".box-name").first).to_be_visible()
    for _ in range(4):
        page.keyboard.press("-")
    expect(page.locator(".box-name").first).to_be_hidden()
    page.keyboard.press("f")
    expect(task).to_be_visible()


def inspector(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Inspector")


def reasons(page: Page, event: str) -> Locator:
    """The arcs or rules of the decision at an event, in order."""
    decision = inspector(page).locator(".decision").filter(has=page.get_by_role("button", name=event, exact=True))
    return decision.locator(".reason")


def middle_of(locator: Locator) -> tuple[float, float]:
    bounds = locator.bounding_box()
    assert bounds is not None
    return bounds["x"] + bounds["width"] / 2, bounds["y"] + bounds["height"] / 2


def test_the_wheel_zooms_the_graph_about_the_pointer(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    price, pane = box(page, "price, succeeded"), page.locator(".graph-pane")
    expect(price).to_contain_text("add python")
    at, first = middle_of(price), zoom(page)
    page.mouse.move(*at)

    def turn(pixels: int) -> float:
        before = zoom(page)
        page.mouse.wheel(0, pixels)
        until(lambda: zoom(page) != before)
        assert middle_of(price) == pytest.approx(at, abs=2), "the box has left the pointer"
        return zoom(page)

    assert turn(-50) > first
    assert turn(50) == pytest.approx(first, rel=0.01)
    while turn(60) >= 0.7:
        expect(price).to_contain_text("add python")
    expect(pane).to_have_class(re.compile("detail-names"))
    expect(price.locator(".box-name")).to_have_text("price")
    expect(price).not_to_contain_text("add python")
    while turn(60) >= 0.35:
        expect(price.locator(".box-name")).to_be_visible()
    expect(pane).to_have_class(re.compile("detail-shapes"))
    expect(price.locator(".box-name")).to_have_count(0)
    assert page.evaluate("[scrollX, scrollY, visualViewport.scale]") == [0, 0, 1]


def test_the_graph_cannot_be_zoomed_out_of_sight(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    price = box(page, "price, succeeded")
    page.get_by_role("button", name="Fit the window").click()
    page.mouse.move(*middle_of(price))
    all_of_it = zoom(page)
    for pixels, limit in ((600, all_of_it / 4), (-600, 2.5)):
        for _ in range(40):
            page.mouse.wheel(0, pixels)
        expect(page.locator(".graph-world")).to_have_css("transform", re.compile(rf"^matrix\({limit:.3g}"))
        expect(price).to_be_in_viewport()
    page.get_by_role("button", name="Fit the window").click()
    expect(price).to_contain_text("add python")


def test_why_explains_an_arc(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    page.locator(".arc-label", has_text="workload.order.lines").click()
    expect(inspector(page).get_by_role("heading", name="start to approve")).to_be_visible()
    expect(inspector(page)).to_contain_text("This arc has not fired.")
    expect(reasons(page, "9")).to_contain_text(["matched price", "matched reserve", "not matched approve"])
    last = reasons(page, "9").last
    expect(last).to_contain_text("{{ workload.order.lines | length > workload.limit }}")
    expect(last).to_contain_text("workload.limit = 500")
    line = last.get_by_role("link", name="line 18")
    expect(line).to_have_attribute("href", "/playbooks/shop/orders?version=1&line=18")


def attempts(runs: ExampleRuns) -> list[str]:
    """The events that end the two attempts of `reserve`; another step runs at the same time."""
    events = runs.client.events(runs["finished"])
    done = [event for event in events if event["event_type"] == "task.done" and event["task_label"] == "call"]
    return [str(event["seq"]) for event in done]


def test_why_explains_a_rule_and_goes_to_its_event(open_page: PageOpener, runs: ExampleRuns) -> None:
    first, second = attempts(runs)
    page = open_page(f"/runs/{runs['finished']}?step=reserve", "viewer")
    expect(inspector(page)).to_contain_text("reserve#1 succeeded.")
    expect(reasons(page, second)).to_contain_text(["not matched retry", "matched continue"])
    expect(reasons(page, first)).to_contain_text(["matched retry", "not reached continue"])
    inspector(page).get_by_role("button", name=first, exact=True).click()
    expect(page).to_have_url(f"{page.url.partition('?')[0]}?step=reserve&at={first}")
    expect(box(page, "reserve, running")).to_be_visible()
    expect(inspector(page).get_by_role("button", name=second, exact=True)).to_have_count(0)


def test_why_explains_a_gate(open_page: PageOpener, gated_run: str) -> None:
    page = open_page(f"/runs/{gated_run}?step=enter", "viewer")
    expect(inspector(page)).to_contain_text("is held until ctx changes or a signal arrives")
    gate = inspector(page).locator(".reason")
    expect(gate).to_contain_text(["not matched allow", "matched deny"])
    expect(gate.first).to_contain_text("ctx.open does not exist")
    expect(gate.get_by_role("link")).to_have_count(0)  # the playbook is not registered: there is no line to open


def test_why_explains_a_join_and_a_step_that_never_ran(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?step=report", "viewer")
    expect(inspector(page)).to_contain_text("no other token can still arrive")
    box(page, "approve").click()
    expect(inspector(page)).to_contain_text("It has not run: no token arrived")
    inspector(page).get_by_role("button", name="event 9").click()
    expect(page).to_have_url(f"{page.url.partition('?')[0]}?step=approve&at=9")


def test_why_says_that_a_decision_would_be_another_one_now(open_recorded: PageOpener) -> None:
    page = open_recorded(f"/runs/{DIFFERENT}?step=first", "viewer")
    expect(inspector(page)).to_contain_text("Evaluated again now, the result is different: continues with large.")
    expect(inspector(page)).to_contain_text("The log is authoritative.")


def test_a_run_without_a_worker_reports_it_and_for_how_long(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['queued']}?step=train", "viewer")
    missing = "no worker is connected in pool 'gpu', waiting for "
    expect(page.locator(".run-header")).to_contain_text(missing)
    expect(inspector(page)).to_contain_text("No worker is connected in pool 'gpu'")
    expect(inspector(page)).to_contain_text(re.compile(r"worked 0 ms, waited (?!0 ms)\d"))
    row = page.get_by_role("grid", name="Timeline").get_by_role("row")
    expect(row).to_contain_text("train")
    expect(page.get_by_role("button", name="Expand gaps")).to_have_count(0)
    page.goto(f"{open_page.server.url}/runs?status=running")
    expect(page.get_by_text(missing).first).to_be_visible()


WAITING_ITEMS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: shop/asks}
workflow:
  - step: ask
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool: {kind: wait, signal: "go{{ iter.n }}"}
"""


def test_a_loop_whose_items_wait_is_waiting_everywhere(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs.client.start({"playbook": WAITING_ITEMS})
    until(lambda: runs.client.show(execution)["status"] == "waiting")
    page = open_page(f"/runs/{execution}", "viewer")
    waits = inspector(page).locator(".waits > li")
    expect(waits).to_have_count(2)  # the item that has begun to wait first is the first one
    for item in (0, 1):
        text = re.compile(rf"^ask#1\[{item}\] waits for the signal 'go{item + 1}'")
        expect(waits.filter(has_text=text)).to_have_count(1)
    box(page, "ask, waiting").click()
    expect(inspector(page).locator(".inspector-heading")).to_contain_text("waiting")
    row = page.get_by_role("grid", name="Timeline").get_by_role("row")
    expect(row).to_contain_text(re.compile(r"waiting, .*0 of 2 items"))
    runs.act(execution, "cancel")


def test_why_has_times_in_the_zone_of_the_page(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['waiting']}?step=ask", "viewer")
    state = inspector(page).locator(".why-state")
    expect(state).to_contain_text(re.compile(r"waits for the signal 'verdict' until \d+ \w{3} (\d{4} )?\d\d:\d\d"))
    expect(state.locator("time")).to_have_attribute("datetime", re.compile("Z$"))


def test_the_inspector_has_the_parts_of_a_step_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?step=reserve&part=tasks", "viewer")
    part = inspector(page)
    expect(part.locator(".attempts > li")).to_contain_text([re.compile(r"retry after \d+ ms"), "continue"])
    expect(part).to_contain_text("ConnectionError: no answer from the warehouse")
    part.get_by_role("tab", name="Writes").click()
    expect(part).to_contain_text("ctx.reserved")
    part.get_by_role("button", name="show the value before").click()
    expect(part).to_contain_text("before = null")
    part.get_by_role("tab", name="Inputs").click()
    expect(part).to_contain_text(f"Rendered again from the state at event {attempts(runs)[1]}.")
    part.get_by_role("tab", name="Logs").click()
    expect(part).to_contain_text("warehouse is asleep")
    part.get_by_role("tab", name="Result").click()
    expect(part).to_contain_text("reserved")
    page.keyboard.press("Escape")
    expect(part.get_by_role("heading", name="Run")).to_be_visible()


def test_the_summary_says_which_inputs_are_defaults(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    inputs = inspector(page).locator("section").filter(has=page.get_by_role("heading", name="Inputs"))
    expect(inputs).to_contain_text("The run was started with the defaults of the playbook.")
    expect(inputs.get_by_role("treeitem", name=re.compile("^limit"))).to_contain_text("500")
    server.api.ended(given := server.api.start({"path": "shop/orders", "payload": {"limit": 7}}))
    page.goto(f"{server.url}/runs/{given}")
    expect(inputs).to_contain_text("Given: limit. The rest are defaults of the playbook.")
    expect(inputs.get_by_role("treeitem", name=re.compile("^limit"))).to_contain_text("7")
    expect(inputs.get_by_role("treeitem", name=re.compile("^express:"))).to_contain_text("false")
    page.goto(f"{server.url}/runs/{runs['loop']}")
    expect(inputs).to_contain_text("The run has no inputs.")
    expect(inputs.get_by_role("tree")).to_have_count(0)


def test_a_failed_run_begins_with_its_error(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['failed']}", "viewer")
    error = page.get_by_role("alert")
    expect(error).to_contain_text("KeyError: 'B7'")
    expect(error).to_contain_text("step order, task send, attempt 1")
    expect(error.locator(".code-line")).to_have_text("25return sum(prices[sku] for sku in skus)\n               ^")
    error.get_by_text("Traceback", exact=True).click()
    expect(error).to_contain_text("in <genexpr>")
    error.get_by_role("link", name="Why").click()
    expect(inspector(page)).to_contain_text("it has no policy, and an error fails")


def test_an_error_of_http_shows_the_start_of_the_response(open_page: PageOpener, server: PageServer) -> None:
    with echo_server() as echo:
        execution = server.api.start({"playbook": REFUSED.replace("URL", f"{echo.url}/text/{'long-' * 60}")})
        server.api.ended(execution)
    body = open_page(f"/runs/{execution}", "viewer").get_by_role("alert").locator(".response-body pre")
    expect(body).to_have_text(f"/text/{'long-' * 60}"[:200] + "...")


def test_a_run_of_a_local_process_reports_it(open_page: PageOpener, server: PageServer) -> None:
    folder = server.folder / "local"
    folder.mkdir()
    (folder / "gated.yaml").write_text(GATE.replace("shop/gated", "shop/local"))
    process = Process(folder, "run", "run", "gated.yaml", "--db", str(database_in(server.folder)))
    process.start()
    try:
        (run,) = until(lambda: server.api.ask("GET", "/executions?path=shop/local&status=waiting")["items"])
        page = open_page(f"/runs/{run['execution_id']}", "operator")
        expect(page.locator(".run-header")).to_contain_text("Runs in a local process")
        page.goto(f"{server.url}/runs?playbook=shop/local")
        expect(page.get_by_title("Runs in a local process")).to_be_visible()
    finally:
        process.stop()


ACTIONS = {
    "running": ["Pause", "Cancel...", "Fork..."],
    "waiting": ["Respond...", "Pause", "Cancel...", "Fork..."],
    "paused": ["Resume", "Cancel...", "Fork..."],
    "failed": ["Retry...", "Fork..."],
    "finished": ["Fork..."],
}


@pytest.mark.parametrize("example", ACTIONS)
def test_actions_suit_the_status(open_page: PageOpener, runs: ExampleRuns, example: str) -> None:
    page = open_page(f"/runs/{runs[example]}", "operator")
    buttons = page.locator(".run-actions-bar > .button:not([aria-haspopup])")
    expect(buttons).to_have_text(ACTIONS[example])
    expect(page.locator(".run-actions-bar [aria-disabled]")).to_have_count(0)


def test_actions_that_the_role_lacks_say_why(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['waiting']}", "viewer")
    buttons = page.locator(".run-actions-bar > .button:not([aria-haspopup])")
    expect(buttons).to_have_text(ACTIONS["waiting"])
    for button in buttons.all():
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("title", "Requires the operator role. You are a viewer.")
    page.keyboard.press(".")
    signal = page.get_by_role("menuitem", name="Send signal...")
    expect(signal).to_contain_text("Requires the operator role.")


def test_a_run_is_paused_resumed_and_cancelled(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs.until_waiting(runs.start('shop/release'))}", "operator")
    header = page.locator(".run-header")
    header.get_by_role("button", name="Pause").click()
    expect(header.locator(".run-title")).to_contain_text("paused")
    header.get_by_role("button", name="Resume").click()
    expect(header.get_by_role("button", name="Pause")).to_be_visible()
    header.get_by_role("button", name="Cancel...").click()
    dialog = page.get_by_role("dialog", name="Cancel this run")
    dialog.get_by_label("Reason").fill("too early")
    dialog.get_by_role("button", name="Cancel run").click()
    expect(header.locator(".run-title")).to_contain_text("cancelled")
    expect(inspector(page)).to_contain_text("too early")
    expect(box(page, "ask, cancelled")).to_be_visible()


def test_a_waiting_run_is_answered_from_its_header(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs.until_waiting(runs.start('shop/release'))}", "operator")
    page.locator(".run-header").get_by_role("button", name="Respond...").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("yes", exact=True).click()
    dialog.get_by_label("by").fill("otto")
    dialog.get_by_role("button", name="Send").click()
    expect(box(page, "ship, succeeded")).to_be_visible()
    expect(page.locator(".run-title")).to_contain_text("succeeded")
    page.keyboard.press("e")
    page.get_by_role("button", name="Signals and timers").click()
    received = page.get_by_role("grid", name="Events").get_by_role("row").filter(has_text="message.received")
    expect(received).to_contain_text("Signal 'verdict' received, sent by user otto")


WAITS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: shop/waits}
workflow:
  - step: begin
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: try}, {step: rest, spec: {delay: 30m}}]}
  - {step: ask, tool: [{verdict: {kind: wait, signal: verdict, spec: {timeout: 10m}}}]}
  - step: try
    tool:
      - call:
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: retry, attempts: 2, delay: 20m, max_delay: 1h}}}]}}
  - {step: rest, tool: {kind: noop}}
"""
LEFT = re.compile(r"in (\d+) min(?: (\d+) s)?")


def seconds_left(countdown: Locator) -> int:
    minutes, seconds = LEFT.findall(countdown.inner_text())[0]
    return int(minutes) * 60 + int(seconds or 0)


def expect_countdown(countdown: Locator, limit: int) -> None:
    expect(countdown).to_contain_text(LEFT)
    before = seconds_left(countdown)
    assert before <= limit
    until(lambda: seconds_left(countdown) < before)


def test_waits_count_down_until_they_are_due(open_page: PageOpener, runs: ExampleRuns, server: PageServer) -> None:
    execution = server.api.start({"playbook": WAITS})
    until(lambda: len(server.api.show(execution)["waits"]) == 3)
    page = open_page(f"/runs/{execution}", "operator")
    waits = (("signal 'verdict'", 10), ("next attempt", 20), ("delay of its arc", 30))
    for wait, minutes in waits:
        row = inspector(page).get_by_role("listitem").filter(has_text=wait)
        expect(row).to_contain_text(re.compile(r"for \d.*, due in"))
        expect_countdown(row.get_by_text("due in"), minutes * 60)
    page.get_by_role("button", name="Respond...").first.click()
    expect_countdown(page.get_by_role("dialog").get_by_text("times out in"), 600)
    page.keyboard.press("Escape")
    page.goto(f"{page.url}?at={server.api.show(execution)['events'] - 1}")
    expect(page.get_by_text("Viewing event")).to_be_visible()
    past = inspector(page).get_by_role("listitem").filter(has_text="signal 'verdict'")
    expect(past).to_contain_text(re.compile(r"since .*\d\d:\d\d.*, due .*\d\d:\d\d"))
    runs.act(execution, "cancel")
    runs.client.ended(execution)


def test_the_panes_follow_the_keys(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?step=price&part=result", "viewer")
    graph, panel = page.get_by_role("region", name="Graph"), page.get_by_role("tablist", name="Parts of the run")
    expect(graph).to_be_visible()
    expect(inspector(page).get_by_role("tab", name="Result")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("w")
    expect(inspector(page).get_by_role("tab", name="Why")).to_be_focused()
    page.keyboard.press("v")
    expect(panel).to_have_count(0)
    page.keyboard.press("l")
    expect(panel.get_by_role("tab", name="Logs")).to_have_attribute("aria-selected", "true")
    for _ in range(2):
        page.keyboard.press("v")
    expect(graph).to_have_count(0)
    page.keyboard.press("n")
    expect(box(page, "price, succeeded")).to_be_focused()
    page.keyboard.press(".")
    expect(page.get_by_role("menu", name="More actions")).to_be_visible()


def test_panes_are_resized_by_key_and_keep_their_size(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}", "viewer")
    for label, more, before, after in (
        ("Width of the inspector", "ArrowLeft", "420", "452"),
        ("Height of the panel", "ArrowUp", "260", "292"),
    ):
        splitter = page.get_by_role("separator", name=label)
        expect(splitter).to_have_attribute("aria-valuenow", before)
        splitter.press(more)
        splitter.press(more)
        expect(splitter).to_have_attribute("aria-valuenow", after)
    page.reload()
    expect(page.get_by_role("separator", name="Width of the inspector")).to_have_attribute("aria-valuenow", "452")
    pane = page.locator(".run-inspector").bounding_box()
    assert pane is not None
    assert pane["width"] == 452


def test_a_problem_of_one_pane_stays_there_with_its_request_id(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?step=nowhere", "viewer", expect=["status of 404"])
    problem = inspector(page).get_by_role("alert")
    expect(problem).to_contain_text("step 'nowhere' not found")
    expect(problem).to_contain_text(re.compile(r"request \w+"))
    expect(problem.get_by_role("button", name="Retry")).to_be_visible()
    expect(problem.get_by_role("button", name="Copy the request id")).to_be_visible()
    expect(box(page, "start, succeeded")).to_be_visible()
    page.keyboard.press("Escape")
    expect(inspector(page).get_by_role("heading", name="Run")).to_be_visible()


def test_on_a_phone_panes_are_tabs_and_a_step_opens_a_sheet(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['waiting']}", "viewer", "dark", 390)
    expect(inspector(page)).to_have_count(0)
    box(page, "ask, waiting").click()
    expect(inspector(page)).to_contain_text("ask#1 waits for the signal 'verdict'")
    expect(box(page, "ask, waiting")).to_be_in_viewport()
    check_accessibility(page)
    before = zoom(page)
    pinch(page, by=3)
    until(lambda: zoom(page) > before * 1.5)
    pinch(page, by=1 / 3)
    until(lambda: zoom(page) < before * 1.5)
    inspector(page).get_by_role("button", name="Clear the selection").click()
    page.get_by_role("tab", name="Summary").click()
    expect(inspector(page)).to_contain_text("Started by")
    expect(page.get_by_role("button", name="Respond...").last).to_be_in_viewport()


def test_on_a_phone_the_end_of_a_tall_sheet_is_in_sight(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?step=reserve&part=raw", "viewer", "light", 390)
    page.set_viewport_size({"width": 390, "height": 500})
    sheet = inspector(page)
    sheet.get_by_role("treeitem").first.wait_for()
    page.get_by_role("button", name="Expand the inspector").click()
    last = sheet.get_by_role("treeitem").last
    last.scroll_into_view_if_needed()
    bounds, bar = last.bounding_box(), page.locator(".run-actions-bar").bounding_box()
    assert bounds is not None
    assert bar is not None
    assert bounds["y"] + bounds["height"] <= bar["y"] + 1, "the actions of the run cover the end of the sheet"


LONG_NAMES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: names, path: shop/names/of/a_playbook_that_lies_in_a_folder_with_a_long_name}
workflow:
  - {step: approve_by_treasury, tool: {kind: noop}, next: {arcs: [{step: send_to_bank}]}}
  - {step: send_to_bank, tool: [{call: {kind: python, code: "raise ValueError('the bank does not answer ' * 8)"}}]}
"""


@pytest.fixture(scope="module")
def long_names(runs: ExampleRuns) -> str:
    """A run with long names that has failed."""
    execution: str = runs.client.start({"playbook": LONG_NAMES})
    runs.client.ended(execution)
    return execution


def test_boxes_are_as_wide_as_the_names_of_their_steps(open_page: PageOpener, long_names: str) -> None:
    names = ".box-name > .cut"
    for path in (f"/runs/{long_names}", f"/runs/{long_names}/fork"):
        page = open_page(path, "operator")
        expect(page.locator(names)).to_have_text(["approve_by_treasury", "send_to_bank"])
        widths = page.locator(names).evaluate_all("(all) => all.map((name) => [name.scrollWidth, name.clientWidth])")
        assert [needed for needed, width in widths if needed > width] == []


def test_on_a_phone_a_step_is_explained_below_a_long_error(open_page: PageOpener, long_names: str) -> None:
    page = open_page(f"/runs/{long_names}", "viewer", "dark", 390)
    error = page.get_by_role("alert", name="Error")
    assert error.evaluate("(error) => error.scrollWidth <= error.clientWidth"), "the link to the line is cut"
    box(page, "send_to_bank, failed").click()
    expect(inspector(page).get_by_role("heading", name="send_to_bank#1")).to_be_in_viewport()
    expect(inspector(page).get_by_text("send_to_bank#1 failed.")).to_be_in_viewport()
    page.reload()
    expect(inspector(page).get_by_text("send_to_bank#1 failed.")).to_be_in_viewport()


def test_on_a_phone_the_totals_of_the_timeline_are_in_sight(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['loop']}?tab=timeline", "viewer", "light", 390)
    expect(page.locator(".timeline-footer")).to_be_in_viewport(ratio=1)


WAIT_AND_RUN = """() => {
  const [wait, run] = [".run-activity", ".run-facts .nowrap"].map((part) => document.querySelector(part)?.textContent);
  return wait && [wait, run];
}"""


def test_a_wait_is_not_older_than_its_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['queued']}", "viewer")
    wait, run = page.wait_for_function(WAIT_AND_RUN).json_value()
    assert wait == f"no worker is connected in pool 'gpu', waiting for {run}"


def test_what_is_typed_into_a_dialog_at_once_is_in_its_first_field(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['waiting']}", "operator")
    page.get_by_role("button", name="Cancel...").click()
    reason = page.get_by_label("Reason")
    expect(reason).to_be_focused()
    page.keyboard.type("not on Friday")
    expect(reason).to_have_value("not on Friday")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Respond...").first.click()
    expect(page.get_by_label("yes")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Send signal...").click()
    expect(page.get_by_label("Name")).to_be_focused()


def test_the_focus_stays_on_the_button_that_pauses_and_resumes(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs.until_waiting(runs.start('shop/release'))}", "operator")
    page.get_by_role("button", name="Pause").press("Enter")
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Pause")).to_be_focused()


def test_a_value_has_the_room_of_buttons_that_are_not_shown(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['parent']}", "viewer")
    shops = inspector(page).get_by_role("treeitem").filter(has_text="berlin")
    assert (bounds := shops.bounding_box()) is not None
    assert bounds["height"] <= 24
    shops.hover()
    expect(shops.get_by_role("button", name="Copy the value")).to_be_visible()
    assert shops.bounding_box() == bounds


def test_on_a_phone_every_action_is_in_reach(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['waiting']}", "operator", "light", 390)
    bar = page.locator(".run-actions-bar")
    expect(bar.get_by_role("button", name="Fork...")).to_be_in_viewport(ratio=1)
    assert bar.evaluate("(bar) => bar.scrollWidth <= bar.clientWidth")
    bar.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Copy the run id").click()
    expect(page.get_by_text("Copied the run id.").first).to_be_visible()


def test_on_a_phone_a_list_stays_visible_over_its_selection(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['loop']}?tab=items&run=resize%231&item=3", "viewer", "dark", 390)
    expect(page.get_by_role("tab", name="Items")).to_be_in_viewport(ratio=1)
    row = page.get_by_role("grid", name="Items").get_by_role("row").filter(has_text="MemoryError")
    expect(row).to_be_in_viewport()
    expect(inspector(page).get_by_role("heading", name="resize#1, item 3")).to_be_in_viewport()
    expect(inspector(page).get_by_role("tab", name="Why")).to_be_hidden()
    row.click(trial=True)
    page.get_by_role("button", name="Expand the inspector").click()
    expect(inspector(page)).to_contain_text("resize#1, item 3 failed.")
    check_accessibility(page)


def test_a_run_scrolls_in_a_window_that_is_zoomed_in(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['failed']}?tab=events", width=720)
    page.set_viewport_size({"width": 720, "height": 450})  # as 1440 by 900 at 200 %
    events = page.get_by_role("grid", name="Events")
    events.press("End")
    row = events.get_by_role("row", name=re.compile("^20 "))
    row.click(trial=True)  # scrolls to it, and fails if something covers it
    expect(row).to_be_in_viewport()
    expect(page.get_by_role("button", name="Retry...").last).to_be_in_viewport()
    bar = page.get_by_role("navigation").last.bounding_box()
    actions = page.locator(".run-actions-bar").bounding_box()
    assert bar is not None
    assert actions is not None
    assert actions["y"] + actions["height"] <= bar["y"], "the sections cover the actions"


def zoom(page: Page) -> float:
    world = "document.querySelector('.graph-world')"
    return float(page.evaluate(f"new DOMMatrix(getComputedStyle({world}).transform).a"))


def pinch(page: Page, by: float) -> None:
    """Two fingers on the graph move apart, or together."""
    area = page.get_by_role("region", name="Graph").bounding_box()
    assert area is not None
    x, y, wide = area["x"] + area["width"] / 2, area["y"] + 60, 40.0
    devtools = page.context.new_cdp_session(page)

    def fingers(distance: float) -> list[dict[str, float]]:
        return [{"x": x - distance / 2, "y": y, "id": 0}, {"x": x + distance / 2, "y": y, "id": 1}]

    begin, end = (wide, wide * by) if by > 1 else (wide / by, wide)
    devtools.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": fingers(begin)})
    for part in range(1, 6):
        points = fingers(begin + (end - begin) * part / 5)
        devtools.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": points})
    devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    devtools.detach()


CHAIN = 300


@pytest.fixture(scope="module")
def long_run(server: PageServer, runs: ExampleRuns) -> str:
    """A chain of many steps."""
    steps = [f"  - {{step: s{n}, next: {{arcs: [{{step: s{n + 1}}}]}}}}" for n in range(CHAIN - 1)]
    text = "\n".join(
        [
            "apiVersion: noetl.io/v2",
            "kind: Playbook",
            "metadata: {name: chain, path: shop/chain}",
            "workflow:",
            *steps,
            f"  - {{step: s{CHAIN - 1}, tool: {{kind: noop}}}}",
        ]
    )
    execution = server.api.start({"playbook": text})
    server.api.ended(execution)
    return execution


def test_only_the_near_part_of_a_large_graph_is_rendered(open_page: PageOpener, long_run: str) -> None:
    page = open_page(f"/runs/{long_run}", "viewer")
    boxes = page.locator(".box")
    expect(box(page, "s0, succeeded")).to_be_visible()
    assert boxes.count() < 40
    page.keyboard.press("s")
    page.get_by_role("combobox", name="Find a step").fill("s250")
    page.keyboard.press("Enter")
    expect(box(page, "s250, succeeded")).to_be_focused()
    expect(box(page, "s250, succeeded")).to_be_in_viewport()
    assert boxes.count() < 40
    minimap = page.locator(".minimap").bounding_box()
    assert minimap is not None
    page.mouse.click(minimap["x"] + minimap["width"] / 2, minimap["y"] + 1)
    expect(box(page, "s0, succeeded")).to_be_in_viewport()
    assert boxes.count() < 40
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("option", name="System section")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    expect(boxes).to_have_count(CHAIN)
    expect(page.locator(".minimap")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") <= 3_000
