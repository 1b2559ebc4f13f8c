"""The schema of the workload: it is one, and it can be checked in bounded time."""

from __future__ import annotations

from typing import Any

from noetl.dsl.outline import Document
from noetl.dsl.problem import Check, Problems
from noetl.dsl.tree import plain, span_in

INVALID_SCHEMA = Check("NTL119", "error", "the schema of the workload is invalid")


def check(document: Document, problems: Problems) -> None:
    schemas = document.executor_spec.get("schema", {})
    if "workload" not in schemas:
        return
    from noetl.dsl.workload_schema import InvalidSchema, check_schema  # a large library

    try:
        check_schema(plain(schemas["workload"]))
    except InvalidSchema as error:
        container: Any = schemas
        key: str | int = "workload"
        for step in error.path:
            if not isinstance(container[key], dict | list):
                break
            container, key = container[key], step
        path = "/".join(map(str, error.path))
        message = f"invalid JSON Schema{f' at {path}' if path else ''}: {error.message}"
        problems.add(INVALID_SCHEMA, span_in(container, key), message, "see https://json-schema.org/draft/2020-12")
