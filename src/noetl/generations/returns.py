"""`return_step`: the step whose result is that of the playbook, or of the playbook that a task calls."""

from __future__ import annotations

from noetl.classic.nodes import as_map, map_at, rename_key
from noetl.dsl.other_words import result_of
from noetl.dsl.problem import did_you_mean, hint_names
from noetl.dsl.tree import Map
from noetl.generations.document import OtherDocument

KEY = "return_step"


def rewrite_return_step(document: OtherDocument) -> None:
    """Rewrite `return_step` of the executor as `executor.spec.output`; drop it where that step is the last one."""
    executor = as_map(document.root.get("executor"))
    spec = as_map(executor.get("spec"))
    holders = [holder for holder in (document.root, executor, spec) if KEY in holder]
    for holder in holders[1:]:
        document.refuse(holder, KEY, "duplicate `return_step`", "remove one of them")
    for holder in holders[:1]:
        name, steps = holder[KEY], document.step_names
        if not isinstance(name, str) or name not in steps:
            hint = did_you_mean(name, steps) or f"steps: {hint_names(frozenset(steps))}"
            document.refuse(holder, KEY, f"`return_step`: unknown step {name!r}", hint)
        elif "output" in spec:
            document.refuse(holder, KEY, "`return_step` beside `executor.spec.output`", "remove one of them")
        elif name == _last_step(document, spec):
            document.note(
                holder, KEY, "`return_step` was dropped: the result is that of the last step", f"it is {name!r}"
            )
            del holder[KEY]
            _drop_empty(document.root)
        else:
            _write_output(document.root, holder, result_of(name, missing="none"))


def drop_return_step_of_calls(document: OtherDocument) -> None:
    """Drop `return_step` of tasks that call a playbook: the result is chosen in the playbook that is called."""
    for step in document.steps:
        calls = [task for task in document.tasks(step) if task.kind is not None and task.kind.name == "playbook"]
        if len(calls) == 1:
            _drop(document, step, calls[0].tree)
    for _, task, kind in document.all_tasks:
        if kind is not None and kind.name == "playbook":
            _drop(document, as_map(task.get("spec")), task)
            _drop(document, task, task)


def _drop(document: OtherDocument, holder: Map, task: Map) -> None:
    if KEY in holder:
        name = holder[KEY]
        output = f'`executor: {{spec: {{output: "{result_of(name)}"}}}}`'
        hint = f"if {name!r} is not the last step of {task.get('path')!r}, write {output} there"
        document.note(holder, KEY, "`return_step` was dropped: the result is that of the last step", hint)
        del holder[KEY]
        if not holder and holder is task.get("spec"):
            del task["spec"]


def _last_step(document: OtherDocument, spec: Map) -> str | None:
    """The step whose result is that of the run, where there is only one."""
    if "final_step" in spec:
        return spec["final_step"] if isinstance(spec["final_step"], str) else None
    ends = [step["step"] for step in document.steps if not step.get("next") and not step.get("case")]
    return ends[0] if len(ends) == 1 else None


def _write_output(root: Map, holder: Map, output: str) -> None:
    executor = root.get("executor")
    if not isinstance(executor, Map):
        executor = map_at(root)
    spec = executor["spec"] if isinstance(executor.get("spec"), Map) else map_at(executor)
    if holder is spec:
        rename_key(spec, KEY, "output")
        spec["output"] = output
    else:
        spec.put("output", output, *holder.spans[KEY])
        del holder[KEY]
    executor["spec"], root["executor"] = spec, executor


def _drop_empty(root: Map) -> None:
    executor = as_map(root.get("executor"))
    if not executor.get("spec", True):
        del executor["spec"]
    if not root.get("executor", True):
        del root["executor"]
