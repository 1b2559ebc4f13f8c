"""Converts `case` and `next` of a classic step to arcs, and branches that call tools to separate steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noetl.classic.chains import chain_items
from noetl.classic.detect import CASE_SPEC
from noetl.classic.leftovers import Leftovers
from noetl.classic.names import CallNames, expression_of, path_of, renamed, renamed_text
from noetl.classic.nodes import as_map, free_label, list_at, map_at, merged, part_of
from noetl.classic.policies import on_error_of, set_policy, set_task, step_retry
from noetl.classic.sinks import labelled, sink_task
from noetl.classic.steps import arcs_of, router_at
from noetl.dsl.tree import Map, Seq
from noetl.errors import TemplateSyntax
from noetl.expression import parse

EVENT = frozenset(["event"])
OWN_SPEC = (*CASE_SPEC, "timeout", "timers", "join", "policy")
"""Keys of a step's `spec` that are not for its calls."""
_EVENT_NAME = re.compile(r"""event\.name\s*==\s*(['"])(call\.done|call\.error|step\.exit)\1""")


class ClassicRoutes:
    """The routing of one step. `added` are the steps that its branches become."""

    def __init__(
        self,
        step: Map,
        calls: CallNames,
        leftovers: Leftovers,
        local: frozenset[str],
        step_names: set[str],
        sink_label: str | None,
    ) -> None:
        self.step, self.calls, self.leftovers, self.local = step, calls, leftovers, local
        self.step_names, self.sink_label = step_names, sink_label
        self.name = step["step"]
        self.names = calls.after_step(step)
        self.added: list[Map] = []

    def router(self) -> Map | None:
        """The canonical `next`; None if no step follows."""
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
            arc = self._branch_arc(number, branch)
            if "else" in branch:
                otherwise.append(arc)
                continue
            for guard, exits in self._guards(branch):
                (on_exit if exits else on_call).append(self._guarded(branch, guard, arc))
        if "next" in self.step and not otherwise:
            otherwise.append(self._fallback_arc())
        return map_at(case, arcs=list_at(case, [*on_call, *on_exit, *otherwise]))

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
        try:
            reads = parse(guard).reads if isinstance(guard, str) else ()
        except TemplateSyntax:
            return False
        ends = [(*path, key) for path in (("steps", self.name), (self.name,)) for key in ("status", "error")]
        return any(read.path[0] == "event" or read.path[:3] in ends or read.path[:2] in ends for read in reads)

    def _guards(self, branch: Map) -> Iterator[tuple[Any, bool]]:
        """The guard of a branch as arcs see it, for the call and for the exit."""
        when = branch["when"]
        if not isinstance(when, str):
            yield when, False
            return
        events = [match.group(2) for match in _EVENT_NAME.finditer(when)]
        try:
            reads = parse(when).reads
        except TemplateSyntax:
            yield when, False
            return
        self.leftovers.refuse_reads(branch, "when", self.local, "in a condition")
        if any(read.path[:2] == ("this", "meta") for read in reads):
            self.leftovers.refuse(branch, "when", "`this.meta` in a condition", "read `this.data` or `this.error`")
        if sum(read.path[0] == "event" for read in reads) != len(events):
            construct = "a condition on events other than `event.name == 'call.done'`"
            hint = "compare `event.name` with call.done, call.error or step.exit"
            self.leftovers.refuse(branch, "when", construct, hint)
        done = "'loop.done'" if "loop" in self.step else "'step.done'"
        on_call = {
            "call.done": f"event.name == {done}",
            "call.error": "event.name == 'step.failed'",
            "step.exit": "false",
        }
        on_exit = {
            "call.done": "false",
            "call.error": "false",
            "step.exit": f"event.name in [{done}, 'step.failed']",
        }
        if not events or {"call.done", "call.error"} & set(events):
            yield renamed_text(_EVENT_NAME.sub(lambda match: on_call[match.group(2)], when), self.names), False
        if "step.exit" in events:
            yield renamed_text(_EVENT_NAME.sub(lambda match: on_exit[match.group(2)], when), self.names), True

    # -- the `next` of the step itself ------------------------------------------------------------------------------

    def _plain_router(self) -> Map:
        following = self.step["next"]
        if isinstance(following, Map):
            return following
        return router_at(following if isinstance(following, Seq) else self.step, self._fallback_arcs())

    def _fallback_arcs(self) -> list[Map]:
        self.leftovers.refuse_reads(self.step, "next", {"loop_index"}, "in `args` of `next`")
        return arcs_of(self.step, self.names, self.leftovers)

    def _fallback_arc(self) -> Map:
        arcs = self._fallback_arcs()
        if len(arcs) == 1:
            return arcs[0]
        return self._add_step(f"{self.name}_next", self.step["next"], None, self._plain_router())

    # -- branches ---------------------------------------------------------------------------------------------------

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
        """The arc of a branch: to its target, or to a separate step if it calls tools."""
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
        arcs = arcs_of(goto, self.names, self.leftovers) if goto is not None else []
        if goto is not None:
            hidden = self.local | {name for item in chain for name in item}
            hidden |= EVENT if chain or len(arcs) > 1 else set()
            self.leftovers.refuse_reads(goto, "next", hidden, "in `args` of a chain's `next`")
        if not chain and len(arcs) == 1:
            return arcs[0]
        if goto is None and "next" in self.step:
            where = "in `args` of the `next` that follows a chain"
            self.leftovers.refuse_reads(self.step, "next", EVENT, where)
            arcs = self._fallback_arcs()
            if self._sees_failure(renamed_text(branch.get("when"), self.names)):
                for arc in arcs:  # a branch may handle a failure, and `next` does not follow one
                    arc["when"] = f"{{{{ {path_of('steps', self.name)}.status == 'succeeded' }}}}"
        tasks = self._chain_tasks(branch, chain, retry if retry is not None else step_retry(self.step))
        router = router_at(branch, arcs) if arcs else None
        return self._add_step(f"{self.name}_case_{number}", branch, tasks, router)

    def _chain_tasks(self, branch: Map, chain: list[Map], retry: Map | None) -> Seq:
        tasks = list_at(branch)
        labels: set[str] = set()
        ignore = "continue" if on_error_of(self.step) == "ignore" else None
        for item in chain:
            ((name, body),) = item.items()
            self._refuse_moved(item, name, labels)
            if name == "set":
                label = free_label("set", labels, self.step_names)
                tasks.append(labelled(item, label, set_task(item, body, self.names)))
            elif name != "next":
                tasks.extend(self._call(item, name, body, retry, labels, ignore))
        return tasks

    def _refuse_moved(self, item: Map, name: str, labels: set[str]) -> None:
        """Refuse templates of a chain that read names of its step: the chain becomes a separate step."""
        foreign = (self.local | EVENT) - {"tasks", *labels}
        if name == "set":
            self.leftovers.refuse_reads(item, name, foreign, "in `set`")
            return
        body = as_map(item[name])
        for key in ("tool", "args", "when", "table"):
            if key in body:
                own = set(as_map(body.get("args"))) if name != "sink" and key == "tool" else set()
                visible = own | {f"args.{arg}" for arg in own}
                self.leftovers.refuse_reads(body, key, foreign - visible, "in a chain")

    def _call(
        self, at: Map, name: str, body: Map, retry: Map | None, labels: set[str], ignore: str | None
    ) -> Iterator[Map]:
        if "poll" in body:
            construct = "`poll` (a call repeated until its result is ready)"
            hint = "`jump` back to the call, with a `delay`, from a rule of its policy"
            self.leftovers.refuse(body, "poll", construct, hint)
        if name == "sink":
            task = sink_task(body, self.calls, self.names, retry)
            yield labelled(at, free_label("sink", labels, self.step_names), task)
            return
        task = renamed(body["tool"], self.names)
        if "args" in body:
            task["args"] = merged(renamed(body["args"], self.names), as_map(task.get("args")))
        if "retry" in body:
            task["retry"] = body["retry"]
        set_policy(task, self.calls, retry, ignore=ignore)
        labels.add(name)
        yield labelled(at, name, task)
        for sink in self.calls.sinks_of(task):
            stored = sink_task(sink, self.calls, self.calls.in_pipeline(name, task), retry)
            yield labelled(at, free_label("sink", labels, self.step_names), stored)
