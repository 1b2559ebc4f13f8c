"""One browser and one server per test process; a browser context per page that a test opens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.browser.chromium import launched
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener
from tests.browser.serving import PageServer, page_server
from tests.verifying import check_databases


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not of the session: as long as it runs, other tests of this process cannot run an event loop."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """The server that tests share: leave its playbooks and example runs as they are."""
    folder = tmp_path_factory.mktemp("page")
    with page_server(folder) as server:
        yield server
    check_databases(folder)


@pytest.fixture(scope="session")
def runs(server: PageServer) -> ExampleRuns:
    """Ids of example runs by name, such as `runs["failed"]`; tests/browser/examples.py lists them."""
    return ExampleRuns(server.api)


@pytest.fixture
def open_page(browser: Browser, server: PageServer) -> Iterator[PageOpener]:
    """Opens pages; when the test ends, fails on whatever must never happen in them."""
    opener = PageOpener(browser, server)
    try:
        yield opener
    finally:
        opener.close()
    opener.check()
