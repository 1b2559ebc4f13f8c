"""Opens the page as a user of a role would, and collects what must never happen there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Page, Request
from tests.browser.packages import installed
from tests.browser.serving import PageServer

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
HEIGHTS = {1440: 900, 390: 844}
SETTLE_MS = 250
PAGE_TIMEOUT_MS = 120_000
"""How long a page may take on a busy machine; a test continues as soon as it is ready."""
STREAM = "/live"  # a request that does not end


class PageOpener:
    """Each call opens a page in a browser context of its own."""

    def __init__(self, browser: Browser, server: PageServer) -> None:
        self.browser, self.server = browser, server
        self.errors: list[str] = []
        self.expected: list[str] = []
        self._contexts: list[BrowserContext] = []

    def __call__(
        self,
        path: str = "/",
        role: str | None = "admin",
        theme: Theme = "light",
        width: int = 1440,
        *,
        beside: Page | None = None,
        expect: Iterable[str] = (),
    ) -> Page:
        """The page at a path, signed in with a role (None: signed out).

        `beside` opens it as another tab of a page's context. `expect` has parts of console errors that the test
        provokes, such as "status of 404"; every other error fails the test.
        """
        self.expected += expect
        page = (beside.context if beside is not None else self.context(role, theme, width)).new_page()
        page.goto(self.server.url + path)
        return page

    def context(self, role: str | None = "admin", theme: Theme = "light", width: int = 1440) -> BrowserContext:
        """A browser of its own: no cookie but that of the role's session."""
        context = self.browser.new_context(
            viewport={"width": width, "height": HEIGHTS.get(width, 900)},
            has_touch=width < 900,
            color_scheme=theme,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        self._contexts.append(context)
        context.set_default_timeout(PAGE_TIMEOUT_MS)
        if role is not None:
            context.add_cookies([self.server.session_cookie(role)])
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._add_error(f"uncaught error: {error.error}"))
        context.on("request", self._on_request)
        context.on("dialog", self._on_dialog)
        return context

    def check(self) -> None:
        """Fail on console errors, uncaught errors, policy violations, dialogs and requests to other hosts."""
        unexpected = [text for text in self.errors if not any(part in text for part in self.expected)]
        assert not unexpected, "errors in the page:\n" + "\n".join(unexpected)

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _add_error(self, text: str) -> None:
        self.errors.append(text)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" or "Content Security Policy" in message.text:
            self._add_error(f"console: {message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and f"{address.scheme}://{address.netloc}" != self.server.url:
            self._add_error(f"request to another host: {request.url}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self._add_error(f"dialog: {dialog.message}")
        with suppress(Error):  # the page may be closing
            dialog.dismiss()


class Settling:
    """Waits until a page has nothing more to load."""

    def __init__(self, page: Page) -> None:
        self.page, self.pending = page, set[Request]()
        page.on("request", self._began)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    def wait(self) -> None:
        """Return after a quarter of a second without requests."""
        quiet_ms, deadline = 0, time.monotonic() + PAGE_TIMEOUT_MS / 1000
        while quiet_ms < SETTLE_MS:
            assert time.monotonic() < deadline, f"still loading: {[request.url for request in self.pending]}"
            self.page.wait_for_timeout(50)
            quiet_ms = 0 if self.pending else quiet_ms + 50
        self.page.evaluate("document.fonts.ready.then(() => true)")

    def _began(self, request: Request) -> None:
        if STREAM not in request.url:
            self.pending.add(request)

    def _ended(self, request: Request) -> None:
        self.pending.discard(request)


def set_visible(page: Page, visible: bool) -> None:
    """As if the user changed tabs: headless Chromium shows all of them."""
    state = "visible" if visible else "hidden"
    page.evaluate(
        """(state) => {
          Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        state,
    )


SERIOUS = ("moderate", "serious", "critical")
COLOUR_RULES = ("color-contrast", "link-in-text-block")


def accessibility_problems(page: Page, rules: Iterable[str] = ()) -> list[str]:
    """What axe finds in the page as it is now, except minor findings; `rules` are those to check instead of all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((installed() / "axe-core" / "axe.min.js").read_text("utf-8"))
    only = {"runOnly": {"type": "rule", "values": [*rules]}} if rules else {}
    report = page.evaluate("options => axe.run(document, options)", {"resultTypes": ["violations"], **only})
    return [
        f"{finding['impact']} {finding['id']}: {finding['help']}: {', '.join(str(node['target']) for node in nodes)}"
        for finding in report["violations"]
        if finding["impact"] in SERIOUS and (nodes := finding["nodes"])
    ]


def check_accessibility(page: Page, rules: Iterable[str] = ()) -> None:
    problems = accessibility_problems(page, rules)
    assert not problems, "axe reports:\n" + "\n".join(problems)
