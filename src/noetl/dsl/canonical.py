"""A checked canonical tree to the model.

Everything here may rely on the shapes of `document.py`. Spec layering is done once, here: a task in the model carries
its effective knobs and inputs, so nothing has to look outwards when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from noetl.dsl.inputs import LAYERED
from noetl.dsl.shape import KindSource, is_template
from noetl.dsl.tree import Mark, Span, key_span, plain, span_in, span_of
from noetl.model import playbook as model
from noetl.model.duration import seconds
from noetl.model.inputs import fields

INHERITED = ("results", "sandbox", "on_lost", "max_visits", "retry")
SINK = "$sink"
"""Marks a task that stores what another one gave; no author can write it."""
OWN_TASK_SPEC = ("pool", "exactly_once", "mode", "max_in_flight")


def layered(*layers: Any) -> dict[str, Any]:
    """Maps merged from the outside in: maps merge deep, everything else is replaced."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in (layer or {}).items():
            if isinstance(value, dict) and isinstance(merged.get(key), dict):
                merged[key] = layered(merged[key], value)
            else:
                merged[key] = plain(value)
    return merged


def timeout(value: Any) -> Any:
    """A time limit in seconds; for http possibly a map of them."""
    if isinstance(value, dict):
        return {key: seconds(part) for key, part in value.items()}
    return seconds(value)


def delay(value: Any) -> float | str | None:
    """A delay in seconds, or the template that gives it."""
    return str(value) if is_template(value) else seconds(value)


