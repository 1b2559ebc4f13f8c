"""Conversions that `dialect` and `rewrite` share: loops, args, credentials and plain routing."""

from __future__ import annotations

import re
from collections.abc import Set
from contextlib import suppress
from typing import Any, NamedTuple

from noetl.classic.detect import chain_calls, tasks_of
from noetl.classic.names import Names, renamed, templates_in
from noetl.classic.nodes import as_list, as_map, list_at, map_at, merged, put_after, rename_key
from noetl.classic.outline import ClassicDocument
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, is_template
from noetl.errors import TemplateSyntax
from noetl.expression import parse

CREDENTIALS = {"postgres": "postgres_credential", "snowflake": "snowflake_credential", "gcs": "gcs_credential"}
_DSN = re.compile(r"^postgres(ql)?://|=")


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

    def refuse_reads(self, container: Map | Seq, key: Any, names: Set[str], where: str) -> None:
        """Refuse templates that read names which do not exist at their new place."""
        for holder, at, text in templates_in(container, self.kinds, key):
            with suppress(TemplateSyntax):
                for read in parse(text).reads:
                    if read.path[0] in names or ".".join(map(str, read.path[:2])) in names:
                        hint = "store the value in `vars`, or read `steps.NAME.result`"
                        self.refuse(holder, at, f"`{read.path[0]}` {where}", hint)


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
    """Remove the keys of workbook entries that were copied to their callers."""
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
            arc, where = renamed(target, names), (target, "step")
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
    """A router that fires all of these arcs."""
    spec = map_at(at, mode="inclusive") if len(arcs) > 1 else None
    return map_at(at, spec=spec, arcs=list_at(at, arcs))


def declare_credentials(document: ClassicDocument, kinds: KindSource, leftovers: Leftovers) -> None:
    """Add keychain entries for credentials that calls name without one; calls of postgres may even name none."""
    root, executor = document.root, document.executor_spec

    def declare(kind: Any, holder: Map) -> None:
        credential = holder.get("auth")
        if not isinstance(credential, str) or is_template(credential):
            return
        if kind == "postgres" and _DSN.search(credential):
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
