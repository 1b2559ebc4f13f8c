"""The OpenAPI 3.1 document, made from the declarations of the endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from noetl.server.endpoint import Endpoint
from noetl.server.parameters import BYTES, JSON
from noetl.server.problems import MEDIA, ProblemDetails, title
from noetl.server.roles import ALLOWED, ASSETS, FORMS, PAGES, PREFIX, WORK

REFERENCE = "#/components/schemas/{name}"
PATH_PARAMETERS = {
    "id": "The id of an execution.",
    "hash": "A SHA-256 in hex.",
    "name": "A name.",
    "code": "The code of a problem, such as `NTL201`.",
    "path": "A path; its slashes are not escaped.",
    "run": "The id of an execution, or a part of it.",
    "other_run": "The id of another execution, or a part of it.",
    "asset": "The name of a file of the web page.",
}


def public(endpoints: Iterable[Endpoint]) -> Iterator[Endpoint]:
    """The endpoints for clients: all but the web page and the protocol of the workers."""
    return (endpoint for endpoint in endpoints if is_public(endpoint.method, endpoint.path))


def is_public(method: str, path: str) -> bool:
    return path not in PAGES and path != ASSETS and ALLOWED[method, path] != WORK


def describe(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    endpoints = list(endpoints)
    types = [kind for endpoint in endpoints for kind in (endpoint.body, *endpoint.responses.values())]
    structs = [kind for kinds in types for kind in _kinds(kinds) if kind is not None and not isinstance(kind, str)]
    _, components = msgspec.json.schema_components([*structs, ProblemDetails], ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in sorted(endpoints, key=lambda endpoint: list(ALLOWED).index((endpoint.method, endpoint.path))):
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
            "schemas": _with_items(components),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token: `noetl_...`."},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "__Host-noetl",
                    "description": "The cookie of POST /sessions. Changes also need its CSRF token in X-CSRF-Token.",
                },
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    roles = ALLOWED[endpoint.method, endpoint.path]
    description = " ".join((endpoint.function.__doc__ or "").split())
    access = "No token is needed." if roles is None else f"Roles: {', '.join(sorted(roles))}."
    security: list[dict[str, list[str]]] = [] if roles is None else [{"token": []}, {"session": []}]
    responses: dict[str, Any] = {}
    for status, kind in sorted(endpoint.responses.items()):
        response: dict[str, Any] = {"description": title(status)}
        responses[str(status)] = response
        if isinstance(kind, str):
            response["content"] = {kind: {"schema": {}}}
        elif kind is not None:
            response["content"] = {JSON: {"schema": _schema(kind)}}
            if endpoint.also:
                response["content"][endpoint.also] = {"schema": {"type": "string"}}
    problem = {"schema": {"$ref": REFERENCE.format(name="ProblemDetails")}}
    responses["default"] = {"description": "An error.", "content": {MEDIA: problem}}
    operation: dict[str, Any] = {
        "operationId": endpoint.operation,
        "tags": [endpoint.path.removeprefix(PREFIX).split("/")[1] if endpoint.path.startswith(PREFIX) else "server"],
        "summary": re.split(r"(?<=[.:]) ", description)[0].rstrip(".:"),
        "description": f"{description} {access}",
        "security": security[:1] if roles == WORK else security,
        "parameters": list(_parameters(endpoint)),
        "responses": responses,
    }
    if endpoint.media:
        body = {} if endpoint.body is None else _schema(endpoint.body)
        binary = {BYTES: {"type": "string", "format": "binary"}}
        content = {media: {"schema": body or binary.get(media, {})} for media in endpoint.media}
        operation["requestBody"] = {"required": not endpoint.optional, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    def parameter(name: str, place: str, description: str, schema: Any, required: bool = False) -> dict[str, Any]:
        return {"name": name, "in": place, "required": required, "description": description, "schema": schema}

    for name in re.findall(r"\{(\w+)\}", endpoint.path):
        schema = {"type": "string"} | ({} if name == "path" else {"pattern": f"^{FORMS[name]}$"})
        yield parameter(name, "path", PATH_PARAMETERS[name], schema, required=True)
    if endpoint.query is not None:
        (struct,) = msgspec.json.schema(endpoint.query)["$defs"].values()
        for name, schema in struct["properties"].items():
            if not schema.get("default"):
                schema.pop("default", None)
            yield parameter(name, "query", schema.pop("description", ""), schema, name in struct["required"])
    for header in endpoint.headers:
        yield parameter(header.name, "header", header.description, {"type": "string"})


def _kinds(kind: Any) -> tuple[Any, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, tuple):
        return {"anyOf": [_schema(alternative) for alternative in kind]}
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


def _with_items(schema: Any) -> Any:
    """The schema, in which every array says what it may contain: client generators leave out one that does not."""
    if isinstance(schema, list):
        return [_with_items(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _with_items(part) for key, part in schema.items()}
    if parts.get("type") == "array" and "prefixItems" not in parts:
        parts.setdefault("items", {})
    return parts


if __name__ == "__main__":
    import sys

    from noetl.server.app import endpoints

    document = describe(public(endpoints()), "1")
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
