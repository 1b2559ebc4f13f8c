"""The names that only classic templates have, in canonical terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from noetl.classic.detect import tasks_of
from noetl.classic.nodes import as_list, as_map, list_at, map_at
from noetl.dsl.document_parts import workbook_tasks
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, is_template
from noetl.errors import TemplateSyntax
from noetl.expression import parse, rename
from noetl.model.kind import Kind

Names = Mapping[str, str]
"""Classic names, each with the expression that replaces it."""

ENVELOPES = {
    "response": ("status_code", "headers", "data", "status", "error"),
    "this": ("status", "data", "error", "meta"),
}

_NULLABLE = ("error", "status_code", "response.status_code", "response.data", "this.status_code")
_NULL_MATTERS = re.compile(
    r"\s*((==|!=)\s*none\b|is\s+(not\s+)?(?!not\b|defined\b|undefined\b)|\|\s*(?!default\b|d\b)|(not\s+)?in\b[^}]*\bnone\b|~)",
    re.IGNORECASE,
)
_NULL_BEFORE = re.compile(r"\bnone\s*(==|!=)\s*$", re.IGNORECASE)
_RESPONSE = "response if success else outcome.http if outcome.http.status"  # missing if no server answered
_NULL_BELOW = re.compile(r"\(([\w.]+) \| default\(none\)\)(?=[.\[])")
"""A default that changes nothing, because a field of a missing value is missing too."""
_BRACES = re.compile(r"\{\{[-+]?(.*?)[-+]?\}\}", re.DOTALL)


class CallNames:
    """Canonical expressions for the result of a call, by the place of the template that reads it."""

    def __init__(self, root: Map, kinds: KindSource) -> None:
        self.kinds = kinds
        self.tools = workbook_tasks(root.get("workbook"))
        entries = as_list(root.get("workbook"))
        self.entries: dict[str, Map] = {entry["name"]: entry for entry in entries if "name" in entry}

    def tool_of(self, task: Map) -> Map:
        name = task.get("name")
        return as_map(self.tools.get(name)) if task.get("kind") == "workbook" and isinstance(name, str) else Map()

    def sinks_of(self, task: Map) -> list[Map]:
        sinks = []
        while task.get("kind") == "workbook" and task.get("name") in self.entries:
            entry = self.entries[task["name"]]
            sinks += [entry["sink"]] if "sink" in entry else []
            task = entry["tool"]
        return sinks

    def in_rule(self, task: Map) -> Names:
        result = f"outcome.result{self._view(task)}"
        return {
            **_envelope("outcome.result", result, "outcome.error", "outcome.http.status", "outcome.status"),
            "this.meta": "outcome.meta",
            "attempt": "_attempt",
            "status_code": "outcome.http.status",
            "error": "outcome.error.message",
            "success": "outcome.status == 'ok'",
            "data": result,
        }

    def in_retry(self, task: Map) -> Names:
        """Names in a condition that is also evaluated after a failure: `response.data` is then the body of the error
        response."""
        names = self.in_rule(task)
        if self._has_no_response(task):
            return names
        body = f"outcome.error.details.body if outcome.status == 'error' else {names['response.data']}"
        return {**names, "response.data": body}

    def in_pipeline(self, label: str, call: Map, *, ignores: bool) -> Names:
        """Names in a later task of the same pipeline; with `ignores`, an error of the call is null."""
        own = path_of("tasks", label)
        view, error, status, code = self._view(call), f"{own}.error", f"{own}.status", f"{own}.http.status"
        if ignores:
            view, error, status = f"{view} | default(none)" if view else "", "none", "'ok'"
            code = f"{own}.result.status | default(none)" if view.startswith(".data") else f"{code} | default(none)"
        names = _envelope(f"{own}.result", f"{own}.result{view}", error, code, status)
        return {**names, "error": error, "this.meta": f"{own}.meta"}

    def after_step(self, step: Map, *, failures: bool = False) -> Names:
        """Names after the step; with `failures`, also after a failure, as in `in_retry`."""
        own, tasks = path_of("steps", step["step"]), tasks_of(step.get("tool"))
        view = self._view(tasks[-1]) if tasks else ""
        ignores = as_map(step.get("spec")).get("on_error") == "ignore"
        result = f"{own}.result{view}"
        if "loop" in step and view:
            default = ", default=none" if ignores else ""
            result = f"{own}.result | map(attribute='{view[1:]}'{default}) | list"
            if failures:
                result = f"{result} if {own}.status == 'succeeded' else none"
        elif view and (failures or ignores):
            result = f"{result} | default(none)"
        code = f"{own}.result.status | default({own}.error.details.status)"
        if "loop" in step and view == ".data":
            code = "none"  # each item has one
        elif ignores:
            code = f"{code} | default(none)"
        status = f"'ok' if {own}.status == 'succeeded' else 'error'"
        names = _envelope(f"{own}.result", result, f"{own}.error", code, status)
        if failures and view == ".data" and "loop" not in step:
            names["response.data"] = f"{own}.result.data | default({own}.error.details.body | default(none))"
        return names

    def _has_no_response(self, task: Map) -> bool:
        kind = self._kind(task)
        return kind is not None and kind.result != "data"

    def _kind(self, task: Map) -> Kind | None:
        name = (self.tool_of(task) if task.get("kind") == "workbook" else task).get("kind")
        return self.kinds.get(name) if isinstance(name, str) else None

    def _view(self, task: Map) -> str:
        """The path of the classic `result` in the value of a call: empty, `.data` or `.rows`."""
        kind = self._kind(task)
        return "" if kind is None or kind.result == "value" else f".{kind.result}"


def _envelope(value: str, result: str, error: str, code: str, status: str) -> dict[str, str]:
    is_rows = result.removesuffix(" | default(none)").endswith(".rows")
    names = {"result": result, "result.rows": result if is_rows else f"({result}).rows"}
    for envelope in ("response", "this"):
        names |= {
            envelope: value,
            f"{envelope}.data": result,
            f"{envelope}.error": error,
            f"{envelope}.status": status,
            f"{envelope}.status_code": code,
            f"{envelope}.headers": f"{value}.headers",
        }
    return names


def in_values(names: Names) -> Names:
    """The names inside a value, where null is allowed: `response` and `this` are maps of their fields, and a call
    without a body has no status code and no headers."""
    maps: dict[str, str] = {}
    data = names.get("response.data", "")
    if "response" in names and ".data" not in data and "'data'" not in data:
        maps = dict.fromkeys(("response.status_code", "response.headers"), "none")
    for envelope in [envelope for envelope in ENVELOPES if envelope in names]:
        parts = {field: {**names, **maps}.get(f"{envelope}.{field}") for field in ENVELOPES[envelope]}
        pairs = [f"'{field}': {_or_null(expression)}" for field, expression in parts.items() if expression is not None]
        maps[envelope] = "{" + ", ".join(pairs) + "}"
    return {**names, **maps}


def _or_null(expression: str) -> str:
    always = expression == "none" or expression.startswith("'") or expression.endswith("default(none)")
    return expression if always else f"{expression} | default(none)"


def path_of(root: str, name: str) -> str:
    """The expression for a step or task, whose name may have dashes and dots."""
    return f"{root}.{name}" if name.isidentifier() else f"{root}['{name}']"


def renamed(node: Any, names: Names) -> Any:
    """A copy of the node with names replaced in its templates; a task's code and retry have names of their own."""
    if isinstance(node, Map):
        copy = map_at(node)
        copy.spans.update(node.spans)
        for key, value in node.items():
            own = "kind" in node and key in ("code", "retry")
            copy[key] = renamed(value, {} if own else names)
        return copy
    if isinstance(node, Seq):
        items = list_at(node, (renamed(item, names) for item in node))
        items.spans += node.spans
        return items
    return renamed_text(node, names) if names else node


