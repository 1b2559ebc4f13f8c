"""Mutated inputs for every target: a short sample here, minutes in `make soak-fuzz`."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import islice

import pytest
from tests.hostile.fuzz import inputs
from tests.hostile.targets import CRASHES, ROOT, TARGETS, crashes_of, seeds_of

SAMPLE = {"reader": 60, "assistant": 60}  # the others are quicker
SAMPLE_OF_OTHERS = 400
SEED = 17
SOAK_SECONDS = 120


def failures(name: str, count: int) -> list[str]:
    failed = []
    for data in [*seeds_of(name), *islice(inputs(name, SEED), count)]:
        try:
            TARGETS[name](data)
        except Exception as error:  # whatever it is, it is a defect
            failed.append(f"{data[:200]!r}: {type(error).__name__}: {str(error)[:200]}")
    return failed


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_a_defect(name: str) -> None:
    assert failures(name, SAMPLE.get(name, SAMPLE_OF_OTHERS)) == []


def test_a_target_notices_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "host", lambda data: 1 // len(data[:0]))
    assert failures("host", 1)


def test_every_stored_input_belongs_to_a_target() -> None:
    stored = {file for name in TARGETS for file in crashes_of(name)}
    assert set(CRASHES.glob("*")) - stored == set()


@pytest.mark.slow(part="fuzz")
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_a_defect_for_minutes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a seed of its own each time, which is printed; a defect is stored and fails `make test` from then on."""
    arguments = [sys.executable, "-m", "tests.hostile.fuzz", name, str(SOAK_SECONDS), str(int(time.time()))]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=SOAK_SECONDS * 4, check=False)
    with capsys.disabled():
        print(done.stdout.strip(), *done.stderr.strip().splitlines()[-3:], sep="\n")
    assert done.returncode == 0, done.stderr[-4000:]
