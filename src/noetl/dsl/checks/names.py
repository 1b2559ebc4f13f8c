"""Names: unique where they must be, known where they are used, and free to use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.dsl import outline
from noetl.dsl.canonical import workbook_tasks
from noetl.dsl.graph import Graph, arrows
from noetl.dsl.problem import Check, Problems, few
from noetl.dsl.shape import is_map, is_template
from noetl.dsl.tree import Span, key_span, span_in, span_of

CLASSIC_REFUSED = Check(
    "NTL114",
    "error",
    "the playbook is of the classic dialect",
    "`--strict` refuses it. `noetl migrate` rewrites what has a canonical spelling.",
)
PATH_MISSING = Check(
    "NTL115",
    "warning",
    "`metadata.path` is missing",
    "The catalog files a playbook by its path; the name is used instead.",
)
NO_EFFECT = Check(
    "NTL118",
    "warning",
    "a key is accepted without effect",
    "It belongs to an older runtime and changes nothing here.",
)
DUPLICATE_STEP = Check("NTL201", "error", "two steps have one name", "Arcs and templates refer to steps by name.")
DUPLICATE_LABEL = Check(
    "NTL206",
    "error",
    "two tasks of a pipeline have one label",
    "Jumps, events and templates refer to tasks by label.",
)
RESERVED = Check(
    "NTL207",
    "error",
    "the name is reserved",
    "`iter.index` and `iter.parent` are given by the engine, and namespaces such as `ctx` can't be hidden.",
)
DEAD_STEP = Check(
    "NTL208",
    "warning",
    "a step has neither tool nor next",
    "A token that comes here does nothing and its branch ends. Remove the step, or give it a task or an arc.",
)
ITERATOR_HIDES = Check(
    "NTL210",
    "error",
    "an iterator is named like a ctx key or an arc's arg",
    "Bare names resolve in the order args, ctx, iter: the current item could not be read by its name.",
)
UNKNOWN_WORKBOOK = Check("NTL211", "error", "the workbook has no such task", "`kind: workbook` calls a named task.")
WORKBOOK_CYCLE = Check(
    "NTL212",
    "error",
    "workbook tasks call each other in a circle",
    "A call that leads back to itself never ends.",
)
UNKNOWN_CREDENTIAL = Check(
    "NTL213",
    "error",
    "`auth` names no keychain entry",
    "Credentials a playbook uses are declared in the root `keychain`, so that they can be checked before it runs.",
)
DUPLICATE_CREDENTIAL = Check("NTL214", "error", "two keychain entries have one name", "`auth` refers to them by name.")
UNKNOWN_ENTRY = Check(
    "NTL216", "error", "`entry_step` or `final_step` is no step", "They name the steps that run first and last."
)
UNKNOWN_TARGET = Check(
    "NTL401", "error", "an arc leads to a step that does not exist", "The token would have nowhere to go."
)

NAMESPACES = frozenset(["workload", "ctx", "iter", "args", "args_by", "steps", "tasks", "keychain", "outcome", "event"])
ITERATOR_RESERVED = NAMESPACES | {"index", "parent", "execution_id", "vars"}


def check(root: Any, problems: Problems, classic: bool) -> None:
    """All checks of names, on a tree whose shapes are sound."""
    _check_steps(root, problems)
    _check_targets(root, problems)
    _check_labels(root, problems)
    _check_iterators(root, problems)
    _check_patches(root, problems)
    _check_workbook(root, problems)
    _check_keychain(root, problems, classic)
    _check_idle_keys(root, problems)


def _check_steps(root: Any, problems: Problems) -> None:
    metadata = root.get("metadata", {})
    if "name" in metadata and "path" not in metadata:
        problems.add(PATH_MISSING, span_of(metadata), "metadata has no 'path'", f"add `path: {metadata['name']}`")
    _unique(
        ((step["step"], span_in(step, "step")) for step in outline.steps(root)),
        DUPLICATE_STEP,
        "step",
        problems,
    )
    for step in outline.steps(root):
        if step["step"] in NAMESPACES:
            message = f"a step can't be called {step['step']!r}"
            problems.add(RESERVED, span_in(step, "step"), message, "choose another name")
        if not {"tool", "next", "case"} & (set(step) | step.lost):
            problems.add(
                DEAD_STEP,
                span_in(step, "step"),
                f"step {step['step']!r} has neither 'tool' nor 'next'",
                "add one, or remove it and the arcs to it",
            )


def _unique(named: Iterable[tuple[str, Span]], check: Check, what: str, problems: Problems) -> None:
    first: dict[str, Span] = {}
    for name, span in named:
        if name in first:
            line = problems.text.mark(first[name].start).line
            problems.add(check, span, f"{what} {name!r} was already defined at line {line}", "choose another name")
        first.setdefault(name, span)


def _check_targets(root: Any, problems: Problems) -> None:
    known = frozenset(step["step"] for step in outline.steps(root))
    for step in outline.steps(root):
        for target in outline.targets(step):
            if target.name not in known:
                where = span_in(target.container, target.key)
                problems.add(
                    UNKNOWN_TARGET,
                    where,
                    f"no step is called {target.name!r}",
                    _known(target.name, known, "steps", problems),
                )
    spec = root.get("executor", {}).get("spec", {})
    for key in ("entry_step", "final_step"):
        if key in spec and spec[key] not in known:
            message = f"{key}: no step is called {spec[key]!r}"
            problems.add(UNKNOWN_ENTRY, span_in(spec, key), message, _known(spec[key], known, "steps", problems))


def _known(name: str, known: frozenset[str], what: str, problems: Problems) -> str:
    return problems.did_you_mean(name, known) or f"{what}: {few(known)}"


def _check_labels(root: Any, problems: Problems) -> None:
    pipelines = [(step, step["tool"]) for step in outline.steps(root) if "tool" in step]
    for step in outline.steps(root):
        for site in outline.tasks(step):
            if site.tree.get("kind") == "iterator" and "tool" in site.tree:
                pipelines.append((step, site.tree["tool"]))
    for _, tool in pipelines:
        items = list(outline.labelled_items(tool))
        spans = ((label, outline.label_span(label, item, key)) for label, _, item, key in items)
        _unique(spans, DUPLICATE_LABEL, "task", problems)
    for step in outline.steps(root):
        for branch in step.get("case", []):
            named = [(name, key_span(item, name)) for name, _, item in outline.chain_items(branch) if name != "set"]
            _unique([pair for pair in named if pair[0] != "next"], DUPLICATE_LABEL, "task", problems)


def _check_iterators(root: Any, problems: Problems) -> None:
    taken = _ctx_keys(root) | _arc_args(root)
    for step in outline.steps(root):
        loops = [step["loop"]] if "loop" in step else []
        loops += [site.tree for site in outline.tasks(step) if site.tree.get("kind") == "iterator"]
        for loop in loops:
            key = "iterator" if "iterator" in loop else "element"
            name = loop.get(key)
            if name in ITERATOR_RESERVED:
                problems.add(
                    RESERVED,
                    span_in(loop, key),
                    f"an iterator can't be called {name!r}",
                    "choose another name",
                )
            elif name in taken:
                message = f"the iterator {name!r} is named like a ctx key or an arc's arg, which would hide it"
                problems.add(ITERATOR_HIDES, span_in(loop, key), message, "choose another name for one of them")


def _check_patches(root: Any, problems: Problems) -> None:
    for step in outline.steps(root):
        for site in outline.tasks(step):
            for _, then, _ in outline.rules(site.tree):
                for key in ("index", "parent"):
                    if key in then.get("set_iter", {}):
                        message = f"`set_iter` can't write {key!r}: the engine gives it"
                        problems.add(RESERVED, key_span(then["set_iter"], key), message, "choose another name")


def _ctx_keys(root: Any) -> set[str]:
    found: set[str] = set()
    for step in outline.steps(root):
        for site in outline.tasks(step):
            for _, then, _ in outline.rules(site.tree):
                found |= set(then.get("set_ctx", {}))
    return found


def _arc_args(root: Any) -> set[str]:
    found: set[str] = set()
    for step in outline.steps(root):
        for target in outline.targets(step):
            if isinstance(target.container, dict):
                args = target.container.get("args")
                found |= set(args) if isinstance(args, dict) and target.key == "step" else set()
    return found


def _check_workbook(root: Any, problems: Problems) -> None:
    known = {name: task for name, task in workbook_tasks(root.get("workbook")).items() if isinstance(task, dict)}
    names = frozenset(known)
    sites = [site for step in outline.steps(root) for site in outline.tasks(step)]
    for site in [*sites, *(site for _, site in outline.workbook(root))]:
        name = site.tree.get("name")
        if site.tree.get("kind") == "workbook" and isinstance(name, str) and name not in known:
            where = span_in(site.tree, "name")
            problems.add(
                UNKNOWN_WORKBOOK, where, f"the workbook has no task {name!r}", _known(name, names, "tasks", problems)
            )
    calls: dict[str, list[str]] = {name: [] for name in known}
    for name, site in outline.workbook(root):
        if site.tree.get("kind") == "workbook" and isinstance(site.tree.get("name"), str):
            calls[name].append(site.tree["name"])
    _check_circles(Graph(calls), known, problems)


def _check_circles(calls: Graph, known: dict[str, Any], problems: Problems) -> None:
    for group in calls.circles():
        name = min(group, key=calls.bit.__getitem__)  # the first of them in the text
        following = next((to for to in calls.after[name] if to in group), None)
        if following is not None:
            path = [name, *calls.path(following, name, calls.union(group))]
            message = f"workbook tasks call each other in a circle: {arrows(path)}"
            problems.add(WORKBOOK_CYCLE, span_of(known[name]), message, "break the circle")


def _check_keychain(root: Any, problems: Problems, classic: bool) -> None:
    entries = [entry for entry in root.get("keychain", []) if "name" in entry]
    _unique(
        ((entry["name"], span_in(entry, "name")) for entry in entries),
        DUPLICATE_CREDENTIAL,
        "credential",
        problems,
    )
    if classic:
        return  # there an undeclared name is looked up in the credential store
    known = {entry["name"] for entry in entries}
    sites = [site for step in outline.steps(root) for site in outline.tasks(step)]
    holders = [site.tree for site in [*sites, *(site for _, site in outline.workbook(root))]]
    holders += [task.get(end, {}) for task in holders if task["kind"] == "transfer" for end in ("source", "target")]
    layers = [root.get("executor", {}).get("spec", {})]
    for step in outline.steps(root):
        layers += [step.get("spec", {}), step.get("loop", {}).get("spec", {})]
    holders += [value for layer in layers for value in layer.values() if isinstance(value, dict)]
    for holder in filter(is_map, holders):
        name = holder.get("auth")
        if isinstance(name, str) and not is_template(name) and name not in known:
            hint = problems.did_you_mean(name, known) or f"add `keychain: [{{name: {name[:40]}, kind: ...}}]`"
            problems.add(UNKNOWN_CREDENTIAL, span_in(holder, "auth"), f"the keychain has no entry {name[:60]!r}", hint)


def _check_idle_keys(root: Any, problems: Problems) -> None:
    for step in outline.steps(root):
        for site in outline.tasks(step):
            spec = site.tree.get("spec", {})
            if "async" in spec:
                problems.add(
                    NO_EFFECT, key_span(spec, "async"), "'async' has no effect: calls never block a worker", "remove it"
                )
        for branch in step.get("case", []):
            spec = branch.get("spec", {})
            if "cache" in spec:
                problems.add(
                    NO_EFFECT, key_span(spec, "cache"), "'cache' has no effect: a guard is evaluated once", "remove it"
                )
    results = root.get("executor", {}).get("spec", {}).get("policy", {}).get("results", {})
    if results.get("reference_first") is False:
        message = "'reference_first: false' has no effect: large results always become references"
        problems.add(NO_EFFECT, key_span(results, "reference_first"), message, "remove it")
