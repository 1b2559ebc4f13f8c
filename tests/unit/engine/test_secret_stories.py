"""Secrets and bytes on their way through a pipeline: opened in inputs, hidden in everything that leaves."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from stage import Stage, play

from noetl.engine.commands import Signal
from noetl.engine.events import TaskDone
from noetl.model.actor import Actor
from noetl.model.outcome import failed
from noetl.reference import Reference

SECRET = "s3cr3t-Token/42"
KEYCHAIN = "keychain: [{name: api, kind: bearer, provider: env, key: TEST_API_TOKEN}]\n"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_TOKEN", SECRET)


def clean(stage: Stage) -> bool:
    """Whether nothing that was stored holds the secret."""
    stored = [row.data for row in stage.store.read(stage.state.id)] + list(stage.store.blobs.values())
    return not any(SECRET.encode() in data for data in stored)


def test_a_secret_is_opened_in_args_and_hidden_in_the_result() -> None:
    seen: list[Any] = []

    def f(token: str, header: str) -> Any:
        seen.extend((token, header))
        return {"echo": token, "large": [header] * 5000}

    end = play(
        "- {step: start, tool: {kind: python, code: f, args: {token: '{{ keychain.api.token }}', header: 'Bearer {{ keychain.api.token }}'}}}",
        head=KEYCHAIN,
        tools={"f": f},
    )
    assert seen == [SECRET, f"Bearer {SECRET}"]
    assert end.state.status == "succeeded"
    assert clean(end)


def test_a_secret_is_hidden_in_errors_logs_and_patches() -> None:
    def f(token: str, context: Any) -> Any:
        context.log("stdout", f"signing in with {token}")
        return failed("auth", f"{token} was refused", sent=token)

    lines: list[str] = []

    async def during(stage: Stage) -> None:
        stage.engine.worker.write_output = lambda task, stream, line: lines.append(line)
        await stage.drive()

    end = play(
        """
        - step: start
          tool:
            - t:
                kind: python
                code: f
                args: {token: "Bearer {{ keychain.api.token }}"}
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sent: "{{ args.token }}", said: "{{ outcome.error.message }}"}}}}]}}
        """,
        head=KEYCHAIN,
        tools={"f": f},
        during=during,
    )
    assert end.state.ctx == {"sent": "Bearer ***", "said": "Bearer *** was refused"}
    assert lines == ["signing in with Bearer ***"]
    assert clean(end)


def test_r14_a_secret_is_hidden_in_the_actor_and_the_payload_of_a_signal() -> None:
    """The events of the request itself have what was sent; everything that leaves the worker is redacted."""

    async def during(stage: Stage) -> None:
        await stage.handle(Signal("verdict", "1", {"note": f"use {SECRET}"}, actor=Actor("token", f"ci {SECRET}")))
        await stage.drive()

    end = play(
        """
        - step: start
          tool:
            - w:
                kind: wait
                signal: verdict
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {by: "{{ outcome.actor.name }}"}}}}]}}
        """,
        head=KEYCHAIN,
        during=during,
    )
    assert end.state.ctx == {"by": "ci ***"}
    (done,) = [event for event in end.events if isinstance(event, TaskDone)]
    assert done.outcome.extra == {"actor": {"kind": "token", "name": "ci ***"}}
    assert "use ***" in str(done.outcome.result)
    assert SECRET not in str(end.state.result)


def test_a_keychain_value_cannot_be_kept() -> None:
    end = play(
        """
        - step: start
          tool:
            - t:
                kind: noop
                args: {token: "{{ keychain.api.token }}"}
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {kept: "{{ args.token }}"}}}}]}}
        """,
        head=KEYCHAIN,
    )
    assert end.state.status == "failed"
    assert "cannot be stored" in end.state.error["message"]


def test_a_guard_cannot_look_into_a_secret() -> None:
    end = play(
        """
        - step: start
          tool:
            - t:
                kind: noop
                args: {token: "{{ keychain.api.token }}"}
                spec: {policy: {rules: [{when: "{{ args.token | length > 3 }}", then: {do: continue}}]}}
        """,
        head=KEYCHAIN,
    )
    assert end.state.error["kind"] == "template"
    assert "inputs of a tool" in end.state.error["message"]


@pytest.mark.parametrize(
    ("use", "said"),
    [("keychain.api.nothing", "has no field 'nothing'"), ("keychain.api", "name one of its fields")],
    ids=["field", "entry"],
)
def test_a_wrong_use_is_reported(use: str, said: str) -> None:
    end = play(f"- {{step: start, tool: {{kind: noop, result: 'x {{{{ {use} }}}}'}}}}", head=KEYCHAIN)
    assert end.state.error["kind"] == "template"
    assert said in end.state.error["message"]


def test_a_secret_that_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_API_TOKEN")
    end = play("- {step: start, tool: {kind: noop, result: '{{ keychain.api.token }}'}}", head=KEYCHAIN)
    assert end.state.status == "failed"
    assert "TEST_API_TOKEN" in end.state.error["message"]


# -- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["whole", "in a map"])
def test_bytes_are_stored_as_they_are_and_reach_the_next_tool(shape: str) -> None:
    data = bytes(range(256)) * 10
    part = "_prev" if shape == "whole" else "_prev.data"
    end = play(
        f"""
        - step: start
          tool:
            - make: {{kind: python, code: make}}
            - show: {{kind: noop, result: "{{{{ {part} }}}}"}}
        """,
        tools={"make": lambda: data if shape == "whole" else {"data": data, "size": len(data)}},
    )
    result = end.state.result
    assert isinstance(result, Reference)
    assert (result.schema_hint, result.size) == ("binary", len(data))
    assert end.store.blobs[result.key] == data


def test_a_template_cannot_look_into_bytes() -> None:
    end = play(
        """
        - step: start
          tool:
            - make: {kind: python, code: make}
            - show: {kind: noop, result: "{{ _prev | length }}"}
        """,
        tools={"make": lambda: b"\xff\x00"},
    )
    assert end.state.error["kind"] == "template"
    assert "binary" in end.state.error["message"]


def test_a_child_gets_args_in_which_a_secret_is_hidden() -> None:
    """The server derives the payload too, and sees what the worker has hidden in it."""
    child = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: child}
workload: {plain: '', nested: {}, number: 0}
workflow:
  - {step: start, tool: {kind: noop, result: "{{ [workload.plain, workload.nested, workload.number] }}"}}
"""
    call = """
        - step: start
          tool:
            - use: {kind: noop, args: {token: "{{ keychain.api.token }}"}}
            - call:
                kind: playbook
                path: child
                args: {plain: "sent {{ workload.text }} twice", nested: {deep: ["{{ workload.text }}"]}, number: "{{ workload.number }}"}
    """
    payload = {"text": f"Bearer {SECRET}", "number": 7}
    end = play(call, head=KEYCHAIN + "workload: {text: '', number: 0}\n", payload=payload, children={"child": child})
    assert end.state.status == "succeeded", end.state.error
    assert end.state.result == ["sent Bearer *** twice", {"deep": ["Bearer ***"]}, 7]


