"""One suite of playbooks, and every mode ends it in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.acceptance.modes.playbooks import CASES, SECRET, Case
from tests.acceptance.modes.stage import Mode, Served, until
from tests.test_examples import ENDINGS, Ending

EXAMPLES = Path(__file__).parents[3] / "examples"
REPRESENTATIVE = ("parallel_loop", "family", "secret")
"""Between them they need several workers, a child execution and a credential."""
NEED_NOTHING = ("hello", "cycle", "fan_out_join", "large_result", "nested_loops", "shell_words")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.every_mode if name in REPRESENTATIVE else ()) for name in CASES]
)
def test_playbook_ends_as_it_should(mode: Mode, name: str) -> None:
    case = CASES[name]
    process = mode.run(case.text, case.payload)
    assert (process["status"], process["result"]) == (case.status, case.result), process
    if case.ctx is not None:
        assert process["ctx"] == case.ctx
    if case.error is not None:
        assert {key: process["error"][key] for key in case.error} == case.error
    _check_logs(mode, process["execution_id"], case)
    assert SECRET not in str(process)


def _check_logs(mode: Mode, execution: str, case: Case) -> None:
    """What tasks have written is there when the run has ended, or a moment later."""
    if case.logs:
        lines = until(lambda: [log["line"] for log in mode.logs(execution)])
        assert [line for line in case.logs if line not in lines] == []


@pytest.mark.parametrize(
    ("name", "ending"),
    [(name, ending) for name in NEED_NOTHING for ending in ENDINGS[name]],
    ids=[f"{name}-{number}" for name in NEED_NOTHING for number in range(len(ENDINGS[name]))],
)
def test_example_ends_as_it_should(mode: Mode, name: str, ending: Ending) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text("utf-8")
    process = mode.run(text, _payload(ending.args))
    assert (process["status"], process["result"]) == ("succeeded", ending.result)


def _payload(args: tuple[str, ...]) -> dict[str, Any]:
    """What `--set a.b=1` means."""
    result: dict[str, Any] = {}
    for text in args[1::2]:
        path, _, value = text.partition("=")
        *outer, last = path.split(".")
        place = result
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = value if value.startswith(";") else yaml.safe_load(value)
    return result


METADATA = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: curious, path: modes/curious}
workflow:
  - step: ask
    tool: {kind: http, url: "http://169.254.169.254/latest/meta-data", spec: {timeout: 5}}
"""


def test_a_server_does_not_ask_for_its_own_metadata(mode: Mode) -> None:
    if not isinstance(mode, Served):
        pytest.skip("a run on a person's own machine may ask whom it likes")
    process = mode.run(METADATA, {})
    assert process["error"]["kind"] == "connect"
    assert process["steps"]["ask"]["error"]["retryable"] is False
