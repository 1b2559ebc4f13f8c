"""The document's description as JSON Schema, 2020-12."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.classic.language import DEFINITIONS, RETRY, ROOT
from noetl.dsl.document import ARGS, TASK_SPEC
from noetl.dsl.shape import Schema
from noetl.model.inputs import schema as inputs_schema
from noetl.model.kind import Kind

_TASK = {"$ref": "#/$defs/task"}
_LABELLED: Schema = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "not": {"required": ["kind"]},
    "additionalProperties": _TASK,
}
_PIPELINE = {"anyOf": [_TASK, {"type": "array", "minItems": 1, "items": {"anyOf": [_TASK, _LABELLED]}}]}


def playbook_schema(kinds: Mapping[str, Kind]) -> Schema:
    """The schema of both dialects; keys of the classic one are marked as deprecated."""
    root = ROOT.schema()
    for spec in _open_specs(root):
        spec["properties"] |= {name: {"type": "object", "description": f"default inputs of {name}"} for name in kinds}
        spec["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "noetl playbook",
        "description": "A playbook of noetl, apiVersion noetl.io/v2",
        **root,
        "$defs": {
            "task": {"anyOf": [_task(kind) for kind in kinds.values()]},
            "pipeline": _PIPELINE,
            **{str(shape.definition): shape.schema() for shape in DEFINITIONS},
        },
    }


def _task(kind: Kind) -> Schema:
    properties: dict[str, Any] = {
        "kind": {"const": kind.name, "description": kind.summary},
        "name": {"type": "string", "description": "label of the task"},
        "args": {**ARGS.schema(), "description": "arguments; they overlay the token's"},
        "spec": {**TASK_SPEC.embed(), "description": "options and the policy"},
        "retry": {**RETRY.embed(), "description": "classic: how it is retried", "deprecated": True},
        **inputs_schema(kind).get("properties", {}),
    }
    if kind.name == "iterator":
        properties["tool"] = {"$ref": "#/$defs/pipeline"}
    # Inputs may come from an outer spec's defaults, so none is required here: `noetl validate` knows better.
    return {"type": "object", "properties": properties, "required": ["kind"], "additionalProperties": False}


def _open_specs(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return [spec for item in schema for spec in _open_specs(item)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("properties", {})
    parts = [schema] if "max_visits" in own and "policy" in own and "additionalProperties" not in schema else []
    return parts + [spec for value in schema.values() for spec in _open_specs(value)]