class Builder:
    """Builds the playbook and remembers where its parts stand: by `fetch`, `fetch/save`, `fetch/next/0` and so on."""

    def __init__(self, root: Any, kinds: KindSource, mark: Callable[[int], Mark]) -> None:
        self.root, self.kinds, self.mark = root, kinds, mark
        self.places: dict[str, Mark] = {}
        self.executor_spec = root.get("executor", {}).get("spec", {})
        self.workbook = workbook_tasks(root.get("workbook"))

    def playbook(self) -> model.Playbook:
        metadata = plain(self.root["metadata"])
        steps = tuple(self.step(step) for step in self.root["workflow"])
        names = [step.name for step in steps]
        name = metadata.pop("name")
        version = metadata.pop("version", None)
        return model.Playbook(
            name=name,
            path=metadata.pop("path", name),
            steps=steps,
            entry=self.executor_spec.get("entry_step") or ("start" if "start" in names else names[0]),
            final=self.executor_spec.get("final_step"),
            version=None if version is None else str(version),
            description=metadata.pop("description", None),
            metadata=metadata,
            keychain=tuple(model.Credential(**plain(entry)) for entry in self.root.get("keychain", [])),
            executor=self.executor(),
            workload=plain(self.root.get("workload", {})),
        )

    def executor(self) -> model.Executor:
        given, spec = self.root.get("executor", {}), self.executor_spec
        results = layered(spec.get("result"), spec.get("results"))
        if spec:
            self._place("executor.spec", span_of(spec))
        limit = spec.get("policy", {}).get("limits", {}).get("max_payload_bytes")
        inline = results.get("inline_bytes", limit if limit is not None else 65_536)
        values = {key: spec[key] for key in ("pool", "on_failure", "durability", "max_step_runs") if key in spec}
        return model.Executor(
            profile=given.get("profile", given.get("kind", "local")),
            timeout=seconds(spec.get("timeout")),
            output=plain(spec.get("output")),
            inline_bytes=min(inline, 65_536),
            result_store=_store(results.get("store")),
            **values,
        )

    # -- steps ------------------------------------------------------------------------------------------------------

    def step(self, tree: Any) -> model.Step:
        name, spec = tree["step"], tree.get("spec", {})
        loop_spec = tree.get("loop", {}).get("spec", {})
        self._place(name, span_of(tree))
        layers = (self.executor_spec, spec, loop_spec)
        tail = self._tail(name, tree, layers)
        return model.Step(
            name=name,
            desc=tree.get("desc"),
            spec=_step_spec(spec),
            join=spec.get("join", self.executor_spec.get("join", "any")),
            admit=self._admit(name, spec.get("policy", {}).get("admit")),
            loop=self._loop(tree.get("loop")),
            tasks=tuple(self.pipeline(name, tree["tool"], layers)) if "tool" in tree else (),
            router=self._router(name, tree.get("next")),
            tail=tail,
        )

    def _admit(self, step: str, tree: Any) -> model.Admit | None:
        if tree is None:
            return None
        rules = [model.AdmitRule(_guard(rule), body["allow"]) for rule, body in _rules(tree["rules"])]
        for i in range(len(rules)):
            self._place(f"{step}/admit/{i}", span_in(tree["rules"], i))
        return model.Admit(tuple(rules), tree.get("mode", "exclusive"))

    def _loop(self, tree: Any) -> model.Loop | None:
        if tree is None:
            return None
        spec = tree.get("spec", {})
        knobs = {key: spec[key] for key in ("mode", "max_in_flight", "on_error", "collect") if key in spec}
        where = spec.get("policy", {}).get("exec", "distributed")
        return model.Loop(plain(tree["in"]), tree["iterator"], exec=where, **knobs)

    def _router(self, step: str, tree: Any) -> model.Router:
        if tree is None:
            return model.Router()
        for i in range(len(tree["arcs"])):
            self._place(f"{step}/next/{i}", span_in(tree["arcs"], i))
        return model.Router(tuple(map(_arc, tree["arcs"])), tree.get("spec", {}).get("mode", "exclusive"))

    # -- tasks ------------------------------------------------------------------------------------------------------

    def pipeline(self, owner: str, tree: Any, layers: tuple[Any, ...]) -> Iterable[model.Task]:
        for label, task in labelled(tree):
            yield self.task(f"{owner}/{label}", label, task, layers)

    def task(self, key: str, label: str, tree: Any, layers: tuple[Any, ...]) -> model.Task:
        self._place(key, span_of(tree))
        given_args, given_spec, sink = [tree.get("args")], [tree.get("spec", {})], SINK in tree
        while tree["kind"] == "workbook":  # resolved here, so the engine never looks into the workbook
            tree = self.workbook[tree["name"]]
            given_args.insert(0, tree.get("args"))
            given_spec.insert(0, tree.get("spec", {}))
        kind = self.kinds.get(tree["kind"])
        assert kind is not None, "kinds were checked"
        known = fields(kind.inputs)
        defaults = layered(*(layer.get(kind.name) for layer in layers))
        own = {name: value for name, value in tree.items() if name in known}
        for name in kind.verbatim:
            if name in own:
                self._place_text(f"{key}/{name}", span_in(tree, name))
        inputs = layered({name: value for name, value in defaults.items() if name in known}, own)
        for group in kind.one_of:  # a default must not stand beside the task's own choice
            if chosen := set(group) & set(own):
                inputs = {name: value for name, value in inputs.items() if name not in group or name in chosen}
        body: tuple[model.Task, ...] = ()
        if kind.name == "iterator":
            inputs.pop("tool")
            body = tuple(self.pipeline(key, tree["tool"], layers))
        return model.Task(
            label=label,
            kind=kind.name,
            inputs=inputs,
            args=layered(*given_args),
            spec=_task_spec(layers, kind.name, given_spec),
            policy=self._policy(key, given_spec),
            body=body,
            sink=sink,
        )

    def _policy(self, key: str, specs: list[Any]) -> tuple[model.Rule, ...] | None:
        policies = [spec["policy"] for spec in specs if "policy" in spec]
        if not policies:
            return None
        rules = policies[-1]["rules"]
        for i, (_, then) in enumerate(_rules(rules)):
            self._place(f"{key}/rules/{i}", span_in(rules, i))
            for name in then.get("set_ctx", ()):
                self._place(f"{key}/rules/{i}/{name}", key_span(then["set_ctx"], name))
        return tuple(model.Rule(_guard(rule), _then(body)) for rule, body in _rules(rules))

    # -- classic leftovers ------------------------------------------------------------------------------------------

    def _tail(self, step: str, tree: Any, layers: tuple[Any, ...]) -> model.Tail | None:
        if not any(key in tree for key in ("case", "vars", "sink")):
            return None
        if "vars" in tree:
            self._place(f"{step}/vars/set", span_in(tree, "vars"))
        return model.Tail(
            view=self._view(tree.get("tool")),
            vars=_set_task("set", tree["vars"]) if tree.get("vars") else None,
            cases=self._cases(step, tree, layers) if "case" in tree else None,
            sink=self._sink(f"{step}/sink/store", "store", tree["sink"], layers) if "sink" in tree else None,
        )

    def _view(self, tool: Any) -> Any:
        """Which part of the last call's result a classic template means by `result`."""
        tasks = [task for _, task in labelled(tool)] if tool else []
        calls = [task for task in tasks if SINK not in task]
        if not calls:
            return "value"
        tree = calls[-1]
        while tree["kind"] == "workbook":
            tree = self.workbook[tree["name"]]
        kind = self.kinds.get(tree["kind"])
        return "value" if kind is None else kind.result

    def _cases(self, step: str, tree: Any, layers: tuple[Any, ...]) -> model.Cases:
        spec = tree.get("spec", {})
        branches = []
        for i, branch in enumerate(tree["case"]):
            self._place(f"{step}/case_{i}", span_in(tree["case"], i))
            branches.append(self._branch(f"{step}/case_{i}", branch, layers))
        return model.Cases(
            tuple(branches),
            mode=spec.get("case_mode", "exclusive"),
            evaluate=spec.get("eval_mode", "on_entry"),
            order=spec.get("branch_order", "source"),
            next_policy=spec.get("next_policy", "end_step"),
        )

    def _branch(self, key: str, tree: Any, layers: tuple[Any, ...]) -> model.Branch:
        chain = tree.get("then", tree.get("else"))
        if isinstance(chain, dict):
            chain = [{name: chain[name]} for name in ("sink", "set", "next") if name in chain]
        items: list[model.Task | model.Goto] = []
        taken: set[str] = {name for item in chain for name in item if name not in ("sink", "set", "next")}
        for item in chain:
            ((name, body),) = item.items()
            label = _free(name, taken) if name in ("sink", "set", "next") else name
            if name == "set":
                self._place(f"{key}/{label}", span_in(item, name))
                items.append(_set_task(label, body))
            elif name == "next":
                self._place(f"{key}/{label}", span_in(item, name))
                items.append(_goto(label, body))
            elif name == "sink":
                items.append(self._sink(f"{key}/{label}", label, body, layers))
            else:
                items.append(self._chain_task(f"{key}/{name}", name, body, layers))
        return model.Branch(
            when=tree.get("when"),
            chain=tuple(items),
            priority=tree.get("priority", 0),
            again=model.Rule(tree["again"]["when"], _then(tree["again"]["then"])) if "again" in tree else None,
        )

    def _chain_task(self, key: str, name: str, tree: Any, layers: tuple[Any, ...]) -> model.Task:
        task = self.task(key, name, tree["tool"], layers)
        changes: dict[str, Any] = {"args": layered(tree.get("args"), tree["tool"].get("args"))}
        if poll := tree.get("poll"):
            changes["poll"] = model.Poll(
                poll["until"],
                seconds(poll.get("interval", 1)) or 0.0,
                poll.get("max_attempts"),
                seconds(poll.get("deadline")),
            )
        return replace(task, **changes)

    def _sink(self, key: str, label: str, tree: Any, layers: tuple[Any, ...]) -> model.Task:
        return replace(self.task(key, label, tree["tool"], layers), sink=True)

    def _place(self, key: str, span: Span) -> None:
        self.places[key] = self.mark(span.start)

    def _place_text(self, key: str, span: Span) -> None:
        """Where the first line of a text stands: in a block that is the line below its mark."""
        mark = self.mark(span.start)
        self.places[key] = Mark(mark.line + 1, 1) if span.style in ("|", ">") else mark


