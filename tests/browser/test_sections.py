"""Schedules, hooks, workers, credentials, access and system: every action says what it will do and what it did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.acceptance.modes.stage import Process
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener, check_accessibility
from tests.browser.serving import USERS, PageServer, password_of


def test_a_schedule_is_created_paused_fired_and_deleted(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    _ = runs["finished"]
    page = open_page("/schedules", role="author")
    page.get_by_role("button", name="Create a schedule...").click()
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("Playbook").fill("shop/orders")
    page.get_by_label("Cron expression").fill("@daily")
    expect(page.get_by_text("Fires at 00:00 (UTC)")).to_be_visible()
    page.get_by_label("Cron expression").fill("30 2 * * mon-fri")
    expect(page.get_by_text("Fires at 02:30 on Monday to Friday")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(5)
    page.get_by_role("button", name="Save schedule").click()
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Create a schedule...")).to_be_visible()
    page.go_forward()
    assert server.api.ask("GET", "/schedules/nightly")["cron"] == "30 2 * * mon-fri"
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Start a run now").click()
    expect(page.get_by_role("table", name="Last firings").get_by_role("link")).to_have_count(1)
    page.get_by_role("button", name="Delete...").click()
    page.get_by_role("button", name="Delete schedule").click()
    expect(page.get_by_text("No schedules yet.")).to_be_visible()


NIGHTLY = {"path": "shop/orders", "version": 1, "cron": "0 3 * * *", "timezone": "Europe/Berlin", "ctx": {"site": "b"}}


def test_a_schedule_is_changed_and_keeps_what_the_form_does_not_show(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    _ = runs["finished"]
    server.api.ask("PUT", "/schedules/changed", NIGHTLY)
    page = open_page("/schedules/changed", role="author")
    page.get_by_role("button", name="Start a run now").click()
    facts = page.locator(".facts")
    expect(facts).to_contain_text(re.compile(r"Next.*03:00(:00)? Europe/Berlin.*Last.*Europe/Berlin: started"))
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Edit...").click()
    page.get_by_label("Cron expression").fill("0 4 * * *")
    check_accessibility(page)
    page.get_by_role("button", name="Save schedule").click()
    expect(facts).to_contain_text("at 04:00")
    check_accessibility(page)
    stored = server.api.ask("GET", "/schedules/changed")
    assert {key: stored[key] for key in NIGHTLY} == NIGHTLY | {"cron": "0 4 * * *"}
    assert stored["status"] == "paused"
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    server.api.ask("DELETE", "/schedules/changed")


def test_large_numbers_in_the_inputs_of_a_schedule_keep_their_digits(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    _ = runs["finished"]
    server.api.ask("PUT", "/schedules/exact", NIGHTLY | {"payload": {"limit": 2**53 + 1}, "ctx": {"site": 2**60 + 1}})
    page = open_page("/schedules/exact", role="author")
    page.get_by_role("button", name="Edit...").click()
    inputs = page.get_by_role("textbox", name="Inputs")
    expect(inputs).to_have_value(f'{{\n  "limit": {2**53 + 1}\n}}')
    inputs.fill("[1]")
    expect(page.get_by_text("Enter a map")).to_be_visible()
    inputs.fill(f'{{"limit": {2**53 + 3}}}')
    page.get_by_role("button", name="Save schedule").click()
    expect(page.get_by_text("exact is stored.").first).to_be_visible()
    stored = server.api.ask("GET", "/schedules/exact")
    assert (stored["payload"], stored["ctx"]) == ({"limit": 2**53 + 3}, {"site": 2**60 + 1})
    server.api.ask("DELETE", "/schedules/exact")


def test_nothing_that_exists_is_overwritten_by_a_new_one(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    _ = runs["finished"]
    server.api.ask("PUT", "/schedules/taken", NIGHTLY)
    server.api.ask("PUT", "/hooks/taken", {"path": "shop/orders"})
    server.api.ask("PUT", "/credentials/taken", {"kind": "bearer", "data": {"token": "the old secret"}})
    page = open_page("/schedules", expect=["status of 409"])
    page.get_by_role("button", name="Create a schedule...").click()
    page.get_by_label("Name").fill("taken")
    page.get_by_label("Playbook").fill("shop/stock")
    page.get_by_label("Cron expression").fill("@daily")
    page.get_by_role("button", name="Save schedule").click()
    expect(page.get_by_role("alert")).to_contain_text("schedule 'taken' exists")
    assert server.api.ask("GET", "/schedules/taken")["path"] == "shop/orders"
    for path, button, title in (
        ("/hooks", "Create a hook...", "Hook taken exists."),
        ("/credentials", "Store a credential...", "Credential taken exists: replace it."),
    ):
        page.goto(server.url + path)
        page.get_by_role("button", name=button).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("taken")
        expect(dialog.locator("[type=submit]")).to_have_attribute("title", title)
    hook = page.get_by_role("row").filter(has_text="hook/taken")
    page.keyboard.press("Escape")
    expect(hook).to_contain_text("none, only its hook")
    for path in ("/schedules/taken", "/hooks/taken", "/credentials/taken"):
        server.api.ask("DELETE", path)


def test_a_secret_of_a_hook_is_shown_once(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    page = open_page("/hooks", role="author")
    page.get_by_role("button", name="Create a hook...").click()
    page.get_by_label("Name").fill("shop-hook")
    page.get_by_label("Playbook").fill("shop/orders")
    page.get_by_role("button", name="Create hook").click()
    dialog = page.get_by_role("dialog", name="Secret of shop-hook")
    secret = dialog.locator("code").first.inner_text()
    assert len(secret) >= 20
    dialog.get_by_role("button", name="I have stored it").click()
    expect(page.get_by_role("table", name="Hooks")).to_contain_text("shop-hook")
    assert secret not in page.content()
    page.get_by_role("button", name="Rotate secret...").click()
    expect(page.get_by_role("dialog")).to_contain_text("rejects requests that are signed with the old secret")
    page.get_by_role("button", name="Rotate secret", exact=True).click()
    rotated = dialog.locator("code").first.inner_text()
    assert len(rotated) >= 20
    assert rotated != secret
    dialog.get_by_role("button", name="I have stored it").click()
    page.get_by_role("button", name="Delete...").click()
    page.get_by_role("button", name="Delete hook").click()
    expect(page.get_by_text("No hooks yet.")).to_be_visible()


def test_a_session_is_ended_after_a_warning(open_page: PageOpener, server: PageServer) -> None:
    login = {"user": USERS["operator"], "password": password_of("operator")}
    server.api.http.post(f"{server.url}/api/v1/sessions", json=login, headers={"User-Agent": "tablet"})
    page = open_page("/access?tab=sessions")
    row = page.get_by_role("table", name="Sessions").get_by_role("row").filter(has_text="tablet")
    row.get_by_role("button", name="End session...").click()
    expect(page.get_by_role("dialog")).to_contain_text("otto has to sign in again in tablet.")
    page.get_by_role("button", name="End session", exact=True).click()
    expect(page.get_by_text("The session has ended.").first).to_be_visible()
    expect(row).to_have_count(0)


def test_workers_show_pools_with_an_alert(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["queued"]
    page = open_page("/workers", role="viewer")
    expect(page.get_by_role("row", name=re.compile("gpu"))).to_contain_text("no worker connected")
    check_accessibility(page)
    expect(page.get_by_role("button", name="Drain...").first).to_have_attribute(
        "title", "Requires the operator role. You are a viewer."
    )


EXPECT_SECONDS = 30  # on a busy machine


def test_a_run_without_a_worker_says_so_in_its_activity_and_why(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['queued']}", role="viewer")
    expect(page.locator(".run-header")).to_contain_text("no worker is connected in pool 'gpu'")
    page.locator("[data-step=train]").click()
    expect(page.locator(".run-inspector")).to_contain_text("No worker is connected in pool 'gpu'")


SPARE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: spare, path: shop/spare}
executor: {spec: {pool: spare}}
workflow:
  - {step: work, tool: {kind: noop, result: done}}
"""


