"""The description of the API is complete, and the one in the documentation is the one that is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import msgspec
from api_server import ApiServer

from noetl.server.app import endpoints
from noetl.server.openapi import describe, is_public, public
from noetl.server.roles import ALLOWED

COMMITTED = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"


def document() -> dict[str, Any]:
    return describe(public(endpoints()), "1")


def test_the_committed_document_is_up_to_date() -> None:
    fresh = msgspec.json.format(msgspec.json.encode(document()), indent=2) + b"\n"
    assert COMMITTED.read_bytes() == fresh, "run `make docs`"


def test_every_route_is_described() -> None:
    result = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    assert result == {route for route in ALLOWED if is_public(*route)}
    ids = [method["operationId"] for methods in document()["paths"].values() for method in methods.values()]
    assert len(ids) == len(set(ids))
    for methods in document()["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert "default" in operation["responses"]


def test_every_reference_leads_somewhere() -> None:
    result = document()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            assert not isinstance(value.get("items"), bool), "client generators know no tuples"
            assert value.get("type") != "array" or "items" in value, "client generators leave such a schema out"
            if isinstance(value.get("$ref"), str):
                assert value["$ref"].rpartition("/")[2] in result["components"]["schemas"]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(result)
    assert {"ExecutionView", "StartRequest", "ProblemDetails", "EventPage"} <= result["components"]["schemas"].keys()


def test_it_is_served(admin: httpx2.Client) -> None:
    served = admin.get("/api/v1/openapi.json").json()
    assert served == msgspec.json.decode(msgspec.json.encode(describe(public(endpoints()), "9.9")))
    assert served["openapi"].startswith("3.1")


def test_it_is_public_and_sent_once(server: ApiServer) -> None:
    with server.client(None) as anybody:
        answer = anybody.get("/api/v1/openapi.json")
        assert answer.status_code == 200
        again = anybody.get("/api/v1/openapi.json", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
