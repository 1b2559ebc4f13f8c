"""kinds wait and playbook: both park and leave the outcome to others."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest

from noetl.model.identity import child_id
from noetl.pipeline.host import ParkedCall, Waiting
from noetl.tools import playbook, wait
from noetl.tools.base import Context


def context(**given: Any) -> Context:
    plain: dict[str, Any] = {
        "execution": "e1",
        "action": "a" * 32,
        "attempt": 1,
        "step": "ask",
        "task": "approval",
        "timeout": None,
        "args": {"of": "token", "year": 2025},
        "prev": None,
        "log": lambda stream, line: None,
        "own_args": {"year": 2025},
        "now": 1000.0,
    }
    return Context(**plain | given)


def waiting(run: Any, inputs: Any, given: Context) -> Waiting:
    with pytest.raises(ParkedCall) as parked:
        asyncio.run(run(inputs, given))
    return parked.value.wait


def test_wait_parks_for_ever_unless_told_otherwise() -> None:
    assert waiting(wait.run, wait.Inputs(signal="approved"), context()) == Waiting("signal", "approved", None, None)


@pytest.mark.parametrize(("timeout", "due"), [(60, 1060.0), (0.5, 1000.5), (0, 1000.0)])
def test_wait_parks_until_its_time_is_over(timeout: float, due: float) -> None:
    assert waiting(wait.run, wait.Inputs(signal="approved"), context(timeout=timeout)).due == due


def test_signal_needs_a_name() -> None:
    for inputs in ({"signal": ""}, {"signals": []}, {"signals": ["a", ""]}):
        with pytest.raises(msgspec.ValidationError, match="length"):
            msgspec.convert(inputs, wait.Inputs)


def test_a_signal_is_not_named_by_a_secret() -> None:
    hiding = context(redact=lambda value: value.replace("open-sesame", "***"))
    outcome = asyncio.run(wait.run(wait.Inputs(signal="say-open-sesame"), hiding))
    assert outcome.error is not None
    assert outcome.error.kind == "input"
    assert "open-sesame" not in outcome.error.message


def test_wait_has_no_limit_of_its_own() -> None:
    assert wait.KIND.timeout is None
    assert playbook.KIND.timeout is None


def test_playbook_asks_for_a_child_with_the_tasks_own_args() -> None:
    asked = waiting(playbook.run, playbook.Inputs(path="reports/quarter", version=3), context())
    assert (asked.until, asked.due) == ("child", None)
    assert asked.request == {"path": "reports/quarter", "version": 3, "payload": {"year": 2025}, "step": "ask"}


def test_child_is_the_same_when_the_attempt_is_requested_again() -> None:
    inputs = playbook.Inputs(path="reports/quarter")
    first = waiting(playbook.run, inputs, context()).key
    assert waiting(playbook.run, inputs, context()).key == first
    assert str(UUID(first)) == first
    assert first == "9b68d739-f6ea-5155-a3fd-65d6d0aedf52"  # stored executions refer to it: it cannot change


def test_child_differs_by_action_and_attempt() -> None:
    ids = {child_id(action, attempt) for action in ("a", "b", "a|1") for attempt in (1, 2, 11)}
    assert len(ids) == 9


def test_playbook_needs_a_path() -> None:
    outcome = asyncio.run(playbook.run(playbook.Inputs(path=""), context()))
    assert outcome.error is not None
    assert outcome.error.kind == "input"
