"""Builds the model from a checked canonical tree.

Everything here may rely on the shapes of `document.py`. Spec layering is done once, here: a task in the model carries
its effective options and inputs, so nothing has to look outwards when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from noetl.dsl.document import LAYERED
from noetl.dsl.document_parts import labelled_items, workbook_tasks
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Mark, Seq, Span, Text, is_template, key_span, plain, span_in, span_of
from noetl.expression import template_offsets
from noetl.model import playbook as model
from noetl.model.duration import seconds
from noetl.model.event_names import end_names, with_event_names
from noetl.model.inputs import fields

MAX_PLACES = 10_000
"""Maximum number of places in a folded or escaped program; an error beyond them points at its beginning."""
INHERITED = ("results", "sandbox", "on_lost", "max_visits", "retry")
OWN_TASK_SPEC = ("pool", "exactly_once", "mode", "max_in_flight", "timeout")

Layers = tuple[Map, ...]
"""The `spec` of the executor, the step and the loop, from the outside in."""


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


class Builder:
    """Builds the playbook and records the places of its parts: by `fetch`, `fetch/save`, `fetch/next/0` and so on."""

    def __init__(self, root: Map, kinds: KindSource, text: Text) -> None:
        self.root, self.kinds, self.text = root, kinds, text
        self.places: dict[str, Mark] = {}
        self.executor_spec = root.get("executor", {}).get("spec", {})
        self.workbook = workbook_tasks(root.get("workbook"))

    def playbook(self) -> model.Playbook:
        metadata = plain(self.root["metadata"])
        for entry in self.root.get("keychain", []):
            self._place(f"keychain/{entry['name']}", span_of(entry))
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
        executor, spec = self.root.get("executor", {}), self.executor_spec
        results = layered(spec.get("result"), spec.get("results"))
        if spec:
            self._place("executor.spec", span_of(spec))
        limit = spec.get("policy", {}).get("limits", {}).get("max_payload_bytes")
        inline = results.get("inline_bytes", limit if limit is not None else 65_536)
        values = {key: spec[key] for key in ("pool", "on_failure", "durability", "max_step_runs") if key in spec}
        return model.Executor(
            profile=executor.get("profile", executor.get("kind", "local")),
            timeout=seconds(spec.get("timeout")),
            output=plain(spec.get("output")),
            inline_bytes=min(inline, 65_536),
            result_store=_store(results.get("store")),
            workload_schema=plain(spec.get("schema", {}).get("workload", UNSET)),
            **values,
        )

    def step(self, tree: Map) -> model.Step:
        name, spec, loop = tree["step"], tree.get("spec", {}), tree.get("loop")
        self._place(name, span_of(tree))
        if loop is not None:
            self._place(f"{name}/input/loop/in", span_in(loop, "in"))
        layers = (self.executor_spec, spec, (loop or {}).get("spec", {}))
        options: dict[str, Any] = {"pool": spec["pool"]} if "pool" in spec else {}
        if "timeout" in spec:
            options["timeout"] = seconds(spec["timeout"])
        if "timers" in spec:
            options["timers"] = {timer: seconds(value) for timer, value in spec["timers"].items()}
        router, following = model.Router(), tree.get("next")
        if following is not None:
            self._place_items(f"{name}/next", following["arcs"])
            arcs = tuple(
                replace(arc, when=_of_events(arc.when), args=_of_events(arc.args))
                for arc in map(arc_of, following["arcs"])
            )
            router = model.Router(arcs, following.get("spec", {}).get("mode", "exclusive"))
        return model.Step(
            name=name,
            desc=tree.get("desc"),
            spec=options,
            join=spec.get("join", self.executor_spec.get("join", "any")),
            admit=self._admit(name, spec.get("policy", {}).get("admit")),
            loop=_loop(loop, self.root.get("executor", {})) if loop is not None else None,
            tasks=self.pipeline(name, tree["tool"], layers) if "tool" in tree else (),
            router=router,
            after_call=self.after_call(name, tree, layers),
        )

    def after_call(self, step: str, tree: Map, layers: Layers) -> model.AfterCall | None:
        """What the step does after its call; nothing in the canonical dialect."""
        return None

    def _admit(self, step: str, tree: Map | None) -> model.Admit | None:
        if tree is None:
            return None
        self._place_items(f"{step}/admit", tree["rules"])
        rules = [model.AdmitRule(_of_events(when), body["allow"]) for when, body in _rules(tree["rules"])]
        return model.Admit(tuple(rules), tree.get("mode", "exclusive"))

    def pipeline(self, owner: str, tree: Map | Seq, layers: Layers) -> tuple[model.Task, ...]:
        items = labelled_items(tree)
        return tuple(self.task(f"{owner}/{label}", label, task, layers) for label, task, *_ in items)

    def task(self, key: str, label: str, tree: Map, layers: Layers) -> model.Task:
        self._place(key, span_of(tree))
        args, specs = [tree.get("args")], [tree.get("spec", {})]
        while tree["kind"] == "workbook":  # resolved here, so the engine never reads the workbook
            tree = self.workbook[tree["name"]]
            args.insert(0, tree.get("args"))
            specs.insert(0, tree.get("spec", {}))
        kind = self.kinds.get(tree["kind"])
        assert kind is not None, "kinds were checked"
        declared = fields(kind.inputs)
        defaults = layered(*(layer.get(kind.name) for layer in layers))
        own = {name: value for name, value in tree.items() if name in declared}
        for name in kind.programs:
            if isinstance(own.get(name), str):
                self._place_program(f"{key}/{name}", span_in(tree, name), own[name])
        for name in kind.verbatim:
            holders = [tree, *(layer.get(kind.name, {}) for layer in reversed(layers))]
            items = next((holder[name] for holder in holders if name in holder), None)
            if isinstance(items, Seq):
                self._place_items(f"{key}/input/{name}", items)
        for name in (*own, "args"):
            if name not in tree or name == "tool":
                continue
            if name == "args" or _has_template(tree[name]):
                self._place_templates(f"{key}/input/{name}", tree, name)
            else:
                self._place(f"{key}/input/{name}", span_in(tree, name))
        if is_template(tree.get("spec", {}).get("timeout")):
            self._place(f"{key}/input/timeout", span_in(tree["spec"], "timeout"))
        inputs = layered({name: value for name, value in defaults.items() if name in declared}, own)
        for group in kind.one_of:  # a default must not join the task's own choice
            if named := set(group) & set(own):
                inputs = {name: value for name, value in inputs.items() if name not in group or name in named}
        body: tuple[model.Task, ...] = ()
        if kind.name == "iterator":
            inputs.pop("tool")
            body = self.pipeline(key, tree["tool"], layers)
        return model.Task(
            label=label,
            kind=kind.name,
            inputs=inputs,
            args=layered(*args),
            spec=_task_spec(layers, kind.name, specs),
            policy=self._policy(key, specs),
            body=body,
        )

    def _policy(self, key: str, specs: list[Map]) -> tuple[model.Rule, ...] | None:
        policies = [spec["policy"] for spec in specs if "policy" in spec]
        if not policies:
            return None
        rules = policies[-1]["rules"]
        self._place_items(f"{key}/rules", rules)
        for i, (_, then) in enumerate(_rules(rules)):
            for name in then.get("set_ctx", ()):
                self._place(f"{key}/rules/{i}/{name}", key_span(then["set_ctx"], name))
        return tuple(model.Rule(when, then_of(then)) for when, then in _rules(rules))

    def _place(self, key: str, span: Span) -> None:
        self.places[key] = self.text.mark(span.start)

    def _place_program(self, key: str, span: Span, program: str) -> None:
        """Place a program whose lines tools report. If its lines are lines of the file, `KEY/1` is the first of them;
        otherwise `KEY/LINE/COLUMN` is the start of each part that the file has unchanged."""
        self._place(key, span)
        if (first := self.text.first_line(span, program)) is not None:
            self.places[f"{key}/1"] = first
            return
        for line, column, mark in islice(self.text.breaks(span, program), MAX_PLACES):
            self.places[f"{key}/{line}/{column}"] = mark

    def _place_templates(self, key: str, container: Map | Seq, name: str | int) -> None:
        """Place a value, and the values inside it that have templates: `KEY/NAME/0`; and each template but the first of
        a text: `KEY/NAME/0#1`."""
        span = span_in(container, name)
        self._place(key, span)
        value: Any = container[name]  # type: ignore[index]
        if isinstance(value, str):
            for number, offset in enumerate(template_offsets(value)):
                if number and (mark := self.text.mark_in(span, value, offset)) is not None:
                    self.places[f"{key}#{number}"] = mark
        elif isinstance(value, Map | Seq):
            for part, item in value.items() if isinstance(value, Map) else enumerate(value):
                if _has_template(item):
                    self._place_templates(f"{key}/{part}", value, part)

    def _place_items(self, key: str, items: Seq) -> None:
        for i in range(len(items)):
            self._place(f"{key}/{i}", span_in(items, i))


def _has_template(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_template, value.values() if isinstance(value, dict) else value))
    return is_template(value)


def _loop(tree: Map, executor: Map) -> model.Loop:
    spec = tree.get("spec", {})
    options = {key: spec[key] for key in ("mode", "max_in_flight", "on_error", "collect") if key in spec}
    where = spec.get("policy", {}).get("exec", executor.get("profile", executor.get("kind", "distributed")))
    return model.Loop(plain(tree["in"]), tree["iterator"], exec=where, **options)


def _task_spec(layers: Layers, kind: str, specs: list[Map]) -> dict[str, Any]:
    """The options of a task from the outside in; within one scope, those of its kind win."""
    inherited: list[Any] = []
    for layer in filter(None, layers):
        inherited.append({key: layer[key] for key in INHERITED if key in layer})
        inherited.append({key: value for key, value in layer.get(kind, {}).items() if key in LAYERED})
    own = [{key: spec[key] for key in (*INHERITED, *OWN_TASK_SPEC) if key in spec} for spec in filter(None, specs)]
    merged = layered(*map(_with_retry, (*inherited, *own)))
    limit = merged.get("timeout")
    if isinstance(limit, dict):  # of http: to connect, and between reads
        merged["timeout"] = {key: seconds(part) for key, part in limit.items()}
    elif "timeout" in merged and not is_template(limit):
        merged["timeout"] = seconds(limit)
    if "store" in merged.get("results", {}):
        merged["results"]["store"] = _store(merged["results"]["store"])
    return merged


def _with_retry(options: dict[str, Any]) -> dict[str, Any]:
    """The options with `retry` as a map of attempts and seconds: `retry: 3` repeats a call up to three times."""
    retry = options.get("retry")
    if retry is None:
        return options
    if isinstance(retry, dict):
        return {**options, "retry": {key: seconds(retry[key]) if "delay" in key else retry[key] for key in retry}}
    return {**options, "retry": {"attempts": retry + 1}}


def _store(store: Any) -> dict[str, Any]:
    return {"kind": store} if isinstance(store, str) else dict(store or {})


def _rules(rules: Seq) -> Iterator[tuple[model.Guard | None, Map]]:
    for rule in rules:
        yield None if "else" in rule else rule["when"], rule.get("else", rule)["then"]


def then_of(tree: Map) -> model.Then:
    values = plain(tree)
    for key in ("delay", "max_delay"):
        if key in values and not is_template(values[key]):
            values[key] = seconds(values[key])
    return model.Then(**values)


def arc_of(tree: Map | str) -> model.Arc:
    if not isinstance(tree, dict):
        return model.Arc(tree)
    delay = seconds(tree.get("spec", {}).get("delay"))
    return model.Arc(tree["step"], tree.get("when", True), plain(tree.get("args", {})), delay)


def _of_events(value: Any) -> Any:
    """A value whose templates compare `event.name` with stored names."""
    if isinstance(value, dict):
        return {key: _of_events(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_of_events(item) for item in value]
    return with_event_names(value, end_names) if is_template(value) else value
