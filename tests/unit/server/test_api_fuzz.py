"""Requests made up from the description of the API: none of them meets a defect, and answers are as described."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from api_server import HELLO, ApiServer, register
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from tests.conformance.memory import MemoryStore

from noetl.keychain.master import MasterKeySource
from noetl.keychain.safe import Safe
from noetl.server.api import ServerSettings
from noetl.server.app import endpoints
from noetl.server.openapi import describe
from noetl.settings import MasterKeySettings

schema = schemathesis.openapi.from_dict(describe(endpoints(), "1"), config=SchemathesisConfig(color=False))
EXAMPLES = 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One that keeps credentials, too."""
    store, key = MemoryStore(), MasterKeySettings("ab" * 32, str(tmp_path_factory.mktemp("key") / "key"))
    one = ApiServer(store, ServerSettings(safe=Safe(store.credentials, MasterKeySource(key))))
    yield one
    one.close()


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_meets_a_defect(server: ApiServer, case: schemathesis.Case) -> None:
    worker = case.path.startswith("/api/v1/worker")
    if case.path == "/api/v1/worker/claim" and isinstance(case.body, dict):
        case.body["wait"] = 0
    headers = {"Authorization": f"Bearer {server.tokens['worker' if worker else 'admin']}"}
    checks = [not_a_server_error, status_code_conformance]
    if case.path != "/api/v1/worker/heartbeat":  # its answer has pairs, whose schema schemathesis misreads
        checks.append(response_schema_conformance)
    case.call_and_validate(base_url=server.url, headers=headers, timeout=120, checks=checks)


def test_the_server_still_works(server: ApiServer) -> None:
    with server.client("author") as client:
        register(client, HELLO)
        answer = client.post("/api/v1/executions", json={"path": "tests/hello"}, headers={"Prefer": "wait=60"})
        assert answer.json()["status"] == "succeeded"
