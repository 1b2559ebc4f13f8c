"""Every action per role: whoever may not use it sees it disabled, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener
from tests.browser.serving import USERS, PageServer

from noetl.server.roles import ALLOWED, PREFIX

ROLES = list(USERS)  # each may do what those before it may
TITLE = {"viewer": "a viewer", "operator": "an operator", "author": "an author"}
RUN, SCHEDULE, HOOK = "/executions/{id}", "/schedules/{name}", "/hooks/{name}"
ACTIONS: dict[str, dict[str, str]] = {
    "/runs/{waiting}": {
        "Respond...": f"POST {RUN}/signals",
        "Pause": f"POST {RUN}/pause",
        "Cancel...": f"POST {RUN}/cancel",
        "Fork...": f"POST {RUN}/fork",
    },
    "/runs": {"Respond...": f"POST {RUN}/signals"},
    "/runs/{paused}": {"Resume": f"POST {RUN}/resume"},
    "/runs/{failed}": {"Retry...": f"POST {RUN}/retry", "Fork from here...": f"POST {RUN}/fork"},
    "/runs/{failed}/fork?at=12": {"Fork this run": f"POST {RUN}/fork", "Edited": f"POST {RUN}/replay"},
    "/runs/{loop}?tab=items&run=resize%231": {"Retry failed items...": f"POST {RUN}/retry"},
    "/playbooks": {"New playbook": "POST /playbooks", "Start...": "POST /executions"},
    "/playbooks/shop/orders": {"Start...": "POST /executions"},
    "/start/shop/orders": {"Start run": "POST /executions"},
    "/edit/shop/orders": {
        "Start...": "POST /executions",
        "Register": "POST /playbooks",
        "Replay runs...": f"POST {RUN}/replay",
    },
    "/schedules": {"Create a schedule...": "POST /schedules"},
    "/schedules/by-role": {
        "Start a run now": f"POST {SCHEDULE}/trigger",
        "Pause": f"POST {SCHEDULE}/pause",
        "Edit...": f"PUT {SCHEDULE}",
        "Delete...": f"DELETE {SCHEDULE}",
    },
    "/schedules/by-role-paused": {"Resume": f"POST {SCHEDULE}/resume"},
    "/hooks": {
        "Create a hook...": f"PUT {HOOK}",
        "Rotate secret...": f"POST {HOOK}/rotate",
        "Delete...": f"DELETE {HOOK}",
    },
    "/workers": {"Drain...": "POST /workers/drain", "Stop...": "POST /workers/stop"},
    "/credentials": {
        "Store a credential...": "PUT /credentials/{path}",
        "Replace...": "PUT /credentials/{path}",
        "Delete...": "DELETE /credentials/{path}",
    },
    "/access": {
        "Create a user...": "POST /users",
        "Change...": "PUT /users/{name}",
        "Delete...": "DELETE /users/{name}",
    },
    "/access?tab=tokens": {"Create a token...": "POST /tokens", "Revoke...": "DELETE /tokens/{name}"},
    "/access?tab=sessions": {"End session...": "DELETE /sessions/{name}"},
    "/system": {"Verify all logs": "GET /verify", "Delete old runs...": "POST /executions/prune"},
}
"""The route behind each action, by the path of a view that has it."""
SECTIONS = {
    "/hooks": "GET /hooks",
    "/credentials": "GET /credentials",
    "/access": "GET /users",
    "/access?tab=tokens": "GET /tokens",
}
"""Views that show nothing but the reason to those who may not use this route."""
WITHOUT_ACTION = {
    "DELETE /sessions",  # in the menu of the user
    "POST /playbooks/assist",
    "POST /playbooks/validate",
    "POST /server/stop",  # a command
}


def least_role(route: str) -> str:
    method, path = route.split()
    allowed = ALLOWED[method, PREFIX + path]
    assert allowed is not None
    return next(role for role in ROLES if role in allowed)


def test_every_route_that_changes_something_has_an_action() -> None:
    writes = {
        f"{method} {path.removeprefix(PREFIX)}"
        for (method, path), roles in ALLOWED.items()
        if method != "GET" and roles is not None and roles & set(ROLES)
    }
    routes = {route for actions in ACTIONS.values() for route in actions.values()}
    assert writes - WITHOUT_ACTION == routes - {"GET /verify"}


@pytest.fixture
def settings(server: PageServer, runs: ExampleRuns) -> Iterator[None]:
    """A schedule, one that is paused, a hook and a credential."""
    _ = runs["finished"]  # registers the playbooks
    schedules, others = ("/schedules/by-role", "/schedules/by-role-paused"), ("/hooks/by-role", "/credentials/by-role")
    for route in schedules:
        server.api.ask("PUT", route, {"path": "shop/orders", "cron": "0 3 * * *"})
    server.api.ask("POST", f"{schedules[1]}/pause", {})
    server.api.ask("PUT", others[0], {"path": "shop/orders"})
    server.api.ask("PUT", others[1], {"kind": "bearer", "data": {"token": "secret"}})
    yield
    for route in (*schedules, *others):
        server.api.ask("DELETE", route)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("role", ROLES)
def test_actions_are_disabled_for_those_who_may_not_use_them(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer, role: str
) -> None:
    server.new_session_cookie(role)  # a second session of the user, which can be ended
    page = open_page("/", role)
    for path, actions in ACTIONS.items():
        page.goto(server.url + path.format_map(runs))
        if path in SECTIONS and not is_allowed(role, SECTIONS[path]):
            expect(page.locator("main")).to_contain_text(reason(role, SECTIONS[path]))
            continue
        for name, route in actions.items():
            check_action(page, role, f"{name} on {path}", name, route)


def is_allowed(role: str, route: str) -> bool:
    return ROLES.index(role) >= ROLES.index(least_role(route))


def reason(role: str, route: str) -> str:
    return f"Requires the {least_role(route)} role. You are {TITLE[role]}."


def check_action(page: Page, role: str, message: str, name: str, route: str) -> None:
    main = page.locator("main")
    action = main.get_by_role("button", name=name, exact=True).or_(main.get_by_role("link", name=name, exact=True))
    if is_allowed(role, route):
        expect(action.first, message).to_be_visible()
        expect(action.first, message).not_to_have_attribute("title", re.compile("Requires the"))
    else:
        expect(action.first, message).to_have_attribute("aria-disabled", "true")
        expect(action.first, message).to_have_attribute("title", reason(role, route))