def test_a_worker_is_drained_and_its_pool_gets_an_alert(
    open_page: PageOpener, server: PageServer, tmp_path: Path
) -> None:
    token = server.api.ask("POST", "/tokens", {"role": "worker", "name": "spare"})["token"]
    options = ("--server", server.url, "--pool", "spare", "--name", "helper")
    worker = Process(tmp_path, "worker", "worker", *options, NOETL_TOKEN=token).start()
    try:
        page = open_page("/workers", role="operator")
        row = page.get_by_role("table", name="Workers").get_by_role("row", name=re.compile("helper"))
        pool = page.get_by_role("table", name="Pools").get_by_role("row", name=re.compile("spare"))
        expect(row).to_contain_text("active")
        row.get_by_role("button", name="Drain...").click()
        dialog = page.get_by_role("dialog", name="Drain worker")
        expect(dialog).to_contain_text(re.compile("helper@.+ has no leases and takes no new work."))
        dialog.get_by_role("button", name="Drain worker").click()
        expect(page.get_by_text(re.compile("helper@.+ is draining.")).first).to_be_visible()
        expect(dialog).to_have_count(0)
        expect(row).to_contain_text("draining")
        expect(row.get_by_role("button", name="Drain...")).to_have_attribute("title", "The worker is draining.")
        expect(pool).to_contain_text("1 draining")
        worker.until_said("draining: ")
        execution = server.api.start({"playbook": SPARE})
        expect(pool).to_contain_text("no active worker, 1 draining")
        assert server.api.show(execution)["waits"][0]["for"] == "worker"
        server.api.ask("POST", f"/executions/{execution}/cancel", {})
    finally:
        worker.stop()


