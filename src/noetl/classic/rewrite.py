"""Rewrites a classic document in the canonical dialect, for `noetl migrate`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noetl.classic import conversions
from noetl.classic.chain_items import chain_items, step_items
from noetl.classic.detect import CASE_SPEC, tasks_of
from noetl.classic.document_parts import ClassicDocument, stores_items
from noetl.classic.failure_guards import expects_failure, reads_failure
from noetl.classic.names import (
    CallNames,
    Names,
    expression_of,
    in_values,
    path_of,
    rename_everywhere,
    renamed,
    renamed_text,
)
from noetl.classic.nodes import as_map, free_label, insert_item, list_at, map_at, merged, part_of
from noetl.classic.points import rename_events
from noetl.dsl.document_parts import labelled_items
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, unshare
from noetl.expression import parse
from noetl.model.event_names import with_equalities

EVENT = frozenset(["event"])
OWN_SPEC = (*CASE_SPEC, "timeout", "timers", "join", "policy")
"""Keys of a step's `spec` that are not for its calls."""

NEVER = "{{ false }}"
_ALTERNATIVE = re.compile(r"\b(or|not|if)\b|!=")
_UNEQUAL = re.compile(r"\(not \(event\.name == ('[^']*')\)\)")


def rewrite(root: Map, kinds: KindSource) -> list[conversions.Leftover]:
    """Rewrite the document in place; returns the constructs that were not rewritten."""
    unshare(root)
    leftovers = conversions.Leftovers(kinds)
    conversions.declare_credentials(ClassicDocument(root), kinds, leftovers)
    rewriter = _Rewriter(root, CallNames(root, kinds), leftovers)
    steps, position = root["workflow"], 0
    while position < len(steps):
        for step in rewriter.step(steps[position]):
            position += 1
            insert_item(steps, position, step)
        position += 1
    conversions.drop_entry_keys(root)
    rename_everywhere(root, kinds)
    return leftovers


class _Rewriter:
    def __init__(self, root: Map, names: CallNames, leftovers: conversions.Leftovers) -> None:
        self.names, self.leftovers = names, leftovers
        self.step_names: set[str] = {step["step"] for step in root["workflow"]}
        self.inputs = set(as_map(root.get("workload")))

    def step(self, step: Map) -> list[Map]:
        """Rewrite a step; returns the steps that its branches became."""
        self.leftovers.step = step["step"]
        rename_events(step, self.leftovers.kinds)
        for branch in step.get("case", []):
            if isinstance(when := branch.get("when"), str):
                branch["when"] = with_equalities(when)
        local = self._local_names(step)
        if "tool" not in step and ("vars" in step or "sink" in step):
            step["tool"] = map_at(step, kind="noop")
        conversions.convert_loop(step)
        conversions.give_args(step)
        sinks = [sink for task in tasks_of(step.get("tool")) for sink in self.names.sinks_of(task)]
        before, stored = len(self.leftovers), None
        if "sink" in step:
            sinks.append(step["sink"])
            labels = self._labels(step)
            *_, stored = [free_label("sink", labels, self.step_names) for _ in sinks]
        routes = ClassicRoutes(self, step, local, stored)
        router = routes.router()
        self._refuse_outside(step)
        if len(self.leftovers) > before:  # the text of the step stays unchanged
            self.step_names -= {extra["step"] for extra in routes.added}
            return []
        conversions.set_step_policies(step, self.names, with_vars=True)
        if sinks:
            self._append_sinks(step, sinks)
        for key in ("case", "vars", "sink"):
            step.pop(key, None)
        spec = as_map(step.get("spec"))
        for key in CASE_SPEC:
            spec.pop(key, None)
        if "spec" in step and not spec:
            del step["spec"]
        if router is not None:
            step["next"] = router
        return routes.added

    def _local_names(self, step: Map) -> frozenset[str]:
        loop = as_map(step.get("loop"))
        names = {loop[key] for key in ("iterator", "element") if key in loop}
        names |= {"index", "parent", "loop_index", "iter", "tasks", "_prev", "_task", "_attempt", "outcome"}
        names |= {item.label for item in labelled_items(step.get("tool"))}
        names |= {name for key in as_map(step.get("args")) for name in (key, f"args.{key}")}
        return frozenset(names - self.inputs)

    def _refuse_outside(self, step: Map) -> None:
        """Refuse `vars` and `sink` that read the whole loop or the event, which tasks of a pipeline cannot see."""
        stores_all = "sink" in step and not stores_items(step)
        if "loop" in step and stores_all:
            construct = "`sink` of a loop step (it stores the results of all items)"
            self.leftovers.refuse(step, "sink", construct, "move it to a step that follows the loop")
        if stores_all and any(item.name != "next" for item in step_items(step)):
            construct = "`sink` of a step whose branches have chains (it runs after them)"
            self.leftovers.refuse(step, "sink", construct, "move it to a separate step, or into the chains")
        if "loop" in step and "vars" in step:
            construct = "`vars` of a loop step (they read the results of all items)"
            self.leftovers.refuse(step, "vars", construct, "move them to a step that follows the loop")
        for key in ("sink", "vars"):
            if key in step:
                own = {f"steps.{step['step']}", *({step["step"]} - self.inputs)}
                self.leftovers.refuse_reads(step, key, EVENT, f"in `{key}`")
                self.leftovers.refuse_reads(step, key, own, f"in `{key}` of the same step", "read `result` or `this`")

    def _labels(self, step: Map) -> set[str]:
        if isinstance(step["tool"], Map):
            return {free_label("call", set(), self.step_names)}
        return {item.label for item in labelled_items(step["tool"])}

    def _append_sinks(self, step: Map, sinks: list[Map]) -> None:
        """Append the sinks to the pipeline, and restore the result of the call after them."""
        tool, labels = step["tool"], self._labels(step)
        if isinstance(tool, Map):
            (label,), call = labels, tool
            pipeline = list_at(tool, [conversions.labelled(tool, label, tool)])
        else:
            pipeline = tool
            *_, (label, call, _, _) = labelled_items(tool)
        names = self.names.in_pipeline(label, call, ignores=conversions.on_error_of(step) == "ignore")
        for sink in sinks:
            task = conversions.sink_task(sink, self.names, names, None)
            pipeline.append(conversions.labelled(sink, free_label("sink", labels, self.step_names), task))
        result = map_at(tool, kind="noop", result=f"{{{{ {path_of('tasks', label)}.result }}}}")
        pipeline.append(conversions.labelled(tool, free_label("result", labels, self.step_names), result))
        step["tool"] = pipeline


