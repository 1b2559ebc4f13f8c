"""Writing, starting, answering, forking and comparing in the page."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.browser.examples import PLAYBOOKS, ExampleRuns
from tests.browser.opening import PageOpener, check_accessibility, set_visible
from tests.browser.serving import PageServer

APPROVAL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: approval, path: PATH}
workload:
  # What is asked for.
  subject: holiday
workflow:
  - step: ask
    desc: Wait for somebody to decide
    tool:
      - verdict: {kind: wiat, signal: verdict, spec: {timeout: 3d}}
    next:
      arcs:
        - {step: granted, when: "{{ steps.ask.result.granted == true }}"}
        - {step: refused}
  - {step: granted, tool: {kind: noop, result: "granted {{ workload.subject }}"}}
  - {step: refused, tool: {kind: noop, result: refused}}
"""
UNSOUND = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: unsound, path: written/unsound}
workflow:
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: invoice}, {step: ship}]}}
  - {step: invoice, tool: {kind: noop}, next: {arcs: [{step: tell}]}}
  - {step: ship, tool: {kind: noop}, next: {arcs: [{step: tell}]}}
  - {step: tell, tool: {kind: noop}, next: {arcs: [{step: late, when: "{{ workload.again }}"}, {step: rest}]}}
  - {step: late, tool: {kind: noop}, next: {arcs: [{step: early}]}}
  - {step: early, tool: {kind: noop}, next: {arcs: [{step: late}]}}
  - {step: rest, tool: {kind: noop}}