def workbook_tasks(workbook: Any) -> dict[str, Any]:
    """Named tasks from any form of the workbook."""
    if isinstance(workbook, list):
        return {entry["name"]: entry["tool"] for entry in workbook if "name" in entry and "tool" in entry}
    if isinstance(workbook, dict):
        tasks = workbook.get("tasks")
        return tasks if isinstance(tasks, dict) and "kind" not in tasks else workbook
    return {}


def labelled(tree: Any) -> Iterable[tuple[str, Any]]:
    """The tasks of a `tool` with their labels; a task without one is `task_N`, N its place from 1."""
    for place, item in enumerate([tree] if isinstance(tree, dict) else tree, start=1):
        if "kind" not in item:
            ((label, task),) = item.items()
            yield label, task
        elif item["kind"] == "workbook":
            yield f"task_{place}", item
        else:
            yield item.get("name", f"task_{place}"), item


def _step_spec(spec: Any) -> dict[str, Any]:
    found = {key: spec[key] for key in ("pool",) if key in spec}
    if "timeout" in spec:
        found["timeout"] = seconds(spec["timeout"])
    if "timers" in spec:
        found["timers"] = {name: seconds(value) for name, value in spec["timers"].items()}
    return found


def _task_spec(layers: tuple[Any, ...], kind: str, specs: list[Any]) -> dict[str, Any]:
    """The knobs of a task from the outside in; within one scope, what is said of the kind is said more closely."""
    inherited: list[Any] = []
    for layer in layers:
        inherited.append({key: layer[key] for key in INHERITED if key in layer})
        inherited.append({key: value for key, value in layer.get(kind, {}).items() if key in LAYERED})
    own = [{key: spec[key] for key in (*INHERITED, *OWN_TASK_SPEC, "timeout") if key in spec} for spec in specs]
    merged = layered(*inherited, *own)
    if "timeout" in merged:
        merged["timeout"] = timeout(merged["timeout"])
    if "results" in merged and "store" in merged["results"]:
        merged["results"]["store"] = _store(merged["results"]["store"])
    return merged


