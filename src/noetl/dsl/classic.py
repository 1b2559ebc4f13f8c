"""The classic dialect: made ready for the model (`prepare`), and rewritten into the canonical one (`rewrite`).

Both share what the dialects have in common:

    args              args of every task of the step, below the task's own
    retry, on_error   rules of the task's policy
    next              `next.arcs`, inclusive where there are several targets
    loop              `in`, `iterator`, `spec`
    vars.x            reads `ctx.vars.x`

`prepare` is for the compiler: `vars`, `case` and `sink` stay with their step and become its `Tail`
(`noetl.pipeline.tail` runs it). `rewrite` is for `noetl migrate`, and has another spelling for them:

    vars              a patch of `ctx.vars` in the rule that continues
    sink              a task after the call, then a `noop` that restores the result
    case, exclusive   guarded arcs; a branch that calls tools becomes a step of its own, `STEP_case_N`

A branch is looked at twice: when the call is done, then on exit if nothing has routed. So the arcs stand in that
order too: branches that name `call.done` or `call.error`, those that name `step.exit`, `else`, and last `next`. A step
whose sink has failed ends with `step.failed` like one whose call has, so guards that see failures leave the sink out.

What has no canonical spelling is listed: inclusive cases, `on_event`, `defer`, `poll`, computed targets, chains retried
as a whole, `vars` and `sink` of a loop, a `sink` behind chains, `this.meta`, and templates that read what the place
they would move to can't see (`event` in a chain, for instance). That both behave the same is tested by running both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from noetl.dsl import outline
from noetl.dsl.canonical import SINK
from noetl.dsl.outline import labelled_items
from noetl.dsl.shape import KindSource, is_template
from noetl.dsl.tree import Map, Seq, span_of, unshare
from noetl.errors import TemplateSyntax
from noetl.expression import parse, rename

STEP_KEYS = ("args", "retry", "vars", "case", "sink")
CASE_SPEC = ("case_mode", "eval_mode", "branch_order", "next_policy", "on_error")
SQL_ROWS = ("postgres", "duckdb", "snowflake")
IS_ERROR = "{{ outcome.status == 'error' }}"
EVENT = frozenset(["event"])
CREDENTIALS = {
    "postgres": "postgres_credential",
    "snowflake": "snowflake_credential",
    "gcs": "gcs_credential",
}
_EVENT = re.compile(r"""event\.name\s*==\s*(['"])(call\.done|call\.error|step\.exit)\1""")
_DSN = re.compile(r"^postgres(ql)?://|=")


class Leftover(NamedTuple):
    """A construct that the canonical dialect can't spell."""

    step: str
    container: Any
    key: Any
    what: str
    hint: str


def is_classic(root: Any) -> bool:
    """True if the document uses classic constructs and none that only the canonical dialect has."""
    steps = [step for step in _list(root.get("workflow")) if isinstance(step, dict)]
    return not any(map(_canonical_step, steps)) and next(_constructs(root), None) is not None


def first_construct(root: Any) -> tuple[Any, str]:
    """The map and the key of the first classic construct of a classic document."""
    return next(_constructs(root))


def _constructs(root: Any) -> Iterator[tuple[Any, str]]:
    for step in _list(root.get("workflow")):
        if isinstance(step, dict):
            yield from _classic_keys(step)
    for entry in _list(root.get("workbook")):
        if isinstance(entry, dict) and "sink" in entry:
            yield entry, "sink"


def _canonical_step(step: Any) -> bool:
    following, tool = step.get("next"), step.get("tool")
    if isinstance(following, dict) and "arcs" in following:
        return True
    labelled = [task for task in _list(tool) if isinstance(task, dict) and len(task) == 1 and "kind" not in task]
    chained = [_map(_map(body).get("tool")) for body in _chain_calls(step.get("case"))]
    parts = (step, *_tasks_of(tool), *chained)
    return bool(labelled) or any("policy" in _map(part.get("spec")) for part in parts)


def _classic_keys(step: Any) -> Iterator[tuple[Any, str]]:
    loop = _map(step.get("loop"))
    yield from ((step, key) for key in step if key in STEP_KEYS)
    if isinstance(step.get("next"), str | list):
        yield step, "next"
    for part, keys in (
        (loop, ("mode", "collection", "element")),
        (_map(loop.get("spec")), ("batch_size",)),
        (_map(step.get("spec")), CASE_SPEC),
    ):
        yield from ((part, key) for key in part if key in keys)


def prepare(root: Map, kinds: KindSource) -> None:
    """Make the document ready to be built, in place: what both dialects have is rewritten, and what only the classic
    one has (`case`, `vars`, `sink`) stays with its step, its retries turned into policies."""
    _Rewriter(root, kinds).prepare()


def rewrite(root: Map, kinds: KindSource) -> list[Leftover]:
    """Rewrite the document in place; what could not be rewritten is still there and returned."""
    return _Rewriter(root, kinds).run()


class _Rewriter:
    def __init__(self, root: Map, kinds: KindSource) -> None:
        self.root, self.kinds = root, kinds
        self.steps = _list(root.get("workflow"))
        self.names = {step.get("step") for step in self.steps}
        self.workbook = {entry.get("name"): entry for entry in _list(root.get("workbook")) if isinstance(entry, dict)}
        self.leftovers: list[Leftover] = []
        self.current = ""
        self.locals: frozenset[str] = frozenset()  # bare names that only the current step's own parts can see

    def prepare(self) -> None:
        unshare(self.root)
        self._credentials()
        for step in self.steps:
            self._prepare(step)
        self._finish()

    def run(self) -> list[Leftover]:
        unshare(self.root)
        self._credentials()
        position = 0
        while position < len(self.steps):
            added = self._step(self.steps[position])
            for step in added:
                position += 1
                _insert(self.steps, position, step)
            position += 1
        self._finish()
        return self.leftovers

    def _finish(self) -> None:
        for entry in self.workbook.values():  # callers have taken both over
            entry.pop("sink", None)
            _map(entry.get("tool")).pop("retry", None)
        self._rename_everywhere()

    def _refuse(self, container: Any, key: Any, what: str, hint: str) -> None:
        """Note that the current step has to stay classic, why, and what would help."""
        self.leftovers.append(Leftover(self.current, container, key, what, hint))

    def _refuse_names(self, container: Any, key: Any, names: frozenset[str], where: str) -> None:
        """Refuse templates that read names which the place they would move to does not have."""
        for holder, at, text in _strings(container, self.kinds, key):
            with suppress(TemplateSyntax):
                for read in parse(text).reads:
                    if read.path[0] in names or (".".join(map(str, read.path[:2])) in names):
                        what = f"`{read.path[0]}` {where}"
                        self._refuse(holder, at, what, "keep what it reads in `vars`, or read `steps.NAME.result`")

    # -- a step that stays as it is ---------------------------------------------------------------------------------

    def _prepare(self, step: Any) -> None:
        self.current = step["step"]
        self._loop(step)
        self._args(step)
        sinks = self._sinks(step)
        self._chain_policies(step)
        self._policies(step, with_vars=False)
        if "sink" in step:
            step["sink"] = self._tail_sink(step["sink"], None)
        if isinstance(step.get("next"), str | list):
            step["next"] = self._plain_router(step, step["next"])
        if sinks:
            self._append_sinks(step, sinks)

    def _append_sinks(self, step: Any, sinks: list[Any]) -> None:
        """Sinks of workbook tasks follow the call. They are marked: they leave its result as it was."""
        *_, (label, call, _, _) = labelled_items(step["tool"])
        labels = {one for one, *_ in labelled_items(step["tool"])}
        if isinstance(step["tool"], dict):
            pipeline = _seq_at(call)
            pipeline.append(self._labelled(call, label, call))
            step["tool"] = pipeline
        for sink in sinks:
            task = self._sink_task(sink, self._task_names(label, call), None)
            task[SINK] = True
            step["tool"].append(self._labelled(sink, self._label("sink", labels), task))

    def _chain_policies(self, step: Any) -> None:
        """Retries of calls in chains: the innermost `retry` that speaks wins, one of the whole chain stands apart."""
        on_error = _map(step.get("spec")).get("on_error", "fail")
        ignore = "continue" if on_error == "ignore" else None
        for branch in _list(step.get("case")):
            chain = branch.get("then", branch.get("else"))
            retry = _map(chain).get("retry", branch.get("retry"))
            default = step.get("retry") if retry is None else None if retry.get("scope") == "chain" else retry
            if default is None and on_error == "retry":
                default = _map_at(step)
            if _map(retry).get("scope") == "chain":
                branch["again"] = self._retry_rule(branch, retry, self._rule_names(branch), ignore=False)
            for item in [chain] if isinstance(chain, dict) else list(chain):
                for name in list(item):
                    if name == "sink":
                        item[name] = self._tail_sink(item[name], default)
                    elif name not in ("next", "set", "retry"):
                        self._chain_call(chain, item, name, default, ignore)

    def _chain_call(self, chain: Any, item: Any, name: str, default: Any, ignore: str | None) -> None:
        body = item[name]
        if "retry" in body:
            body["tool"]["retry"] = body.pop("retry")
        if "poll" in body:
            body["poll"]["until"] = _rename(body["poll"]["until"], self._rule_names(body["tool"]))
        for sink in reversed(self._entry_sinks(body["tool"])):
            stored = _map_at(sink)
            stored["tool"] = self._sink_task(sink, self._task_names(name, body["tool"]), default)
            _insert(chain, _position(chain, item) + 1, self._labelled(sink, "sink", stored))
        self._policy(body["tool"], default, ignore)

    def _tail_sink(self, sink: Any, default: Any) -> Any:
        """A sink that stays where it is: the classic names keep their meaning there."""
        rewritten = _map_at(sink)
        rewritten["tool"] = self._sink_task(sink, {"result": "result"}, default)
        return rewritten

    # -- one step ---------------------------------------------------------------------------------------------------

    def _step(self, step: Any) -> list[Any]:
        self.current, self.locals = step["step"], self._locals(step)
        if "tool" not in step and ("vars" in step or "sink" in step):
            step["tool"] = _map_at(step)
            step["tool"]["kind"] = "noop"
        self._loop(step)
        self._args(step)
        case, fallback = step.get("case"), step.get("next")
        sinks = self._sinks(step)
        before, added = len(self.leftovers), list[Any]()
        routed = self._router(step, case, fallback, added)
        self._refuse_outside(step)
        if len(self.leftovers) > before:  # the text stays as it is: nothing more has to be done to the step
            self.names -= {extra["step"] for extra in added}
            return []
        self._policies(step, with_vars=True)
        self._store(step, [*sinks, *([step["sink"]] if "sink" in step else [])])
        for key in ("case", "vars", "sink"):
            step.pop(key, None)
        self._drop_case_spec(step)
        if routed is not None:
            step["next"] = routed
        return added

    def _locals(self, step: Any) -> frozenset[str]:
        loop = _map(step.get("loop"))
        found = {loop.get("iterator"), loop.get("element"), "index", "parent", "loop_index", "iter"}
        found |= {"tasks", "_prev", "_task", "_attempt"}
        found |= {label for label, *_ in labelled_items(step["tool"])} if "tool" in step else set()
        found |= {name for key in _map(step.get("args")) for name in (key, f"args.{key}")}
        return frozenset(found - set(_map(self.root.get("workload"))) - {None})

    def _refuse_outside(self, step: Any) -> None:
        """What a step does after its tool sees the whole loop and the event; a task of its pipeline sees neither."""
        if "loop" in step and "sink" in step:
            what = "`sink` of a loop step (it stores the results of all items)"
            self._refuse(step, "sink", what, "move it to a step that follows the loop")
        if "sink" in step and any(name != "next" for one in _list(step.get("case")) for name in _chain_names(one)):
            what = "`sink` of a step whose branches do something (it runs behind their chains)"
            self._refuse(step, "sink", what, "move it to a step of its own, or into the chains")
        if "sink" in step:
            self._refuse_names(step, "sink", EVENT, "in `sink`")
        if "loop" in step and "vars" in step:
            what = "`vars` of a loop step (they read the results of all items)"
            self._refuse(step, "vars", what, "move them to a step that follows the loop")
        if "vars" in step:
            self._refuse_names(step, "vars", EVENT, "in `vars`")

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
        spec: Any = loop.get("spec") if isinstance(loop.get("spec"), dict) else _map_at(loop)
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
        for call in [*_tasks_of(step.get("tool")), *_chain_calls(step.get("case"))]:
            merged = _renamed(given, {})
            _keep_places(merged, _map(call.get("args")))
            merged.update(_map(call.get("args")))
            call["args"] = merged

    def _credentials(self) -> None:
        """Classic calls may name a credential that is not declared, and postgres may leave it out."""
        spec = _map(_map(self.root.get("executor")).get("spec"))
        for kind, defaults in spec.items():
            if isinstance(defaults, dict) and self.kinds.get(kind):
                self._credential(kind, defaults)
        for step in self.steps:
            self.current = step["step"]
            layers = (spec, _map(step.get("spec")), _map(_map(step.get("loop")).get("spec")))
            for task in (site.tree for site in outline.tasks(step)):
                self._task_credential(task, layers)
        for task in (site.tree for _, site in outline.workbook(self.root)):
            self._task_credential(task, (spec,))
        for entry in self.workbook.values():
            self._task_credential(_map(_map(entry.get("sink")).get("tool")), (spec,))

    def _task_credential(self, task: Any, layers: tuple[Any, ...]) -> None:
        given = [task, *(_map(layer.get("postgres")) for layer in layers)]
        if task.get("kind") == "postgres" and not any("auth" in one or "dsn" in one for one in given):
            task["auth"] = "postgres"
        self._credential(task.get("kind"), task)

    def _credential(self, kind: Any, holder: Any) -> None:
        name = holder.get("auth")
        if not isinstance(name, str) or is_template(name):
            return
        if kind == "postgres" and _DSN.search(name):
            _rename_key(holder, "auth", "dsn")
            return
        declared = self._keychain()
        known = re.sub(r"\W", "_", name)
        if known not in declared and kind not in CREDENTIALS:
            what = f"`auth: {name}` without a keychain entry (its kind is not known)"
            self._refuse(holder, "auth", what, f"add `keychain: [{{name: {known}, kind: ...}}]`")
            return
        if known not in declared:
            entry = _map_at(self.root)
            entry.update({"name": known, "kind": CREDENTIALS[kind]})
            if known != name:
                entry["credential"] = name
            self._keychain(entry)
        holder["auth"] = known

    def _keychain(self, entry: Any = None) -> set[str]:
        """The names it has; a new entry is added to it."""
        if entry is not None:
            if not isinstance(self.root.get("keychain"), list):
                _put_after(self.root, "metadata", "keychain", _seq_at(self.root))
            self.root["keychain"].append(entry)
        return {entry.get("name") for entry in _list(self.root.get("keychain"))}

    # -- policies ---------------------------------------------------------------------------------------------------

    def _policies(self, step: Any, with_vars: bool) -> None:
        """Turn `retry`, `on_error` and, if asked, `vars` into rules of the step's tasks."""
        tasks = _tasks_of(step.get("tool"))
        default = step.pop("retry", None)
        on_error = _map(step.get("spec")).get("on_error", "fail")
        if on_error == "retry" and default is None:
            default = _map_at(step)
        found = step.pop("vars", None) if with_vars else None
        for task in tasks:
            last = task is tasks[-1]
            ignore = None if on_error != "ignore" else "continue" if last else "break"
            self._policy(task, default, ignore, found if last else None)

    def _policy(self, task: Any, default: Any, ignore: str | None = None, found: Any = None, skip: Any = None) -> None:
        for inner in _tasks_of(task.get("tool")) if task.get("kind") == "iterator" else ():
            self._policy(inner, None)
        retry = task.pop("retry", None)
        retry = default if retry is None else retry
        if retry is None and task.get("kind") == "workbook":
            retry = _map(self._workbook_tool(task.get("name"))).get("retry")
        names = self._rule_names(task)
        rules = _seq_at(task)
        if skip is not None:
            rules.append(self._rule(task, skip, do="skip"))
        if retry is not None:
            rules.append(self._retry_rule(task, retry, names, ignore is not None))
        if not rules and not ignore and not found:
            return
        rules.append(self._rule(task, IS_ERROR, do=ignore or "fail"))
        then = self._then(task, do="continue")
        if found:
            patch = _map_at(found)
            patch["$merge"] = _renamed(found, names)
            then["set_ctx"] = _map_at(found)
            then["set_ctx"]["vars"] = patch
        otherwise, body = _map_at(task), _map_at(task)
        body["then"] = then
        otherwise["else"] = body
        rules.append(otherwise)
        spec: Any = task.get("spec") if isinstance(task.get("spec"), dict) else _map_at(task)
        spec["policy"] = _map_at(task)
        spec["policy"]["rules"] = rules
        task["spec"] = spec

    def _rule(self, at: Any, when: Any, **then: Any) -> Any:
        rule = _map_at(at)
        rule["when"] = when
        rule["then"] = self._then(at, **then)
        return rule

    def _then(self, at: Any, **fields: Any) -> Any:
        then = _map_at(at)
        then.update({key: value for key, value in fields.items() if value is not None})
        return then

    def _retry_rule(self, task: Any, retry: Any, names: dict[str, str], ignore: bool) -> Any:
        attempts = retry.get("max_attempts", 3)
        names = {**names, "max_attempts": str(attempts)}
        go_on, stop = retry.get("retry_when"), retry.get("stop_when")
        parts = [] if go_on is None else [_inner(go_on, names)]
        if stop is not None:
            parts.append(f"not ({_inner(stop, names)})")
        if not parts:
            parts.append(IS_ERROR[2:-2].strip())
        if stop is not None or ignore:  # when attempts run out the last outcome stands, so this rule must not fail it
            parts.append(f"_attempt < {attempts}")
        if go_on is not None and len(parts) > 1:
            parts[0] = f"({parts[0]})"
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
        own = _path("steps", name)
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
            what = "`eval_mode: on_event` (the step listens to events)"
            self._refuse(spec, "eval_mode", what, "wait for one signal with `kind: wait`")
        if spec.get("case_mode") == "inclusive":
            what = "`case_mode: inclusive` (all matching chains run in one step)"
            self._refuse(spec, "case_mode", what, "give each chain a step, and lead to them by an inclusive `next`")
        branches = list(enumerate(case))
        if spec.get("branch_order") == "priority":
            branches.sort(key=lambda pair: -pair[1].get("priority", 0))
        on_call = _seq_at(case)
        on_exit: list[Any] = []
        otherwise: list[Any] = []
        names = self._step_names(step)
        stored = self._sink_label(step) if "sink" in step else None
        for number, branch in branches:
            arc = self._branch_arc(step, number, branch, names, fallback, added)
            if "else" in branch:
                otherwise.append(arc)
                continue
            for renamed, exits in self._guards(branch, names, "loop" in step):
                guard = renamed
                if stored is not None and self._sees_failure(renamed):  # that of a sink is not for branches
                    guard = f"{{{{ ({_inner(renamed, {})}) and (event.data.task | default('')) != '{stored}' }}}}"
                copy = _map_at(branch)
                _keep_places(copy, branch, "when")
                copy["step"] = arc["step"]
                if guard is not True:
                    copy["when"] = guard
                copy.update({key: value for key, value in arc.items() if key != "step"})
                (on_exit if exits else on_call).append(copy)
        on_call.extend([*on_exit, *otherwise])
        if fallback is not None and not otherwise:
            on_call.append(self._fallback_arc(step, fallback, added))
        router = _map_at(case)
        router["arcs"] = on_call
        return router

    def _sees_failure(self, guard: Any) -> bool:
        """Whether a guard, as arcs see it, can match after a failure (S3)."""
        try:
            reads = parse(guard).reads if isinstance(guard, str) else []
        except TemplateSyntax:
            return False
        ends = (("steps", self.current, "status"), ("steps", self.current, "error"))
        bare = ((self.current, "status"), (self.current, "error"))
        return any(read.path[0] == "event" or read.path[:3] in ends or read.path[:2] in bare for read in reads)

    def _guards(self, branch: Any, names: dict[str, str], loop: bool) -> Iterator[tuple[Any, bool]]:
        """The guard of a branch as arcs see it, for the call and for the exit."""
        when = branch["when"]
        if not isinstance(when, str):
            yield when, False
            return
        found = [match.group(2) for match in _EVENT.finditer(when)]
        try:
            reads = parse(when).reads
        except TemplateSyntax:
            yield when, False
            return
        self._refuse_names(branch, "when", self.locals, "in a condition")
        if any(read.path[0] == "this" and len(read.path) > 1 and read.path[1] == "meta" for read in reads):
            self._refuse(branch, "when", "`this.meta` in a condition", "read `this.data` or `this.error`")
        if sum(read.path[0] == "event" for read in reads) != len(found):
            what = "a condition on events other than `event.name == 'call.done'`"
            self._refuse(branch, "when", what, "compare `event.name` with call.done, call.error or step.exit")
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

    def _fallback_arc(self, step: Any, fallback: Any, added: list[Any]) -> Any:
        targets = self._fallback_arcs(step)
        if len(targets) == 1:
            return targets[0]
        return self._routing_step(step, f"{step['step']}_next", fallback, self._plain_router(step, fallback), added)

    def _routing_step(self, step: Any, name: str, at: Any, router: Any, added: list[Any]) -> Any:
        """A step that only routes, for a fork behind an exclusive choice. Returns the arc that leads to it."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        extra = _map_at(at)
        extra["step"] = name
        if router is not None:
            extra["next"] = router
        added.append(extra)
        arc = _map_at(at)
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
            what = "`retry.scope: chain` (the chain is retried as a whole)"
            self._refuse(retry, "scope", what, "retry each call, or `jump` back to the first from a rule of the last")
        goto = None
        if chain and "next" in chain[-1]:
            goto, chain = chain[-1], chain[:-1]
        for item in chain:
            if "next" in item:
                self._refuse(item, "next", "`next` before the end of a chain", "move it to the end")
        arcs = self._arcs(goto, names) if goto is not None else []
        labels = {name for item in chain for name in item}
        moved = EVENT if chain or len(arcs) > 1 else frozenset[str]()
        if goto is not None:
            self._refuse_names(goto, "next", self.locals | labels | moved, "in `args` of a chain's `next`")
        if not chain and len(arcs) == 1:
            return arcs[0]
        if goto is None and fallback is not None:
            self._refuse_names(step, "next", EVENT, "in `args` of the `next` that follows a chain")
            arcs = self._fallback_arcs(step)
            if self._sees_failure(_rename(branch.get("when"), names)):
                for arc in arcs:  # a branch may take a failure up, and `next` is not for failures
                    arc["when"] = f"{{{{ {_path('steps', step['step'])}.status == 'succeeded' }}}}"
        default = retry if retry is not None else step.get("retry")
        if default is None and _map(step.get("spec")).get("on_error") == "retry":
            default = _map_at(step)
        return self._chain_step(step, number, branch, chain, arcs, default, names, added)

    def _single(self, chain: Any, key: str) -> Any:
        item = _map_at(chain)
        _keep_places(item, chain, key)
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
        tasks = _seq_at(branch)
        labels: set[str] = set()
        ignore = "continue" if _map(step.get("spec")).get("on_error") == "ignore" else None
        for item in chain:
            self._refuse_moved(item, labels)
            for name, body in item.items():
                tasks.extend(self._chain_tasks(item, name, body, retry, names, labels, ignore))
        router = self._arcs_router(branch, arcs) if arcs else None
        arc = self._routing_step(step, f"{step['step']}_case_{number}", branch, router, added)
        if tasks:
            extra = added[-1]
            following = extra.pop("next", None)
            if inherited := self._inherited(step):
                extra["spec"] = inherited
            extra["tool"] = tasks
            if following is not None:
                extra["next"] = following
        return arc

    def _inherited(self, step: Any) -> Any:
        """What the step's `spec` gives to its calls."""
        spec = _map(step.get("spec"))
        own = (*CASE_SPEC, "timeout", "timers", "join", "policy")
        return _renamed(_without(spec, own), {})

    def _refuse_moved(self, item: Any, labels: set[str]) -> None:
        """A chain becomes a step of its own: it no longer sees what only the first step had."""
        for name, body in item.items():
            foreign = (self.locals | EVENT) - {"tasks", *labels}
            if name == "set":
                self._refuse_names(item, name, foreign, "in `set`")
                continue
            for key in ("tool", "args", "when", "table"):
                if key in _map(body):
                    given = {part for part in _map(body.get("args")) if name != "sink"}
                    visible = given | {f"args.{part}" for part in given}
                    self._refuse_names(body, key, foreign - (visible if key == "tool" else set()), "in a chain")

    def _chain_tasks(
        self,
        at: Any,
        name: str,
        body: Any,
        retry: Any,
        names: dict[str, str],
        labels: set[str],
        ignore: str | None,
    ) -> Iterator[Any]:
        if name == "next":
            return
        if name == "set":
            yield self._labelled(at, self._label("set", labels), self._set_task(at, body, names))
            return
        if "poll" in body:
            what = "`poll` (a call repeated until its result is ready)"
            self._refuse(body, "poll", what, "`jump` back to the call, with a `delay`, from a rule of its policy")
        if name == "sink":
            yield self._labelled(at, self._label("sink", labels), self._sink_task(body, names, retry))
            return
        task = _renamed(body["tool"], names)
        if "args" in body:
            merged = _renamed(body["args"], names)
            _keep_places(merged, _map(task.get("args")))
            merged.update(_map(task.get("args")))
            task["args"] = merged
        if "retry" in body:
            task["retry"] = body["retry"]
        self._policy(task, retry, ignore)
        labels.add(name)
        yield self._labelled(at, name, task)
        for sink in self._entry_sinks(task):
            yield self._labelled(
                at, self._label("sink", labels), self._sink_task(sink, self._task_names(name, task), retry)
            )

    def _label(self, label: str, taken: set[str]) -> str:
        """A label that no other task of the pipeline has, and no step: a bare name may mean that step."""
        number, found = 1, label
        while found in taken or found in self.names:
            number += 1
            found = f"{label}_{number}"
        taken.add(found)
        return found

    def _labelled(self, at: Any, label: str, task: Any) -> Any:
        item = _map_at(at)
        item[label] = task
        return item

    def _set_task(self, at: Any, values: Any, names: dict[str, str]) -> Any:
        task = _map_at(at)
        task["kind"] = "noop"
        then = self._then(at, do="continue")
        then["set_ctx"] = _map_at(at)
        then["set_ctx"]["vars"] = _map_at(at)
        then["set_ctx"]["vars"]["$merge"] = _renamed(values, names)
        rule, body = _map_at(at), _map_at(at)
        body["then"] = then
        rule["else"] = body
        task["spec"] = _map_at(at)
        task["spec"]["policy"] = _map_at(at)
        task["spec"]["policy"]["rules"] = _seq_at(at)
        task["spec"]["policy"]["rules"].append(rule)
        return task

    def _plain_router(self, step: Any, following: Any) -> Any:
        if isinstance(following, dict):
            return following
        return self._arcs_router(following if isinstance(following, list) else step, self._fallback_arcs(step))

    def _fallback_arcs(self, step: Any) -> list[Any]:
        self._refuse_names(step, "next", frozenset(["loop_index"]), "in `args` of `next`")
        return self._arcs(step, self._step_names(step))

    def _arcs(self, holder: Any, names: dict[str, str]) -> list[Any]:
        """Arcs to the targets of a `next` in any of its classic forms."""
        at, key, delay = holder, "next", None
        if isinstance(holder["next"], dict):
            at, key = holder["next"], "to"
            delay = _map(at.get("spec")).get("delay")
            if at.get("policy") == "defer":
                what = "`policy: defer` (the chain goes on behind `next`)"
                self._refuse(at, "policy", what, "move `next` to the end of the chain, without a policy")
        arcs = []
        following = at[key]
        for i, target in enumerate([following] if isinstance(following, str) else _list(following)):
            where: tuple[Any, Any] = (following, i) if isinstance(following, list) else (at, key)
            if isinstance(target, dict):
                arc, where = _renamed(target, names), (target, "step")
            else:
                arc = _map_at(at)
                arc["step"] = target
            if is_template(arc["step"]):
                what = "a computed target (`step` is a template)"
                self._refuse(*where, what, "write a branch for each step it can lead to")
            if delay is not None:
                arc["spec"] = _map_at(at)
                arc["spec"]["delay"] = delay
            arcs.append(arc)
        return arcs

    def _arcs_router(self, at: Any, arcs: list[Any]) -> Any:
        router = _map_at(at)
        if len(arcs) > 1:
            router["spec"] = _map_at(at)
            router["spec"]["mode"] = "inclusive"
        router["arcs"] = _seq_at(at)
        router["arcs"].extend(arcs)
        return router

    # -- sinks ------------------------------------------------------------------------------------------------------

    def _sinks(self, step: Any) -> list[Any]:
        """Sinks of the workbook tasks that the step calls: they follow the call, in a loop for each item."""
        return [sink for task in _tasks_of(step.get("tool")) for sink in self._entry_sinks(task)]

    def _entry_sinks(self, task: Any) -> list[Any]:
        found = []
        while task.get("kind") == "workbook" and task.get("name") in self.workbook:
            entry = self.workbook[task["name"]]
            found += [entry["sink"]] if "sink" in entry else []
            task = entry["tool"]
        return found

    def _sink_label(self, step: Any) -> str:
        """The label that the step's own sink will have in its pipeline."""
        tool = step["tool"]
        labels = {label for label, *_ in labelled_items(tool)} if isinstance(tool, list) else set()
        if isinstance(tool, dict):
            self._label("call", labels)
        for _ in self._sinks(step):
            self._label("sink", labels)
        return self._label("sink", labels)

    def _store(self, step: Any, sinks: list[Any]) -> None:
        """Append the sinks to the pipeline, and restore the result of the call behind them."""
        if not sinks:
            return
        tool = step["tool"]
        labels = {label for label, *_ in labelled_items(tool)} if isinstance(tool, list) else set()
        if isinstance(tool, dict):
            label, call = self._label("call", labels), tool
            pipeline = _seq_at(tool)
            pipeline.append(self._labelled(tool, label, tool))
        else:
            pipeline = tool
            *_, (label, call, _, _) = labelled_items(tool)
        names = self._task_names(label, call)
        for sink in sinks:
            pipeline.append(self._labelled(sink, self._label("sink", labels), self._sink_task(sink, names, None)))
        result = _map_at(tool)
        result.update({"kind": "noop", "result": f"{{{{ {_path('tasks', label)}.result }}}}"})
        pipeline.append(self._labelled(tool, self._label("result", labels), result))
        step["tool"] = pipeline

    def _task_names(self, label: str, call: Any) -> dict[str, str]:
        """Classic names as they read in a later task of the same pipeline."""
        own = _path("tasks", label)
        return _envelope(
            f"{own}.result",
            f"{own}.result{self._view(call)}",
            f"{own}.error",
            f"{own}.http.status",
            f"{own}.status",
        )

    def _sink_task(self, sink: Any, names: dict[str, str], retry: Any) -> Any:
        task = _renamed(sink["tool"], names)
        content, own = _renamed(sink.get("args"), names), task.pop("args", None)
        if own:
            if isinstance(content, dict):
                _keep_places(content, own)
                content.update(own)
            else:
                content = own if content is None else content
        if not content:
            content = f"{{{{ {names['result']} }}}}"
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
        rows = _seq_at(columns)
        rows.append(columns)
        return rows

    # -- names that read the same everywhere ------------------------------------------------------------------------

    def _rename_everywhere(self) -> None:
        names = {"vars": "ctx.vars", "loop_index": "iter.index"}
        for section in self.root:
            if section not in ("metadata", "workload"):
                for container, key, value in _strings(self.root, self.kinds, section):
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


def _renamed(node: Any, names: dict[str, str]) -> Any:
    """A copy of the node with names replaced in its templates; a task's code and retry have names of their own."""
    if isinstance(node, dict):
        copy = _map_at(node)
        _keep_places(copy, node)
        for key, value in node.items():
            own = "kind" in node and key in ("code", "retry")
            copy[key] = _renamed(value, {} if own else names)
        return copy
    if isinstance(node, list):
        items = _seq_at(node)
        _keep_places(items, node)
        items.extend(_renamed(item, names) for item in node)
        return items
    return _rename(node, names) if names else node


def _without(node: Any, keys: tuple[str, ...]) -> Any:
    copy = _map_at(node)
    _keep_places(copy, node)
    copy.update({key: value for key, value in node.items() if key not in keys})
    return copy


def _path(root: str, name: str) -> str:
    """How a template reads a step or task, whose name may have dashes and dots."""
    return f"{root}.{name}" if name.isidentifier() else f"{root}['{name}']"


def _rename(value: Any, names: dict[str, str]) -> Any:
    if not is_template(value):
        return value
    return _renamed_text(value, tuple(names.items()))


@lru_cache(maxsize=1024)
def _renamed_text(value: str, names: tuple[tuple[str, str], ...]) -> str:
    """Remembered, because what a step gives to its tasks is renamed for each of them."""
    try:
        return rename(value, dict(names))
    except TemplateSyntax:
        return value  # reported by the template checks


def _inner(guard: Any, names: dict[str, str]) -> str:
    """The expression inside a guard's braces."""
    if isinstance(guard, bool):
        return str(guard).lower()
    text = str(_rename(guard, names)).strip()
    expression = re.fullmatch(r"\{\{[-+]?(.*?)[-+]?\}\}", text, re.DOTALL)
    return expression.group(1).strip() if expression else repr(text)


def _strings(container: Any, kinds: KindSource, key: Any) -> Iterator[tuple[Any, Any, str]]:
    """Every template of a value with the container and key that hold it; program code is not one."""
    value = container[key]
    if is_template(value):
        yield container, key, value
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    kind = kinds.get(value["kind"]) if isinstance(value, dict) and isinstance(value.get("kind"), str) else None
    for inner, _ in list(pairs):
        if kind is None or inner not in kind.verbatim:
            yield from _strings(value, kinds, inner)


def _tasks_of(tool: Any) -> list[Any]:
    """The task maps of a `tool`, in any of their forms."""
    if isinstance(tool, dict):
        return [tool]
    found = []
    for item in _list(tool):
        if isinstance(item, dict):
            found.append(item if "kind" in item or len(item) != 1 else _map(next(iter(item.values()))))
    return found


def _chain_calls(case: Any) -> Iterator[Any]:
    for branch in _list(case):
        for item in _list(_map(branch).get("then", _map(branch).get("else"))):
            yield from (body for name, body in _map(item).items() if name not in ("sink", "set", "next"))


def _chain_names(branch: Any) -> Iterator[str]:
    """What a branch does, by name: calls, `sink`, `set`, `next`."""
    chain = _map(branch).get("then", _map(branch).get("else"))
    for item in [chain] if isinstance(chain, dict) else _list(chain):
        yield from (name for name in _map(item) if name != "retry")


def _map_at(node: Any) -> Map:
    """A new map that stands where the node stands."""
    return Map(span_of(node))


def _seq_at(node: Any) -> Seq:
    """A new list that stands where the node stands."""
    return Seq(span_of(node))


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
    if old in mapping.spans:
        mapping.spans[new] = mapping.spans[old]


def _keep_places(copy: Any, node: Any, *keys: str) -> None:
    """Let a copy, or these keys of it, stand where the original stands."""
    if isinstance(node, Seq):
        copy.item_spans = list(node.item_spans)
    elif isinstance(node, Map):
        copy.spans.update({key: node.spans[key] for key in keys or node.spans if key in node.spans})


def _insert(steps: Any, position: int, step: Any) -> None:
    steps.insert(position, step)
    spans = getattr(steps, "item_spans", None)
    if spans is not None:
        spans.insert(position, step.span)


def _position(items: Any, item: Any) -> int:
    return next(i for i, one in enumerate(items) if one is item)


def _put_after(mapping: Any, before: str, key: str, value: Any) -> None:
    """Add a key behind another one."""
    pairs = list(mapping.items())
    mapping.clear()
    for name, old in pairs:
        mapping[name] = old
        if name == before:
            mapping[key] = value
    mapping.setdefault(key, value)
