"""What holds for every view: it opens without an error, is accessible, and fits its window.

The default run checks all rules in every view, width and theme, but not in each pair of width and theme: where a theme
changes only colours, it checks the rules about colours. `make soak-views` checks all rules in every pair.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import (
    COLOUR_RULES,
    HEIGHTS,
    THEMES,
    PageOpener,
    Settling,
    Theme,
    accessibility_problems,
    check_accessibility,
)
from tests.browser.views import VIEWS

NARROWEST = 320  # of 1,280 pixels at a zoom of 400 %
ALL_RULES = {(1440, "light"), (390, "dark")}
"""Every width and every theme once."""


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_and_fits_its_window(open_page: PageOpener, runs: ExampleRuns, view: str) -> None:
    for page, width, theme in shown(open_page, runs, view):
        check_accessibility(page, () if (width, theme) in ALL_RULES else COLOUR_RULES)


@pytest.mark.slow(part="views")
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_accessible_in_every_width_and_theme(open_page: PageOpener, runs: ExampleRuns, view: str) -> None:
    for page, _, _ in shown(open_page, runs, view):
        check_accessibility(page)


def shown(open_page: PageOpener, runs: ExampleRuns, view: str) -> Iterator[tuple[Page, int, Theme]]:
    """The view in both widths and themes, which fits its window: it changes as when a window is resized."""
    signed_out = view == "sign in"
    path, role = VIEWS[view].format_map(runs), None if signed_out else "admin"
    page = open_page(path, role, expect=["status of 401"] if signed_out else [])
    devtools, settling = page.context.new_cdp_session(page), Settling(page)
    for width, height in HEIGHTS.items():
        page.set_viewport_size({"width": width, "height": height})
        devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": width < 900})
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        settling.wait()
        check_targets(page, width)
        check_font_sizes(page)
        if width < 900:
            check_fields(page)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            yield page, width, theme
        check_width(page, width)
    page.set_viewport_size({"width": NARROWEST, "height": 640})
    check_width(page, NARROWEST)


TARGETS = """(least) => {
  const size = (element) => (element.closest('label, [role=gridcell]') ?? element).getBoundingClientRect()
  const isInline = (element) => getComputedStyle(element).display === 'inline'
  const isInSentence = (link) => {
    if (!isInline(link)) return false
    let block = link.parentElement
    while (isInline(block)) block = block.parentElement
    const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT)
    while (texts.nextNode()) {
      const {data, parentElement} = texts.currentNode
      if (/\\p{L}{2}/u.test(data) && !parentElement.closest('a, button, .hidden-text')) return true
    }
    return false
  }
  const isExcepted = (element) =>
    element.closest('.graph-world, .source-text, .log-text, .skip-link') || isInSentence(element)
  return [...document.querySelectorAll('a, button, input, select, summary, [role=option], .list-row:not(.log-row)')]
    .filter((element) => element.checkVisibility({visibilityProperty: true}) && size(element).width > 1)
    .filter((element) => !isExcepted(element) && size(element).height < least - 0.5)
    .map((element) => `${element.outerHTML.slice(0, 160)} ${size(element).height}`)
}"""
"""Controls, links and rows that are lower than they must be. What users can zoom may be, and by WCAG 2.5.8 links in a
sentence, and targets whose height is that of text: numbers of source lines, lines of a log."""


def check_targets(page: Page, width: int) -> None:
    assert page.evaluate(TARGETS, 24 if width >= 900 else 40) == []


FONT_SIZES = ["12px", "13px", "14px", "16px", "20px"]
TEXTS = """(sizes) => {
  const within = (root) => [...root.querySelectorAll('*')].flatMap(withShadow)
  const withShadow = (element) => [element, ...(element.shadowRoot ? within(element.shadowRoot) : [])]
  const hasText = (element) =>
    /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName) ||
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())
  const others = within(document.body)
    .filter((element) => element.checkVisibility({visibilityProperty: true}) && hasText(element))
    .map((element) => [getComputedStyle(element).fontSize, element.cloneNode().outerHTML])
    .filter(([size]) => !sizes.includes(size))
  return [...new Set(others.map(String))]
}"""
"""Texts of other sizes than those of the scale, also in the editor."""


def check_font_sizes(page: Page) -> None:
    assert page.evaluate(TEXTS, FONT_SIZES) == []


FIELDS = """() => [...document.querySelectorAll('textarea, select, input')]
  .filter((field) => field.checkVisibility() && !/^(checkbox|radio|range)$/.test(field.type))
  .map((field) => [getComputedStyle(field).fontSize, field.outerHTML]).filter(([size]) => size !== '16px')
