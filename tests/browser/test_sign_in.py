"""Signing in: with a password, with a link, and again after a session has ended."""

from __future__ import annotations

from playwright.sync_api import expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener
from tests.browser.serving import USERS, PageServer, password_of


def test_signing_in_leads_back_to_the_view(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs["finished"]
    page = open_page(f"/sign-in?next=/runs/{execution}", role=None, expect=["status of 401"])
    page.get_by_label("Name").fill(USERS["viewer"])
    page.get_by_label("Password").fill(password_of("viewer"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
    assert page.url.endswith(f"/runs/{execution}")


def test_a_wrong_password_says_so_and_keeps_the_name(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/sign-in", role=None, expect=["status of 401"])
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("not the password at all")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("ada")


def test_next_never_leads_to_another_server(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/sign-in?next=//example.invalid/", role="viewer")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert page.url.startswith(server.url)


def test_an_expired_session_signs_in_over_the_view_and_repeats_the_request(
    open_page: PageOpener, runs: ExampleRuns
) -> None:
    _ = runs["finished"]
    page = open_page("/runs?status=succeeded", role="operator", expect=["status of 401"])
    expect(page.get_by_role("row").first).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("button", name="failed").click()
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Name").fill(USERS["operator"])
    dialog.get_by_label("Password").fill(password_of("operator"))
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("row").first).to_be_visible()
    assert page.url.endswith("status=succeeded%2Cfailed")


def test_the_link_of_noetl_dev_signs_in_and_leaves_no_token_behind(open_page: PageOpener, server: PageServer) -> None:
    page = open_page(f"/#token={server.token}", role=None)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert server.token not in page.url
    assert server.token not in page.evaluate("JSON.stringify([localStorage, sessionStorage, history.state])")


def test_signing_out_ends_the_session(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/sign-in", role=None, expect=["status of 401"])
    page.get_by_label("Name").fill(USERS["viewer"])
    page.get_by_label("Password").fill(password_of("viewer"))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="vera").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.goto(f"{server.url}/runs")
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
