"""Every action per role: whoever may not use it sees it disabled, with the reason."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener
from tests.browser.serving import USERS, PageServer

ROLES = list(USERS)  # each may do what those before it may
TITLE = {"viewer": "a viewer", "operator": "an operator", "author": "an author"}
ACTIONS = {
    "/runs/{waiting}": {"Respond...": "operator", "Pause": "operator", "Cancel...": "operator", "Fork...": "operator"},
    "/runs": {"Respond...": "operator"},
    "/runs/{paused}": {"Resume": "operator"},
    "/runs/{failed}": {"Retry...": "operator", "Fork from here...": "operator"},
    "/runs/{failed}/fork?at=12": {"Fork this run": "operator", "Edited": "author"},
    "/runs/{loop}?tab=items&run=resize%231": {"Retry failed items...": "operator"},
    "/start/shop/orders": {"Start run": "operator"},
    "/edit/shop/orders": {"Start...": "operator", "Register as 1": "author", "Replay runs...": "author"},
    "/schedules": {"Create a schedule...": "author"},
    "/schedules/by-role": {
        "Start a run now": "operator",
        "Pause": "operator",
        "Edit...": "author",
        "Delete...": "author",
    },
    "/workers": {"Drain...": "operator", "Stop...": "operator"},
    "/system": {"Verify all logs": "operator", "Delete old runs...": "admin"},
}
"""The least role of each action, by the path of a view that has it."""


@pytest.mark.parametrize("role", ROLES)
def test_actions_are_disabled_for_those_who_may_not_use_them(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer, role: str
) -> None:
    server.api.ask("PUT", "/schedules/by-role", {"path": "shop/orders", "cron": "0 3 * * *"})
    page = open_page("/", role)
    for path, actions in ACTIONS.items():
        page.goto(server.url + path.format_map(runs))
        for name, least in actions.items():
            action = page.locator("main").get_by_role("button", name=name, exact=True)
            action = action.or_(page.locator("main").get_by_role("link", name=name, exact=True)).first
            if ROLES.index(role) >= ROLES.index(least):
                expect(action, f"{name} on {path}").not_to_have_attribute("title", re.compile("Requires the"))
                expect(action, f"{name} on {path}").to_be_visible()
            else:
                reason = f"Requires the {least} role. You are {TITLE[role]}."
                expect(action, f"{name} on {path}").to_have_attribute("aria-disabled", "true")
                expect(action, f"{name} on {path}").to_have_attribute("title", reason)
    server.api.ask("DELETE", "/schedules/by-role")