"""
"""Tokens may meet at `tell`, and `late` and `early` never end."""
STOCK = (PLAYBOOKS / "stock.yaml").read_text("utf-8")


@pytest.fixture(autouse=True)
def registered(runs: ExampleRuns) -> str:
    """The playbooks of the example runs are registered."""
    return runs["failed"]


def editor_of(page: Page) -> Locator:
    return page.locator(".cm-content")


def box(graph: Locator, step: str) -> Locator:
    return graph.locator(".box").filter(has_text=step)


def write(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    editor_of(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def run_id(page: Page) -> str:
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f-]{36}$"))
    return page.url.rpartition("/")[2]


def test_a_playbook_is_written_fixed_started_and_answered(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/edit", role="author")
    write(page, APPROVAL.replace("PATH", "written/approval"))
    problems = page.get_by_role("region", name="Problems")
    expect(problems).to_contain_text("Unknown tool kind 'wiat'")
    expect(page.get_by_role("button", name="Register")).to_have_attribute("aria-disabled", "true")
    check_accessibility(page)
    problems.get_by_role("button", name="Fix").click()
    expect(problems).to_contain_text("No problems")
    expect(page.get_by_role("group", name="Graph of approval").get_by_role("button")).to_have_count(3)

    page.get_by_role("button", name="Register as 1").click()
    expect(page).to_have_url(re.compile("/edit/written/approval$"))
    page.get_by_role("link", name="Start...").click()
    page.get_by_label("subject").fill("birthday")
    page.get_by_role("button", name="Start run").click()
    execution = run_id(page)

    page.get_by_role("button", name="Respond...").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Wait for somebody to decide")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_contain_text("Choose yes or no.")
    dialog.get_by_label("yes").check()
    check_accessibility(page)
    dialog.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Signal verdict accepted.").first).to_be_visible()
    assert server.api.ended(execution)["result"] == "granted birthday"


def test_a_draft_survives_a_reload_and_meets_a_newer_version(open_page: PageOpener, server: PageServer) -> None:
    text = STOCK.replace("shop/stock", "written/stock")
    server.api.register(text)
    page = open_page("/edit/written/stock", role="author")
    write(page, text.replace("nothing to order", "mine"))
    page.keyboard.press("Control+s")
    page.reload()
    expect(editor_of(page)).to_contain_text("result: mine")
    expect(page.get_by_text("draft saved")).to_be_visible()

    server.api.register(text.replace("nothing to order", "theirs"))
    page.get_by_role("button", name=re.compile("Register as")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Version 2 was registered in the meantime")
    expect(dialog).to_contain_text("result: theirs")
    dialog.get_by_role("button", name="Register as 3").click()
    expect(page.get_by_text("Registered written/stock as version 3.").first).to_be_visible()
    assert server.api.ask("GET", "/playbooks/written/stock")["text"].endswith("result: mine}}\n")

    page.goto(f"{server.url}/playbooks/written/stock?tab=versions&a=2&b=3")
    expect(page.get_by_role("table", name="Differences between version 2 and version 3")).to_contain_text(
        "result: theirs"
    )


@pytest.mark.parametrize("leave", ["reload", "hide"])
def test_a_draft_has_the_last_keystroke_however_the_editor_is_left(open_page: PageOpener, leave: str) -> None:
    page = open_page("/edit/written/left", role="author", expect=["status of 404"])
    editor_of(page).click()
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))  # the time of the next save does not come
    page.keyboard.insert_text("# the last words\n")
    if leave == "reload":
        page.reload()
    else:
        set_visible(page, False)
    assert "# the last words" in page.evaluate("localStorage.getItem('noetl.draft.written/left')")
    page.clock.resume()
    expect(editor_of(page)).to_contain_text("# the last words")


def test_a_problem_can_be_chosen_and_fixed_before_the_editor_has_loaded(open_page: PageOpener) -> None:
    page = open_page("/edit", role="author")
    write(page, APPROVAL.replace("PATH", "written/early"))
    problem = page.get_by_role("region", name="Problems").get_by_role("button", name=re.compile(r"^\d+:\d+$"))
    expect(problem).to_be_visible()
    expect(page.get_by_text("draft saved")).to_be_visible()
    held: list[Route] = []
    page.route("**/assets/code-mirror*", lambda route: held.append(route))

    def before_the_editor(control: Locator) -> None:
        page.reload()
        control.click()
        expect(editor_of(page)).to_have_count(0)
        while held:
            held.pop().continue_()

    before_the_editor(problem)
    expect(page.locator(".cm-activeLine")).to_contain_text("kind: wiat")
    expect(editor_of(page)).to_be_focused()
    before_the_editor(page.get_by_role("button", name="Fix"))
    expect(editor_of(page)).to_contain_text("kind: wait")
    expect(page.get_by_role("region", name="Problems")).to_contain_text("No problems")


def test_screen_readers_hear_at_most_one_message_in_five_seconds(open_page: PageOpener) -> None:
    page = open_page("/edit/shop/orders", role="author")
    editor_of(page).click()
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() + 6000"))
    said = page.locator("[role=status][aria-live=polite]")
    page.keyboard.press("Control+s")
    page.clock.run_for(100)
    expect(said).to_have_text("There is nothing to save.")
    page.keyboard.insert_text("# a comment\n")
    page.keyboard.press("Control+s")
    page.clock.run_for(4_000)
    expect(said).to_have_text("There is nothing to save.")
    page.clock.run_for(1_500)
    expect(said).to_have_text("Draft saved.")


def test_an_answer_about_an_older_text_is_discarded(open_page: PageOpener) -> None:
    page = open_page("/edit", role="author")
    expect(page.get_by_role("region", name="Problems")).to_contain_text("No problems")
    held: list[Route] = []
    page.route(re.compile("/playbooks/validate"), lambda route: held.append(route) if not held else route.continue_())
    write(page, APPROVAL.replace("PATH", "written/older"))
    with page.expect_request(re.compile("/playbooks/validate")):
        pass
    write(page, APPROVAL.replace("PATH", "written/older").replace("wiat", "wait"))
    expect(page.get_by_role("button", name="Register as 1")).to_be_visible()
    held[0].continue_()
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    expect(page.get_by_role("region", name="Problems")).to_contain_text("No problems")
    write(page, APPROVAL.replace("PATH", "written/older"))
    expect(page.locator(".cm-lintRange-error")).to_have_text("wiat")
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)


def test_problems_graph_and_text_lead_to_each_other(open_page: PageOpener) -> None:
    page = open_page("/edit/shop/orders", role="author")
    expect(editor_of(page)).to_be_visible()
    step = page.get_by_role("group", name="Graph of orders").get_by_role("button", name="reserve")
    step.click()
    expect(step).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".cm-activeLine")).to_contain_text("step: reserve")
    page.keyboard.press("End")
    page.keyboard.insert_text("\n    spec: {join: al}")
    problems = page.get_by_role("region", name="Problems")
    code = problems.get_by_role("button", name=re.compile("^NTL"))
    name = code.inner_text()
    code.click()
    expect(page.get_by_role("dialog", name=name)).to_contain_text("Fixed:")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    editor_of(page).focus()
    page.keyboard.press("Control+Home")
    page.keyboard.press("F8")
    expect(page.locator(".cm-activeLine")).to_contain_text("join: al")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor_of(page)).not_to_be_focused()


def test_the_path_of_a_soundness_problem_is_marked_in_the_graph(open_page: PageOpener) -> None:
    page = open_page("/edit", role="author")
    write(page, UNSOUND)
    problems = page.get_by_role("region", name="Problems").get_by_role("listitem")
    graph = page.get_by_role("group", name="Graph of unsound")

    def expect_marked(codes: dict[str, str], arcs: set[str]) -> None:
        boxes = graph.get_by_role("button", name="on the path of")
        expect(boxes).to_have_count(len(codes))
        for step, code in codes.items():
            expect(boxes.and_(graph.get_by_role("button", name=f"{step} on the path of {code}"))).to_be_visible()
        expect(graph.locator(".arc.marked")).to_have_count(len(arcs))
        for arc in arcs:
            expect(graph.locator(f".arc.marked[data-arc='{arc}']")).to_have_count(1)

    def choose(code: str) -> None:
        problems.filter(has_text=code).get_by_role("button", name=re.compile(r"^\d+:\d+$")).click()

    meeting = dict.fromkeys(["start", "invoice", "ship", "tell"], "NTL405")
    cycle = dict.fromkeys(["late", "early"], "NTL410")
    meeting_arcs = {"start/next/0", "start/next/1", "invoice/next/0", "ship/next/0"}
    cycle_arcs = {"late/next/0", "early/next/0"}
    expect(problems.first).to_contain_text("start → invoice → tell and start → ship → tell")
    expect(problems.last).to_contain_text("Endless cycle: late → early → late")
    expect_marked(meeting | cycle, meeting_arcs | cycle_arcs)
    check_accessibility(page)
    choose("NTL410")
    expect_marked(cycle, cycle_arcs)
    choose("NTL405")
    expect_marked(meeting, meeting_arcs)
    expect(page.get_by_text("draft saved")).to_be_visible()
    page.reload()
    expect_marked(meeting, meeting_arcs)


def test_a_step_that_is_chosen_before_the_editor_has_loaded_is_shown_then(open_page: PageOpener) -> None:
    page = open_page("/playbooks", role="author")
    waiting: list[Route] = []
    page.route(re.compile(r"/code-mirror-[^/]+\.js$"), lambda route: waiting.append(route))
    page.goto(f"{open_page.server.url}/edit/shop/orders")
    step = page.get_by_role("group", name="Graph of orders").get_by_role("button", name="reserve")
    step.click()
    expect(editor_of(page)).to_have_count(0)
    for route in waiting:
        route.continue_()
    expect(page.locator(".cm-activeLine")).to_contain_text("step: reserve")
    expect(step).to_have_attribute("aria-pressed", "true")


def test_the_editor_completes_names_and_explains_them(open_page: PageOpener) -> None:
    page = open_page("/edit", role="author")
    editor_of(page).get_by_text("noop").dblclick()
    page.keyboard.type("htt")
    page.get_by_role("option", name=re.compile("^http")).click()
    expect(editor_of(page)).to_contain_text("kind: http")
    editor_of(page).get_by_text("workflow", exact=True).hover()
    expect(page.locator(".cm-tooltip-hover")).to_contain_text("workflow")


def test_a_viewer_reads_and_is_told_what_it_may_not_do(open_page: PageOpener) -> None:
    page = open_page("/edit/shop/orders", role="viewer", width=390, theme="dark")
    expect(page.get_by_text("Read-only. Requires the author role. You are a viewer.")).to_be_visible()
    expect(editor_of(page)).to_have_attribute("contenteditable", "false")
    expect(page.get_by_role("button", name="Start...")).to_have_attribute("title", re.compile("operator role"))


def test_unknown_inputs_are_named_and_inputs_of_a_run_are_copied(open_page: PageOpener, server: PageServer) -> None:
    source = server.api.start({"path": "shop/orders", "payload": {"limit": 7}})
    page = open_page(f"/start/shop/orders?from={source}", role="operator")
    expect(page.get_by_label("limit")).to_have_value("7")
    expect(page.get_by_label("limit")).to_have_accessible_description(
        "number Orders below this amount need no approval."
    )
    page.get_by_label("limit").fill("many")
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_text("Enter a number.")).to_be_visible()
    page.get_by_label("limit").fill("8")
    page.get_by_role("tab", name="JSON").click()
    payload = page.get_by_label("Payload")
    expect(payload).to_have_value('{\n  "limit": 8\n}')
    payload.fill('{"limit": 8, "order": {"custmer": "bob"}}')
    expect(page.get_by_text("The playbook does not declare order.custmer.")).to_be_visible()
    page.get_by_role("tab", name="Form").click()
    page.get_by_role("button", name="Start run").click()
    assert server.api.show(run_id(page))["payload"] == {"limit": 8, "order": {"custmer": "bob"}}
    page.go_back()
    expect(page.get_by_role("button", name="Start run")).to_be_visible()


DECLARED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: declared, path: written/declared}
executor:
  spec:
    schema:
      workload:
        type: object
        required: [site]
        properties:
          site: {type: string, enum: [berlin, lima]}
          count: {type: integer, default: 3}
workload:
  count: 3
  greeting: "hello {{ workload.site }}"
workflow:
  - {step: greet, tool: {kind: noop, result: "{{ workload.greeting }}, {{ workload.count }}"}}
"""