@pytest.mark.parametrize(
    "task",
    [
        "[{h: {kind: secrets, provider: env, key: TEST_API_TOKEN}}, {t: {kind: noop, result: '{{ _prev.value | reverse }}'}}]",
        "[{h: {kind: secrets, provider: env, key: TEST_API_TOKEN}}, {t: {kind: noop, result: '{{ _prev.value[1:] }}'}}]",
        "{kind: noop, result: '{% set x = keychain.api.token %}{{ x | upper }}'}",
        "{kind: noop, args: {a: 'Bearer {{ keychain.api.token }}'}, result: '{{ args.a | reverse }}'}",
        """{kind: noop, args: {a: '{{ "x" ~ keychain.api.token }}'}, result: '{{ args.a | reverse }}'}""",
        "{kind: shell, args: {a: 'Bearer {{ keychain.api.token }}'}, command: 'echo {{ args.a | reverse }}'}",
    ],
)
def test_a_template_that_takes_a_secret_apart_fails_its_task(task: str) -> None:
    end = play(f"- {{step: start, tool: {task}}}", head=KEYCHAIN)
    assert end.state.status == "failed"
    assert end.state.error is not None
    assert end.state.error["kind"] == "template"
    assert "cannot be taken apart" in end.state.error["message"]
    assert clean(end)
    stored = b"".join(row.data for row in end.store.read(end.state.id))
    assert SECRET[::-1].encode() not in stored


