"""A slow test is run by a part of the soak, and each part has its time stored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import soak
from tests.soak import PARTS, TESTS, LastRun, check_parts


def item(path: str, **part: str) -> Any:
    marker = pytest.mark.slow(**part).mark
    return SimpleNamespace(nodeid=path, path=TESTS / path, get_closest_marker=lambda name: marker)


def test_every_path_of_a_part_exists() -> None:
    assert [path for part in PARTS.values() for path in part.paths if not (TESTS / path).exists()] == []


@pytest.mark.parametrize(
    "unassigned",
    [
        pytest.param(item("crash/test_crash.py"), id="no part"),
        pytest.param(item("crash/test_crash.py", part="unknown"), id="unknown part"),
        pytest.param(item("unit/test_metrics.py", part="crash"), id="outside of its paths"),
    ],
)
def test_a_slow_test_that_no_part_would_run_is_refused(unassigned: Any) -> None:
    with pytest.raises(pytest.UsageError, match=unassigned.nodeid):
        check_parts([unassigned])


def test_a_slow_test_below_the_paths_of_its_part_is_accepted() -> None:
    check_parts([item("crash/test_crash.py", part="crash"), item("property/test_damage.py", part="damage")])


def test_the_time_of_each_part_is_stored_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "TIMES", tmp_path / "times.json")
    soak.store({"mutants": LastRun(90.0, "2026-01-01 10:00", True), "crash": LastRun(30.0, "2026-01-01 10:01", True)})
    last_runs = soak.store({"crash": LastRun(60.0, "2026-01-02 10:00", False)})
    assert list(soak.table(last_runs)) == [
        "crash           1.0 min  2026-01-02 10:00 UTC  failed",
        "mutants         1.5 min  2026-01-01 10:00 UTC",
    ]
