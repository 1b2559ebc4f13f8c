"""Secrets and bytes on their way through a pipeline: opened in inputs, hidden in everything that leaves."""

# ruff: noqa: E501 (playbooks in one line a step are easier to compare)

from __future__ import annotations

from typing import Any

import pytest
from stage import Stage, play

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
        stage.engine.worker.log = lambda task, stream, line: lines.append(line)
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


def test_a_keychain_value_can_not_be_kept() -> None:
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
    assert "can't be kept" in end.state.error["message"]


def test_a_guard_can_not_look_into_a_secret() -> None:
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
def test_a_wrong_use_is_told(use: str, said: str) -> None:
    end = play(f"- {{step: start, tool: {{kind: noop, result: 'x {{{{ {use} }}}}'}}}}", head=KEYCHAIN)
    assert end.state.error["kind"] == "template"
    assert said in end.state.error["message"]


def test_a_secret_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
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
    found = end.state.result
    assert isinstance(found, Reference)
    assert (found.schema_hint, found.size) == ("binary", len(data))
    assert end.store.blobs[found.key] == data


def test_a_template_can_not_look_into_bytes() -> None:
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