def test_a_start_has_the_fields_that_the_playbook_declares(open_page: PageOpener, server: PageServer) -> None:
    server.api.register(DECLARED)
    page = open_page("/start/written/declared", role="operator")
    expect(page.get_by_text("hello {{ workload.site }}")).to_be_visible()
    expect(page.get_by_text("Computed at the start. Override it in JSON.")).to_be_visible()
    start = page.get_by_role("button", name="Start run")
    start.click()
    expect(page.get_by_text("This input is required.")).to_be_visible()
    page.get_by_label("site").select_option("lima")
    page.get_by_label("count").fill("3.5")
    start.click()
    expect(page.get_by_text("Enter a whole number.")).to_be_visible()
    page.get_by_label("count").fill("4")
    check_accessibility(page)
    start.click()
    assert server.api.ended(run_id(page))["result"] == "hello lima, 4"

    page.goto(f"{server.url}/start/written/declared")
    page.get_by_role("button", name="Copy from a run").click()
    page.get_by_role("menuitem", name=re.compile("succeeded")).click()
    expect(page).to_have_url(re.compile("from="))
    expect(page.get_by_label("site")).to_have_value("lima")
    expect(page.get_by_label("count")).to_have_value("4")


EXACT = 2**53 + 1
"""A number that JSON.parse rounds."""


