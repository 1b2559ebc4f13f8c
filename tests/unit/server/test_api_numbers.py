"""Numbers that no database keeps: every one in a request is refused, and none meets a defect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from api_server import HELLO, ApiServer, begun, register
from msgspec import inspect
from shared_store import server_at

from noetl.server.app import endpoints
from noetl.server.endpoint import Endpoint
from noetl.server.roles import ALLOWED

NUMBERS = (2**63, 2**64, -1, -(2**63) - 1, 10**30, 1e308, 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """On SQLite, whose integers have 64 bits."""
    one = server_at(str(tmp_path_factory.mktemp("numbers") / "noetl.db"))
    with one.client("author") as client:
        register(client)
    yield one
    one.close()


def sample(kind: inspect.Type) -> Any:
    """Some value of a type."""
    match kind:
        case inspect.UnionType(types=types):
            return None if any(isinstance(type_name, inspect.NoneType) for type_name in types) else sample(types[0])
        case inspect.StructType(fields=fields):
            return {field.encode_name: sample(field.type) for field in fields if field.required}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [sample(item)]
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.DictType():
            return {}
        case inspect.BoolType():
            return False
        case _:
            return "tests/hello"


def numbers_in(kind: inspect.Type, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where numbers may stand in values of a type."""
    match kind:
        case inspect.IntType() | inspect.FloatType():
            yield path
        case inspect.Metadata(type=described):
            yield from numbers_in(described, path)
        case inspect.UnionType(types=types):
            for type_name in types:
                yield from numbers_in(type_name, path)
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from numbers_in(field.type, (*path, field.encode_name))
        case inspect.ListType(item_type=item):
            yield from numbers_in(item, (*path, 0))


def bodies() -> Iterator[tuple[Endpoint, tuple[str | int, ...]]]:
    for endpoint in endpoints():
        if endpoint.body is not None:
            kind = inspect.type_info(endpoint.body)
            for path in numbers_in(kind):
                yield endpoint, path


def placed(value: Any, path: tuple[str | int, ...], number: float) -> Any:
    """The value with the number in its place."""
    if not path:
        return number
    first, *rest = path
    if isinstance(first, int):
        return [placed(value[0], tuple(rest), number)]
    known = (value or {}).get(first)
    return {**(value or {}), first: placed(known, tuple(rest), number)}


def target(endpoint: Endpoint, execution: str) -> str:
    parts = {"{id}": execution, "{hash}": "a" * 64, "{name}": "n", "{path}": "tests/hello"}
    return re.sub(r"\{\w+\}", lambda match: parts[match[0]], endpoint.path)


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [pytest.param(one, path, id=f"{one.method} {one.path} {path}") for one, path in bodies()],
)
def test_no_number_in_a_body_meets_a_defect(server: ApiServer, endpoint: Endpoint, path: tuple[str | int, ...]) -> None:
    base = sample(inspect.type_info(endpoint.body))
    base = base if base is not None else {}
    if endpoint.path.endswith("/executions") or endpoint.path.endswith("/schedules"):
        base["path"] = "tests/hello"
    if endpoint.path.endswith("/worker/claim"):
        base["wait"] = 0
    roles = ALLOWED[endpoint.method, endpoint.path]
    with server.client() as admin, server.client("worker" if roles == {"worker"} else "admin") as client:
        execution = begun(admin, {"path": "tests/hello"})
        for number in NUMBERS:
            if path == ("wait",) and number > 0:
                continue  # that is a time to wait, and it is cut
            body = json.dumps(placed(base, path, number)).encode()
            answer = client.request(
                endpoint.method,
                target(endpoint, execution),
                content=body,
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code < 500, (number, answer.text)


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        pytest.param(endpoint, field.encode_name, id=f"{endpoint.path} {field.encode_name}")
        for endpoint in endpoints()
        if endpoint.query is not None
        for field in inspect.type_info(endpoint.query).fields
        if list(numbers_in(field.type))
    ],
)
def test_no_number_behind_a_question_mark_meets_a_defect(server: ApiServer, endpoint: Endpoint, name: str) -> None:
    body = {"content": b"{}", "headers": {"Content-Type": endpoint.media[0]}} if endpoint.media else {}
    with server.client() as client:
        execution = begun(client, {"playbook": HELLO})
        for number in (2**31, 2**63, 2**64, -1, 10**14, 10**30, "1e3", "٣"):
            answer = client.request(endpoint.method, target(endpoint, execution), params={name: str(number)}, **body)
            assert answer.status_code == 422, (number, answer.text)


def test_no_seq_in_a_header_meets_a_defect(server: ApiServer) -> None:
    with server.client() as client:
        execution = begun(client, {"path": "tests/hello"})
        for number in (2**63, 2**64, -1, 10**30):
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(number)}
            assert client.get(f"/api/v1/executions/{execution}/events", headers=headers).status_code == 422
