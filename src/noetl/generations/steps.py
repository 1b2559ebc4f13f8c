"""The version, and keys of a step that are no state: `input`, `args`, `output`, `result`."""

from __future__ import annotations

from typing import Any

from noetl.classic.conversions import convert_loop, give_args, router_at
from noetl.classic.nodes import as_list, as_map, map_at, merged, rename_key
from noetl.dsl.other_words import VERSIONS
from noetl.dsl.tree import Map, Seq
from noetl.generations.document import OtherDocument

RUNTIMES = ("noetl-runtime/1", "noetl-runtime/10", 1, "1")
LOOP_OPTIONS = ("max_in_flight", "on_error", "collect")
RESULT_OPTIONS = frozenset(["output_select", "result_select", "select", "store", "ttl", "scope", "compress"])


def set_version(document: OtherDocument) -> None:
    if document.root.get("apiVersion") in VERSIONS:
        document.root["apiVersion"] = "noetl.io/v2"
    executor = as_map(document.root.get("executor"))
    if executor.get("version") in RUNTIMES:
        executor["version"] = "noetl-runtime/2"


def rewrite_routing(document: OtherDocument) -> None:
    """Options of a loop outside its `spec`; and, in a document that is not classic, `spec.next_mode`, a `next` without
    arcs and a loop with classic keys."""
    for step in document.steps:
        _move_loop_options(as_map(step.get("loop")))
    if document.is_classic:
        return
    for step in document.steps:
        convert_loop(step)
        spec, following = as_map(step.get("spec")), step.get("next")
        if isinstance(following, str) or (isinstance(following, Seq) and all(map(_is_target, following))):
            targets = [following] if isinstance(following, str) else following
            arcs = [target if isinstance(target, Map) else map_at(step, step=target) for target in targets]
            step["next"] = router_at(following if isinstance(following, Seq) else step, arcs)
        if "next_mode" in spec and isinstance(as_map(step.get("next")).get("arcs"), Seq):
            router = step["next"]
            options = router["spec"] if isinstance(router.get("spec"), Map) else map_at(router)
            options["mode"] = spec.pop("next_mode")
            step["next"] = merged(map_at(router, spec=options), router) if "spec" not in router else router
            if not spec:
                del step["spec"]


def _move_loop_options(loop: Map) -> None:
    spec = loop["spec"] if isinstance(loop.get("spec"), Map) else map_at(loop)
    if options := [key for key in LOOP_OPTIONS if key in loop and key not in spec]:
        for key in options:
            spec.put(key, loop.pop(key), *loop.spans[key])
        loop["spec"] = spec


def _is_target(target: Any) -> bool:
    return isinstance(target, str) or (isinstance(target, Map) and set(target) <= {"step", "args"})


def drop_options(document: OtherDocument) -> None:
    """Drop options without an effect here: large results become references anyway."""
    executor = as_map(document.root.get("executor"))
    if executor.get("profile") == "auto":
        document.note(executor, "profile", "`profile: auto` was dropped", "`noetl run` and servers run any playbook")
        del executor["profile"]
        if not executor:
            del document.root["executor"]
    for entry in as_list(document.root.get("workbook")):
        if isinstance(entry, Map) and "assert" in entry:
            hint = "check values in a rule of the task, or in its code"
            document.note(entry, "assert", "`assert` of a workbook entry was dropped", hint)
            del entry["assert"]
    for step in document.steps:
        for holder in (step, *(task.tree for task in document.tasks(step))):
            for key in ("output", "result"):
                if isinstance(holder.get(key), Map) and holder[key] and set(holder[key]) <= RESULT_OPTIONS:
                    hint = "large results become references automatically; `spec: {results: {...}}` chooses the store"
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