"""
"""Fields into which a phone zooms when they get the focus: those whose text is smaller than 16 px."""


def check_fields(page: Page) -> None:
    assert page.evaluate(FIELDS) == []


def check_width(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the view is wider than its window"


OPENED = {
    "the palette": ("/runs", ["Search"]),
    "the menu of the user": ("/runs", ["ada"]),
    "the actions of a run": ("/runs/{running}", ["More actions"]),
    "a response": ("/runs/{waiting}", ["Respond..."]),
    "a new schedule": ("/schedules", ["Create a schedule..."]),
    "a new credential": ("/credentials", ["Store a credential..."]),
    "a new token": ("/access?tab=tokens", ["Create a token..."]),
    "all filters": ("/runs", ["Filters"]),
    "changed values of a fork": ("/runs/{failed}/fork?at=12", ["Change a value"]),
}
"""What opens over or in a view, with the buttons that open it."""


@pytest.mark.parametrize("name", OPENED)
def test_what_opens_on_a_phone_has_targets_and_fits(open_page: PageOpener, runs: ExampleRuns, name: str) -> None:
    path, buttons = OPENED[name]
    page = open_page(path.format_map(runs), width=390)
    for button in buttons:
        page.get_by_role("button", name=button).first.click()
    check_targets(page, 390)
    check_font_sizes(page)
    check_fields(page)
    check_width(page, 390)


WIDTHS = """async (bar) => {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(`.list-scroll {border-inline-end: ${bar}px solid}`)
  document.adoptedStyleSheets = [sheet]
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame)
  const widths = (selector) => [...document.querySelectorAll(`.list ${selector}`)].map((part) => part.clientWidth)
  return [document.querySelector('.list').clientWidth - bar, ...widths('.list-row'), ...widths('.list-columns > *')]
}"""
"""The widths of a list beside its scroll bar, of its rows and of its column headers. A border stands for the scroll
bar: those of this Chromium have no width."""


@pytest.mark.parametrize(
    "path", ["/runs?q={finished}", "/runs/{loop}?tab=items&run=resize%231", "/runs/{finished}?tab=events"]
)
def test_the_lines_of_a_list_end_at_its_edge(open_page: PageOpener, runs: ExampleRuns, path: str) -> None:
    """Or at its scroll bar, if it has one."""
    page = open_page(path.format_map(runs))
    expect(page.locator(".list-row").first).to_be_visible()
    for bar in (0, 15):
        assert len(set(page.evaluate(WIDTHS, bar))) == 1


def test_the_rules_about_colours_find_what_all_rules_find(open_page: PageOpener) -> None:
    page = open_page("/sign-in", None, expect=["status of 401"])
    page.get_by_role("heading", level=1).wait_for()
    page.evaluate(
        """() => {
          const text = document.createElement('p')
          text.textContent = 'a text that can hardly be read'
          text.style.color = '#ddd'
          document.querySelector('main').append(text)
        }"""
    )
    of_colours = accessibility_problems(page, COLOUR_RULES)
    assert len(of_colours) == 1
    assert "color-contrast" in of_colours[0]
    assert set(of_colours) <= set(accessibility_problems(page))
