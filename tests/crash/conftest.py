"""The process that forks the others, one for each process of the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crash.proof import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()
