"""The process that forks the others, one for each process of the test run; they share the survey."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from tests.once import made_once

from crash.proof import Nursery


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery()
    nursery.survey = pickle.loads(
        made_once(tmp_path_factory, "crash-survey.pickle", lambda: pickle.dumps(nursery.survey))
    )
    yield nursery
    nursery.close()
