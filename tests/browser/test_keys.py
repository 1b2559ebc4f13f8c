"""Every key of the table in ui/src/keys.ts has its effect. Those of the slider and of gaps are in test_history.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, Route, expect
from tests.browser.examples import ExampleRuns
from tests.browser.opening import PageOpener

TABLE = (Path(__file__).parents[2] / "ui" / "src" / "keys.ts").read_text("utf-8")
ROW = re.compile(r'\["(\w+)", "(.+?)", "([\w-]+)"')
ELSEWHERE = {"gaps"}


def actions(scope: str) -> set[str]:
    return {action for other, _, action in ROW.findall(TABLE) if other == scope}


def try_all(page: Page, scope: str, effects: dict[str, tuple[str, Callable[[], object]]]) -> None:
    """Press the keys of a scope one after the other, and check the effect of each."""
    assert set(effects) == actions(scope) - ELSEWHERE
    for keys, effect in effects.values():
        for key in keys.split():
            page.keyboard.press(key)
        effect()


def test_every_key_that_works_everywhere(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}")
    expect(page.locator(".run-header")).to_be_visible()
    dialog, field = page.get_by_role("dialog"), page.locator("[data-filter]").first

    def closed(name: str) -> Callable[[], None]:
        def effect() -> None:
            expect(page.get_by_role("dialog", name=name)).to_be_visible()
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)

        return effect

    def menu() -> None:
        expect(page.get_by_role("menuitem", name="Compare...")).to_be_visible()
        page.keyboard.press("Escape")
        page.goto(page.url.partition("/runs/")[0] + "/runs")
        expect(page.get_by_role("grid", name="Runs")).to_be_visible()

    def shown(view: str) -> Callable[[], None]:
        return lambda: page.wait_for_url(f"**/{view}")

    try_all(
        page,
        "global",
        {
            "palette": ("Control+k", closed("Search")),
            "help": ("?", closed("Keyboard shortcuts")),
            "copy-link": ("c", lambda: expect(page.get_by_text("Copied the link to this view.").first).to_be_visible()),
            "actions": (".", menu),
            "filter": ("/", lambda: expect(field).to_be_focused()),
            "leave": ("Escape", lambda: expect(field).not_to_be_focused()),
            "go-playbooks": ("g p", shown("playbooks")),
            "go-schedules": ("g s", shown("schedules")),
            "go-workers": ("g w", shown("workers")),
            "go-runs": ("g r", shown("runs")),
        },
    )


def test_every_key_of_a_list(open_page: PageOpener, runs: ExampleRuns) -> None:
    for name in ("finished", "failed", "loop"):
        _ = runs[name]
    page = open_page("/runs?status=succeeded,failed")
    grid = page.get_by_role("grid", name="Runs")
    total = int(grid.get_attribute("aria-rowcount") or 0) - 1
    grid.focus()

    def active(place: int) -> Callable[[], None]:
        row = page.locator(f".list-row[aria-rowindex='{place + 2}']")
        return lambda: expect(row).to_have_attribute("aria-selected", "true")

    selected = page.locator(".list-row[aria-selected='true']")

    def failures() -> None:
        page.wait_for_url("**status=failed*")
        expect(page.locator(".list-row", has_text="succeeded")).to_have_count(0)
        expect(page.locator(".list-row").first).to_be_visible()

    try_all(
        page,
        "lists",
        {
            "next-row": ("j ArrowDown", active(1)),
            "previous-row": ("k j ArrowUp", active(0)),
            "last-row": ("End", active(total - 1)),
            "first-row": ("Home", active(0)),
            "next-page": ("PageDown", lambda: expect(selected).not_to_have_attribute("aria-rowindex", "2")),
            "previous-page": ("PageUp", active(0)),
            "select": ("x", lambda: expect(page.get_by_text("1 selected")).to_be_visible()),
            "preview": ("o", lambda: expect(page.get_by_role("complementary", name="Preview")).to_be_visible()),
            "failures-first": ("F", failures),
            "open": ("j Enter", lambda: page.wait_for_url("**/runs/*")),
        },
    )


def test_every_key_of_a_run(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    loop = runs.ended("shop/images")  # the first of the list: another one follows it
    page = open_page("/runs")
    expect(page.get_by_role("grid", name="Runs")).to_be_visible()
    page.goto(f"{page.url}/{loop}?step=resize")
    expect(page.locator(".run-header")).to_be_visible()
    wrap = page.get_by_role("button", name="Wrap")

    def tab(name: str) -> Callable[[], None]:
        return lambda: expect(page.get_by_role("tab", name=name, exact=True).first).to_have_attribute(
            "aria-selected", "true"
        )

    def level(name: str) -> Callable[[], None]:
        return lambda: page.wait_for_url(f"**level={name}*")

    try_all(
        page,
        "run",
        {
            "events": ("e", lambda: expect(page.get_by_role("button", name="All events")).to_be_visible()),
            "level-step": ("1", level("step")),
            "level-task": ("2", level("task")),
            "level-event": ("3", lambda: expect(page).not_to_have_url(re.compile("level="))),
            "data": ("d", tab("Data")),
            "items": ("i", tab("Items")),
            "logs": ("l", lambda: expect(wrap).to_be_visible()),
            "search-log": ("Control+f", lambda: expect(page.locator(".run-panel input:focus")).to_be_visible()),
            "wrap": ("Escape Alt+z", lambda: expect(wrap).to_have_attribute("aria-pressed", "true")),
            "timeline": ("t", tab("Timeline")),
            "why": ("w", lambda: expect(page.locator(".run-inspector :focus")).to_be_visible()),
            "graph": ("n", lambda: expect(page.locator(".graph .box:focus")).to_be_visible()),
            "panes": ("v", lambda: expect(page.get_by_role("tab", name="Events", exact=True)).to_have_count(0)),
            "next-run": ("v v J", lambda: expect(page).not_to_have_url(re.compile(loop))),
            "previous-run": ("K", lambda: expect(page).to_have_url(re.compile(loop))),
        },
    )


FRAMES = """(count) => new Promise((done) => {
  const next = (left) => (left ? requestAnimationFrame(() => next(left - 1)) : done());
  next(count);
})"""


def test_why_gets_the_focus_when_it_is_loaded(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/system")
    requests: list[Route] = []
    page.route("**/explain?*", lambda route: requests.append(route))
    page.goto(f"{page.url.removesuffix('/system')}/runs/{runs['finished']}?arc=start/next/0")
    expect(page.locator(".run-header")).to_be_visible()
    page.keyboard.press("w")
    page.evaluate(FRAMES, 60)
    assert requests
    for request in requests:
        request.continue_()
    page.unroute("**/explain?*")
    expect(page.locator(".run-inspector .event-link:focus")).to_be_visible()


LIST_WHEN_SHOWN = """(() => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector("[role=grid][aria-label=Runs]")) return;
    observer.disconnect();
    window.listWhenShown = sessionStorage.getItem("noetl.list");
  });
  observer.observe(document, { subtree: true, childList: true });
})()"""


def test_the_run_view_knows_the_list_as_soon_as_it_is_shown(open_page: PageOpener, runs: ExampleRuns) -> None:
    execution = runs["finished"]
    page = open_page("/system")
    page.add_init_script(LIST_WHEN_SHOWN)
    page.goto(f"{page.url.removesuffix('/system')}/runs?q={execution}")
    expect(page.get_by_role("grid", name="Runs").get_by_role("row").first).to_be_visible()
    assert execution in (page.evaluate("window.listWhenShown") or "")


def test_every_key_of_the_graph(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}")
    box = page.get_by_role("group", name="Steps").get_by_role("button")
    expect(box.first).to_be_visible()
    page.keyboard.press("0")
    zoom = page.locator(".graph-world")

    def scale(factor: str) -> Callable[[], None]:
        return lambda: expect(zoom).to_have_css("transform", re.compile(rf"^matrix\({factor}, "))

    def focused(name: str) -> Callable[[], None]:
        return lambda: expect(box.and_(page.get_by_role("button", name=name))).to_be_focused()

    def find_step() -> None:
        page.get_by_role("combobox", name="Find a step").fill("start")
        page.keyboard.press("Enter")
        focused("start, succeeded")()

    try_all(
        page,
        "graph",
        {
            "zoom-in": ("+", scale(r"1\.\d+")),
            "zoom-out": ("- -", scale(r"0\.\d+")),
            "zoom-reset": ("0", scale("1")),
            "zoom-fit": ("- f", lambda: expect(box.last).to_be_in_viewport()),
            "find-step": ("s", find_step),
            "follow-arcs": ("ArrowDown", focused("price, succeeded")),
            "select-step": ("Enter", lambda: page.wait_for_url("**step=price*")),
        },
    )


def test_escape_leaves_the_field_then_the_past_then_the_selection(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}?at=12&step=price")
    field, past = page.get_by_role("textbox", name="Event number"), page.get_by_text("Viewing event 12.")
    field.focus()
    page.keyboard.press("Escape")
    expect(field).not_to_be_focused()
    expect(past).to_be_visible()
    page.keyboard.press("Escape")
    expect(past).to_be_hidden()
    expect(page).to_have_url(re.compile("step=price$"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("step="))
    page.goto(f"{open_page.server.url}/runs?preview={runs['finished']}")
    page.get_by_role("checkbox", name=re.compile("^Select ")).first.click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Preview")).to_have_count(0)
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("1 selected")).to_have_count(0)


def test_single_keys_can_be_turned_off(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['finished']}")
    page.get_by_role("button", name="ada").click()
    page.get_by_role("menuitem", name="Turn off single-key shortcuts").click()
    page.keyboard.press("e")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()
    expect(page).not_to_have_url(re.compile("tab="))


PRESSED_WHEN_SHOWN = """(() => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector("[aria-label='Level of detail']")) return;
    observer.disconnect();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true }));
  });
  observer.observe(document, { subtree: true, childList: true });
})()"""


def test_a_key_works_as_soon_as_its_view_is_shown(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page("/system")
    page.add_init_script(PRESSED_WHEN_SHOWN)
    page.goto(f"{page.url.removesuffix('/system')}/runs/{runs['finished']}?tab=events")
    page.wait_for_url("**level=step*")


def test_every_key_of_the_editor(open_page: PageOpener, runs: ExampleRuns) -> None:
    _ = runs["finished"]
    page = open_page("/edit/shop/orders", "author")
    text, line = page.locator(".cm-content"), page.locator(".cm-activeLine")
    text.get_by_text("Send the order both ways").click()
    page.keyboard.press("End")
    page.keyboard.insert_text("\n    spec: {join: al}")
    expect(page.get_by_role("region", name="Problems").get_by_role("button", name=re.compile("^NTL"))).to_be_visible()
    page.keyboard.press("Control+Home")
    effects: dict[str, tuple[str, Callable[[], object]]] = {
        "next-problem": ("F8", lambda: expect(line).to_contain_text("join: al")),
        "save-draft": ("Control+s", lambda: expect(page.get_by_text("Draft saved.").first).to_be_attached()),
        "start": (
            "Control+Enter",
            lambda: expect(page.get_by_text("Register the draft first").first).to_be_visible(),
        ),
        "leave-editor": ("Escape Tab", lambda: expect(text).not_to_be_focused()),
    }
    try_all(page, "editor", effects)
    page.get_by_role("button", name="Discard draft").click()
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile("/start/shop/orders$"))
