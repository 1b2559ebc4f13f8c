"""Writes to `ctx` and `iter`: `set` in rules, at tasks, steps and arcs, and `set_ctx` at steps."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from noetl.classic.conversions import labelled
from noetl.classic.names import expression_of, path_of, renamed, renamed_text, templates_in
from noetl.classic.nodes import as_list, as_map, free_label, insert_item, list_at, map_at, merged, part_of, put_after
from noetl.dsl.tree import Map, Seq, is_template
from noetl.generations.document import OtherDocument, rules, thens
from noetl.generations.names import after_step, in_pipeline, in_rule, last_task, reads_of, rename, rendered_keys

STEP_KEYS = ("set_ctx", "set")
_PATH = re.compile(r"[\w.\[\]]+")


class Patch(NamedTuple):
    ctx: Map
    iter: Map


def rewrite_rule_patches(document: OtherDocument) -> None:
    for task in document.all_tasks:
        for then in thens(task.tree):
            if isinstance(then.get("set"), Map):
                _add(document, then, _patch(document, then, "set", "iter"), "`set` of the rule")
                del then["set"]


def rewrite_task_patches(document: OtherDocument) -> None:
    """The patch of a task goes into each rule that continues; without rules, an error still fails the step."""
    hidden = _ctx_names(document) | {
        name
        for step in document.steps
        for holder in (step, *map(as_map, as_list(as_map(step.get("next")).get("arcs"))))
        for name in as_map(holder.get("args"))
    }
    for task in document.all_tasks:
        tree = task.tree
        if not isinstance(tree.get("set"), Map):
            continue
        patch = _patch(document, tree, "set", "iter")
        _qualify(document, tree, {name: f"iter.{name}" for name in patch.iter if name in hidden})
        del tree["set"]
        spec = tree["spec"] if isinstance(tree.get("spec"), Map) else map_at(tree)
        if "policy" not in spec:
            failed = map_at(tree, when="{{ outcome.status == 'error' }}", then=map_at(tree, do="fail"))
            spec["policy"] = map_at(tree, rules=list_at(tree, [failed]))
        tree["spec"] = spec
        if not any("else" in rule for rule in rules(tree)):
            otherwise = map_at(tree, {"else": map_at(tree, then=map_at(tree, do="continue"))})
            as_list(as_map(spec["policy"]).get("rules")).append(otherwise)
        for rule in rules(tree):
            then = as_map(as_map(rule.get("else")).get("then") if "else" in rule else rule.get("then"))
            if then.get("do") == "continue":
                after_error = any(read.path[0] == "outcome" for read in reads_of(str(rule.get("when", ""))))
                part = Patch(*(_tolerant(part) if after_error else renamed(part, {}) for part in patch))
                _add(document, then, part, "`set` of the task")


def rewrite_step_patches(document: OtherDocument) -> None:
    """The patch of a step is made by a last task, which passes the result of the step on."""
    for step in document.steps:
        keys = [key for key in STEP_KEYS if isinstance(step.get(key), Map)]
        if not keys:
            continue
        if "loop" in step:
            message = f"`{keys[-1]}` of a loop step (a task would write once for each item)"
            document.refuse(step, keys[-1], message, "move it to a step that follows the loop")
            for key in keys:
                del step[key]
            continue
        own, tool = step["step"], step.get("tool")
        if isinstance(tool, Map):
            has_name = "name" in tool and tool.get("kind") != "workbook"
            label = free_label("call", set(), document.step_names)
            step["tool"] = tool = list_at(tool, [tool if has_name else labelled(tool, label, tool)])
        last = last_task(document, step)
        names: dict[str, str] = {}
        if last is not None:
            result = {own: "_prev", f"steps.{own}.result": "_prev", f"steps.{own}": path_of("tasks", last.label)}
            results = {task.label: f"{path_of('tasks', task.label)}.result" for task in document.tasks(step)}
            names = {f"{own}.results.{label}": text for label, text in results.items()}
            names |= {**in_pipeline(last), **(result if own not in as_map(document.root.get("workload")) else {})}
        _patch_breaks(document, step, keys)
        patch = Patch(map_at(step), map_at(step))
        for key in keys:
            rename(document, step, key, names, "read the result of the step by its name")
            part = _patch(document, step, key, "ctx")
            for name in part.iter:
                hint = "write `set_ctx`, or `set_iter` in a rule of a task"
                document.refuse(step[key], f"iter.{name}", f"`iter.{name}` ends with the step", hint)
            _merge(document, patch.ctx, part.ctx, "ctx", f"`{key}` of the step")
        then = map_at(step, do="continue", set_ctx=patch.ctx)
        policy = map_at(step, rules=list_at(step, [map_at(step, {"else": map_at(step, then=then)})]))
        noop = map_at(step, kind="noop", spec=map_at(step, policy=policy))
        if isinstance(tool, Seq):
            labels = {task.label for task in document.tasks(step)}
            tool.append(labelled(step, free_label("set", labels, document.step_names), noop))
        else:
            put_after(step, keys[-1], "tool", noop)
        for key in keys:
            del step[key]


def rewrite_arc_patches(document: OtherDocument) -> None:
    """The patch of an arc is made by a step between, which passes the args of the token on."""
    workflow: Seq = document.root["workflow"]
    for step in document.steps:
        place = next(i for i, item in enumerate(workflow) if item is step)
        for arc in as_list(as_map(step.get("next")).get("arcs")):
            keys = [key for key in STEP_KEYS if isinstance(arc, Map) and isinstance(arc.get(key), Map)]
            if not keys or not isinstance(arc.get("step"), str):
                continue
            patch = Patch(map_at(arc), map_at(arc))
            for key in keys:
                names = after_step(step["step"], last_task(document, step))
                rename(document, arc, key, names, "pass the value with `args` of the arc")
                part = _patch(document, arc, key, "ctx")
                for name in part.iter:
                    hint = "`iter` exists inside of a step: write `ctx`"
                    document.refuse(arc[key], f"iter.{name}", f"`iter.{name}` on an arc has no counterpart", hint)
                _merge(document, patch.ctx, part.ctx, "ctx", f"`{key}` of the arc")
                del arc[key]
            name = f"{step['step']}_to_{arc['step']}"
            while name in document.step_names:
                name += "_"
            args = {name: f"{{{{ args.{name} }}}}" for name in as_map(arc.get("args"))}
            following = map_at(arc, step=arc["step"], args=map_at(arc, args) if args else None)
            then = map_at(arc, do="continue", set_ctx=patch.ctx)
            policy = map_at(arc, rules=list_at(arc, [map_at(arc, {"else": map_at(arc, then=then)})]))
            tool = map_at(arc, kind="noop", spec=map_at(arc, policy=policy))
            between = map_at(arc, step=name, tool=tool, next=map_at(arc, arcs=list_at(arc, [following])))
            arc["step"] = name
            place += 1
            insert_item(workflow, place, between)


def _ctx_names(document: OtherDocument) -> set[str]:
    names: set[str] = set()
    nodes = [document.root["workflow"]]
    while nodes:
        node = nodes.pop()
        nodes += node.values() if isinstance(node, Map) else node if isinstance(node, Seq) else []
        if isinstance(node, Map):
            names |= set(as_map(node.get("set_ctx")))
            names |= {key.split(".")[1] for key in as_map(node.get("set")) if key.startswith("ctx.")}
            names |= set(as_map(node.get("set"))) if "step" in node else set()
    return names


def _qualify(document: OtherDocument, task: Map, names: dict[str, str]) -> None:
    """Write `iter.NAME` in the tasks beside one that sets NAME, where a key of `ctx` or an arg would hide it."""
    for step in document.steps if names else ():
        trees = [sibling.tree for sibling in document.outer_tasks(step)]
        if not any(tree is task for tree in trees):
            continue
        for tree in trees:
            own = as_map(tree.get("args"))
            for key in rendered_keys(document, tree):
                visible = {name: text for name, text in names.items() if key == "args" or name not in own}
                for holder, at, text in list(templates_in(tree, document.kinds, key)):
                    holder[at] = renamed_text(text, visible)


def _patch_breaks(document: OtherDocument, step: Map, keys: list[str]) -> None:
    """A rule that breaks skips the last task, so it writes the patch of the step itself."""
    own = step["step"]
    for task in document.outer_tasks(step):
        for then in thens(task.tree):
            if then.get("do") != "break":
                continue
            names = {**in_rule(task.kind), own: "outcome.result", f"steps.{own}.result": "outcome.result"}
            written = as_map(then.get("set_ctx"))
            for key in keys:
                copy = map_at(step, {key: renamed(step[key], {})})
                if key in step.spans:
                    copy.spans[key] = step.spans[key]
                rename(document, copy, key, names)
                for holder, at, text in templates_in(copy, document.kinds, key):
                    for read in reads_of(text):
                        if read.path[0] == "ctx" and len(read.path) > 1 and read.path[1] in written:
                            message = f"`ctx.{read.path[1]}`, which a rule that breaks writes, in `{key}` of the step"
                            document.refuse_in(holder, at, read.offset, message, "write both in the rule")
                patch = _patch(document, copy, key, "ctx").ctx
                for name in [name for name in patch if name in written and "$merge" in as_map(patch[name])]:
                    _refuse_second(document, part_of(written, [name]), name, f"ctx.{name}", f"`{key}` of the step")
                if patch:
                    then["set_ctx"] = merged(as_map(then["set_ctx"]), patch) if "set_ctx" in then else patch


def _patch(document: OtherDocument, holder: Map, key: str, scope: str) -> Patch:
    """The keys `ctx.x` and `iter.y` of a `set` by scope; a bare key belongs to `scope`."""
    values: Map = holder[key]
    patch = Patch(map_at(values), map_at(values))
    for written, value in values.items():
        first, *path = written.split(".")
        if not path:
            first, path = scope, [written]
        if first not in ("ctx", "iter") or len(path) > 2:
            hint = "write `ctx.NAME` or `iter.NAME`: inputs are fixed, and keys have at most two parts"
            document.refuse(values, written, f"`set` of {written!r} has no counterpart", hint)
            continue
        target = patch.ctx if first == "ctx" else patch.iter
        name, *inner = path
        below = as_map(as_map(target.get(name)).get("$merge")) if inner else map_at(values)
        if name in target and not below:
            _refuse_second(document, values, written, f"{first}.{name}", f"another key of `{key}`")
        if inner:
            value = map_at(values, {"$merge": map_at(values, {**below, inner[0]: value})})
        target[name] = value
        if written in values.spans:
            target.spans[name] = values.spans[written]
    return patch


def _add(document: OtherDocument, then: Map, patch: Patch, source: str) -> None:
    for key, scope, values in (("set_iter", "iter", patch.iter), ("set_ctx", "ctx", patch.ctx)):
        if values:
            then[key] = _merge(document, as_map(then[key]), values, scope, source) if key in then else values


def _merge(document: OtherDocument, own: Map, writes: Map, scope: str, source: str) -> Map:
    """Add the writes of `source`; a key with two values is a leftover, because one of them would be lost."""
    for name in [name for name in own if name in writes and writes[name] != own[name]]:
        _refuse_second(document, part_of(own, [name]), name, f"{scope}.{name}", source)
    return merged(own, writes)


def _refuse_second(document: OtherDocument, values: Map, key: str, name: str, source: str) -> None:
    document.refuse(
        values, key, f"`{name}` is written here and by {source}", f"write `{name}` in one of the two places"
    )


def _tolerant(node: Any) -> Any:
    """A copy whose templates give null for fields that an error lacks."""
    if isinstance(node, Map):
        copy = map_at(node)
        copy.spans.update(node.spans)
        copy.update({key: _tolerant(value) for key, value in node.items()})
        return copy
    if is_template(node) and any(
        read.path[:2] == ("outcome", "result") and not read.guarded for read in reads_of(node)
    ):
        expression = expression_of(node, {})
        return f"{{{{ {expression if _PATH.fullmatch(expression) else f'({expression})'} | default(none) }}}}"
    return node
