"""One browser and one server per test process; a browser context per page that a test opens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.chromium import launched
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PAGE_TIMEOUT_MS, PageOpener
from tests.browser.packages import locked
from tests.browser.recorded import RECORDED, record, record_others
from tests.browser.serving import PageServer, database_in, page_server
from tests.verifying import check_databases

expect.set_options(timeout=PAGE_TIMEOUT_MS)


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


@pytest.fixture(scope="session")
def recorded_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the recorded runs, written once for all test processes: leave it as it is."""
    base = tmp_path_factory.getbasetemp()
    shared = base if "PYTEST_XDIST_WORKER" not in os.environ else base.parent
    database = shared / "recorded.db"
    with locked(shared / "recorded.lock"):
        if not database.exists():
            record(partial := shared / "recorded.part", *RECORDED)
            record_others(partial)
            partial.rename(database)
    return database


@pytest.fixture(scope="session")
def recorded_server(recorded_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server with the recorded runs."""
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copyfile(recorded_database, database_in(folder))
    with page_server(folder) as server:
        yield server


@pytest.fixture
def open_page(browser: Browser, server: PageServer) -> Iterator[PageOpener]:
    """Opens pages; when the test ends, fails on whatever must never happen in them."""
    opener = PageOpener(browser, server)
    try:
        yield opener
    finally:
        opener.close()
    opener.check()


@pytest.fixture
def open_recorded(browser: Browser, recorded_server: PageServer) -> Iterator[PageOpener]:
    """Opens pages of the server with the recorded runs."""
    opener = PageOpener(browser, recorded_server)
    try:
        yield opener
    finally:
        opener.close()
    opener.check()