def renamed_text(value: Any, names: Names) -> Any:
    return _renamed_template(value, tuple(names.items())) if is_template(value) else value


@lru_cache(maxsize=1024)
def _renamed_template(value: str, names: tuple[tuple[str, str], ...]) -> str:
    """Cached, because the args of a step are renamed for each of its tasks."""
    try:
        return _NULL_BELOW.sub(r"\1", rename(value, dict(names)))
    except TemplateSyntax:
        return value  # reported by the template checks


def with_nulls(guard: Any) -> Any:
    """The condition of a retry, with null for a status or an error that does not exist (R6), and without `response`
    where the call got none (R5).

    Only where it makes a difference: elsewhere a missing value behaves like null, or better (`status_code >= 500`).
    """
    if not is_template(guard):
        return guard
    try:
        reads = parse(guard).reads
    except TemplateSyntax:
        return guard  # reported by the template checks
    for read in sorted(reads, key=lambda read: -read.offset):
        name = ".".join(map(str, read.path))
        end = read.offset + len(name)
        if guard[read.offset : end] != name:
            continue
        if name == "response":
            guard = f"{guard[: read.offset]}({_RESPONSE}){guard[end:]}"
        elif name in _NULLABLE and null_matters(guard, read.offset, end):
            guard = f"{guard[: read.offset]}({name} | default(none)){guard[end:]}"
    return guard


def null_matters(template: str, start: int, end: int) -> bool:
    """Whether the template would differ if the value that it reads at `start` were null and not missing."""
    return bool(_NULL_MATTERS.match(template, end) or _NULL_BEFORE.search(template[:start]))


def expression_of(guard: Any, names: Names) -> str:
    if isinstance(guard, bool):
        return str(guard).lower()
    text = str(renamed_text(guard, names)).strip()
    expression = _BRACES.fullmatch(text)
    return expression.group(1).strip() if expression else repr(text)


def templates_in(container: Map | Seq, kinds: KindSource, key: Any) -> Iterator[tuple[Map | Seq, Any, str]]:
    """Every template of a value with the container and key that hold it; program code is not one."""
    value = container[key]
    if is_template(value):
        yield container, key, value
        return
    kind = kinds.get(value["kind"]) if isinstance(value, Map) and isinstance(value.get("kind"), str) else None
    for inner in value if isinstance(value, Map) else range(len(value)) if isinstance(value, Seq) else ():
        if kind is None or inner not in kind.verbatim:
            yield from templates_in(value, kinds, inner)


def rename_everywhere(root: Map, kinds: KindSource) -> None:
    """Replace the names that read the same in every place."""
    names = {"vars": "ctx.vars", "loop_index": "iter.index"}
    for section in root:
        if section not in ("metadata", "workload"):
            rename_templates(root, section, kinds, names)


def rename_templates(container: Map | Seq, key: Any, kinds: KindSource, names: Names) -> None:
    for holder, at, value in templates_in(container, kinds, key):
        holder[at] = renamed_text(value, names)
