"""Names: unique where they must be, known where they are used, and free to use."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.dsl.document_parts import ITERATOR_KEYS, Document, callee, labelled_items, rules, workbook_tasks
from noetl.dsl.graph import DirectedGraph, arrows, way_back
from noetl.dsl.problem import Check, Problems, hint_names
from noetl.dsl.tree import Span, key_span, span_in, span_of

CLASSIC_REFUSED = Check("NTL114", "error", "the playbook uses the classic dialect", stored_ok=False)
PATH_MISSING = Check("NTL115", "warning", "`metadata.path` is missing")
DUPLICATE_STEP = Check("NTL201", "error", "two steps have the same name", stored_ok=False)
DUPLICATE_LABEL = Check("NTL206", "error", "two tasks of a pipeline have the same label", stored_ok=False)
RESERVED = Check("NTL207", "error", "the name is reserved", stored_ok=False)
DEAD_STEP = Check("NTL208", "warning", "a step has neither tool nor next")
ITERATOR_HIDES = Check("NTL210", "error", "an iterator is named like a ctx key or an arc's arg", stored_ok=False)
UNKNOWN_WORKBOOK = Check("NTL211", "error", "the workbook has no such task", stored_ok=False)
WORKBOOK_CYCLE = Check("NTL212", "error", "workbook tasks call each other in a cycle", stored_ok=False)
UNKNOWN_ENTRY = Check("NTL216", "error", "`entry_step` or `final_step` names an unknown step", stored_ok=False)
UNKNOWN_TARGET = Check("NTL401", "error", "an arc leads to a step that does not exist", stored_ok=False)

NAMESPACES = frozenset(["workload", "ctx", "iter", "args", "args_by", "steps", "tasks", "keychain", "outcome", "event"])
ITERATOR_RESERVED = NAMESPACES | {"index", "parent", "execution_id", "vars"}


def check(document: Document, problems: Problems) -> None:
    metadata = document.root.get("metadata", {})
    if "name" in metadata and "path" not in metadata:
        problems.add(PATH_MISSING, span_of(metadata), "metadata has no 'path'", f"add `path: {metadata['name']}`")
    _check_steps(document, problems)
    _check_targets(document, problems)
    _check_iterators(document, problems)
    _check_workbook(document, problems)


def check_unique(named: Iterable[tuple[str, Span]], check: Check, kind: str, problems: Problems) -> None:
    first: dict[str, Span] = {}
    for name, span in named:
        if name in first:
            line = problems.text.mark(first[name].start).line
            problems.add(check, span, f"{kind} {name!r} is already defined at line {line}", "choose another name")
        first.setdefault(name, span)


def _check_steps(document: Document, problems: Problems) -> None:
    check_unique(((step["step"], span_in(step, "step")) for step in document.steps), DUPLICATE_STEP, "step", problems)
    for step in document.steps:
        name, span = step["step"], span_in(step, "step")
        if name in NAMESPACES:
            problems.add(RESERVED, span, f"{name!r} is reserved and cannot name a step", "choose another name")
        if document.step_actions.isdisjoint(step) and document.step_actions.isdisjoint(step.lost):
            message = f"step {name!r} has neither 'tool' nor 'next'"
            problems.add(DEAD_STEP, span, message, "add one, or remove it and the arcs to it")
        for tool in document.pipelines(step):
            labels = ((item.label, item.span) for item in labelled_items(tool))
            check_unique(labels, DUPLICATE_LABEL, "task", problems)


def _check_targets(document: Document, problems: Problems) -> None:
    names = document.step_names
    for step in document.steps:
        for target in document.targets(step):
            if target.name not in names:
                hint = problems.did_you_mean(target.name, names) or f"steps: {hint_names(names)}"
                where = span_in(target.container, target.key)
                problems.add(UNKNOWN_TARGET, where, f"unknown step {target.name!r}", hint)
    spec = document.executor_spec
    for key in ("entry_step", "final_step"):
        if key in spec and spec[key] not in names:
            hint = problems.did_you_mean(spec[key], names) or f"steps: {hint_names(names)}"
            problems.add(UNKNOWN_ENTRY, span_in(spec, key), f"{key}: unknown step {spec[key]!r}", hint)


def _check_iterators(document: Document, problems: Problems) -> None:
    provided: set[str] = set()
    for site in document.all_tasks:
        for _, then, _ in rules(site.tree):
            provided.update(then.get("set_ctx", ()))
            for key in ("index", "parent"):
                if key in then.get("set_iter", {}):
                    message = f"`set_iter` cannot write {key!r}: the engine sets it"
                    problems.add(RESERVED, key_span(then["set_iter"], key), message, "choose another name")
    for step in document.steps:
        provided.update(name for target in document.targets(step) for name in target.args)
    for step in document.steps:
        for loop in document.loops(step):
            key = next((key for key in ITERATOR_KEYS if key in loop), "iterator")
            name, span = loop.get(key), span_in(loop, key)
            if name in ITERATOR_RESERVED:
                problems.add(RESERVED, span, f"{name!r} is reserved and cannot name an iterator", "choose another name")
            elif name in provided:
                message = f"the iterator {name!r} is named like a ctx key or an arc's arg, which would hide it"
                problems.add(ITERATOR_HIDES, span, message, "choose another name for one of them")


def _check_workbook(document: Document, problems: Problems) -> None:
    workbook = workbook_tasks(document.root.get("workbook"))
    tasks = {name: task for name, task in workbook.items() if isinstance(task, dict)}
    names = frozenset(tasks)
    calls: dict[str, list[str]] = {name: [] for name in tasks}
    for caller, site in [*(("", site) for site in document.all_tasks), *document.workbook]:
        name = callee(site.tree)
        if name is not None and name not in tasks:
            hint = problems.did_you_mean(name, names) or f"tasks: {hint_names(names)}"
            problems.add(UNKNOWN_WORKBOOK, span_in(site.tree, "name"), f"the workbook has no task {name!r}", hint)
        elif name is not None and caller:
            calls[caller].append(name)
    graph = DirectedGraph(calls)
    for group in graph.cycles():
        name = min(group, key=graph.bit.__getitem__)  # the first of them in the text
        following = next((to for to in graph.after[name] if to in group), None)
        if following is not None:
            path = [name, *way_back(graph.ways(following, graph.union(group)), following, name)]
            message = f"workbook tasks call each other in a cycle: {arrows(path)}"
            problems.add(WORKBOOK_CYCLE, span_of(tasks[name]), message, "remove one of these calls")
