"""Conversions of classic keys for `dialect` and `rewrite`: loops, args, credentials, routing, policies, sinks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple

from noetl.classic.chain_items import chain_items
from noetl.classic.detect import chain_calls, tasks_of
from noetl.classic.document_parts import ClassicDocument
from noetl.classic.failure_guards import expects_failure, reads_failure
from noetl.classic.names import ENVELOPES, CallNames, Names, expression_of, in_values, renamed, templates_in, with_nulls
from noetl.classic.nodes import as_list, as_map, list_at, map_at, merged, put_after, rename_key
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, is_template
from noetl.errors import TemplateSyntax
from noetl.expression import parse

CREDENTIALS = {"postgres": "postgres_credential", "snowflake": "snowflake_credential", "gcs": "gcs_credential"}
_NAME = re.compile(r"[\w./@-]+")  # of a credential
SQL_KINDS = ("postgres", "duckdb", "snowflake")
IS_ERROR = "outcome.status == 'error'"
EVENT_NAME = re.compile(r"""event\.name\s*==\s*(['"])(call\.done|call\.error|step\.exit)\1""")
NEGATION = re.compile(r"\b(not|if)\b|!=|\)\s*(==|is\b|in\b|\|)")
"""Matches operators with which a guard holds because a comparison in it does not."""
_CONSTANTS = [
    (re.compile(rf"{before}{constant}{after}"), replacement)
    for before, constant, after, replacement in (
        ("", r"\((true|false)\)", "", r"\1"),
        (r"\(", "true or ", r"[^()]*\)", "true"),
        (r"\(", "false and ", r"[^()]*\)", "false"),
        (r"\bnot ", "true", r"\b", "false"),
        (r"\bnot ", "false", r"\b", "true"),
        (r"(^|\{\{ |\(|\band |\bor )", "true and ", "", r"\1"),
        (r"(^|\{\{ |\(|\bor )", "false or ", "", r"\1"),
        ("", " and true", r"(?=$| \}\}|\)| and | or )", ""),
        ("", " or false", r"(?=$| \}\}|\)| or )", ""),
    )
]
_NEEDS_PARENTHESES = re.compile(r"\b(or|if)\b")


class Leftover(NamedTuple):
    """A construct that remains classic: its place, and a hint."""

    step: str
    container: Map | Seq
    key: Any
    construct: str
    hint: str


class Leftovers(list[Leftover]):
    def __init__(self, kinds: KindSource) -> None:
        super().__init__()
        self.kinds, self.step = kinds, ""

    def refuse(self, container: Map | Seq, key: Any, construct: str, hint: str) -> None:
        self.append(Leftover(self.step, container, key, construct, hint))

    def refuse_reads(
        self,
        container: Map | Seq,
        key: Any,
        names: Set[str],
        where: str,
        hint: str = "store the value in `vars`, or read `steps.NAME.result`",
    ) -> None:
        """Refuse templates that read names which do not exist at their new place."""
        for holder, at, text in templates_in(container, self.kinds, key):
            with suppress(TemplateSyntax):
                for read in parse(text).reads:
                    if read.path[0] in names or ".".join(map(str, read.path[:2])) in names:
                        self.refuse(holder, at, f"`{read.path[0]}` {where}", hint)

    def refuse_envelopes(self, container: Map | Seq, key: Any, hidden: Mapping[str, Set[str]]) -> None:
        """Refuse `this` and `response` as a whole, and their fields that are hidden after the step."""
        for holder, at, text in templates_in(container, self.kinds, key):
            with suppress(TemplateSyntax):
                for read in parse(text).reads:
                    envelope, *fields = map(str, read.path)
                    if envelope in hidden and (not fields or fields[0] in hidden[envelope]):
                        name = f"`{envelope}.{fields[0]}`" if fields else f"`{envelope}` as a whole"
                        visible = [f"`.{field}`" for field in ENVELOPES[envelope] if field not in hidden[envelope]]
                        self.refuse(holder, at, f"{name} after the step", f"read {', '.join(visible)} of `{envelope}`")


def convert_loop(step: Map) -> None:
    loop = step.get("loop")
    if not isinstance(loop, Map):
        return
    for old, new in (("collection", "in"), ("element", "iterator")):
        if old in loop:
            rename_key(loop, old, new)
    spec = loop["spec"] if isinstance(loop.get("spec"), Map) else map_at(loop)
    if "mode" in loop:
        spec["mode"] = "sequential" if loop.pop("mode") == "sequential" else "parallel"
    if "batch_size" in spec:
        rename_key(spec, "batch_size", "max_in_flight")
    if spec:
        loop["spec"] = spec


def give_args(step: Map) -> None:
    """Give the args of the step to all of its calls, below their own."""
    args = step.pop("args", None)
    if args:
        for call in [*tasks_of(step.get("tool")), *chain_calls(step.get("case"))]:
            call["args"] = merged(renamed(args, {}), as_map(call.get("args")))


def drop_entry_keys(root: Map) -> None:
    for entry in as_list(root.get("workbook")):
        entry.pop("sink", None)
        as_map(entry.get("tool")).pop("retry", None)


def arcs_of(holder: Map, names: Names, leftovers: Leftovers) -> list[Map]:
    at, key, delay = holder, "next", None
    if isinstance(holder["next"], Map):
        at, key = holder["next"], "to"
        delay = as_map(at.get("spec")).get("delay")
        if at.get("policy") == "defer":
            construct = "`policy: defer` (the chain continues after `next`)"
            leftovers.refuse(at, "policy", construct, "move `next` to the end of the chain, without a policy")
    arcs = []
    following = at[key]
    for i, target in enumerate([following] if isinstance(following, str) else as_list(following)):
        where: tuple[Map | Seq, Any] = (following, i) if isinstance(following, Seq) else (at, key)
        if isinstance(target, Map):
            arc, where = renamed(target, in_values(names)), (target, "step")
        else:
            arc = map_at(at, step=target)
        if is_template(arc["step"]):
            construct = "a computed target (`step` is a template)"
            leftovers.refuse(*where, construct, "write a branch for each step it can lead to")
        if delay is not None:
            arc["spec"] = map_at(at, delay=delay)
        arcs.append(arc)
    return arcs


def router_at(at: Map | Seq, arcs: list[Map]) -> Map:
    spec = map_at(at, mode="inclusive") if len(arcs) > 1 else None
    return map_at(at, spec=spec, arcs=list_at(at, arcs))


def declare_credentials(document: ClassicDocument, kinds: KindSource, leftovers: Leftovers) -> None:
    """Add keychain entries for credentials that calls name without one; calls of postgres may even name none."""
    root, executor = document.root, document.executor_spec

    def declare(kind: Any, holder: Map) -> None:
        credential = holder.get("auth")
        if not isinstance(credential, str) or is_template(credential):
            return
        if kind == "postgres" and not _NAME.fullmatch(credential):  # it may have a password, which no message repeats
            rename_key(holder, "auth", "dsn")
            return
        name = re.sub(r"\W", "_", credential)
        if name not in {entry.get("name") for entry in as_list(root.get("keychain"))}:
            if kind not in CREDENTIALS:
                construct = f"`auth: {credential}` without a keychain entry (its kind is unknown)"
                leftovers.refuse(holder, "auth", construct, f"add `keychain: [{{name: {name}, kind: ...}}]`")
                return
            if not isinstance(root.get("keychain"), Seq):
                put_after(root, "metadata", "keychain", list_at(root))
            stored = credential if name != credential else None
            root["keychain"].append(map_at(root, name=name, kind=CREDENTIALS[kind], credential=stored))
        holder["auth"] = name

    def declare_task(task: Map, *layers: Map) -> None:
        holders = [task, *(as_map(layer.get("postgres")) for layer in layers)]
        if task.get("kind") == "postgres" and not any("auth" in holder or "dsn" in holder for holder in holders):
            task["auth"] = "postgres"
        declare(task.get("kind"), task)

    for kind, defaults in executor.items():
        if isinstance(defaults, Map) and kinds.get(kind):
            declare(kind, defaults)
    for step in document.steps:
        leftovers.step = step["step"]
        for site in document.tasks(step):
            declare_task(site.tree, executor, *document.layers(step))
    for _, site in document.workbook:
        declare_task(site.tree, executor)
    for entry in as_list(root.get("workbook")):
        declare_task(as_map(as_map(entry.get("sink")).get("tool")), executor)


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
        retries = branch_retries(step, task, names, last=last, ignore=ignores)
        set_policy(task, names, default, ignore=ignore, variables=variables if last else None, retries=retries)


def set_policy(
    task: Map,
    names: CallNames,
    default: Map | None,
    *,
    ignore: str | None = None,
    variables: Map | None = None,
    skip: str | None = None,
    retries: Iterable[Map] = (),
) -> None:
    """Set the policy of a task from its `retry` or the default; `ignore` is the directive after an error.

    `retries` are rules that come before its own.
    """
    for inner in tasks_of(task.get("tool")) if task.get("kind") == "iterator" else ():
        set_policy(inner, names, None)
    retry = task.pop("retry", None)
    retry = default if retry is None else retry
    if retry is None:
        retry = names.tool_of(task).get("retry")
    rules = list_at(task)
    if skip is not None:
        rules.append(_rule(task, skip, do="skip"))
    rules += retries
    if retry is not None:
        rules.append(retry_rule(task, retry, names.in_retry(task), ignore is not None))
    if not rules and not ignore and not variables:
        return
    rules.append(_rule(task, f"{{{{ {IS_ERROR} }}}}", do=ignore or "fail"))
    rules.append(_otherwise(task, renamed(variables, in_values(names.in_rule(task))) if variables else None))
    spec = task["spec"] if isinstance(task.get("spec"), Map) else map_at(task)
    spec["policy"] = map_at(task, rules=rules)
    task["spec"] = spec


def set_task(at: Map, values: Map, names: Names) -> Map:
    rules = list_at(at, [_otherwise(at, renamed(values, in_values(names)))])
    return map_at(at, kind="noop", spec=map_at(at, policy=map_at(at, rules=rules)))


def _otherwise(at: Map, variables: Map | None) -> Map:
    then = map_at(at, do="continue")
    if variables is not None:
        then["set_ctx"] = map_at(variables, vars=map_at(variables, {"$merge": variables}))
    return map_at(at, {"else": map_at(at, then=then)})


def _rule(at: Map, when: str, **then: Any) -> Map:
    return map_at(at, when=when, then=map_at(at, then))


def retry_rule(at: Map, retry: Map, names: Names, ignore: bool, guards: Sequence[str] = ()) -> Map:
    """The rule that retries while its conditions and the guards hold; by default, after an error.

    `ignore`: an error of the last attempt is not an error of the task.
    """
    attempts = retry.get("max_attempts", 3)
    names = {**names, "max_attempts": str(attempts)}
    go_on, stop = retry.get("retry_when"), retry.get("stop_when")
    parts = [*guards]
    if go_on is not None:
        parts.append(expression_of(with_nulls(go_on), names))
    if stop is not None:
        parts.append(f"not ({expression_of(with_nulls(stop), names)})")
    if not parts or ("on" in retry and IS_ERROR not in parts):
        parts.append(IS_ERROR)
    if stop is not None or ignore:  # the last outcome counts, so this rule must not fail the task after it
        parts.append(f"_attempt < {attempts}")
    if len(parts) > 1:
        parts = [
            part if part.startswith("not (") or not _NEEDS_PARENTHESES.search(part) else f"({part})" for part in parts
        ]
    backoff, delay = as_map(retry.get("backoff")), retry.get("initial_delay")
    growth = retry.get("backoff_multiplier", 1)
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


def branch_retry(branch: Map) -> Map | None:
    """The retry of a branch without tools, which repeats the call of its step (R6)."""
    if "else" in branch or any(item.name not in ("next", "set") for item in chain_items(branch)):
        return None
    retry: Map | None = as_map(branch["then"]).get("retry", branch.get("retry"))
    return retry


def only_retries(branch: Map) -> bool:
    return branch_retry(branch) is not None and not list(chain_items(branch))


def branch_retries(step: Map, task: Map, names: CallNames, *, last: bool, ignore: bool) -> list[Map]:
    """The rules that repeat a call of the step because a branch without tools has a `retry`."""
    branches = [branch for branch in step.get("case", []) if "else" not in branch]
    if not any(branch_retry(branch) is not None for branch in branches):
        return []
    spec, own = as_map(step.get("spec")), step["step"]
    if spec.get("branch_order") == "priority":
        branches.sort(key=lambda branch: -branch.get("priority", 0))
    in_retry = {**names.in_retry(task), **_own_names(own)}
    before: list[str] = []
    rules: list[Map] = []
    for branch in branches:
        when, retry = branch["when"], branch_retry(branch)
        guard = _at_call(when, in_retry)
        if retry is not None:
            explicit = "retry_when" in retry or "stop_when" in retry
            failed_only = expects_failure(when) and not any(point in str(when) for point in ("call.done", "step.exit"))
            guards = [*before, guard]
            if (
                "loop" in step
                or not last
                or not (explicit or failed_only or reads_failure(own, when) or _reads_result(when))
            ):
                guards.append(IS_ERROR)
            ok_too = not failed_only and IS_ERROR not in guards
            rules.append(
                retry_rule(branch, retry, in_retry, ignore or ok_too, [part for part in guards if part != "true"])
            )
        if spec.get("case_mode") != "inclusive":
            handles = reads_failure(own, when) or expects_failure(when)
            before.append(f"not ({guard})" if handles else f"not (outcome.status == 'ok' and ({guard}))")
    return rules


def _own_names(step: str) -> Names:
    """Names of the step that has not ended yet, for a rule of its call."""
    status = "'succeeded' if outcome.status == 'ok' else 'failed'"
    fields = {"status": status, "error": "outcome.error", "result": "outcome.result"}
    own = {f"{root}{step}.{field}": text for root in ("steps.", "") for field, text in fields.items()}
    event = {"event.data.error": "outcome.error", "event.data.result": "outcome.result"}
    return {**own, **event, "event.name": "'call.done' if outcome.status == 'ok' else 'call.error'"}


def _at_call(when: Any, names: Names) -> str:
    """The guard of a branch as a rule of the call evaluates it: whether it holds after the call or on exit."""
    call, exit = {"call.done": "outcome.status == 'ok'", "call.error": IS_ERROR}, {"step.exit": "true"}

    def guard(tests: dict[str, str]) -> str:
        text = EVENT_NAME.sub(lambda match: tests.get(match.group(2), "false"), when) if isinstance(when, str) else when
        return expression_of(with_nulls(text), {**names, "error": "outcome.error"})

    if isinstance(when, str) and EVENT_NAME.search(when) and NEGATION.search(when):
        return f"({guard(call)}) or ({guard(exit)})"
    return guard(call | exit)


def without_constants(guard: str) -> str:
    """The guard without `true` and `false` where they decide nothing."""
    before = ""
    while guard != before:
        before = guard
        for constant, replacement in _CONSTANTS:
            guard = constant.sub(replacement, guard)
    return guard


def _reads_result(when: Any) -> bool:
    return isinstance(when, str) and any(read.path[0] in ("result", "response", "this") for read in parse(when).reads)


def sink_task(sink: Map, call_names: CallNames, names: Names, retry: Map | None) -> Map:
    """The task that stores: `names` are those that the sink's templates read."""
    task: Map = renamed(sink["tool"], in_values(names))
    content, own = renamed(sink.get("args"), in_values(names)), task.pop("args", None)
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
    skip = "{{ not (" + expression_of(sink["when"], in_values(names)) + ") }}" if "when" in sink else None
    set_policy(task, call_names, retry, skip=skip)
    return task


def labelled(at: Map, label: str, task: Map) -> Map:
    return map_at(at, {label: task})
