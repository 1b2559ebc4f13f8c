"""The checks of the browser tests themselves: errors of a page fail a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.browser.opening import PageOpener, check_accessibility
from tests.browser.packages import LOCK_FILE
from tests.browser.serving import USERS


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("console.error('broken')", "console: broken"),
        ("setTimeout(() => { throw new Error('uncaught') })", "uncaught error: uncaught"),
        ("location.href = 'http://127.0.0.2:9/'", "request to another host: http://127.0.0.2:9/"),
        ("document.body.setAttribute('style', 'color: red')", "Content Security Policy"),
        ("setTimeout(() => alert('hello'))", "dialog: hello"),
    ],
)
def test_what_a_page_must_never_do_is_noticed(open_page: PageOpener, script: str, message: str) -> None:
    page = open_page("/")
    page.evaluate(script)
    page.wait_for_timeout(100)
    with pytest.raises(AssertionError, match="errors in the page") as error:
        open_page.check()
    open_page.expected.append("")
    assert message in str(error.value)


def test_an_accessibility_problem_is_noticed(open_page: PageOpener) -> None:
    page = open_page("/")
    page.evaluate("document.body.append(document.createElement('button'))")
    with pytest.raises(AssertionError, match="button-name"):
        check_accessibility(page)


@pytest.mark.parametrize("role", USERS)
def test_a_page_opens_with_the_session_of_its_role(open_page: PageOpener, role: str) -> None:
    page = open_page("/", role)
    session = page.evaluate("fetch('/api/v1/sessions').then((response) => response.json())")
    assert role in str(session)


def test_the_lock_file_of_the_packages_names_no_host() -> None:
    assert re.findall('https?:[^"]*', LOCK_FILE.read_text("utf-8")) == []


FOLDER = Path(__file__).parent
SCENARIOS = re.findall(r"^\| (.+) \| `(\w+\.py)::(\w+)` \|$", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE)


def test_every_scenario_of_the_table_has_its_test() -> None:
    assert len(SCENARIOS) > 30
    missing = [
        f"{scenario}: {file}::{test}"
        for scenario, file, test in SCENARIOS
        if not (FOLDER / file).exists() or f"def {test}(" not in (FOLDER / file).read_text("utf-8")
    ]
    assert not missing
