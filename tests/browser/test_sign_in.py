"""Signing in: with a password, with a link, and again after a session has ended."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.browser.examples import PLAYBOOKS, ExampleRuns
from tests.browser.opening import PageOpener, Settling
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
    Settling(page).wait()
    page.context.clear_cookies()
    page.get_by_role("button", name="failed").click()
    sign_in_again(page, "operator")
    expect(page.get_by_role("row").first).to_be_visible()
    assert page.url.endswith("status=succeeded%2Cfailed")


def sign_in_again(page: Page, role: str) -> None:
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Name").fill(USERS[role])
    dialog.get_by_label("Password").fill(password_of(role))
    edges, field = dialog.bounding_box(), dialog.get_by_label("Name").bounding_box()
    assert edges is not None
    assert field is not None
    assert field["x"] - edges["x"] >= 16, "the field touches the edge of the dialog"
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)


def test_an_expired_session_keeps_the_draft_and_the_view(open_page: PageOpener, server: PageServer) -> None:
    text = (PLAYBOOKS / "stock.yaml").read_text("utf-8").replace("shop/stock", "signed/stock")
    server.api.register(text)
    page = open_page("/edit/signed/stock?line=3", role="author", expect=["status of 401"])
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text.replace("nothing to order", "mine"))
    register = page.get_by_role("button", name="Register as 2")
    expect(register).not_to_have_attribute("aria-disabled", "true")
    Settling(page).wait()
    page.context.clear_cookies()
    register.click()
    sign_in_again(page, "author")
    expect(page.get_by_text("Registered signed/stock as version 2.").first).to_be_visible()
    page.locator(".cm-content").get_by_text("result: mine").click()
    page.keyboard.press("End")
    page.keyboard.insert_text("\n# the last words")
    page.context.clear_cookies()
    url = page.url
    page.reload()
    sign_in_again(page, "author")
    expect(page.locator(".cm-content")).to_contain_text("# the last words")
    assert page.url == url


def test_a_refused_cookie_is_explained(open_page: PageOpener) -> None:
    page = open_page("/sign-in", role=None, expect=["status of 401"])
    page.route(
        "**/api/v1/sessions",
        lambda route: route.fulfill(status=201, json={}) if route.request.method == "POST" else route.continue_(),
    )
    page.get_by_label("Name").fill(USERS["viewer"])
    page.get_by_label("Password").fill(password_of("viewer"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Signing in requires HTTPS or localhost.")


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
    page.evaluate("sessionStorage.setItem('noetl.unsent.start.x', '{}')")
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('noetl.unsent.start.x')") is None
    page.goto(f"{server.url}/runs")
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
