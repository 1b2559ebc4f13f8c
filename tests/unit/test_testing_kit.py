"""The helpers for people who test: tools are called as a worker calls them, playbooks run, and bad tools are seen."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from tools.docs.outcomes import ERRORS

from noetl.errors import FileMissing, NotFound, PlaybookInvalid
from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome, failed
from noetl.testing import Example, call_tool, check_kind, example, run_playbook, tool_context
from noetl.testing.conformance import ERROR_KINDS
from noetl.tools import noop
from noetl.tools.base import Context

HOME = noop.__name__
"""A tool that is made in a test says that it is from here: that module is light."""

# -- one call ---------------------------------------------------------------------------------------------------------


def test_tool_is_called_by_module_or_by_name() -> None:
    assert call_tool(noop, {"result": 5}) == call_tool("noop", {"result": 5}) == Outcome(result=5)


def test_fields_of_the_context_can_be_given() -> None:
    assert call_tool("noop", prev="before").result == "before"
    assert call_tool("python", {"code": "result = a + 1"}, args={"a": 1}).result == 2


def test_inputs_that_do_not_fit_are_an_outcome() -> None:
    error = call_tool("http", {"url": 5, "methode": "GET"}).error
    assert error is not None
    assert error.kind == "input"


def test_time_limit_is_kept() -> None:
    outcome = call_tool("python", {"code": "while True: pass"}, timeout=0.3)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)


def test_unknown_kind_is_reported() -> None:
    with pytest.raises(NotFound, match="pigeon"):
        call_tool("pigeon")
    with pytest.raises(TypeError, match="not a tool"):
        call_tool(SimpleNamespace())


async def _signing(inputs: Any, context: Context) -> Outcome:
    fields = await context.credential(inputs.auth)
    return Outcome(result=[fields, context.redact("my s3cret-value, as it is")])


def made(run: Any, name: str = "made", **more: Any) -> Any:
    """A tool out of one function."""

    class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
        auth: Annotated[Any, Meta(description="Whom to be")] = None
        text: Annotated[str, Meta(description="What to say")] = ""

    kind = Kind(name=name, summary="Does what the test says", inputs=Inputs, **more)
    return SimpleNamespace(KIND=kind, run=run, close=None, __module__=HOME)


def test_credentials_are_what_auth_can_name() -> None:
    tool, given = made(_signing), {"shop": {"kind": "bearer", "token": "s3cret-value"}}
    assert call_tool(tool, {"auth": "shop"}, credentials=given).result == [given["shop"], "my ***, as it is"]
    assert call_tool(tool, {"auth": {"a": 1}}).result[0] == {"a": 1}
    error = call_tool(tool, {"auth": "other"}, credentials=given).error
    assert error is not None
    assert error.kind == "auth"


def test_template_in_sql_sees_the_args() -> None:
    outcome = call_tool("duckdb", {"query": "SELECT {{ name }} AS name"}, args={"name": "x'; --"})
    assert outcome.result["rows"] == [{"name": "x'; --"}]
    error = call_tool("duckdb", {"query": "SELECT {{ name }} AS name"}).error
    assert error is not None
    assert error.kind == "template"


def test_failure_is_its_outcome_and_any_other_exception_is_raised() -> None:
    async def failing(inputs: Any, context: Context) -> Outcome:
        raise Failure("made.broken", "it broke") if inputs.text else ValueError("a defect")

    error = call_tool(made(failing), {"text": "x"}).error
    assert error is not None
    assert error.kind == "made.broken"
    with pytest.raises(ValueError, match="a defect"):
        call_tool(made(failing))


def test_context_for_a_call_of_ones_own() -> None:
    inputs = noop.Inputs()
    assert asyncio.run(noop.run(inputs, tool_context(prev=7))).result == 7


# -- a playbook -------------------------------------------------------------------------------------------------------

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
FETCH = (
    HEAD
    + """
workload: {url: "http://127.0.0.1:9/", at_least: 10}
workflow:
  - step: start
    tool:
      - get:
          kind: http
          url: "{{ workload.url }}"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
                  then: {do: retry, attempts: 3, delay: 30}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else:
                    then: {do: continue, set_ctx: {seen: "{{ outcome.result.data | length }}"}}
    next: {arcs: [{step: keep}]}
  - step: keep
    tool:
      - big:
          kind: python
          args: {numbers: "{{ steps.start.result.data }}", least: "{{ workload.at_least }}"}
          code: |
            print("keeping")
            result = [n for n in numbers if n >= least]