def test_what_was_joined_to_a_secret_is_hidden_where_it_is_kept() -> None:
    end = play(
        """
        - step: start
          tool:
            - t:
                kind: noop
                args: {a: '{{ "x" ~ keychain.api.token }}', b: ['y {{ keychain.api.token }}']}
                result: "{{ args }}"
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {a: "{{ args.a }}", b: "{{ args.b }}"}}}}]}}
        """,
        head=KEYCHAIN,
    )
    assert end.state.status == "succeeded", end.state.error
    assert end.state.ctx == {"a": "x***", "b": ["y ***"]}
    assert clean(end)


# -- another worker ---------------------------------------------------------------------------------------------------


def forgetful(engine: Any) -> None:
    """As if another worker went on: what was opened so far is known to nobody."""
    engine.worker.redactors.clear()


def test_what_one_worker_has_opened_by_a_handle_another_one_hides() -> None:
    sent: list[str] = []
    stages: list[Stage] = []
    lines: list[str] = []

    def send(value: str) -> Any:
        sent.append(value)
        forgetful(stages[0].engine)
        return "sent"

    def back(context: Any) -> Any:
        context.log("stdout", f"read {sent[0]}")
        return {"read": sent[0]}

    async def during(stage: Stage) -> None:
        stages.append(stage)
        stage.engine.worker.write_output = lambda task, stream, line: lines.append(line)
        await stage.drive()

    end = play(
        """
        - step: start
          tool:
            - h: {kind: secrets, provider: env, key: TEST_API_TOKEN}
            - t: {kind: python, code: send, args: {value: "{{ _prev.value }}"}}
          next: {arcs: [{step: back}]}
        - {step: back, tool: {kind: python, code: back}}
        """,
        tools={"send": send, "back": back},
        during=during,
    )
    assert end.state.status == "succeeded", end.state.error
    assert sent == [SECRET]
    assert end.state.steps["back"].result == {"read": "***"}
    assert lines == ["read ***"]
    assert clean(end)


def test_what_one_worker_has_opened_at_a_vault_another_one_hides(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("VAULT_ADDR", httpserver.url_for("").rstrip("/"))
    monkeypatch.setenv("VAULT_TOKEN", "the-token-of-vault")
    httpserver.expect_request("/v1/secret/data/shop").respond_with_json({"data": {"data": {"token": SECRET}}})
    sent: list[str] = []
    stages: list[Stage] = []

    def send(value: str) -> Any:
        sent.append(value)
        forgetful(stages[0].engine)
        return "sent"

    async def during(stage: Stage) -> None:
        stages.append(stage)
        await stage.drive()

    end = play(
        """
        - step: start
          tool: {kind: python, code: send, args: {value: "{{ keychain.far.token }}"}}
          next: {arcs: [{step: back}]}
        - {step: back, tool: {kind: python, code: back}, next: {arcs: [{step: more}]}}
        - {step: more, tool: {kind: python, code: back}}
        """,
        head="keychain: [{name: far, kind: bearer, provider: vault, key: shop}]\n",
        tools={"send": send, "back": lambda: {"read": sent[0]}},
        during=during,
    )
    assert end.state.status == "succeeded", end.state.error
    assert sent == [SECRET]
    assert end.state.steps["back"].result == end.state.steps["more"].result == {"read": "***"}
    assert clean(end)
    assert len(httpserver.log) == 2, "each worker asks once for an execution"


def test_handles_that_nobody_here_may_open_do_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[Stage] = []

    def leave() -> Any:
        monkeypatch.delenv("TEST_API_TOKEN")
        forgetful(stages[0].engine)
        return "left"

    async def during(stage: Stage) -> None:
        stages.append(stage)
        await stage.drive()

    end = play(
        """
        - step: start
          tool:
            - h: {kind: secrets, provider: env, key: TEST_API_TOKEN}
            - t: {kind: python, code: leave}
          next: {arcs: [{step: back}]}
        - {step: back, tool: {kind: noop, result: fine}}
        """,
        tools={"leave": leave},
        during=during,
    )
    assert end.state.status == "succeeded", end.state.error
    assert list(end.state.handles) == ["env/TEST_API_TOKEN@#value"]
