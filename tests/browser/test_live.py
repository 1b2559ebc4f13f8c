"""Watching a run: nothing is lost or repeated when the server is killed, and a hidden tab catches up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.acceptance.modes.stage import OVER, until
from tests.browser.examples import PLAYBOOKS, ExampleRuns
from tests.browser.opening import PageOpener, set_visible
from tests.browser.serving import PageServer, page_server

Motion = Literal["reduce", "no-preference"]
SECONDS = 60_000
FRAMES = """
window.frames_read = [];
const send = window.fetch;
window.fetch = async (...request) => {
  const response = await send(...request);
  if (!response.url.includes('/live') || !response.body) return response;
  const [theirs, ours] = response.body.tee();
  void (async () => {
    let text = '';
    for await (const part of ours.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + part).split('\\n\\n');
      text = blocks.pop();
      for (const line of blocks.flatMap((block) => block.split('\\n')))
        if (line.startsWith('data: {')) window.frames_read.push(JSON.parse(line.slice(6)));
    }
  })().catch(() => null);
  return new Response(theirs, response);
};
"""
"""Keeps a copy of every frame that the page reads."""
DOTS = """
window.dots = 0;
new MutationObserver((changes) => {
  for (const { target, addedNodes } of changes)
    if (target instanceof Element && target.className === 'firing-dots') window.dots += addedNodes.length;
}).observe(document, {subtree: true, childList: true});
"""
"""Counts the dots that move along arcs."""


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with page_server(tmp_path_factory.mktemp("killed")) as server:
        server.api.register((PLAYBOOKS / "ticks.yaml").read_text("utf-8"))
        yield server


@pytest.fixture
def open_own(browser: Browser, own_server: PageServer) -> Iterator[PageOpener]:
    opener = PageOpener(browser, own_server)
    try:
        yield opener
    finally:
        opener.close()
    opener.check()


def watch(context: BrowserContext, server: PageServer, execution: str, motion: Motion = "reduce") -> Page:
    context.add_init_script(FRAMES + DOTS)
    page = context.new_page()
    page.emulate_media(reduced_motion=motion)
    page.goto(f"{server.url}/runs/{execution}")
    expect(page.locator(".run-header")).to_contain_text("waiting", timeout=SECONDS)
    return page


def tick(server: PageServer, execution: str, count: int, stop: bool = False) -> int:
    """Send signals and wait until they are used; the last event."""
    for number in range(count):
        payload = {"stop": stop and number + 1 == count}
        server.api.ask("POST", f"/executions/{execution}/signals", {"name": "tick", "payload": payload})
    until(lambda: (run := server.api.show(execution))["status"] in OVER or run["waits"])
    return int(server.api.events(execution)[-1]["seq"])


def frame_seqs(page: Page) -> list[int]:
    """The events that the frames announced, one by one."""
    frames = [
        frame for frame in page.evaluate("window.frames_read") if "seq" in frame
    ]  # the last one has only a status
    return [seq for frame in frames for seq in range(frame["seq"] - frame["new_events"] + 1, frame["seq"] + 1)]


def test_no_event_is_lost_or_repeated_when_the_server_is_killed(open_own: PageOpener, own_server: PageServer) -> None:
    execution = own_server.api.start({"path": "shop/ticks"})
    tick(own_server, execution, 1)
    page = watch(open_own.context("viewer"), own_server, execution, "no-preference")
    cut = ("CONNECTION_REFUSED", "CONNECTION_RESET", "EMPTY", "INCOMPLETE_CHUNKED", "CONTENT_LENGTH_MISMATCH")
    open_own.expected += [f"ERR_{error}" for error in cut]
    tick(own_server, execution, 10)
    until(lambda: page.evaluate("window.dots > 0"))  # the page forbids `wait_for_function` to evaluate text in it
    lost = page.get_by_text("Reconnecting").or_(page.get_by_text("The server is not responding")).first
    own_server.kill()
    expect(lost).to_be_visible(timeout=SECONDS)
    expect(page.get_by_text(re.compile(r"as of \d\d:\d\d:\d\d"))).to_be_visible()  # the clocks have stopped
    own_server.start()
    last = tick(own_server, execution, 10, stop=True)
    expect(page.locator(".run-header")).to_contain_text("succeeded", timeout=SECONDS)
    expect(lost).to_be_hidden()
    seqs = frame_seqs(page)
    assert seqs == list(range(seqs[0], last + 1))


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_without_a_connection_says_so_beside_its_search_and_its_user(
    open_page: PageOpener, runs: ExampleRuns, width: int
) -> None:
    page = open_page(f"/runs/{runs['running']}", width=width, expect=["ERR_INTERNET_DISCONNECTED"])
    expect(page.locator(".connection")).to_have_accessible_name("Connected")
    page.context.set_offline(True)
    lost = page.get_by_role("status").filter(has_text="The server is not responding")
    expect(lost).to_be_visible(timeout=SECONDS)
    bar = [lost, page.get_by_role("button", name="Search"), page.get_by_role("button", name="ada")]
    boxes = [bounds for part in bar if (bounds := part.bounding_box())]
    boxes.sort(key=lambda bounds: bounds["x"])
    ends = [bounds["x"] + bounds["width"] for bounds in boxes]
    assert all(end <= after["x"] for end, after in zip(ends, boxes[1:], strict=False)), boxes
    assert len(ends) == 3
    assert ends[-1] <= width
    assert all(bounds["y"] >= 0 and bounds["y"] + bounds["height"] <= 44 for bounds in boxes), boxes


def test_a_cancel_in_one_tab_reaches_the_others(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    execution = runs.until_waiting(runs.start("shop/release"))
    context = open_page.context("operator")
    context.clock.install()
    acting, beside, hidden = (watch(context, open_page.server, execution) for _ in range(3))
    with hidden.expect_event("requestfailed", lambda request: "/live" in request.url):
        set_visible(hidden, False)
        context.clock.fast_forward(31_000)
    beside.locator(".run-header").get_by_role("button", name="Respond...").click()
    beside.get_by_role("dialog").get_by_label("by").fill("otto")
    acting.locator(".run-header").get_by_role("button", name="Cancel...").click()
    acting.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    for page in (acting, beside):
        expect(page.locator(".run-title")).to_contain_text("cancelled")
    expect(beside.get_by_role("dialog").get_by_role("alert")).to_contain_text("no longer waits")
    expect(hidden.locator(".run-title")).to_contain_text("waiting")
    set_visible(hidden, True)
    expect(hidden.locator(".run-title")).to_contain_text("cancelled by user otto")
    buttons = hidden.locator(".run-actions-bar > .button:not([aria-haspopup])")
    expect(buttons).to_have_text(["Retry...", "Fork..."])


def test_a_hidden_tab_closes_its_stream_and_catches_up(open_own: PageOpener, own_server: PageServer) -> None:
    execution = own_server.api.start({"path": "shop/ticks"})
    tick(own_server, execution, 1)
    context = open_own.context("viewer")
    context.clock.install()
    shown, hidden = watch(context, own_server, execution), watch(context, own_server, execution)
    with hidden.expect_event("requestfailed", lambda request: "/live" in request.url):
        set_visible(hidden, False)
        context.clock.fast_forward(31_000)
    last = tick(own_server, execution, 10)
    expect(shown.get_by_role("slider", name="event")).to_have_attribute("max", str(last), timeout=SECONDS)
    assert hidden.get_by_role("slider", name="event").get_attribute("max") != str(last)
    set_visible(hidden, True)
    expect(hidden.get_by_role("slider", name="event")).to_have_attribute("max", str(last), timeout=SECONDS)
    for page in (shown, hidden):
        assert page.evaluate("window.dots") == 0, "dots move although the user wants no motion"
        seqs = frame_seqs(page)
        assert seqs == list(range(seqs[0], last + 1))
