"""The description of the API as an OpenAPI 3.1 document, made of the endpoints themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from noetl.server.call import JSON, Endpoint, Query
from noetl.server.problems import MEDIA, TITLES
from noetl.server.roles import ALLOWED, FORMS, PREFIX
from noetl.server.wire import ProblemDetails

REFERENCE = "#/components/schemas/{name}"
RAW = (str, bytes)
"""Types of content that is not JSON."""
DESCRIBED = {
    "id": "The id of an execution.",
    "hash": "A SHA-256 in hex.",
    "name": "A name.",
    "path": "A path; slashes in it stay slashes.",
}


def describe(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """The document."""
    endpoints = list(endpoints)
    types = [kind for endpoint in endpoints for kind in _types(endpoint)]
    _, components = msgspec.json.schema_components([*types, ProblemDetails], ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "noetl",
            "version": version,
            "description": "Register playbooks, run them, and follow their executions.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token: `noetl_...`."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "__Host-noetl",
                    "description": "What POST /sessions sets. Changes also need its CSRF token in X-CSRF-Token.",
                },
            },
        },
    }


def _types(endpoint: Endpoint) -> Iterator[Any]:
    if endpoint.body is not None and endpoint.body not in RAW:
        yield endpoint.body
    yield from (kind for kind in endpoint.answers.values() if kind is not None and not isinstance(kind, str))


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    says = " ".join(endpoint.says.split())
    roles = ALLOWED[endpoint.method, endpoint.path]
    who = "Anybody may ask." if roles is None else f"Roles: {', '.join(sorted(roles))}."
    found: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "tags": [_tag(endpoint)],
        "summary": re.split(r"(?<=[.:]) ", says)[0].rstrip(".:"),
        "description": f"{says} {who}",
        "security": [] if roles is None else [{"token": []}, {"session": []}],
        "parameters": [*_path_parameters(endpoint), *_parameters(endpoint)],
        "responses": dict(_responses(endpoint)),
    }
    if roles == frozenset(["worker"]):
        found["security"] = [{"token": []}]
    if endpoint.body is not None:
        found["requestBody"] = _body(endpoint)
    return found


def _operation_id(endpoint: Endpoint) -> str:
    module = endpoint.function.__module__.rpartition(".")[2]
    return f"{module}_{endpoint.function.__name__}"


def _tag(endpoint: Endpoint) -> str:
    return endpoint.path.removeprefix(PREFIX).split("/")[1] if endpoint.path.startswith(PREFIX) else "server"


def _path_parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", endpoint.path):
        schema = {"type": "string"} | ({} if name == "path" else {"pattern": f"^{FORMS[name]}$"})
        yield {"name": name, "in": "path", "required": True, "description": DESCRIBED[name], "schema": schema}


def _parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for place, queries in (("query", endpoint.query), ("header", endpoint.headers)):
        for query in queries:
            yield {
                "name": query.name,
                "in": place,
                "required": query.required,
                "description": query.says,
                "schema": _schema_of(query),
            }


def _schema_of(query: Query) -> dict[str, Any]:
    if query.kind == "integer":
        return {"type": "integer", "minimum": query.low, "maximum": query.high}
    return {"type": query.kind}


def _body(endpoint: Endpoint) -> dict[str, Any]:
    schema: dict[str, Any] = {} if endpoint.body in RAW else _schema(endpoint.body)
    return {"required": not endpoint.optional, "content": {media: {"schema": schema} for media in endpoint.media}}


def _responses(endpoint: Endpoint) -> Iterator[tuple[str, dict[str, Any]]]:
    for status, kind in sorted(endpoint.answers.items()):
        answer: dict[str, Any] = {"description": _words(kind, status)}
        if isinstance(kind, str):
            answer["content"] = {kind: {"schema": {}}}
        elif kind is not None:
            answer["content"] = {JSON: {"schema": _schema(kind)}}
            if endpoint.path.endswith("/events"):
                answer["content"]["text/event-stream"] = {"schema": {"type": "string"}}
        yield str(status), answer
    problem = {"schema": {"$ref": REFERENCE.format(name="ProblemDetails")}}
    yield "default", {"description": "What went wrong.", "content": {MEDIA: problem}}


def _words(kind: Any, status: int) -> str:
    if status in TITLES:
        return TITLES[status]
    if kind is None:
        return {204: "Done.", 304: "It is as it was."}.get(status, "Done.")
    words = getattr(kind, "__doc__", None) if isinstance(kind, type) else None
    return words.strip().partition("\n")[0] if words and issubclass(kind, msgspec.Struct) else "What was asked for."


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


if __name__ == "__main__":
    import sys

    from noetl.server.app import endpoints

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(describe(endpoints(), "1")), indent=2) + b"\n")