def test_large_numbers_keep_their_digits_from_a_start_to_a_copy_of_its_inputs(
    open_page: PageOpener, server: PageServer
) -> None:
    page = open_page("/start/shop/orders", role="operator")
    page.get_by_label("limit").fill(str(EXACT))
    page.get_by_role("tab", name="JSON").click()
    payload = page.get_by_label("Payload")
    expect(payload).to_have_value(f'{{\n  "limit": {EXACT}\n}}')
    payload.fill(f'{{"limit": {EXACT}, "more": [-{EXACT}, {2**63 - 1}]}}')
    page.get_by_role("tab", name="Form").click()
    page.reload()
    expect(page.get_by_label("limit")).to_have_value(str(EXACT))
    page.get_by_role("button", name="Start run").click()
    execution = run_id(page)
    digits = f'"payload":{{"more":[-{EXACT},{2**63 - 1}],"limit":{EXACT}}}'
    assert digits in server.api.http.get(f"{server.url}/api/v1/executions/{execution}").text

    page.get_by_role("tab", name="Data").click()
    expect(page.get_by_role("treeitem").filter(has_text=str(EXACT)).first).to_be_visible()
    page.goto(f"{server.url}/start/shop/orders?from={execution}")
    expect(page.get_by_label("limit")).to_have_value(str(EXACT))
    page.get_by_role("button", name="Start run").click()
    expect(page).not_to_have_url(re.compile("/start/"))
    assert server.api.show(run_id(page))["payload"] == {"limit": EXACT, "more": [-EXACT, 2**63 - 1]}


HOSTILE = '"}, "limit": 1, "x": {"y": "\\\\'
"""A text that would change a request if it were put into JSON as it is."""


def test_texts_of_users_reach_the_server_as_they_are(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/start/shop/orders", role="operator")
    page.get_by_label("customer").fill(HOSTILE)
    page.get_by_role("tab", name="JSON").click()
    payload = json.loads(page.get_by_label("Payload").input_value())
    assert payload == {"order": {"customer": HOSTILE}}
    nested = {HOSTILE: [HOSTILE, {"__proto__": {HOSTILE: EXACT}}], "deep": [[[HOSTILE]]], "many": "\u2028\u202e\n\t'"}
    page.get_by_label("Payload").fill(json.dumps(payload | nested))
    page.get_by_role("button", name="Start run").click()
    execution = run_id(page)
    assert server.api.show(execution)["payload"] == payload | nested
    server.api.ended(execution)

    page.goto(f"{server.url}/runs/{execution}/fork")
    for name, text in (("note", f"a{HOSTILE}"), ("list", json.dumps([HOSTILE]))):
        page.get_by_role("button", name="Change a value").click()
        page.get_by_label("Key of ctx").last.fill(name)
        page.get_by_label(f"New value of {name}").fill(text)
    page.get_by_role("button", name="Fork this run").click()
    expect(page).not_to_have_url(re.compile("/fork"))
    ctx = server.api.ask("GET", f"/executions/{run_id(page)}/state?parts=ctx")["ctx"]
    assert (ctx["note"], ctx["list"]) == (f"a{HOSTILE}", [HOSTILE])


def test_large_numbers_of_a_response_and_of_ctx_keep_their_digits(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    asked = APPROVAL.replace("PATH", "written/large").replace("wiat", "wait")
    server.api.register(asked)
    execution = runs.until_waiting(runs.start("written/large"))
    page = open_page(f"/runs/{execution}", role="operator")
    page.get_by_role("button", name="Respond...").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("yes").check()
    dialog.get_by_text("More fields as JSON").click()
    dialog.get_by_label("JSON").fill(f'{{"account": {EXACT}}}')
    dialog.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Signal verdict accepted.").first).to_be_visible()
    server.api.ended(execution)
    log = server.api.http.get(f"{server.url}/api/v1/executions/{execution}/events?limit=1000").text
    assert f'{{"account":{EXACT},"granted":true}}' in log, log

    page.goto(f"{server.url}/runs/{execution}/fork")
    page.get_by_role("button", name="Change a value").click()
    page.get_by_label("Key of ctx").fill("account")
    page.get_by_label("New value of account").fill(str(EXACT))
    page.get_by_role("button", name="Fork this run").click()
    expect(page).not_to_have_url(re.compile("/fork"))
    assert server.api.ask("GET", f"/executions/{run_id(page)}/state?parts=ctx")["ctx"]["account"] == EXACT


def test_numbers_are_shown_and_sent_as_they_are_written(open_page: PageOpener, server: PageServer) -> None:
    path = "written/numbers"
    text = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: numbers, path: {path}}}