class ClassicRoutes:
    """The routing of one step. `added` are the steps that its branches become."""

    def __init__(self, rewriter: _Rewriter, step: Map, local: frozenset[str], sink_label: str | None) -> None:
        self.calls, self.leftovers, self.step_names = rewriter.names, rewriter.leftovers, rewriter.step_names
        self.step, self.name, self.local, self.sink_label = step, step["step"], local, sink_label
        self.names = self._names()
        self.added: list[Map] = []

    def router(self) -> Map | None:
        case = self.step.get("case")
        if case is None:
            return self._plain_router() if "next" in self.step else None
        spec = as_map(self.step.get("spec"))
        if spec.get("eval_mode") == "on_event":
            construct = "`eval_mode: on_event` (the step listens to events)"
            self.leftovers.refuse(spec, "eval_mode", construct, "wait for one signal with `kind: wait`")
        if spec.get("case_mode") == "inclusive":
            construct = "`case_mode: inclusive` (all matching chains run in one step)"
            hint = "give each chain a step, and lead to them by an inclusive `next`"
            self.leftovers.refuse(spec, "case_mode", construct, hint)
        branches = list(enumerate(case))
        if spec.get("branch_order") == "priority":
            branches.sort(key=lambda pair: -pair[1].get("priority", 0))
        on_call: list[Map] = []
        on_exit: list[Map] = []
        otherwise: list[Map] = []
        for number, branch in branches:
            if conversions.only_retries(branch):  # a rule of the call
                continue
            self.names = self._names(branch)
            arc = self._branch_arc(number, branch)
            if "else" in branch:
                otherwise.append(arc)
                continue
            for guard, exits in self._guards(branch):
                (on_exit if exits else on_call).append(self._guarded(branch, guard, arc))
        if "next" in self.step and not otherwise:
            arcs = self._next_arcs()
            if len(arcs) > 1:
                arcs = [self._add_step(f"{self.name}_next", self.step["next"], None, self._plain_router())]
            otherwise += arcs
        return map_at(case, arcs=list_at(case, [*on_call, *on_exit, *otherwise]))

    def _names(self, branch: Map | None = None) -> Names:
        when = branch.get("when") if branch is not None else None
        expects = expects_failure(when) and conversions.NEGATION.search(str(when)) is None
        failures = expects or reads_failure(self.name, when)
        self.hidden = {"this": {"meta"}}
        if failures:  # a loop has no response then
            self.hidden["response"] = {"headers", "status_code", "data"} if "loop" in self.step else {"headers"}
        names = self.calls.after_step(self.step, failures=failures)
        return {**names, "error": f"{path_of('steps', self.name)}.error"}

    def _guarded(self, branch: Map, guard: Any, arc: Map) -> Map:
        if self.sink_label is not None and self._sees_failure(guard):  # branches do not see the failure of a sink
            failed = f"(event.data.task | default('')) != '{self.sink_label}'"
            guard = f"{{{{ ({expression_of(guard, {})}) and {failed} }}}}"
        copy = part_of(branch, ["when"])
        copy.clear()
        copy["step"] = arc["step"]
        if guard is not True:
            copy["when"] = guard
        copy.update({key: value for key, value in arc.items() if key != "step"})
        return copy

    def _sees_failure(self, guard: Any) -> bool:
        """Whether a guard, as arcs see it, can match after a failure (S3)."""
        reads = parse(guard).reads if isinstance(guard, str) else ()
        ends = [(*path, key) for path in (("steps", self.name), (self.name,)) for key in ("status", "error")]
        return any(read.path[0] == "event" or read.path[:3] in ends or read.path[:2] in ends for read in reads)

    def _guards(self, branch: Map) -> Iterator[tuple[Any, bool]]:
        when = branch["when"]
        if not isinstance(when, str):
            yield when, False
            return
        events = [match.group(2) for match in conversions.EVENT_NAME.finditer(when)]
        paths = [read.path for read in parse(when).reads]
        self.leftovers.refuse_reads(branch, "when", self.local, "in a condition")
        if any(path[:2] == ("this", "meta") for path in paths):
            self.leftovers.refuse(branch, "when", "`this.meta` in a condition", "read `this.data` or `this.error`")
        if sum(path[0] == "event" for path in paths) != len(events):
            hint = "compare `event.name` with call.done, call.error or step.exit"
            self.leftovers.refuse(branch, "when", _other_event(when), hint)
        reads, expects = reads_failure(self.name, when), expects_failure(when)
        ignores = conversions.on_error_of(self.step) == "ignore"
        if (reads or expects or ignores) and ("response",) in paths:
            construct = "`response` as a whole in a condition that sees failures"
            self.leftovers.refuse(branch, "when", construct, "read `response.status`, `.error` or `.status_code`")
        if "loop" in self.step and (reads or expects) and ("response", "status_code") in paths:
            construct = "`response.status_code` of a loop in a condition that sees failures"
            self.leftovers.refuse(branch, "when", construct, "read `this.error.details.status`")
        end_event = "'loop.done'" if "loop" in self.step else "'step.done'"
        is_done = f"event.name == {end_event}"
        on_call = {"call.done": is_done, "call.error": "event.name == 'step.failed'"}
        on_exit = {"step.exit": f"event.name in [{end_event}, 'step.failed']" if reads else is_done}
        negates = bool(events) and conversions.NEGATION.search(when) is not None
        alternates = bool(events) and _ALTERNATIVE.search(when) is not None

        def substituted(tests: dict[str, str]) -> Any:
            handles = reads or (expects and tests is on_call)
            if negates:
                after_done = tests if handles else {"call.done": "true", "call.error": "false"}
                tests = {"step.exit": "true"} if tests is on_exit else after_done
            text = conversions.EVENT_NAME.sub(lambda match: tests.get(match.group(2), "false"), when)
            if alternates:
                text = conversions.without_constants(text)
            guard = renamed_text(_UNEQUAL.sub(r"event.name != \1", text), self.names)
            if alternates and not handles and guard != NEVER:  # arcs see failures by `event`
                inner = expression_of(guard, {})
                guard = f"{{{{ {is_done} }}}}" if inner == "true" else f"{{{{ {is_done} and ({inner}) }}}}"
            return guard

        guards = []
        if not events or on_call.keys() & set(events) or alternates:
            guards.append((substituted(on_call), False))
        if "step.exit" in events or negates:
            guards.append((substituted(on_exit), True))
        yield from [pair for pair in guards if pair[0] != NEVER] or guards[:1]

    def _plain_router(self) -> Map:
        following = self.step["next"]
        if isinstance(following, Map):
            return following
        return conversions.router_at(following if isinstance(following, Seq) else self.step, self._next_arcs())

    def _next_arcs(self) -> list[Map]:
        self.leftovers.refuse_reads(self.step, "next", {"loop_index"}, "in `args` of `next`")
        return conversions.arcs_of(self.step, self.calls.after_step(self.step), self.leftovers)

    def _add_step(self, name: str, at: Any, tasks: Seq | None, router: Map | None) -> Map:
        """Add a step, for a fork after an exclusive choice or for calls. Returns the arc that leads to it."""
        while name in self.step_names:
            name += "_"
        self.step_names.add(name)
        extra = map_at(at, step=name)
        if tasks:
            spec = as_map(self.step.get("spec"))
            if inherited := renamed(part_of(spec, [key for key in spec if key not in OWN_SPEC]), {}):
                extra["spec"] = inherited
            extra["tool"] = tasks
        if router is not None:
            extra["next"] = router
        self.added.append(extra)
        return map_at(at, step=name)

    def _branch_arc(self, number: int, branch: Map) -> Map:
        written = branch.get("then", branch.get("else"))
        retry = as_map(written).get("retry", branch.get("retry"))
        if retry is not None and retry.get("scope") == "chain":
            hint = "retry each call, or `jump` back to the first from a rule of the last"
            self.leftovers.refuse(retry, "scope", "`retry.scope: chain` (the chain is retried as a whole)", hint)
        chain = [part_of(item.container, [item.name]) for item in chain_items(branch)]
        goto = chain.pop() if chain and "next" in chain[-1] else None
        for item in chain:
            if "next" in item:
                self.leftovers.refuse(item, "next", "`next` before the end of a chain", "move it to the end")
        arcs = conversions.arcs_of(goto, self.names, self.leftovers) if goto is not None else []
        if goto is not None:
            hidden = self.local | {name for item in chain for name in item}
            hidden |= EVENT if chain or len(arcs) > 1 else set()
            self.leftovers.refuse_reads(goto, "next", hidden, "in `args` of a chain's `next`")
            self.leftovers.refuse_envelopes(goto, "next", self.hidden)
        if not chain and len(arcs) == 1:
            return arcs[0]
        if goto is None and "next" in self.step:
            where = "in `args` of the `next` that follows a chain"
            self.leftovers.refuse_reads(self.step, "next", EVENT, where)
            arcs = self._next_arcs()
            if self._sees_failure(renamed_text(branch.get("when"), self.names)):
                for arc in arcs:  # a branch may handle a failure, and `next` does not follow one
                    arc["when"] = f"{{{{ {path_of('steps', self.name)}.status == 'succeeded' }}}}"
        tasks = self._chain_tasks(branch, chain, retry if retry is not None else conversions.step_retry(self.step))
        router = conversions.router_at(branch, arcs) if arcs else None
        return self._add_step(f"{self.name}_case_{number}", branch, tasks, router)

    def _chain_tasks(self, branch: Map, chain: list[Map], retry: Map | None) -> Seq:
        tasks = list_at(branch)
        labels: set[str] = set()
        ignore = "continue" if conversions.on_error_of(self.step) == "ignore" else None

        def append(at: Map, label: str, task: Map) -> None:
            tasks.append(conversions.labelled(at, label, task))

        for item in chain:
            ((name, body),) = item.items()
            self._refuse_moved(item, name, labels)
            if name == "set":
                append(item, free_label("set", labels, self.step_names), conversions.set_task(item, body, self.names))
            if name in ("set", "next"):
                continue
            if "poll" in body:
                construct = "`poll` (a call repeated until its result is ready)"
                hint = "`jump` back to the call, with a `delay`, from a rule of its policy"
                self.leftovers.refuse(body, "poll", construct, hint)
            if name == "sink":
                task = conversions.sink_task(body, self.calls, self.names, retry)
                append(item, free_label("sink", labels, self.step_names), task)
                continue
            names = in_values(self.names)
            task = renamed(body["tool"], names)
            if "args" in body:
                task["args"] = merged(renamed(body["args"], names), as_map(task.get("args")))
            if "retry" in body:
                task["retry"] = body["retry"]
            conversions.set_policy(task, self.calls, retry, ignore=ignore)
            labels.add(name)
            append(item, name, task)
            for sink in self.calls.sinks_of(task):
                visible = self.calls.in_pipeline(name, task, ignores=ignore is not None)
                stored = conversions.sink_task(sink, self.calls, visible, retry)
                append(item, free_label("sink", labels, self.step_names), stored)
        return tasks

    def _refuse_moved(self, item: Map, name: str, labels: set[str]) -> None:
        """Refuse templates of a chain that read names of its step: the chain becomes a separate step."""
        foreign = (self.local | EVENT) - {"tasks", *labels}
        self.leftovers.refuse_envelopes(item, name, self.hidden)
        if name == "set":
            self.leftovers.refuse_reads(item, name, foreign, "in `set`")
            return
        body = as_map(item[name])
        for key in ("tool", "args", "when", "table"):
            if key in body:
                own = set(as_map(body.get("args"))) if name != "sink" and key == "tool" else set()
                visible = own | {f"args.{arg}" for arg in own}
                self.leftovers.refuse_reads(body, key, foreign - visible, "in a chain")


def _other_event(when: str) -> str:
    """The fields of the event that a condition reads and that arcs have no name for."""
    template = parse(when)
    names = [name for test in template.string_comparisons if test.path == ("event", "name") for name in test.values]
    other = [name for name in names if name not in ("call.done", "call.error", "step.exit")]
    if other:
        return f"a condition on the event {other[0]!r}"
    paths = [".".join(map(str, read.path)) for read in template.reads if read.path[0] == "event"]
    return f"`{next((path for path in paths if path != 'event.name'), 'event.name')}` in a condition"