def _store(store: Any) -> dict[str, Any]:
    return {"kind": store} if isinstance(store, str) else dict(store or {})


def _rules(rules: Any) -> Iterable[tuple[Any, Any]]:
    """Each rule with its `then`."""
    for rule in rules:
        yield rule, rule.get("else", rule)["then"]


def _guard(rule: Any) -> Any:
    return None if "else" in rule else rule["when"]


def _then(tree: Any) -> model.Then:
    values = plain(tree)
    if "delay" in values:
        values["delay"] = delay(values["delay"])
    if "max_delay" in values:
        values["max_delay"] = seconds(values["max_delay"])
    return model.Then(**values)


def _arc(tree: Any) -> model.Arc:
    if not isinstance(tree, dict):
        return model.Arc(tree)
    pause = tree.get("spec", {}).get("delay")
    return model.Arc(
        tree["step"],
        tree.get("when", True),
        plain(tree.get("args", {})),
        None if pause is None else seconds(pause),
    )


def _goto(label: str, tree: Any) -> model.Goto:
    if isinstance(tree, str):
        return model.Goto((model.Arc(tree),), label=label)
    if isinstance(tree, list):
        return model.Goto(tuple(map(_arc, tree)), label=label)
    pause = tree.get("spec", {}).get("delay")
    return model.Goto(
        tuple(map(_arc, tree["to"])),
        tree.get("policy"),
        tree.get("priority", 0),
        None if pause is None else seconds(pause),
        label,
    )


def _set_task(label: str, values: Any) -> model.Task:
    """`vars` and `set`: a call of nothing whose policy patches `ctx.vars`."""
    then = model.Then("continue", set_ctx={"vars": {"$merge": plain(values)}})
    return model.Task(label, "noop", policy=(model.Rule(None, then),))


def _free(label: str, taken: set[str]) -> str:
    """The label, with a number where others of its name stand before it."""
    number, found = 1, label
    while found in taken:
        number += 1
        found = f"{label}_{number}"
    taken.add(found)
    return found