workload: {{price: 20.0, account: {EXACT}}}
workflow: [{{step: start, tool: {{kind: noop, result: "{{{{ workload }}}}"}}}}]
"""
    server.api.register(text)
    page = open_page(f"/start/{path}", role="operator")
    expect(page.get_by_label("price")).to_have_value("20.0")
    page.get_by_role("tab", name="JSON").click()
    page.get_by_label("Payload").fill(f'{{"price": 30.0, "account": {EXACT + 2}}}')
    page.get_by_role("button", name="Start run").click()
    execution = run_id(page)
    server.api.ended(execution)
    page.goto(f"{server.url}/runs/{execution}?tab=data")
    tree = page.get_by_role("tree").last
    for number in ("30.0", str(EXACT + 2)):
        expect(tree).to_contain_text(number)
    state = server.api.http.get(f"{server.url}/api/v1/executions/{execution}/state?parts=workload").text
    assert f'"price":30.0,"account":{EXACT + 2}' in state


def test_a_response_is_given_with_the_facts_of_its_step(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    asked = APPROVAL.replace("PATH", "written/asked").replace("wiat", "wait")
    first = "  - {step: look, tool: {kind: noop, result: 12 days are left}, next: {arcs: [{step: ask}]}}\n  - step: ask"
    server.api.register(asked.replace("  - step: ask", first))
    page = open_page(f"/runs/{runs.until_waiting(runs.start('written/asked'))}", role="operator")
    page.get_by_role("button", name="Respond...").first.click()
    dialog = page.get_by_role("dialog", name="Respond: signal verdict")
    expect(dialog).to_contain_text("Wait for somebody to decide")
    expect(dialog).to_contain_text(re.compile(r"step ask#1, waiting .+, times out in 2 d 23 h"))
    dialog.get_by_text("Previous results").click()
    expect(dialog.get_by_role("definition")).to_have_text('"12 days are left"')
    dialog.get_by_text("More fields as JSON").click()
    dialog.get_by_label("JSON").fill("[1]")
    dialog.get_by_label("no", exact=True).check()
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_contain_text("Enter a map")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Respond...").first).to_be_focused()


def test_a_response_to_a_paused_run_is_kept_until_it_is_resumed(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    server.api.register(APPROVAL.replace("PATH", "written/paused").replace("wiat", "wait"))
    execution = runs.until_waiting(runs.start("written/paused"))
    page = open_page(f"/runs/{execution}", role="operator")
    header, summary = page.locator(".run-header"), page.locator(".waits")
    page.get_by_role("button", name="Pause").click()
    header.get_by_role("button", name="Respond...").click()
    page.get_by_role("dialog").get_by_label("yes").check()
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    received = "signal 'verdict' was received and is kept until the execution is resumed"
    expect(summary).to_contain_text(received)
    expect(header).to_contain_text("was received")
    expect(page.get_by_role("button", name="Respond...")).to_have_count(0)
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(header).to_contain_text("succeeded")


def test_inputs_of_a_start_survive_a_reload_until_they_are_sent_or_cancelled(
    open_page: PageOpener, server: PageServer
) -> None:
    server.api.register(
        APPROVAL.replace("PATH", "written/unsent")
        .replace("wiat", "wait")
        .replace("  subject: holiday", "  subject: holiday\n  limit: 1\n  db_password: none")
    )
    page = open_page("/playbooks/written/unsent", role="operator")
    page.goto(f"{server.url}/start/written/unsent")
    subject, limit, password = (page.get_by_label(name) for name in ("subject", "limit", "db_password"))
    subject.fill("birthday")
    limit.fill("many")
    password.fill("hunter2")
    page.reload()
    expect(subject).to_have_value("birthday")
    expect(limit).to_have_value("many")
    expect(password).to_have_value("none")  # a secret is not kept
    limit.fill("2")
    page.get_by_role("tab", name="JSON").click()
    payload = page.get_by_label("Payload")
    payload.fill('{"subject": "bir')
    page.reload()
    expect(payload).to_have_value('{"subject": "bir')
    payload.fill('{"db_password": "hunter2"}')
    assert "hunter2" not in page.evaluate("JSON.stringify({...sessionStorage, ...localStorage})")

    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="written/unsent")).to_be_visible()
    page.go_forward()
    expect(subject).to_have_value("holiday")
    subject.fill("sent")
    page.get_by_role("button", name="Start run").click()
    assert server.api.show(run_id(page))["payload"] == {"subject": "sent"}
    page.go_back()
    expect(subject).to_have_value("holiday")


def test_changes_of_a_fork_survive_a_reload_until_they_are_sent_or_cancelled(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    address = f"/runs/{runs['failed']}/fork?at=12"
    page = open_page(address, role="author")
    key, add = page.get_by_label("Key of ctx"), page.get_by_role("button", name="Change a value")
    for name, value in (("note", "by hand"), ("api_token", "hunter2")):
        add.click()
        key.last.fill(name)
        page.get_by_label(f"New value of {name}").fill(value)
    page.get_by_role("button", name="Edited").click()
    write(page, STOCK.replace("nothing to order", "edited"))
    page.reload()
    expect(page.get_by_label("New value of note")).to_have_value("by hand")
    expect(key).to_have_count(1)  # a secret is not kept
    expect(editor_of(page)).to_contain_text("result: edited")
    expect(page.get_by_role("button", name="Fork this run")).not_to_have_attribute("aria-disabled", "true")

    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".run-header")).to_be_visible()
    page.go_back()
    expect(add).to_be_visible()
    expect(key).to_have_count(0)
    add.click()
    key.fill("note")
    page.get_by_label("New value of note").fill("sent")
    page.get_by_role("button", name="Fork this run").click()
    assert server.api.ended(run_id(page))["ctx"] == {"note": "sent"}
    page.go_back()
    expect(add).to_be_visible()
    expect(key).to_have_count(0)


def test_playbooks_are_a_tree_that_is_filtered_and_leads_to_runs_and_versions(
    open_page: PageOpener, runs: ExampleRuns
) -> None:
    _ = runs["finished"]
    page = open_page("/playbooks", role="viewer")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="orders", exact=True))
    expect(row).to_contain_text("succeeded")
    page.get_by_role("button", name="shop/").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name="shop/").click()
    page.get_by_label("Filter").fill("ORD")
    expect(page).to_have_url(re.compile("q=ORD$"))
    expect(page.get_by_role("link", name="images", exact=True)).to_have_count(0)
    row.get_by_role("link", name="orders", exact=True).click()
    for tab, text in (("Graph", "reserve"), ("Runs", "succeeded"), ("Versions", "1"), ("Text", "step: reserve")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator("main")).to_contain_text(text)


def test_the_filter_finds_playbooks_of_other_pages(open_page: PageOpener, server: PageServer) -> None:
    page = open_page("/workers", role="viewer")
    page.route(
        re.compile(r"/playbooks\?limit=500"), lambda route: route.continue_(url=route.request.url.replace("500", "1"))
    )
    page.goto(f"{server.url}/playbooks")
    expect(page.get_by_role("link", name="images", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Next 500 playbooks")).to_be_visible()
    page.get_by_label("Filter").fill("STOCK")
    expect(page.get_by_role("link", name="stock", exact=True)).to_be_visible()
    page.get_by_label("Filter").fill("nothing like it")
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.get_by_role("link", name="images", exact=True)).to_be_visible()


def test_a_missing_credential_is_reported_and_nothing_starts(open_page: PageOpener, server: PageServer) -> None:
    playbook = APPROVAL.replace("PATH", "written/secret").replace("wiat", "wait")
    server.api.register(playbook + "keychain: [{name: shop_api, kind: bearer}]\n")
    page = open_page("/start/written/secret", role="operator", expect=["status of 4"])
    expect(page.get_by_text("The credential shop_api is missing.")).to_be_visible()
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("alert")).to_contain_text("shop_api")
    assert server.api.ask("GET", "/executions?path=written/secret")["items"] == []


def test_a_fork_follows_a_replay_that_differs(open_page: PageOpener, runs: ExampleRuns, server: PageServer) -> None:
    source = runs["failed"]
    page = open_page(f"/runs/{source}/fork", role="author")
    page.get_by_role("button", name="Edited").click()
    write(page, STOCK.replace("length > 0", "length > 1"))
    page.get_by_role("button", name="Replay against the log").click()
    expect(page.get_by_text("First difference: event")).to_contain_text("next.evaluated")
    graph = page.get_by_role("group", name="Graph of stock")
    expect(box(graph, "order")).to_contain_text("logged")
    expect(box(graph, "rest")).to_contain_text("replayed")
    check_accessibility(page)
    page.get_by_role("button", name="Fork before this event").click()
    expect(page).to_have_url(re.compile(r"at=\d+"))
    expect(page.get_by_role("status").filter(has_text="Kept:")).to_contain_text("Runs again")
    page.get_by_role("button", name="Change a value").click()
    page.get_by_label("Key of ctx").fill("note")
    page.get_by_label("New value of note").fill("forked by hand")
    page.get_by_role("button", name="Fork this run").click()
    expect(page.get_by_role("link", name=re.compile("^Source "))).to_have_attribute("href", f"/runs/{source}")
    forked = server.api.ended(run_id(page))
    page.go_back()
    expect(page.get_by_role("button", name="Fork this run")).to_be_visible()
    assert (forked["status"], forked["result"], forked["ctx"]) == (
        "succeeded",
        "nothing to order",
        {"note": "forked by hand"},
    )


def test_a_replay_without_a_difference_reports_it_until_the_text_changes(
    open_page: PageOpener, runs: ExampleRuns
) -> None:
    page = open_page(f"/runs/{runs['failed']}/fork?at=12", role="author")
    page.get_by_role("button", name="Edited").click()
    replay = page.get_by_role("button", name="Replay against the log")
    expect(replay).to_have_attribute("title", "The playbook is not changed.")
    write(page, STOCK.replace("nothing to order", "edited"))
    replay.click()
    expect(page.get_by_text("All decisions up to event 20 are the same.")).to_be_visible()
    write(page, STOCK.replace("length > 0", "length > 1"))
    expect(page.get_by_text("The playbook changed after the replay.")).to_be_visible()
    page.get_by_role("button", name="Replay again").click()
    expect(page.get_by_text("First difference: event 11")).to_contain_text("next.evaluated")
    page.get_by_label("Event number").fill("5")
    page.keyboard.press("Enter")
    expect(page.get_by_text("First difference: event 11")).to_contain_text("The fork begins before it, at event 5.")
    expect(page.get_by_role("button", name="Fork before this event")).to_have_count(0)


def test_a_draft_is_replayed_against_the_latest_runs(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    server.api.register(STOCK.replace("shop/stock", "written/replayed"))
    execution = runs.ended("written/replayed")
    page = open_page("/edit/written/replayed", role="author")
    expect(editor_of(page)).to_be_visible()
    page.get_by_role("button", name="Replay runs...").click()
    dialog = page.get_by_role("dialog", name="Replay runs")
    expect(dialog.get_by_role("status")).to_have_text("No run differs.")
    dialog.get_by_role("button", name="Close").last.click()
    write(page, STOCK.replace("shop/stock", "written/replayed").replace("length > 0", "length > 1"))
    page.get_by_role("button", name="Replay runs...").click()
    expect(dialog.get_by_role("status")).to_have_text("1 of 1 runs differ.")
    dialog.get_by_role("link", name=re.compile("^event ")).click()
    page.wait_for_url(f"**/runs/{execution}?at=*")
    page.go_back()
    expect(editor_of(page)).to_be_visible()


def test_a_run_that_has_ended_is_forked_at_its_last_step_unless_another_event_is_chosen(
    open_page: PageOpener, runs: ExampleRuns
) -> None:
    page = open_page(f"/runs/{runs['failed']}/fork", role="operator")
    expect(page.get_by_label("Event number")).to_have_value("14")
    expect(page.get_by_role("button", name="Fork this run")).not_to_have_attribute("aria-disabled", "true")


def test_the_dry_run_follows_the_event(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/runs/{runs['failed']}/fork?at=16", role="operator")
    preview = page.get_by_role("status").filter(has_text="Kept:")
    expect(preview).to_contain_text("Kept: count. Runs again: order#1 (from task send).")
    page.get_by_label("Event number").fill("9")
    page.keyboard.press("Enter")
    expect(preview).to_contain_text("Kept: nothing. Runs again: count#1 (from task sum).")
    graph = page.get_by_role("group", name="Graph of stock")
    expect(box(graph, "count")).to_contain_text("again")
    page.get_by_label("Event number").fill("12")
    page.keyboard.press("Enter")
    expect(preview).to_contain_text("Kept: count. Runs again: nothing. Continues at: order.")
    expect(box(graph, "count")).to_contain_text("kept")
    expect(box(graph, "order")).to_contain_text("next")
    slider = page.get_by_role("slider", name="Event of the fork")
    slider.fill("16")
    expect(page).to_have_url(re.compile("at=16"))
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^Event 16 of 20, .*task.done Error: python"))
    expect(preview).to_contain_text("Kept: count.")
    expect(page.get_by_role("button", name="Edited")).to_have_attribute("title", re.compile("author role"))


def test_a_double_click_on_retry_creates_one_run(open_page: PageOpener, server: PageServer, runs: ExampleRuns) -> None:
    source = runs.ended("shop/stock")
    page = open_page(f"/runs/{source}/fork?retry=1", role="operator")
    expect(page.get_by_text("Failed task: send of step order.")).to_be_visible()
    page.get_by_role("button", name="Retry this run").dblclick()
    retried = run_id(page)
    assert server.api.ended(retried)["forked_from"]["execution_id"] == source
    assert server.api.show(source)["forks"] == 1
    page.go_back()
    expect(page.get_by_role("button", name="Retry this run")).to_be_visible()


@pytest.mark.parametrize(
    ("tab", "text"),
    [
        ("steps", "Both runs used this playbook."),
        ("events", "; sets ctx.note"),
        ("data", "ctxnotenot set"),
        ("playbook", "Both runs used the same playbook."),
    ],
)
def test_two_runs_are_compared(open_page: PageOpener, runs: ExampleRuns, tab: str, text: str) -> None:
    page = open_page(f"/runs/{runs['fork']}", role="viewer")
    page.get_by_role("link", name="compare").click()
    expect(page).to_have_url(re.compile(f"/compare/{runs['failed']}/{runs['fork']}$"))
    first = page.get_by_text("B is a fork of A at event 12. All events are the same; the states differ. See Data.")
    expect(first).to_be_visible()
    page.get_by_role("tab", name=tab.capitalize()).click()
    expect(page.locator("main")).to_contain_text(text)
    if tab == "events":  # the other events are the same, one place later
        expect(page.locator(".compare-events tbody tr")).to_have_text(re.compile("^13 execution.forked"))
    if tab != "steps":
        expect(page).to_have_url(re.compile(f"tab={tab}"))


def test_events_that_differ_in_their_times_are_the_same(open_page: PageOpener, runs: ExampleRuns) -> None:
    other = runs.until_waiting(runs.start("shop/release"))
    page = open_page(f"/compare/{runs['waiting']}/{other}?tab=events&all=1", role="viewer")
    paused = page.locator(".compare-events tr").filter(has_text="step.paused")
    expect(paused).to_have_count(1)
    expect(paused).to_have_class("same")


def test_the_first_difference_is_shown_with_its_values(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    server.api.ended(other := server.api.start({"path": "shop/orders", "payload": {"limit": 7}}))
    page = open_page(f"/compare/{runs['finished']}/{other}", role="viewer")
    first = page.get_by_text("First difference: event 1, playbook.execution.requested:")
    expect(first).to_contain_text('payload not set in A, {"limit":7} in B')
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("tab=events"))
    expect(page.locator(".compare-events .differs").first).to_contain_text("1 playbook.execution.requested")
    page.get_by_role("tab", name="Steps").click()
    box = page.get_by_role("group", name="Graph of orders").locator(".box").filter(has_text="approve")
    expect(box.get_by_title("A has not run, B has not run")).to_be_visible()


def test_the_first_difference_of_a_fork_is_the_first_event_that_follows_from_its_changes(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    source = runs["failed"]
    text = STOCK.replace('{"A1": 20.0}', '{"A1": 20.0, "B7": 5.5}')
    retry = runs.act(source, "retry", playbook=text)["execution_id"]
    server.api.ended(retry)
    page = open_page(f"/compare/{source}/{retry}", role="viewer")
    words = "First difference: event 17 in A, 20 in B, step.failed of order#1 in A, task.done of order#1/send#2 in B"
    expect(page.get_by_text(f"B is a retry of A at event 16. {words}")).to_be_visible()
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".compare-events")).to_contain_text(re.compile("17 execution.forked .*; edits the playbook"))
    page.get_by_role("button", name="Swap").click()
    expect(page.get_by_text("A is a retry of B at event 16. First difference: event 20 in A, 17 in B,")).to_be_visible()


def test_playbooks_of_two_runs_are_merged(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/compare/{runs['finished']}/{runs['failed']}?tab=playbook", role="viewer")
    merged = page.get_by_role("table", name="Differences between A: version 1 and B: version 1")
    expect(merged.get_by_role("row").filter(has_text="kind: Playbook")).to_have_count(1)
    expect(merged).to_contain_text("- step: reserve")
    expect(merged).to_contain_text("- step: count")
    page.get_by_role("tab", name="Steps").click()
    expect(page.locator("main table")).to_contain_text("reserve")
    expect(page.get_by_role("group", name="Graph of")).to_have_count(0)


def test_a_comparison_shows_all_steps_and_can_be_swapped(open_page: PageOpener, runs: ExampleRuns) -> None:
    page = open_page(f"/compare/{runs['failed']}/{runs['fork']}", role="viewer")
    expect(page.get_by_text("All steps are the same.")).to_be_visible()
    page.get_by_label("only differences").uncheck()
    expect(page.get_by_role("row", name=re.compile("^order"))).to_contain_text("failed")
    page.get_by_role("button", name="Swap").click()
    expect(page).to_have_url(re.compile(f"/compare/{runs['fork']}/{runs['failed']}"))


def test_a_signal_that_nothing_waits_for_is_announced_as_such(
    open_page: PageOpener, runs: ExampleRuns, server: PageServer
) -> None:
    execution = runs.until_waiting(runs.start("shop/release"))
    page = open_page(f"/runs/{execution}", role="operator")
    open_action(page, "Send signal...")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("verdcit")
    expect(dialog).to_contain_text("No step waits for verdcit.")
    dialog.get_by_role("button", name="verdict").click()
    dialog.get_by_label("JSON").fill('{"ship": false}')
    dialog.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Signal verdict accepted.").first).to_be_visible()
    assert server.api.ended(execution)["result"] == "not shipped"


def open_action(page: Page, name: str) -> None:
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name=name).click()