@pytest.mark.parametrize("width", [1440, 390])
def test_pools_with_an_alert_come_first(open_page: PageOpener, runs: ExampleRuns, width: int) -> None:
    _ = runs["queued"]
    page = open_page("/workers", role="viewer", width=width)
    pools = page.get_by_role("table", name="Pools").locator("tbody tr")
    expect(pools.first).to_have_text(re.compile("^gpu.*no worker connected"))
    expect(pools.filter(has_text="default")).to_have_count(1)


def test_a_worker_is_stopped_after_a_warning(open_page: PageOpener, server: PageServer, tmp_path: Path) -> None:
    token = server.api.ask("POST", "/tokens", {"role": "worker", "name": "leaving"})["token"]
    options = ("--server", server.url, "--pool", "leaving", "--name", "leaver")
    worker = Process(tmp_path, "worker", "worker", *options, NOETL_TOKEN=token).start()
    try:
        page = open_page("/workers?q=leaver", role="operator")
        row = page.get_by_role("table", name="Workers").get_by_role("row", name=re.compile("leaver"))
        expect(page.get_by_text("No pools match this filter.")).to_be_visible()
        row.get_by_role("button", name="Stop...").click()
        dialog = page.get_by_role("dialog", name="Stop worker")
        expect(dialog).to_contain_text(re.compile("leaver@.+ has no leases and then ends."))
        dialog.get_by_role("button", name="Stop worker").click()
        expect(page.get_by_text(re.compile("leaver@.+ is stopping.")).first).to_be_visible()
        expect(row).to_contain_text("stopping")
        expect(row.get_by_role("button", name="Drain...")).to_have_attribute("title", "The worker is stopping.")
        assert worker.process is not None
        assert worker.process.wait(EXPECT_SECONDS) == 0
    finally:
        worker.kill()


