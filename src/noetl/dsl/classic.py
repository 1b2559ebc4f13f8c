"""The classic dialect, rewritten into the canonical one.

One rewriting serves two masters: `compile` applies it to the tree it read, `migrate` to a round-trip tree that keeps
comments. So a migrated playbook compiles to an equal model by construction, and the engine knows one language.

What becomes what:

    args              args of every task of the step, below the task's own
    retry, on_error   rules of the task's policy
    vars              a patch of `ctx.vars` in the rule that continues; `vars.x` reads `ctx.vars.x`
    sink              a task after the call, then a `noop` that restores the result
    next              `next.arcs`, inclusive where there are several targets
    loop              `in`, `iterator`, `spec`
    case, exclusive   guarded arcs; a branch that calls tools becomes a step of its own, `STEP_case_N`

A branch is looked at twice: when the call is done, then on exit if nothing has routed. So the arcs stand in that
order too: branches that name `call.done` or `call.error`, those that name `step.exit`, `else`, and last `next`.

What has no canonical spelling stays in the step and is listed: inclusive cases, `on_event`, `defer`, `poll`, computed
targets, chains retried as a whole, `vars` and `sink` of a loop, `this.meta`. The compiler gives such a step a `Tail`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from noetl.dsl.shape import KindSource, is_template
from noetl.errors import TemplateSyntax
from noetl.expression import parse, rename

STEP_KEYS = ("args", "retry", "vars", "case", "sink")
CASE_SPEC = ("case_mode", "eval_mode", "branch_order", "next_policy", "on_error")
SQL_ROWS = ("postgres", "duckdb", "snowflake")
IS_ERROR = "{{ outcome.status == 'error' }}"
_EVENT = re.compile(r"""event\.name\s*==\s*(['"])(call\.done|call\.error|step\.exit)\1""")
_DSN = re.compile(r"^postgres(ql)?://|=")


class Leftover(NamedTuple):
    """A construct that the canonical dialect can't spell."""

    step: str
    node: Any
    what: str


class Maker(NamedTuple):
    """How to make a map or a list that stands where `at` stood, in the tree that is being rewritten."""

    map: Callable[[Any], Any]
    seq: Callable[[Any], Any]


class NotCanonical(Exception):
    """Raised where a part of a step has no canonical spelling."""

    def __init__(self, node: Any, what: str) -> None:
        super().__init__(what)
        self.node, self.what = node, what


def is_classic(root: Any) -> bool:
    """True if the document uses classic constructs and none that only the canonical dialect has."""
    steps = [step for step in _list(root.get("workflow")) if isinstance(step, dict)]
    return not any(map(_canonical_step, steps)) and (
        any(map(_classic_step, steps)) or _classic_workbook(root.get("workbook"))
    )


def _canonical_step(step: Any) -> bool:
    following, tool = step.get("next"), step.get("tool")
    if isinstance(following, dict) and "arcs" in following:
        return True
    labelled = [task for task in _list(tool) if isinstance(task, dict) and len(task) == 1 and "kind" not in task]
    parts = (step, *_tasks_of(tool), *_chain_tools(step.get("case")))
    return bool(labelled) or any("policy" in _map(part.get("spec")) for part in parts)


def _classic_step(step: Any) -> bool:
    loop, spec = _map(step.get("loop")), _map(step.get("spec"))
    return (
        any(key in step for key in STEP_KEYS)
        or isinstance(step.get("next"), str | list)
        or any(key in loop for key in ("mode", "collection", "element"))
        or "batch_size" in _map(loop.get("spec"))
        or any(key in spec for key in CASE_SPEC)
    )


def _classic_workbook(workbook: Any) -> bool:
    return any(isinstance(entry, dict) and "sink" in entry for entry in _list(workbook))


def rewrite(root: Any, kinds: KindSource, maker: Maker) -> list[Leftover]:
    """Rewrite the document in place; what could not be rewritten is still there and returned."""
    return _Rewriter(root, kinds, maker).run()


class _Rewriter:
    def __init__(self, root: Any, kinds: KindSource, maker: Maker) -> None:
        self.root, self.kinds, self.maker = root, kinds, maker
        self.steps = _list(root.get("workflow"))
        self.names = {step.get("step") for step in self.steps}
        self.workbook = {entry.get("name"): entry for entry in _list(root.get("workbook")) if isinstance(entry, dict)}
        self.leftovers: list[Leftover] = []

    def run(self) -> list[Leftover]:
        position = 0
        while position < len(self.steps):
            added = self._step(self.steps[position])
            for step in added:
                position += 1
                _insert(self.steps, position, step)
            position += 1
        for entry in self.workbook.values():  # callers have taken both over
            entry.pop("sink", None)
            _map(entry.get("tool")).pop("retry", None)
        self._rename_everywhere(self.root)
        return self.leftovers

    # -- one step ---------------------------------------------------------------------------------------------------

    def _step(self, step: Any) -> list[Any]:
        self._loop(step)
        self._credentials(step)
        self._args(step)
        case, fallback = step.get("case"), step.get("next")
        sinks = self._sinks(step)
        added: list[Any] = []
        try:
            routed = self._router(step, case, fallback, added)
            self._refuse_after_loop(step)
        except NotCanonical as reason:
            self.leftovers.append(Leftover(step["step"], reason.node, reason.what))
            self._chain_policies(step)
            self._policies(step, with_vars="loop" not in step)
            if "sink" in step:
                step["sink"] = self._tail_sink(step["sink"], None)
            if not isinstance(fallback, dict) and fallback is not None:
                step["next"] = self._plain_router(step, fallback)
            self._store(step, sinks)
            return []
        self._policies(step, with_vars=True)
        self._store(step, [*sinks, *([step["sink"]] if "sink" in step else [])])
        for key in ("case", "vars", "sink"):
            step.pop(key, None)
        self._drop_case_spec(step)
        if routed is not None:
            step["next"] = routed
        return added

    def _refuse_after_loop(self, step: Any) -> None:
        if "loop" in step and "vars" in step:
            raise NotCanonical(step["vars"], "`vars` of a loop step (they read the results of all items)")
        if "loop" in step and "sink" in step:
            raise NotCanonical(step["sink"], "`sink` of a loop step (it stores the results of all items)")

    def _drop_case_spec(self, step: Any) -> None:
        spec = _map(step.get("spec"))
        for key in CASE_SPEC:
            spec.pop(key, None)
        if "spec" in step and not spec:
            del step["spec"]

    def _loop(self, step: Any) -> None:
        loop = step.get("loop")
        if not isinstance(loop, dict):
            return
        for old, new in (("collection", "in"), ("element", "iterator")):
            if old in loop:
                _rename_key(loop, old, new)
        spec: Any = loop.get("spec") if isinstance(loop.get("spec"), dict) else self.maker.map(loop)
        if "mode" in loop:
            spec["mode"] = "sequential" if loop.pop("mode") == "sequential" else "parallel"
        if "batch_size" in spec:
            _rename_key(spec, "batch_size", "max_in_flight")
        if spec:
            loop["spec"] = spec

    def _args(self, step: Any) -> None:
        given = step.pop("args", None)
        if not given:
            return
        for task in [*_tasks_of(step.get("tool")), *_chain_tools(step.get("case"))]:
            merged = self.maker.map(given)
            merged.update(given)
            merged.update(_map(task.get("args")))
            task["args"] = merged

    def _credentials(self, step: Any) -> None:
        """Classic postgres calls may leave out the credential, and name one that is not declared."""
        tools = [*_tasks_of(step.get("tool")), *_chain_tools(step.get("case")), *_sink_tools(step)]
        tools += [_map(entry.get("tool")) for entry in self.workbook.values()]
        default = _map(_map(_map(self.root.get("executor")).get("spec")).get("postgres")).get("auth")
        for tool in tools:
            if tool.get("kind") != "postgres" or "dsn" in tool:
                continue
            if "auth" not in tool and default is None:
                tool["auth"] = "postgres"
            name = tool.get("auth", default)
            if isinstance(name, str) and not is_template(name):
                self._declare(tool, name)

    def _declare(self, tool: Any, name: str) -> None:
        if _DSN.search(name):
            tool["dsn"] = name
            del tool["auth"]
            return
        keychain = self.root.get("keychain")
        if not isinstance(keychain, list):
            keychain = self.maker.seq(self.root)
            _put_after(self.root, "metadata", "keychain", keychain)
        if all(entry.get("name") != name for entry in keychain):
            entry = self.maker.map(tool)
            entry.update(name=name, kind="postgres_credential")
            keychain.append(entry)

    # -- policies ---------------------------------------------------------------------------------------------------

    def _policies(self, step: Any, with_vars: bool) -> None:
        """Turn `retry`, `on_error` and `vars` into rules of the step's tasks."""
        tasks = _tasks_of(step.get("tool"))
        default = step.pop("retry", None)
        on_error = _map(step.get("spec")).get("on_error", "fail")
        if on_error == "retry" and default is None:
            default = self.maker.map(step)
        found = step.pop("vars", None) if with_vars else None
        for task in tasks:
            last = task is tasks[-1]
            self._policy(task, default, on_error == "ignore" and last, found if last else None)

    def _chain_policies(self, step: Any) -> None:
        """Retries of calls in chains that stay: the innermost `retry` that speaks wins."""
        for branch in _list(step.get("case")):
            chain = branch.get("then", branch.get("else"))
            retry = _map(chain).get("retry", branch.get("retry"))
            default = step.get("retry") if retry is None else None if retry.get("scope") == "chain" else retry
            for item in [chain] if isinstance(chain, dict) else chain:
                for name in list(item):
                    if name == "sink":
                        item[name] = self._tail_sink(item[name], default)
                    elif name not in ("next", "set", "retry"):
                        body = item[name]
                        if "retry" in body:
                            body["tool"]["retry"] = body.pop("retry")
                        self._policy(body["tool"], default)

    def _tail_sink(self, sink: Any, default: Any) -> Any:
        """A sink that stays where it is: the classic names keep their meaning there."""
        rewritten = self.maker.map(sink)
        rewritten["tool"] = self._sink_task(sink, {"result": "result"}, default)
        return rewritten

    def _policy(self, task: Any, default: Any, ignore: bool = False, found: Any = None, skip: Any = None) -> None:
        for inner in _tasks_of(task.get("tool")) if task.get("kind") == "iterator" else ():
            self._policy(inner, None)
        retry = task.pop("retry", None)
        retry = default if retry is None else retry
        if retry is None and task.get("kind") == "workbook":
            retry = _map(self._workbook_tool(task.get("name"))).get("retry")
        names = self._rule_names(task)
        rules = self.maker.seq(task)
        if skip is not None:
            rules.append(self._rule(task, skip, do="skip"))
        if retry is not None:
            rules.append(self._retry_rule(task, retry, names))
        if not rules and not ignore and not found:
            return
        rules.append(self._rule(task, IS_ERROR, do="continue" if ignore else "fail"))
        then = self._then(task, do="continue")
        if found:
            patch = self.maker.map(found)
            patch["$merge"] = _renamed(found, names, self.maker)
            then["set_ctx"] = self.maker.map(found)
            then["set_ctx"]["vars"] = patch
        otherwise, body = self.maker.map(task), self.maker.map(task)
        body["then"] = then
        otherwise["else"] = body
        rules.append(otherwise)
        spec: Any = task.get("spec") if isinstance(task.get("spec"), dict) else self.maker.map(task)
        spec["policy"] = self.maker.map(task)
        spec["policy"]["rules"] = rules
        task["spec"] = spec

    def _rule(self, at: Any, when: Any, **then: Any) -> Any:
        rule = self.maker.map(at)
        rule["when"] = when
        rule["then"] = self._then(at, **then)
        return rule

    def _then(self, at: Any, **fields: Any) -> Any:
        then = self.maker.map(at)
        then.update({key: value for key, value in fields.items() if value is not None})
        return then

    def _retry_rule(self, task: Any, retry: Any, names: dict[str, str]) -> Any:
        attempts = retry.get("max_attempts", 3)
        names = {**names, "max_attempts": str(attempts)}
        go_on, stop = retry.get("retry_when"), retry.get("stop_when")
        if go_on is None and stop is None:
            when: Any = IS_ERROR
        else:
            parts = [] if go_on is None else [f"({_inner(go_on, names)})"]
            if stop is not None:  # when attempts run out the last outcome stands, so this rule must not fail it
                parts += [f"not ({_inner(stop, names)})", f"_attempt < {attempts}"]
            when = "{{ " + " and ".join(parts) + " }}"
        return self._rule(task, when, do="retry", attempts=attempts, **_backoff(retry))

    # -- result of a call, by where it is read ----------------------------------------------------------------------

    def _view(self, task: Any) -> str:
        """Where the classic `result` of a call lies in its value: nothing, `.data` or `.rows`."""
        name = task.get("kind")
        if name == "workbook":
            entry = self._workbook_tool(task.get("name"))
            name = entry.get("kind") if entry else None
        kind = self.kinds.get(name) if isinstance(name, str) else None
        return "" if kind is None or kind.result == "value" else f".{kind.result}"

    def _workbook_tool(self, name: Any) -> Any:
        workbook = self.root.get("workbook")
        if isinstance(workbook, dict):
            tasks = workbook.get("tasks") if isinstance(workbook.get("tasks"), dict) else workbook
            return _map(tasks).get(name)
        return _map(self.workbook.get(name)).get("tool")

    def _rule_names(self, task: Any) -> dict[str, str]:
        """Classic names as they read in a rule of the task's policy."""
        result = f"outcome.result{self._view(task)}"
        return {
            **_envelope("outcome.result", result, "outcome.error", "outcome.http.status", "outcome.status"),
            "attempt": "_attempt",
            "status_code": "outcome.http.status",
            "error": "outcome.error.message",
            "success": "outcome.status == 'ok'",
            "data": result,
        }

    def _step_names(self, step: Any) -> dict[str, str]:
        """Classic names as they read once the step has ended."""
        name, tasks = step["step"], _tasks_of(step.get("tool"))
        own = f"steps.{name}" if name.isidentifier() else f"steps['{name}']"
        view = self._view(tasks[-1]) if tasks else ""
        result = f"{own}.result{view}"
        if "loop" in step and view:
            result = f"{own}.result | map(attribute='{view[1:]}') | list"
        code = f"{own}.result.status | default({own}.error.details.status)"
        status = f"'ok' if {own}.status == 'succeeded' else 'error'"
        return _envelope(f"{own}.result", result, f"{own}.error", code, status)

    # -- routing ----------------------------------------------------------------------------------------------------

    def _router(self, step: Any, case: Any, fallback: Any, added: list[Any]) -> Any:
        if case is None:
            return self._plain_router(step, fallback) if fallback is not None else None
        spec = _map(step.get("spec"))
        if spec.get("eval_mode") == "on_event":
            raise NotCanonical(case, "`eval_mode: on_event` (the step listens to events)")
        if spec.get("case_mode") == "inclusive":
            raise NotCanonical(case, "`case_mode: inclusive` (all matching chains run in one step)")
        branches = list(enumerate(case))
        if spec.get("branch_order") == "priority":
            branches.sort(key=lambda pair: -pair[1].get("priority", 0))
        on_call = self.maker.seq(case)
        on_exit: list[Any] = []
        otherwise: list[Any] = []
        names = self._step_names(step)
        for number, branch in branches:
            arc = self._branch_arc(step, number, branch, names, fallback, added)
            if "else" in branch:
                otherwise.append(arc)
                continue
            for guard, exits in _guards(branch["when"], names, "loop" in step):
                copy = self.maker.map(branch)
                copy.update(step=arc["step"], when=guard)
                copy.update({key: value for key, value in arc.items() if key != "step"})
                (on_exit if exits else on_call).append(copy)
        on_call.extend([*on_exit, *otherwise])
        if fallback is not None and not otherwise:
            on_call.append(self._fallback_arc(step, fallback, added))
        router = self.maker.map(case)
        router["arcs"] = on_call
        return router

    def _fallback_arc(self, step: Any, fallback: Any, added: list[Any]) -> Any:
        targets = self._fallback_arcs(step, fallback)
        if len(targets) == 1:
            return targets[0]
        return self._routing_step(step, f"{step['step']}_next", fallback, self._plain_router(step, fallback), added)

    def _routing_step(self, step: Any, name: str, at: Any, router: Any, added: list[Any]) -> Any:
        """A step that only routes, for a fork behind an exclusive choice. Returns the arc that leads to it."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        extra = self.maker.map(at)
        extra["step"] = name
        if router is not None:
            extra["next"] = router
        added.append(extra)
        arc = self.maker.map(at)
        arc["step"] = name
        return arc

    def _branch_arc(
        self, step: Any, number: int, branch: Any, names: dict[str, str], fallback: Any, added: list[Any]
    ) -> Any:
        """The arc of a branch: straight to its target, or to a step of its own where it calls tools."""
        chain = branch.get("then") if "else" not in branch else branch["else"]
        retry = branch.get("retry")
        if isinstance(chain, dict):
            retry = chain.get("retry", retry)
            chain = [self._single(chain, key) for key in ("sink", "set", "next") if key in chain]
        if _map(retry).get("scope") == "chain":
            raise NotCanonical(retry, "`retry.scope: chain` (the chain is retried as a whole)")
        goto = None
        if chain and "next" in chain[-1]:
            goto = chain[-1]["next"]
            chain = chain[:-1]
        if any("next" in item for item in chain):
            raise NotCanonical(branch, "tasks after `next` in a chain")
        arcs = [_renamed_arc(arc, names, self.maker) for arc in _targets(goto, self.maker)] if goto is not None else []
        if not chain and len(arcs) == 1:
            return arcs[0]
        if goto is None and fallback is not None:
            arcs = self._fallback_arcs(step, fallback)
        return self._chain_step(
            step, number, branch, chain, arcs, retry if retry is not None else step.get("retry"), names, added
        )

    def _single(self, chain: Any, key: str) -> Any:
        item = self.maker.map(chain)
        item[key] = chain[key]
        return item

    def _chain_step(
        self,
        step: Any,
        number: int,
        branch: Any,
        chain: list[Any],
        arcs: list[Any],
        retry: Any,
        names: dict[str, str],
        added: list[Any],
    ) -> Any:
        tasks = self.maker.seq(branch)
        for item in chain:
            ((name, body),) = item.items()
            tasks.extend(self._chain_tasks(branch, name, body, retry, names))
        router = self._arcs_router(branch, arcs) if arcs else None
        arc = self._routing_step(step, f"{step['step']}_case_{number}", branch, router, added)
        if tasks:
            extra = added[-1]
            following = extra.pop("next", None)
            extra["tool"] = tasks
            if following is not None:
                extra["next"] = following
        return arc

    def _chain_tasks(self, at: Any, name: str, body: Any, retry: Any, names: dict[str, str]) -> Iterator[Any]:
        if name == "set":
            yield self._labelled(at, "set", self._set_task(at, body, names))
            return
        if "poll" in body:
            raise NotCanonical(body["poll"], "`poll` (a call repeated until its result is ready)")
        if name == "sink":
            yield self._labelled(at, "sink", self._sink_task(body, names, retry))
            return
        task = _renamed(body["tool"], names, self.maker)
        if "args" in body:
            merged = _renamed(body["args"], names, self.maker)
            merged.update(_map(task.get("args")))
            task["args"] = merged
        if "retry" in body:
            task["retry"] = body["retry"]
        self._policy(task, retry)
        yield self._labelled(at, name, task)

    def _labelled(self, at: Any, label: str, task: Any) -> Any:
        item = self.maker.map(at)
        item[label] = task
        return item

    def _set_task(self, at: Any, values: Any, names: dict[str, str]) -> Any:
        task = self.maker.map(at)
        task["kind"] = "noop"
        then = self._then(at, do="continue")
        then["set_ctx"] = self.maker.map(at)
        then["set_ctx"]["vars"] = self.maker.map(at)
        then["set_ctx"]["vars"]["$merge"] = _renamed(values, names, self.maker)
        rule, body = self.maker.map(at), self.maker.map(at)
        body["then"] = then
        rule["else"] = body
        task["spec"] = self.maker.map(at)
        task["spec"]["policy"] = self.maker.map(at)
        task["spec"]["policy"]["rules"] = self.maker.seq(at)
        task["spec"]["policy"]["rules"].append(rule)
        return task

    def _plain_router(self, step: Any, following: Any) -> Any:
        if isinstance(following, dict):
            return following
        return self._arcs_router(
            following if isinstance(following, list) else step, self._fallback_arcs(step, following)
        )

    def _fallback_arcs(self, step: Any, following: Any) -> list[Any]:
        names = self._step_names(step)
        return [_renamed_arc(arc, names, self.maker) for arc in _targets(following, self.maker)]

    def _arcs_router(self, at: Any, arcs: list[Any]) -> Any:
        router = self.maker.map(at)
        if len(arcs) > 1:
            router["spec"] = self.maker.map(at)
            router["spec"]["mode"] = "inclusive"
        router["arcs"] = self.maker.seq(at)
        router["arcs"].extend(arcs)
        return router

    # -- sinks ------------------------------------------------------------------------------------------------------

    def _sinks(self, step: Any) -> list[Any]:
        """Sinks of the workbook tasks that the step calls: they follow the call, in a loop for each item."""
        called = [task.get("name") for task in _tasks_of(step.get("tool")) if task.get("kind") == "workbook"]
        return [self.workbook[name]["sink"] for name in called if "sink" in self.workbook.get(name, {})]

    def _store(self, step: Any, sinks: list[Any]) -> None:
        """Append the sinks to the pipeline, and restore the result of the call behind them."""
        if not sinks or not step.get("tool"):
            return
        tool = step["tool"]
        if isinstance(tool, dict):
            pipeline = self.maker.seq(tool)
            pipeline.append(self._labelled(tool, "call", tool))
            label, call = "call", tool
        else:
            pipeline = tool
            label, call = _label_of(tool[-1], len(tool)), _tasks_of(tool)[-1]
        names = self._task_names(label, call)
        for number, sink in enumerate(sinks):
            name = "sink" if number == 0 else f"sink_{number + 1}"
            pipeline.append(self._labelled(sink, name, self._sink_task(sink, names, None)))
        result = self.maker.map(tool)
        result.update(kind="noop", result=f"{{{{ tasks.{label}.result }}}}")
        pipeline.append(self._labelled(tool, "result", result))
        step["tool"] = pipeline

    def _task_names(self, label: str, call: Any) -> dict[str, str]:
        """Classic names as they read in a later task of the same pipeline."""
        own = f"tasks.{label}"
        return _envelope(
            f"{own}.result",
            f"{own}.result{self._view(call)}",
            f"{own}.error",
            f"{own}.http.status",
            f"{own}.status",
        )

    def _sink_task(self, sink: Any, names: dict[str, str], retry: Any) -> Any:
        task = _renamed(sink["tool"], names, self.maker)
        given = sink.get("args", task.pop("args", None))
        content = _renamed(given, names, self.maker) if given else f"{{{{ {names['result']} }}}}"
        if "table" in sink:
            task["table"] = sink["table"]
        if task.get("kind") in SQL_ROWS and "table" in task:
            task["rows"] = self._one_row(content) if isinstance(content, dict) else content
        elif task.get("kind") == "http" and not any(key in task for key in ("body", "json", "form", "files")):
            task["body"] = content
        elif isinstance(content, dict):
            task["args"] = content
        if "retry" in sink:
            task["retry"] = sink["retry"]
        skip = None
        if "when" in sink:
            skip = "{{ not (" + _inner(sink["when"], names) + ") }}"
        self._policy(task, retry, skip=skip)
        return task

    def _one_row(self, columns: Any) -> Any:
        rows = self.maker.seq(columns)
        rows.append(columns)
        return rows

    # -- names that read the same everywhere ------------------------------------------------------------------------

    def _rename_everywhere(self, node: Any) -> None:
        names = {"vars": "ctx.vars", "loop_index": "iter.index"}
        for container, key, value in _strings(node, self.kinds):
            container[key] = _rename(value, names)


def _envelope(value: str, result: str, error: str, code: str, status: str) -> dict[str, str]:
    """The names `result`, `response.*` and `this.*` in canonical terms."""
    names = {"result": result, "result.rows": result if result.endswith(".rows") else f"({result}).rows"}
    for envelope in ("response", "this"):
        names |= {
            envelope: value,
            f"{envelope}.data": result,
            f"{envelope}.error": error,
            f"{envelope}.status": status,
            f"{envelope}.status_code": code,
            f"{envelope}.headers": f"{value}.headers",
        }
    return names


def _guards(when: Any, names: dict[str, str], loop: bool) -> Iterator[tuple[Any, bool]]:
    """The guard of a branch as arcs see it, for the call and for the exit."""
    if not isinstance(when, str):
        yield when, False
        return
    found = [match.group(2) for match in _EVENT.finditer(when)]
    try:
        reads = parse(when).reads
    except TemplateSyntax:
        yield when, False
        return
    if any(read.path[0] == "this" and len(read.path) > 1 and read.path[1] == "meta" for read in reads):
        raise NotCanonical(when, "`this.meta` in a condition")
    if sum(read.path[0] == "event" for read in reads) != len(found):
        raise NotCanonical(when, "a condition on events other than `event.name == 'call.done'`")
    done = "'loop.done'" if loop else "'step.done'"
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
    if not found or {"call.done", "call.error"} & set(found):
        yield _rename(_EVENT.sub(lambda match: on_call[match.group(2)], when), names), False
    if "step.exit" in found:
        yield _rename(_EVENT.sub(lambda match: on_exit[match.group(2)], when), names), True


def _backoff(retry: Any) -> dict[str, Any]:
    """The knobs of a retry rule."""
    backoff = _map(retry.get("backoff"))
    if backoff:
        kind = backoff.get("type", "fixed")
        return {
            "backoff": None if kind == "fixed" else kind,
            "delay": backoff.get("delay_seconds"),
            "max_delay": backoff.get("max_delay_seconds"),
            "jitter": backoff.get("jitter"),
        }
    delay, growth = retry.get("initial_delay"), retry.get("backoff_multiplier", 1)
    if growth in (1, 2):
        return {"backoff": "exponential" if growth == 2 else None, "delay": delay}
    return {"delay": f"{{{{ {1 if delay is None else delay} * {growth} ** (_attempt - 1) }}}}"}


def _targets(following: Any, maker: Maker) -> Iterator[Any]:
    """Arcs to the targets of a `next` in any of its classic forms."""
    delay = None
    at = following
    if isinstance(following, dict):
        if following.get("policy") == "defer":
            raise NotCanonical(following, "`policy: defer` (the chain goes on behind `next`)")
        delay = _map(following.get("spec")).get("delay")
        following = following.get("to")
    for target in [following] if isinstance(following, str) else _list(following):
        arc = maker.map(target if isinstance(target, dict) else at)
        arc.update(target if isinstance(target, dict) else {"step": target})
        if is_template(arc.get("step")):
            raise NotCanonical(at, "a computed target (`step` is a template)")
        if delay is not None:
            arc["spec"] = maker.map(at)
            arc["spec"]["delay"] = delay
        yield arc


def _renamed_arc(arc: Any, names: dict[str, str], maker: Maker) -> Any:
    if "args" in arc:
        arc["args"] = _renamed(arc["args"], names, maker)
    return arc


def _renamed(node: Any, names: dict[str, str], maker: Maker) -> Any:
    """A copy of the node with names replaced in its templates."""
    if isinstance(node, dict):
        copy = maker.map(node)
        copy.update({key: value if key == "code" else _renamed(value, names, maker) for key, value in node.items()})
        return copy
    if isinstance(node, list):
        items = maker.seq(node)
        items.extend(_renamed(item, names, maker) for item in node)
        return items
    return _rename(node, names)


def _rename(value: Any, names: dict[str, str]) -> Any:
    if not is_template(value):
        return value
    try:
        return rename(value, names)
    except TemplateSyntax:
        return value  # reported by the template checks


def _inner(guard: Any, names: dict[str, str]) -> str:
    """The expression inside a guard's braces."""
    if isinstance(guard, bool):
        return str(guard).lower()
    text = str(_rename(guard, names)).strip()
    return text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") else repr(text)


def _strings(node: Any, kinds: KindSource) -> Iterator[tuple[Any, Any, str]]:
    """Every template of a document with its container; program code is not one."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    kind = kinds.get(node["kind"]) if isinstance(node, dict) and isinstance(node.get("kind"), str) else None
    for key, value in list(pairs):
        if is_template(value):
            if kind is None or key not in kind.verbatim:
                yield node, key, value
        else:
            yield from _strings(value, kinds)


def _tasks_of(tool: Any) -> list[Any]:
    """The task maps of a `tool`, in any of their forms."""
    if isinstance(tool, dict):
        return [tool]
    found = []
    for item in _list(tool):
        if isinstance(item, dict):
            found.append(item if "kind" in item or len(item) != 1 else _map(next(iter(item.values()))))
    return found


def _chain_tools(case: Any) -> Iterator[Any]:
    for branch in _list(case):
        chain = branch.get("then", branch.get("else")) if isinstance(branch, dict) else None
        for item in _list(chain):
            for name, body in item.items() if isinstance(item, dict) else ():
                if name not in ("sink", "set", "next") and isinstance(_map(body).get("tool"), dict):
                    yield body["tool"]


def _sink_tools(step: Any) -> Iterator[Any]:
    sinks = [step.get("sink")]
    for branch in _list(step.get("case")):
        chain = branch.get("then", branch.get("else"))
        sinks += [item.get("sink") for item in ([chain] if isinstance(chain, dict) else _list(chain))]
    for sink in sinks:
        if isinstance(sink, dict) and isinstance(sink.get("tool"), dict):
            yield sink["tool"]


def _label_of(item: Any, place: int) -> str:
    if "kind" in item:
        return str(item.get("name", f"task_{place}"))
    return str(next(iter(item)))


def _map(node: Any) -> Any:
    return node if isinstance(node, dict) else {}


def _list(node: Any) -> Any:
    return node if isinstance(node, list) else []


def _rename_key(mapping: Any, old: str, new: str) -> None:
    """Give a key another name in place, so that order and positions stay."""
    pairs = list(mapping.items())
    mapping.clear()
    for key, value in pairs:
        mapping[new if key == old else key] = value


def _insert(steps: Any, position: int, step: Any) -> None:
    steps.insert(position, step)
    spans = getattr(steps, "item_spans", None)
    if spans is not None:
        spans.insert(position, step.span)


def _put_after(mapping: Any, before: str, key: str, value: Any) -> None:
    """Add a key behind another one."""
    pairs = list(mapping.items())
    mapping.clear()
    for name, old in pairs:
        mapping[name] = old
        if name == before:
            mapping[key] = value
    mapping.setdefault(key, value)
