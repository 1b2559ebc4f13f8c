"""The schema of the workload: it is one, it can be checked in bounded time, and it allows the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.dsl.document_parts import Document
from noetl.dsl.payload import Path, dotted, ready
from noetl.dsl.problem import Check, Problems
from noetl.dsl.tree import Map, key_span, plain, span_in

INVALID_SCHEMA = Check("NTL119", "error", "the schema of the workload is invalid", stored_ok=True)
FORBIDDEN_DEFAULT = Check(
    "NTL121", "error", "the schema of the workload does not allow a key that has a default", stored_ok=True
)
INVALID_DEFAULT = Check("NTL122", "warning", "a default violates the schema of the workload")


def check(document: Document, problems: Problems) -> None:
    schemas = document.executor_spec.get("schema", {})
    if "workload" not in schemas:
        return
    from noetl.dsl.workload_schema import InvalidSchema, check_schema, default_violations  # a large library

    schema = plain(schemas["workload"])
    try:
        check_schema(schema)
    except InvalidSchema as error:
        container, key = _innermost(schemas, ("workload", *error.path))
        at = "/".join(map(str, error.path))
        message = f"invalid JSON Schema{f' at {at}' if at else ''}: {error.message}"
        problems.add(INVALID_SCHEMA, span_in(container, key), message, "see https://json-schema.org/draft/2020-12")
        return
    unknown: set[Path] = set()
    workload = document.root.get("workload", Map())
    for path, fault in default_violations(schema, ready(workload, (), unknown), unknown):
        container, key = _innermost(workload, path)
        if fault is None and len(path) == 1:
            message = f"the schema does not allow {key!r}, so no run can start"
            hint = "add it to `properties` of the schema, or remove the default"
            problems.add(FORBIDDEN_DEFAULT, key_span(container, key), message, hint)
            continue
        message = f"the default of {dotted(path)!r} violates the schema: {fault or 'the key is not allowed'}"
        hint = f"change it, or remove it and list {str(path[0])!r} in `required`: each run must replace it"
        problems.add(INVALID_DEFAULT, span_in(container, key), message, hint)


def _innermost(container: Any, path: Sequence[str | int]) -> tuple[Any, Any]:
    """The container and key of the value at a path, or of the innermost one that has a place."""
    key, *below = path
    for step in below:
        if not isinstance(container[key], dict | list):
            break
        container, key = container[key], step
    return container, key
