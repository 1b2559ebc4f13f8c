"""A task's inputs against the model of its kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from noetl.dsl import other_words
from noetl.dsl.problem import Check, did_you_mean
from noetl.dsl.tree import Span, is_template, key_span, span_in
from noetl.model.inputs import Misfit, fields, misfit
from noetl.model.kind import Kind
from noetl.model.operations import is_given, operation_problems
from noetl.wording import path_text

if TYPE_CHECKING:
    from noetl.dsl.shape import Shape, Walk

UNKNOWN_INPUT = Check("NTL203", "error", "the tool kind has no such input", stored_ok=False)
MISSING_INPUT = Check("NTL204", "error", "a required input is missing", stored_ok=False)
WRONG_INPUT = Check("NTL205", "error", "an input has the wrong type", stored_ok=True)
BAD_URL = Check("NTL219", "error", "the URL of an HTTP request has no scheme or no host", stored_ok=True)
WRONG_OPERATION = Check("NTL221", "error", "an input does not belong to the operation, or is missing", stored_ok=True)
UNDER_SPEC = frozenset(["timeout", "policy", "pool", "on_lost", "max_visits", "sandbox", "exactly_once"])
COMMON = frozenset(["kind", "name", "args", "spec"])
_TEMPLATE_START = re.compile(r"\{[{%#]")
_HTTP = re.compile("https?://", re.IGNORECASE)
_HOST = re.compile("(?:[^/?#]*@)?[^/?#:@]")
_AUTHORITY_END = re.compile("[/?#]")
_AFTER_PATH = re.compile("[?#]")


def check_inputs(task: Any, kind: Kind, span: Span, walk: Walk) -> None:
    """Report unknown, missing and ill-typed inputs, and remove those that are of no use."""
    supplied = {*task, *walk.defaults.get(kind.name, ()), *other_words.inputs_of(task, kind)}
    check_keys(task, kind, dict.fromkeys(COMMON | walk.task_keys.keys()), walk)
    for name, field in fields(kind.inputs).items():
        if field.required and name not in supplied:
            hint = f"add `{name}:`, {field.description.lower()}"
            walk.problems.add(MISSING_INPUT, span, f"{kind.name} needs {name!r}", hint)
    for group in kind.one_of:
        own = set(task) & set(group)
        _check_one_of(group, set(task) if own else supplied, kind, span, walk)
        if len(own) == 1 and task[name := own.pop()] is None:
            message = f"{name!r} of {kind.name}: expected a value, found nothing"
            walk.problems.add(WRONG_INPUT, span_in(task, name), message, f"indent the value below `{name}:`")
    for first, second in kind.exclusive:
        if all(name in task and task[name] and not is_template(task[name]) for name in (first, second)):
            message = f"{kind.name} takes {first!r} or {second!r}, not both"
            walk.problems.add(WRONG_INPUT, key_span(task, first), message, f"remove `{first}` or `{second}`")
    if kind.operations:
        _check_operation(task, supplied, kind, span, walk)
    if {"mode", "key"} <= fields(kind.inputs).keys():
        _check_key(task, supplied, walk)


def check_keys(values: Any, kind: Kind, others: Mapping[str, Shape | None], walk: Walk) -> None:
    """Remove wrong inputs, and keys that are neither inputs nor among the others."""
    declared = fields(kind.inputs)
    for key in list(values):
        if key in declared:
            if not _check_value(values, key, kind, walk):
                del values[key]
        elif key in others:
            shape = others[key]
            walk.keys.append((key, kind.name))
            if shape is not None and not shape.check(values[key], span_in(values, key), walk):
                del values[key]
            walk.keys.pop()
        else:
            _refuse(values, key, kind, walk)
            del values[key]


def check_table(sink: Any, tool: Any, kind: Kind, walk: Walk) -> None:
    """The table of a sink, next to its tool: the kind must take a table, and have no other target."""
    if "table" not in fields(kind.inputs):
        _refuse(sink, "table", kind, walk)
    for group in kind.one_of:
        if "table" in group and set(group) & set(tool):
            _check_one_of(group, {*tool, "table"}, kind, key_span(sink, "table"), walk)


def _check_value(task: Any, key: str, kind: Kind, walk: Walk) -> bool:
    if kind.name == "iterator" and key == "tool":
        return True  # a pipeline, checked as such
    wrong = misfit(fields(kind.inputs)[key].type, task[key])
    if wrong is None:
        if kind.name == "http" and key == "url":
            _check_url(task, walk)
        return True
    hint = _value_hint(task[key], wrong, kind, key)
    container: Any = task
    last: str | int = key
    for part in wrong.path:
        container, last = container[last], part
    name = key + path_text(wrong.path)
    walk.problems.add(WRONG_INPUT, span_in(container, last), f"{name!r} of {kind.name}: {wrong.message}", hint)
    return False


def _check_url(task: Any, walk: Walk) -> None:
    """Report a URL that a request would refuse, judged by its text before the first template."""
    url = task["url"].strip()
    template = _TEMPLATE_START.search(url)
    literal = url[: template.start()] if template else url
    if template and any(start.startswith(literal.lower()) for start in ("http://", "https://")):
        return  # the template may complete it
    start = _HTTP.match(literal)
    if start and (_HOST.match(literal, start.end()) or (template and not _AUTHORITY_END.search(literal, start.end()))):
        return
    beginning = "" if "@" in url else f", found {_AFTER_PATH.split(url, maxsplit=1)[0][:60]!r}"  # without secrets
    message = "has no host" if start else f"must start with http:// or https://{beginning}"
    hint = "write the full URL: `https://HOST/PATH` or `http://HOST/PATH`"
    walk.problems.add(BAD_URL, span_in(task, "url"), f"'url' of http {message}", hint)


def _value_hint(value: Any, wrong: Misfit, kind: Kind, key: str) -> str:
    if kind.name == "iterator" and key == "in" and (advice := other_words.collection_advice(value)):
        return advice
    items = [other_words.written(item, "") for item in (value.split(", ") if isinstance(value, str) else [value])]
    if wrong.takes_list and all(items):
        return f"write `{wrong.path[-1] if wrong.path else key}: [{', '.join(items)}]`"
    if "upsert" in wrong.choices and isinstance(value, str) and value in other_words.LOAD_MODES:
        return other_words.LOAD_MODES[value]
    guess = did_you_mean(value, wrong.choices) if not wrong.path else None
    return guess or wrong.remedy or f"`noetl tools schema {kind.name}` shows what it takes"


def _refuse(task: Any, key: str, kind: Kind, walk: Walk) -> None:
    hint = other_words.of_task(task, key, kind)
    if key in UNDER_SPEC:
        hint = other_words.spec_advice(task, key)
    elif hint is None and task[key] is None and key == next(iter(task)):
        hint = f"indent the keys of the task below `{key}:`"
    elif hint is None:
        inputs = ", ".join(fields(kind.inputs)) or "none"
        hint = walk.problems.did_you_mean(key, [*fields(kind.inputs), *COMMON]) or f"inputs of {kind.name}: {inputs}"
    walk.problems.add(UNKNOWN_INPUT, key_span(task, key), f"{kind.name} has no input {key!r}", hint)


def _check_one_of(group: tuple[str, ...], supplied: set[str], kind: Kind, span: Span, walk: Walk) -> None:
    set_inputs = [name for name in group if name in supplied]
    if len(set_inputs) == 1:
        return
    names = ", ".join(group)
    message = f"{kind.name} needs one of {names}" if not set_inputs else f"{kind.name} takes only one of {names}"
    walk.problems.add(
        MISSING_INPUT, span, message, f"found {' and '.join(set_inputs)}" if set_inputs else f"add `{group[0]}:`"
    )


def _check_operation(task: Any, supplied: set[str], kind: Kind, span: Span, walk: Walk) -> None:
    """The operation takes some of the inputs, and needs some. A template may render to nothing."""
    declared = fields(kind.inputs)
    operation = task.get("operation", UNSET if "operation" in supplied else declared["operation"].default)
    if not isinstance(operation, str) or operation not in kind.operations:
        return  # a template, or wrong
    given = [
        name
        for name in task
        if name in declared
        and (declared[name].default is UNSET or (not is_template(task[name]) and is_given(task[name], declared[name])))
    ]
    place = span_in(task, "operation") if "operation" in task else span
    for problem in operation_problems(kind, operation, given, supplied):
        where = key_span(task, problem.input) if problem.input is not None else place
        walk.problems.add(WRONG_OPERATION, where, problem.message, problem.hint)


def _check_key(task: Any, supplied: set[str], walk: Walk) -> None:
    """Rows are updated by a key, and only then have one."""
    mode = task.get("mode") if "mode" in supplied else "append"
    if mode == "upsert" and ("key" not in supplied or task.get("key") == []):
        hint = "add `key: [id]`, the columns that identify a row"
        walk.problems.add(MISSING_INPUT, span_in(task, "mode"), "`mode: upsert` needs 'key'", hint)
    elif mode in ("append", "replace") and task.get("key"):
        hint = "set `mode: upsert`, or leave `key` out"
        walk.problems.add(UNKNOWN_INPUT, key_span(task, "key"), f"`mode: {mode}` takes no 'key'", hint)
