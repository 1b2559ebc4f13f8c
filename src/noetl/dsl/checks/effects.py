"""Keys that have no effect at their place (R11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from noetl.dsl.document_parts import Document, TaskSite, Unused
from noetl.dsl.problem import Check, Problems
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, key_span, span_in

NO_EFFECT = Check("NTL118", "warning", "a key has no effect here")
PROFILE_CONFLICT = Check("NTL120", "error", "`profile` and `kind` of the executor differ", stored_ok=True)

MAX_INLINE_BYTES = 65_536
WITHOUT_PROCESS = frozenset(
    [
        "container", "duckdb", "gcs", "http", "iterator", "nats", "noop", "object", "playbook", "postgres", "quantum",
        "s3", "secrets", "snowflake", "transfer", "wait",
    ]
)  # fmt: skip
"""Kinds whose calls start no process on the worker that a sandbox could confine."""
NEVER_RETRIED = frozenset(["noop", "wait"])
RETRY_HINT = "set it on a task that can fail"
CONFINEMENT = ("network", "read", "write")
"""Options of a sandbox that `kind: none` does not have."""
OF_TASKS = ("timeout", "pool", "results", "sandbox", "on_lost", "max_visits", "retry")
"""Options of a step that only its tasks have."""


def check(document: Document, kinds: KindSource, problems: Problems) -> None:
    _check_profile(document, problems)
    parts = (_in_executor(document), _in_steps(document), _in_layers(document, kinds), _in_tasks(document))
    for part in (*parts, document.unused()):
        for unused in part:
            message = f"{unused.key!r} has no effect: {unused.reason}"
            problems.add(NO_EFFECT, key_span(unused.container, unused.key), message, unused.hint)


def _check_profile(document: Document, problems: Problems) -> None:
    executor: Any = document.root.get("executor", {})
    profile, kind = executor.get("profile"), executor.get("kind")
    if profile is not None and kind is not None and profile != kind:
        message = f"`kind: {kind}` contradicts `profile: {profile}`: they are the same key"
        problems.add(PROFILE_CONFLICT, span_in(executor, "kind"), message, "remove one of them")


def _in_executor(document: Document) -> Iterator[Unused]:
    policy = document.executor_spec.get("policy", {})
    results, limits = policy.get("results", {}), policy.get("limits", {})
    if results.get("reference_first") is False:
        yield Unused(results, "reference_first", "large results always become references")
    size = limits.get("max_payload_bytes")
    if isinstance(size, int) and size > MAX_INLINE_BYTES:
        reason = f"values above {MAX_INLINE_BYTES:,} bytes are stored by reference anyway"
        yield Unused(limits, "max_payload_bytes", reason, f"write a limit of at most {MAX_INLINE_BYTES}")


def _in_steps(document: Document) -> Iterator[Unused]:
    for step in document.steps:
        loop = step.get("loop", {})
        spec = loop.get("spec", {})
        if loop.get("mode", spec.get("mode", "sequential")) == "sequential":
            hint = "remove it, or set `mode: parallel`"
            yield from _unused(spec, ("max_in_flight", "batch_size"), "a sequential loop runs one item at a time", hint)
        tasks = list(document.tasks(step))
        if tasks and all(site.tree.get("kind") in NEVER_RETRIED for site in tasks):
            reason = "no task of the step has an error that a retry could fix"
            yield from _unused(step.get("spec", {}), ("retry",), reason, RETRY_HINT)
        if "timers" in step.get("spec", {}) and not document.listens(step):
            hint = "wait with `spec.timeout`, or in a classic step listen with `eval_mode: on_event`"
            yield Unused(step["spec"], "timers", "the step does not listen to its timers", hint)


def _in_layers(document: Document, kinds: KindSource) -> Iterator[Unused]:
    """Defaults of the executor, the steps and their loops that no task uses."""
    used = _kinds(document, document.every_task)
    yield from _defaults(document.executor_spec, used, kinds, "no task is of this kind")
    for step in document.steps:
        used = _kinds(document, document.tasks(step))
        spec, loop = document.layers(step)
        if not used and not document.listens(step):
            yield from _unused(spec, OF_TASKS, "the step has no task")
            yield from _unused(loop, OF_TASKS, "the step has no task")
        for layer in filter(None, (spec, loop)):
            yield from _defaults(layer, used, kinds, "no task of the step is of this kind")
            if used and used <= WITHOUT_PROCESS:
                yield from _unused(layer, ("sandbox",), "no task of the step starts a process on the worker")


def _kinds(document: Document, sites: Iterable[TaskSite]) -> set[str]:
    """The kinds of the tasks, and of the workbook tasks that they may call."""
    used = {site.tree["kind"] for site in sites}
    called = (site.tree["kind"] for _, site in document.workbook) if "workbook" in used else ()
    return (used | set(called)) - {"workbook"}


def _defaults(layer: Map, used: set[str], kinds: KindSource, reason: str) -> Iterator[Unused]:
    yield from _in_sandbox(layer)
    for kind in [name for name in layer if kinds.get(name) is not None]:
        if kind not in used:
            yield Unused(layer, kind, reason)
        elif kind in WITHOUT_PROCESS:
            yield from _unused(layer[kind], ("sandbox",), f"a call of {kind} starts no process on the worker")
        else:
            yield from _in_sandbox(layer[kind])


def _in_sandbox(options: Map) -> Iterator[Unused]:
    sandbox = options.get("sandbox")
    if isinstance(sandbox, Map) and sandbox.get("kind") == "none":
        reason = "`kind: none` limits memory, processes and files, but not what a process may use"
        yield from _unused(sandbox, CONFINEMENT, reason, "write `kind: landlock` or `kind: bubblewrap`")


def _in_tasks(document: Document) -> Iterator[Unused]:
    for site in document.every_task:
        if "spec" in site.tree:
            yield from _in_task(site.tree["spec"], site.tree.get("kind", ""))


def _in_task(spec: Map, kind: str) -> Iterator[Unused]:
    yield from _unused(spec, ("async",), "a call never blocks a worker")
    hint = "set `spec.pool` of the step"
    yield from _unused(spec, ("pool",), "all tasks of a step run where the step runs", hint)
    if kind in WITHOUT_PROCESS:
        yield from _unused(spec, ("sandbox",), f"a call of {kind} starts no process on the worker")
    else:
        yield from _in_sandbox(spec)
    if kind == "iterator" and spec.get("mode", "sequential") == "sequential":
        hint = "remove it, or set `mode: parallel`"
        yield from _unused(spec, ("max_in_flight",), "a sequential iterator runs one item at a time", hint)
    if kind == "iterator":
        hint = "give it to the tasks of the iterator"
        yield from _unused(spec, ("retry",), "an iterator is not repeated as a whole", hint)
    if kind in NEVER_RETRIED:
        yield from _unused(spec, ("retry",), f"a call of {kind} has no error that a retry could fix", RETRY_HINT)


def _unused(container: Map, keys: tuple[str, ...], reason: str, hint: str = "remove it") -> Iterator[Unused]:
    return (Unused(container, key, reason, hint) for key in keys if key in container)
