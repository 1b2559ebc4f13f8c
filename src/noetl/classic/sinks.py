"""Converts sinks to tasks."""

from __future__ import annotations

from noetl.classic.names import CallNames, Names, expression_of, renamed
from noetl.classic.nodes import list_at, map_at, merged
from noetl.classic.policies import set_policy
from noetl.dsl.tree import Map

SQL_KINDS = ("postgres", "duckdb", "snowflake")


def sink_task(sink: Map, call_names: CallNames, names: Names, retry: Map | None) -> Map:
    """The task that stores: `names` are those that the sink's templates read."""
    task: Map = renamed(sink["tool"], names)
    content, own = renamed(sink.get("args"), names), task.pop("args", None)
    if own and isinstance(content, Map):
        content = merged(content, own)
    elif own and content is None:
        content = own
    if not content:
        content = f"{{{{ {names['result']} }}}}"
    if "table" in sink:
        task["table"] = sink["table"]
    if task.get("kind") in SQL_KINDS and "table" in task:
        task["rows"] = list_at(content, [content]) if isinstance(content, Map) else content
    elif task.get("kind") == "http" and not any(key in task for key in ("body", "json", "form", "files")):
        task["body"] = content
    elif isinstance(content, Map):
        task["args"] = content
    if "retry" in sink:
        task["retry"] = sink["retry"]
    skip = "{{ not (" + expression_of(sink["when"], names) + ") }}" if "when" in sink else None
    set_policy(task, call_names, retry, skip=skip)
    return task


def labelled(at: Map, label: str, task: Map) -> Map:
    return map_at(at, {label: task})