def test_a_credential_is_written_and_never_read(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/credentials")
    page.get_by_role("button", name="Store a credential...").click()
    page.get_by_label("Name").fill("shop_api")
    page.get_by_label("token", exact=True).fill("a-secret-token-of-the-shop")
    page.get_by_role("button", name="Store credential").click()
    expect(page.get_by_role("table", name="Credentials")).to_contain_text("shop_api")
    assert "a-secret-token-of-the-shop" not in page.content()
    page.get_by_role("button", name="Replace...").click()
    store = page.get_by_role("button", name="Store credential")
    expect(store).to_have_attribute("title", "Required: token.")
    page.get_by_label("token", exact=True).fill("another-token-of-the-shop")
    page.get_by_label("Playbooks that may use the credential").fill("shop/*, written/*")
    page.get_by_label("Pools that may use the credential").fill("gpu")
    store.click()
    expect(page.get_by_role("table", name="Credentials")).to_contain_text("shop/*, written/*gpu")
    page.get_by_role("button", name="Delete...").click()
    page.get_by_role("button", name="Delete credential").click()
    expect(page.get_by_text("No credentials yet.")).to_be_visible()


def test_a_user_is_created_and_deleted(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/access", expect=["status of 422"])
    page.get_by_role("button", name="Create a user...").click()
    page.get_by_label("Name").fill("eve")
    page.get_by_label("Password").fill("short")
    page.get_by_role("button", name="Create user").click()
    expect(page.get_by_role("alert")).to_contain_text("12 to 1,000 characters")
    page.get_by_label("Password").fill("long enough for everybody")
    page.get_by_label("Role").select_option("operator")
    page.get_by_role("button", name="Create user").click()
    eve = page.get_by_role("row", name=re.compile("eve"))
    expect(eve).to_contain_text("operator")
    eve.get_by_role("button", name="Change...").click()
    page.get_by_label("Role").select_option("author")
    page.get_by_role("button", name="Change user").click()
    expect(eve).to_contain_text("author")
    eve.get_by_role("button", name="Delete...").click()
    page.get_by_role("button", name="Delete user").click()
    expect(eve).to_have_count(0)


def test_a_token_is_shown_once_with_its_command(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/access?tab=tokens")
    page.get_by_role("button", name="Create a token...").click()
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog", name="Token ci")
    expect(dialog).to_contain_text("export NOETL_SERVER=")
    check_accessibility(page)
    dialog.get_by_role("button", name="I have stored it").click()
    row = page.get_by_role("row", name=re.compile("ci "))
    row.get_by_role("button", name="Revoke...").click()
    page.get_by_role("button", name="Revoke token").click()
    expect(row).to_contain_text("revoked")


def test_the_system_checks_its_logs_and_says_what_pruning_would_do(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    _ = runs["finished"]
    page = open_page("/system")
    expect(page.get_by_role("table", name="Dependencies")).to_contain_text("ok")
    page.get_by_role("button", name="Verify all logs").click()
    expect(page.get_by_text(re.compile(r"[\d,]+ runs? verified, 0 violations"))).to_be_visible()
    page.get_by_role("button", name="Delete old runs...").click()
    expect(page.get_by_role("dialog")).to_contain_text("Deletes 0 runs with their events, logs and results.")
    page.get_by_role("button", name="Delete runs").click()
    expect(page.get_by_text("The old runs are deleted.").first).to_be_visible()
    for name in ("API description", "Metrics", "Readiness"):
        path = page.get_by_role("link", name=name).get_attribute("href")
        assert page.request.get(f"{server.url}{path}").ok


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/hooks", "Requires the operator role. You are a viewer."),
        ("/credentials", "Requires the operator role. You are a viewer."),
        ("/access", "Requires the admin role. You are a viewer."),
    ],
)
def test_a_forbidden_section_says_which_role_it_needs(open_page: PageOpener, path: str, reason: str) -> None:
    expect(open_page(path, role="viewer").get_by_text(reason)).to_be_visible()
