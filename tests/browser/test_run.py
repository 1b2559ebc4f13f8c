"""The view of a run: its header and actions, its graph, and Why."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener
from tests.browser.serving import PageServer

GATE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gated, path: shop/gated}
ctx: {open: false}
workflow:
  - step: arrive
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: enter}, {step: keeper}]}
  - step: keeper
    tool: [{key: {kind: wait, signal: key}}]
  - step: enter
    spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
"""


@pytest.fixture(scope="module")
def gated_run(server: PageServer, runs: ExampleRuns) -> str:
    """A token is held at the gate of `enter`."""
    return runs.until_waiting(server.api.start({"playbook": GATE}))


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
