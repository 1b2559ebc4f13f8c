"""What holds for every test: the executions it ran keep every invariant of the engine."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import forked
from tests.soak import check_parts
from tests.verifying import check_databases, is_damaged, remember_runtimes, verified

from noetl.garbage import collector_paused


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    check_parts(items)


def pytest_xdist_auto_num_workers() -> int | None:
    """Half as many again as there are processors: tests wait for a third of their time."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else len(os.sched_getaffinity(0)) * 3 // 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Imports and collected tests are no garbage, and looking for some takes a tenth of the time."""
    with collector_paused():
        return (yield)


FULL_COLLECTION_EVERY = 100
"""Collections of the second generation. With ten, which is the default, they take a twenty-fifth of the time."""


def pytest_collection_finish() -> None:
    """Tests and modules stay until the end: the garbage collector need not look at them again, nor forks copy them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], FULL_COLLECTION_EVERY)


AUTHORITY = Path(__file__).parent / "servers" / "authority.pem"
"""A certificate of nobody. To read those of a whole system takes 50 ms for each of thousands of HTTP clients."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ["SSL_CERT_FILE"] = str(AUTHORITY)
    remember_runtimes()


@pytest.fixture(scope="session", autouse=True)
def session_is_sound() -> Iterator[None]:
    with verified():
        yield


@pytest.fixture(scope="session", autouse=True)
def state_of_servers(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["NOETL_STATE"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def fork_server_ends() -> Iterator[None]:
    yield
    forked.close()


@pytest.fixture(scope="module", autouse=True)
def module_is_sound(session_is_sound: None) -> Iterator[None]:
    with verified():
        yield


@pytest.fixture(autouse=True)
def test_is_sound(request: pytest.FixtureRequest, module_is_sound: None) -> Iterator[None]:
    damaged = is_damaged(request.node)
    folder: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    with verified(damaged):
        yield
        if folder is not None and not damaged:
            check_databases(folder)
