"""No proxy of the machine has a part in what happens on loopback."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
