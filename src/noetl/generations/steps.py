"""The version, and keys of a step that are no state: `input`, `args`, `output`, `result`."""

from __future__ import annotations

from noetl.classic.conversions import give_args
from noetl.classic.nodes import as_map, merged, rename_key
from noetl.dsl.tree import Map
from noetl.generations.document import OtherDocument

VERSIONS = ("noetl.io/v1", "noetl.io/v10")
RESULT_OPTIONS = frozenset(["output_select", "result_select", "select", "store", "ttl", "scope", "compress"])


def set_version(document: OtherDocument) -> None:
    if document.root.get("apiVersion") in VERSIONS:
        document.root["apiVersion"] = "noetl.io/v2"


def drop_result_options(document: OtherDocument) -> None:
    """Drop `output: {output_select, store}`: large results are references without being asked."""
    for step in document.steps:
        for holder in (step, *(task.tree for task in document.tasks(step))):
            for key in ("output", "result"):
                if isinstance(holder.get(key), Map) and holder[key] and set(holder[key]) <= RESULT_OPTIONS:
                    hint = "large results become references by themselves; `spec: {results: {...}}` says where"
                    document.note(holder, key, f"`{key}` with options of the result was dropped", hint)
                    del holder[key]


def give_step_args(document: OtherDocument) -> None:
    """Give `input` or `args` of a step to its tasks; a classic step keeps its `args`."""
    for step in document.steps:
        if isinstance(step.get("input"), Map):
            if isinstance(step.get("args"), Map):
                step["args"] = merged(step.pop("input"), step["args"])
            else:
                rename_key(step, "input", "args")
        if not document.is_classic and as_map(step.get("args")) and document.tasks(step):
            give_args(step)
