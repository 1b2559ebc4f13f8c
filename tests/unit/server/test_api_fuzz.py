"""Requests made up from the description of the API: none of them meets a defect, and answers are as described."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from api_server import HELLO, ApiServer, register
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from tests.conformance.memory import MemoryStore

from noetl.keychain.master import MasterKeySource
from noetl.keychain.safe import Safe
from noetl.server.api import ServerSettings
from noetl.server.app import endpoints
from noetl.server.openapi import describe
from noetl.settings import MasterKeySettings

EXAMPLES, EXAMPLES_OF_SOAK = 3, 6
OPERATIONS = {
    f"{method.upper()} {path}"
    for path, operations in describe(endpoints(), "1")["paths"].items()
    for method in operations
    if method in ("get", "put", "post", "delete", "patch", "head")
}
SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One that keeps credentials, too."""
    store, key = MemoryStore(), MasterKeySettings("ab" * 32, str(tmp_path_factory.mktemp("key") / "key"))
    one = ApiServer(store, ServerSettings(safe=Safe(store.credentials, MasterKeySource(key))))
    yield one
    one.close()


def described(*, coverage: bool) -> BaseSchema:
    """The API; with `coverage`, every edge value of every parameter is tried besides random ones."""
    config = SchemathesisConfig(color=False)
    config.projects.default.phases.coverage.enabled = coverage
    return schemathesis.openapi.from_dict(describe(endpoints(), "1"), config=config)


def check_case(server: ApiServer, case: schemathesis.Case) -> None:
    worker = case.path.startswith("/api/v1/worker")
    if case.path == "/api/v1/worker/claim" and isinstance(case.body, dict):
        case.body["wait"] = 0
    headers = {"Authorization": f"Bearer {server.tokens['worker' if worker else 'admin']}"}
    checks = [not_a_server_error, status_code_conformance]
    if case.path != "/api/v1/worker/heartbeat":  # its answer has pairs, whose schema schemathesis misreads
        checks.append(response_schema_conformance)
    case.call_and_validate(base_url=server.url, headers=headers, timeout=120, checks=checks)


def defects(server: ApiServer, schema: BaseSchema, examples: int) -> list[str]:
    """A message for each operation with an invalid response. One test calls all operations: with a parameter for each,
    every pytest worker would generate all requests."""
    messages, tested = [], set()
    options = settings(SETTINGS, max_examples=examples)
    for result in get_all_tests(schema=schema, test_func=check_case, settings=options, given_kwargs=None):
        operation, test = result.ok()
        tested.add(operation.label)
        try:
            test(server=server)
        except (Exception, FailureGroup) as error:  # the other operations are tried, too
            messages.append(f"{operation.label}: {error!r}")
    assert tested == OPERATIONS
    return messages


def test_no_request_meets_a_defect(server: ApiServer) -> None:
    assert defects(server, described(coverage=False), EXAMPLES) == []


@pytest.mark.slow(part="fuzz")
def test_no_request_at_the_edge_of_a_parameter_meets_a_defect(server: ApiServer) -> None:
    assert defects(server, described(coverage=True), EXAMPLES_OF_SOAK) == []


def test_the_server_still_works(server: ApiServer) -> None:
    with server.client("author") as client:
        register(client, HELLO)
        answer = client.post("/api/v1/executions", json={"path": "tests/hello"}, headers={"Prefer": "wait=60"})
        assert answer.json()["status"] == "succeeded"