"""
)
ANSWER = Outcome(result={"status": 200, "headers": {}, "data": [5, 10, 20]})


def test_playbook_runs_with_a_tool_replaced() -> None:
    ended = run_playbook(FETCH, {"at_least": 20}, tools={"http": ANSWER})
    assert (ended.status, ended.result, ended.error) == ("succeeded", [20], None)
    assert ended.ctx == {"seen": 3}
    assert ended.steps["keep"]["runs"] == 1
    assert ended.logs == [("keep#1/big#1", "stdout", "keeping")]
    assert ended.events[-1]["event_type"] == "playbook.processed"
    assert len(ended.of("step.done")) == 2


def test_function_stands_in_and_waits_take_no_time() -> None:
    """The retry waits 30 seconds twice, which are durable timers."""
    calls: list[tuple[str, int]] = []

    async def flaky(inputs: Any, context: Context) -> Outcome:
        calls.append((inputs.url, context.attempt))
        return ANSWER if context.attempt == 3 else failed("connect", "not yet", retryable=True)

    ended = run_playbook(FETCH, {"url": "http://shop/"}, tools={"http": flaky}, seconds=20)
    assert (ended.status, ended.result) == ("succeeded", [10, 20])
    assert calls == [("http://shop/", 1), ("http://shop/", 2), ("http://shop/", 3)]


def test_failure_of_a_run_is_a_result_with_its_place() -> None:
    ended = run_playbook(FETCH, tools={"http": lambda inputs, context: failed("http_status", "no", status=404)})
    assert ended.status == "failed"
    assert ended.error is not None
    assert (ended.error["kind"], ended.error["step"], ended.error["task"]) == ("http_status", "start", "get")
    assert ended.error["line"] == 10


def test_playbook_in_a_file_and_its_child(tmp_path: Path) -> None:
    child = HEAD + "workload: {n: 0}\nworkflow: [{step: start, tool: {kind: noop, result: '{{ workload.n + 1 }}'}}]\n"
    (tmp_path / "child.yaml").write_text(child)
    parent = tmp_path / "parent.yaml"
    parent.write_text(
        HEAD + "workflow:\n  - step: start\n    tool: [{go: {kind: playbook, path: child, args: {n: 4},"
        " spec: {timeout: 1h}}}]\n"
    )
    assert run_playbook(parent).result == 5
    with pytest.raises(FileMissing):
        run_playbook(tmp_path / "nowhere.yaml")


def test_large_results_are_values() -> None:
    text = HEAD + 'workflow: [{step: start, tool: {kind: python, code: "result = list(range(50_000))"}}]\n'
    assert run_playbook(text).result == list(range(50_000))


WAIT = HEAD + "workflow: [{step: start, tool: {kind: wait, signal: go, spec: {timeout: 1h}}}]\n"


def test_signals_are_sent_ahead() -> None:
    assert run_playbook(WAIT, signals={"go": {"by": "ada"}}).result == {"by": "ada"}


def test_time_limit_of_a_wait_takes_no_time() -> None:
    ended = run_playbook(WAIT, seconds=20)
    assert ended.status == "failed"
    assert ended.error is not None
    assert ended.error["kind"] == "timeout"


def test_first_context_can_be_given() -> None:
    text = HEAD + "workflow: [{step: start, tool: {kind: noop, result: '{{ ctx.a }}'}}]\n"
    assert run_playbook(text, ctx={"a": 3}).result == 3


def test_run_that_does_not_end_is_given_up() -> None:
    text = HEAD + "workflow: [{step: start, tool: {kind: wait, signal: never}}]\n"
    with pytest.raises(TimeoutError):
        run_playbook(text, seconds=0.5)


def test_playbook_with_errors_is_not_run() -> None:
    with pytest.raises(PlaybookInvalid):
        run_playbook(HEAD + "workflow: [{step: start, tool: {kind: http}}]\n")


# -- tools that do not keep the contract are seen ---------------------------------------------------------------------

TOKEN = "canary-3f9a1c7e5b2d"
KEYS: dict[str, dict[str, Any]] = {"bearer": {"kind": "bearer", "token": TOKEN}}


def faults(tool: Any, *examples: Example) -> str:
    return "\n".join(check_kind(tool, examples))


async def _fine(inputs: Any, context: Context) -> Outcome:
    return Outcome(result=inputs.text)


def test_fine_tool_has_no_faults() -> None:
    assert faults(made(_fine), Example(inputs={"text": "a"})) == ""


def test_list_of_kinds_is_that_of_the_documentation() -> None:
    assert set(ERRORS) == ERROR_KINDS


def test_bad_description_is_seen() -> None:
    class Inputs(Struct, kw_only=True):
        spec: int = 0
        count: int = 0

    kind = Kind(name="Bad Name", summary="It is.", inputs=Inputs, timeout=-1, verbatim=("code",))
    said = faults(SimpleNamespace(KIND=kind, run=_fine, __module__=HOME))
    for words in ("'Bad Name'", "summary", "-1", "forbid_unknown_fields", "'spec'", "'code'", "'count' has no desc"):
        assert words in said


def test_functions_that_cannot_be_called_are_seen() -> None:
    tool = made(lambda inputs: None)
    tool.close = lambda now: None
    said = faults(tool)
    assert said.count("not an `async def`") == 2
    assert said.count("takes other arguments") == 2


def test_model_without_a_schema_is_seen() -> None:
    class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
        odd: Annotated[complex, Meta(description="Nothing that YAML has")] = 0j

    kind = Kind(name="odd", summary="Takes what nobody can write", inputs=Inputs)
    assert "JSON Schema" in faults(SimpleNamespace(KIND=kind, run=_fine, __module__=HOME))


def test_heavy_import_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy_tool.py").write_text(
        "import asyncio, jinja2, msgspec\nfrom noetl.model.kind import Kind\n"
        "class Inputs(msgspec.Struct, forbid_unknown_fields=True): pass\n"
        "KIND = Kind(name='heavy', summary='Is heavy', inputs=Inputs)\nasync def run(inputs, context): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import heavy_tool

    said = faults(heavy_tool)
    assert "imports asyncio" in said
    assert "imports jinja2" in said
    assert "imports msgspec" not in said


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Outcome(result={1, 2}), "cannot be stored"),
        (Outcome(result=[b"in a list"]), "cannot be stored"),
        (Outcome(result=float("nan")), "cannot be stored"),
        (Outcome(result=1, extra={"mine": {}}), "adds 'mine'"),
        (Outcome(result=1, extra={"own": {"a": object()}}), "values that JSON does not have"),
        (Outcome("error"), "has no error"),
        (failed("odd", "x"), "'odd' is not an error kind"),
        (failed("internal", "x"), "'internal' is not an error kind"),
        (failed("other.thing", "x"), "'other.thing' is not an error kind"),
        (failed("sql", " "), "no message"),
        (failed("sql", "x", what=object()), "error.details"),
        ({"status": "ok"}, "not an Outcome"),
    ],
    ids=range(12),
)
def test_bad_outcome_is_seen(outcome: Any, says: str) -> None:
    async def run(inputs: Any, context: Context) -> Outcome:
        return outcome

    assert says in faults(
        made(run, outcome="own"), Example(error=getattr(getattr(outcome, "error", None), "kind", None))
    )


@pytest.mark.parametrize("outcome", [Outcome(result=b"bytes"), Outcome(result={"data": b"x"}), failed("made.own", "x")])
def test_good_outcome_is_not(outcome: Outcome) -> None:
    async def run(inputs: Any, context: Context) -> Outcome:
        return outcome

    assert faults(made(run), Example(error=outcome.error.kind if outcome.error else None)) == ""


def test_other_end_than_expected_is_seen() -> None:
    assert "ends with an ok outcome, not with sql" in faults(made(_fine), Example(error="sql"))


def test_exception_is_seen() -> None:
    async def run(inputs: Any, context: Context) -> Outcome:
        return Outcome(result=inputs.text[0])

    said = faults(made(run), Example(inputs={"text": "a"}))
    assert "with text='': raises IndexError" in said
    assert "raises IndexError" in faults(made(run), Example(inputs={"text": ""}))


def test_secret_in_an_error_is_seen_whole_or_in_half() -> None:
    async def whole(inputs: Any, context: Context) -> Outcome:
        return failed("auth", f"no entry for {(await context.credential(inputs.auth))['token']}")

    async def half(inputs: Any, context: Context) -> Outcome:
        return failed("auth", f"no entry for {(await context.credential(inputs.auth))['token']}"[:25])

    async def logged(inputs: Any, context: Context) -> Outcome:
        context.log("stderr", (await context.credential(inputs.auth))["token"][:10])
        return Outcome()

    async def careful(inputs: Any, context: Context) -> Outcome:
        token = (await context.credential(inputs.auth))["token"]
        context.log("stderr", f"signing in with {token}")
        return failed("auth", context.redact(f"no entry for {token}")[:20])

    for run, error in ((whole, "auth"), (half, "auth"), (logged, None)):
        example = Example(inputs={"auth": "bearer"}, credentials=KEYS, error=error)
        assert "shows a secret" in faults(made(run), example), run.__name__
    assert faults(made(careful), Example(inputs={"auth": "bearer"}, credentials=KEYS, error="auth")) == ""


def test_cancelling_that_is_swallowed_is_seen() -> None:
    async def run(inputs: Any, context: Context) -> Outcome:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return Outcome()

    assert "swallows CancelledError" in faults(made(run), Example(lasts=True))
    assert "does not last" in faults(made(_fine), Example(lasts=True))


def test_leftovers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "END_SECONDS", 0.2)
    over = threading.Event()
    kept: list[Any] = []

    def forget() -> None:
        kept.append(threading.Thread(target=over.wait, name="forgotten", daemon=True))
        kept[-1].start()
        kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        kept.append(Path(__file__).open("rb"))  # noqa: SIM115 - that it stays open is the point

    async def run(inputs: Any, context: Context) -> Outcome:
        kept.append(asyncio.create_task(asyncio.sleep(0.5)))
        forget()
        return Outcome()

    try:
        said = faults(made(run), Example())
    finally:
        over.set()
        for one in kept:
            if isinstance(one, subprocess.Popen):
                one.kill()
                one.wait()
            elif not isinstance(one, threading.Thread | asyncio.Task):
                one.close()
    assert "a task is left" in said
    assert "a thread is left: forgotten" in said
    assert "a process is left" in said
    assert f"a file is left open: {__file__}" in said


def test_close_that_works_once_is_seen() -> None:
    tool, connections = made(_fine), ["the only one"]

    async def close() -> None:
        connections.remove("the only one")

    tool.close = close
    assert "called twice before any call: ValueError" in faults(tool)
