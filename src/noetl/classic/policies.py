"""Classic `retry`, `on_error`, `vars` and `sink` as tasks and rules of their policies."""

from __future__ import annotations

from typing import Any

from noetl.classic.detect import tasks_of
from noetl.classic.names import CallNames, Names, expression_of, renamed
from noetl.classic.nodes import as_map, list_at, map_at, merged
from noetl.dsl.tree import Map

SQL_KINDS = ("postgres", "duckdb", "snowflake")
IS_ERROR = "outcome.status == 'error'"


def on_error_of(step: Map) -> str:
    return str(as_map(step.get("spec")).get("on_error", "fail"))


def step_retry(step: Map) -> Map | None:
    """The retry of all calls of a step: its own, or the default one with `on_error: retry`."""
    retry = step.get("retry")
    return map_at(step) if retry is None and on_error_of(step) == "retry" else retry


def set_step_policies(step: Map, names: CallNames, *, with_vars: bool) -> None:
    """Convert `retry`, `on_error` and, with `with_vars`, `vars` to rules of the step's tasks."""
    tasks = tasks_of(step.get("tool"))
    default, ignores = step_retry(step), on_error_of(step) == "ignore"
    step.pop("retry", None)
    variables = step.pop("vars", None) if with_vars else None
    for task in tasks:
        last = task is tasks[-1]
        ignore = None if not ignores else "continue" if last else "break"
        set_policy(task, names, default, ignore=ignore, variables=variables if last else None)


def set_policy(
    task: Map,
    names: CallNames,
    default: Map | None,
    *,
    ignore: str | None = None,
    variables: Map | None = None,
    skip: str | None = None,
) -> None:
    """Set the policy of a task from its `retry` or the default; `ignore` is the directive after an error."""
    for inner in tasks_of(task.get("tool")) if task.get("kind") == "iterator" else ():
        set_policy(inner, names, None)
    retry = task.pop("retry", None)
    retry = default if retry is None else retry
    if retry is None:
        retry = names.tool_of(task).get("retry")
    in_rule = names.in_rule(task)
    rules = list_at(task)
    if skip is not None:
        rules.append(_rule(task, skip, do="skip"))
    if retry is not None:
        rules.append(retry_rule(task, retry, in_rule, ignore is not None))
    if not rules and not ignore and not variables:
        return
    rules.append(_rule(task, f"{{{{ {IS_ERROR} }}}}", do=ignore or "fail"))
    rules.append(_otherwise(task, renamed(variables, in_rule) if variables else None))
    spec = task["spec"] if isinstance(task.get("spec"), Map) else map_at(task)
    spec["policy"] = map_at(task, rules=rules)
    task["spec"] = spec


def set_task(at: Map, values: Map, names: Names) -> Map:
    rules = list_at(at, [_otherwise(at, renamed(values, names))])
    return map_at(at, kind="noop", spec=map_at(at, policy=map_at(at, rules=rules)))


def _otherwise(at: Map, variables: Map | None) -> Map:
    then = map_at(at, do="continue")
    if variables is not None:
        then["set_ctx"] = map_at(variables, vars=map_at(variables, {"$merge": variables}))
    return map_at(at, {"else": map_at(at, then=then)})


def _rule(at: Map, when: str, **then: Any) -> Map:
    return map_at(at, when=when, then=map_at(at, then))


def retry_rule(at: Map, retry: Map, names: Names, ignore: bool) -> Map:
    """The rule that retries; `ignore`: an error of the last attempt is not an error of the task."""
    attempts = retry.get("max_attempts", 3)
    names = {**names, "max_attempts": str(attempts)}
    go_on, stop = retry.get("retry_when"), retry.get("stop_when")
    parts = [] if go_on is None else [expression_of(go_on, names)]
    if stop is not None:
        parts.append(f"not ({expression_of(stop, names)})")
    if not parts:
        parts.append(IS_ERROR)
    if stop is not None or ignore:  # the last outcome counts, so this rule must not fail the task after it
        parts.append(f"_attempt < {attempts}")
    if go_on is not None and len(parts) > 1:
        parts[0] = f"({parts[0]})"
    backoff, delay, growth = (
        as_map(retry.get("backoff")),
        retry.get("initial_delay"),
        retry.get("backoff_multiplier", 1),
    )
    then: dict[str, Any] = {"backoff": "exponential" if growth == 2 else None, "delay": delay}
    if backoff:
        kind = backoff.get("type", "fixed")
        then = {
            "backoff": None if kind == "fixed" else kind,
            "delay": backoff.get("delay_seconds"),
            "max_delay": backoff.get("max_delay_seconds"),
            "jitter": backoff.get("jitter"),
        }
    elif growth not in (1, 2):
        then = {"delay": f"{{{{ {1 if delay is None else delay} * {growth} ** (_attempt - 1) }}}}"}
    return _rule(at, "{{ " + " and ".join(parts) + " }}", do="retry", attempts=attempts, **then)


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
