"""Conversions that `prepare` and `rewrite` share: loops, args, credentials and plain routing."""

from __future__ import annotations

import re
from typing import Any

from noetl.classic.chains import ClassicDocument
from noetl.classic.detect import chain_calls, tasks_of
from noetl.classic.leftovers import Leftovers
from noetl.classic.names import Names, renamed
from noetl.classic.nodes import as_list, as_map, list_at, map_at, merged, put_after, rename_key
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, is_template

CREDENTIALS = {
    "postgres": "postgres_credential",
    "snowflake": "snowflake_credential",
    "gcs": "gcs_credential",
}
_DSN = re.compile(r"^postgres(ql)?://|=")


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


def arcs_of(holder: Map, names: Names, leftovers: Leftovers) -> list[Map]:
    """Arcs to the targets of a `next` in any of its classic forms."""
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
    spec = map_at(at, mode="inclusive") if len(arcs) > 1 else None
    return map_at(at, spec=spec, arcs=list_at(at, arcs))


class Credentials:
    """Declares the credentials that classic calls name without a keychain entry; postgres may even leave them out."""

    def __init__(self, document: ClassicDocument, kinds: KindSource, leftovers: Leftovers) -> None:
        self.document, self.root = document, document.root
        self.kinds, self.leftovers = kinds, leftovers

    def declare(self) -> None:
        spec = self.document.executor_spec
        for kind, defaults in spec.items():
            if isinstance(defaults, Map) and self.kinds.get(kind):
                self._declare(kind, defaults)
        for step in self.document.steps:
            self.leftovers.step = step["step"]
            layers = (spec, *self.document.layers(step))
            for site in self.document.tasks(step):
                self._declare_task(site.tree, layers)
        for _, site in self.document.workbook:
            self._declare_task(site.tree, (spec,))
        for entry in as_list(self.root.get("workbook")):
            self._declare_task(as_map(as_map(entry.get("sink")).get("tool")), (spec,))

    def _declare_task(self, task: Map, layers: tuple[Map, ...]) -> None:
        holders = [task, *(as_map(layer.get("postgres")) for layer in layers)]
        if task.get("kind") == "postgres" and not any("auth" in holder or "dsn" in holder for holder in holders):
            task["auth"] = "postgres"
        self._declare(task.get("kind"), task)

    def _declare(self, kind: Any, holder: Map) -> None:
        credential = holder.get("auth")
        if not isinstance(credential, str) or is_template(credential):
            return
        if kind == "postgres" and _DSN.search(credential):
            rename_key(holder, "auth", "dsn")
            return
        name = re.sub(r"\W", "_", credential)
        declared = {entry.get("name") for entry in as_list(self.root.get("keychain"))}
        if name not in declared and kind not in CREDENTIALS:
            construct = f"`auth: {credential}` without a keychain entry (its kind is unknown)"
            self.leftovers.refuse(holder, "auth", construct, f"add `keychain: [{{name: {name}, kind: ...}}]`")
            return
        if name not in declared:
            if not isinstance(self.root.get("keychain"), Seq):
                put_after(self.root, "metadata", "keychain", list_at(self.root))
            stored = credential if name != credential else None
            self.root["keychain"].append(map_at(self.root, name=name, kind=CREDENTIALS[kind], credential=stored))
        holder["auth"] = name
