"""Names in templates: `output`, `job`, `loop_index`, and the `command_N` of SQL results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from noetl.classic.names import Names, null_matters, path_of, renamed_text, templates_in
from noetl.classic.nodes import as_list, as_map
from noetl.dsl.tree import Map, Seq
from noetl.errors import TemplateSyntax
from noetl.expression import Read, parse
from noetl.generations.document import OtherDocument, OtherTask, rules
from noetl.generations.statements import is_list_of_statements, joined
from noetl.model.kind import Kind
from noetl.sql.statements import Sql, statements

JOB = dict.fromkeys(["job.uuid", "job.execution_id", "job.id"], "execution_id")
_COMMAND = re.compile(r"command_(\d+)")
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_BRACKETED = re.compile(r"\A\{\{ \((\{[^{}()]*(?:\([^{}()]*\)[^{}()]*)*\})\) \}\}\Z")
"""A map as the whole of a template, in brackets that it does not need."""
_NULLABLE = re.compile(r"""output(?:\.|\[['"])(?:error|data|result)\b(?:['"]\])?""")
_HANDLES_NULL = re.compile(r"\s*(?:\|\s*(?:default|d)\b|is\s+(?:not\s+)?(?:un)?defined\b)")
_OUTPUT_HINT = "an outcome has `status`, `result`, `error` and the field of its kind (`http`, `pg`, `py`)"


def in_rule(kind: Kind | None) -> Names:
    """The expression for `output` in a rule of a task."""
    data = f"outcome.result{body_of(kind)}"
    own = kind.outcome if kind is not None else None
    whole = {"status": "outcome.status", "data": f"{data} | default(none)", "error": "outcome.error | default(none)"}
    names = {"output.status": "outcome.status", "output.error": "outcome.error", "output.meta": "outcome.meta"}
    if own is not None:
        names[f"output.{own}"] = f"outcome.{own}"
        whole[own] = f"outcome.{own} | default(none)"
    if own == "http":
        names["output.status_code"] = "outcome.http.status"
    pairs = ", ".join(f"'{key}': {value}" for key, value in whole.items())
    return {**names, "output.data": data, "output.result": data, "output": f"{{{pairs}}}"}


def in_pipeline(last: OtherTask) -> Names:
    """The expressions for `output` and `outcome` of a step in a task that follows its last one."""
    own = path_of("tasks", last.label)
    names = {f"{name}.{field}": f"{own}.{field}" for name in ("output", "outcome") for field in ("status", "error")}
    field = last.kind.outcome if last.kind is not None else None
    if field is not None:
        names |= {f"{name}.{field}": f"{own}.{field}" for name in ("output", "outcome")}
    data = f"_prev{body_of(last.kind)}"
    whole = f"{{'status': {own}.status, 'data': {data} | default(none), 'error': {own}.error | default(none)}}"
    results = {"output.data": data, "output.result": data, "outcome.result": "_prev"}
    return {**names, **results, "output": whole, "outcome": own}


def on_arc(last: OtherTask | None) -> Names:
    body = body_of(last.kind) if last is not None else ""
    status = "event.data.result.status | default(event.data.error.details.status)"
    http = {"output.http.status": status, "output.status_code": status} if body else {}
    return {
        "output.status": "'error' if event.name == 'step.failed' else 'ok'",
        "output.error": "event.data.error",
        "output.data": f"event.data.result{body}",
        "output.result": f"event.data.result{body}",
        **http,
    }


def after_step(step: str, last: OtherTask | None) -> Names:
    own = path_of("steps", step)
    data = f"{own}.result{body_of(last.kind) if last is not None else ''}"
    return {
        "output.status": f"'ok' if {own}.status == 'succeeded' else 'error'",
        "output.error": f"{own}.error",
        "output.data": data,
        "output.result": data,
        "event.data.result": f"{own}.result",
        "event.data.error": f"{own}.error",
    }


def body_of(kind: Kind | None) -> str:
    """The path of `output.data` in a result: a response is its body."""
    return ".data" if kind is not None and kind.result == "data" else ""


def last_task(document: OtherDocument, step: Map) -> OtherTask | None:
    tasks = document.outer_tasks(step)
    return tasks[-1] if tasks else None


def reads_of(text: str) -> tuple[Read, ...]:
    try:
        return tuple(parse(text).reads)
    except TemplateSyntax:
        return ()  # reported by the template checks


def rename(
    document: OtherDocument,
    container: Map | Seq,
    key: Any,
    names: Names,
    hint: str = _OUTPUT_HINT,
    prepare: Callable[[str], str] = str,
) -> None:
    """Replace names in the templates of a value; `output` and `event` that have no counterpart are leftovers.

    `prepare` edits the templates after the check for leftovers, whose places are in the text as it was read.
    """
    if "output" in document.declared:
        names = {name: text for name, text in names.items() if not name.startswith("output")}
        prepare = str
    foreign = {name.partition(".")[0] for name in names} & {"output", "event"}
    for holder, at, text in list(templates_in(container, document.kinds, key)):
        for read in reads_of(text):
            if read.path[0] in foreign and not _prefixes(read) & names.keys():
                message = f"`{'.'.join(map(str, read.path[:2]))}` has no counterpart here"
                document.refuse_in(holder, at, read.offset, message, hint)
        holder[at] = _BRACKETED.sub(r"{{ \1 }}", renamed_text(prepare(text), names))


def _prefixes(read: Read) -> set[str]:
    return {
        ".".join(map(str, read.path[:end]))
        for end in range(1, len(read.path) + 1)
        if end > 1 or len(read.path) == 1 or isinstance(read.path[1], int)
    }


def rename_in_rules(document: OtherDocument) -> None:
    for _, task, kind in document.all_tasks:
        for rule in rules(task):
            for key in rule:
                rename(document, rule, key, in_rule(kind))
        if "set" in task:
            rename(document, task, "set", in_rule(kind))


def rename_in_arcs(document: OtherDocument) -> None:
    for step in document.steps:
        names = on_arc(last_task(document, step))
        for arc in as_list(as_map(step.get("next")).get("arcs")):
            for key in [key for key in ("when", "args") if isinstance(arc, Map) and key in arc]:
                rename(document, arc, key, names, prepare=_null_in_guard if key == "when" else _null_in_value)


def _null_in_guard(template: str) -> str:
    return _with_nulls(template, is_guard=True)


def _null_in_value(template: str) -> str:
    return _with_nulls(template, is_guard=False)


def _with_nulls(template: str, *, is_guard: bool) -> str:
    """The template with null for an error or a result that the step does not have: the event leaves the field out."""
    for read in sorted(reads_of(template), key=lambda read: -read.offset):
        field = _NULLABLE.match(template, read.offset)
        if field is None or len(read.path) != 2:
            continue
        start, end = field.span()
        if null_matters(template, start, end) or not (is_guard or _HANDLES_NULL.match(template, end)):
            alone = template[:start].rstrip().endswith("{{") and template[end:].lstrip().startswith("}}")
            value = f"{field[0]} | default(none)"
            template = template[:start] + (value if alone else f"({value})") + template[end:]
    return template


def refuse_elsewhere(document: OtherDocument) -> None:
    """A task has no outcome while its inputs are rendered."""
    if "output" in document.declared:
        return
    for _, task, _ in document.all_tasks:
        for key in [key for key in rendered_keys(document, task) if key not in ("spec", "set", "tool")]:
            for holder, at, text in templates_in(task, document.kinds, key):
                for read in reads_of(text):
                    if read.path[0] == "output":
                        hint = "read `_prev`, `tasks.LABEL.result` or `steps.NAME.result`"
                        document.refuse_in(holder, at, read.offset, "`output` has no counterpart in an input", hint)


def rendered_keys(document: OtherDocument, task: Map) -> list[str]:
    """The keys of a task whose templates are rendered; program code is not."""
    kind = document.kind_of(task)
    return [key for key in task if kind is None or key not in kind.verbatim]


def rename_everywhere(document: OtherDocument) -> None:
    """`job` and `loop_index`, which read the same in every place."""
    names = {name: text for name, text in JOB.items() if "job" not in document.declared}
    if not document.is_classic and "loop_index" not in document.declared:
        names["loop_index"] = "iter.index"
    for section in [section for section in document.root if section not in ("apiVersion", "kind", "metadata")]:
        for holder, at, text in list(templates_in(document.root, document.kinds, section)):
            for read in reads_of(text):
                path = ".".join(map(str, read.path[:2]))
                if read.path[0] == "job" and "job" not in document.declared and path not in names:
                    hint = "`execution_id` is the id of the run; inputs are in `workload`"
                    document.refuse_in(holder, at, read.offset, f"`{path}` has no counterpart", hint)
            holder[at] = renamed_text(text, names)


def rename_command_results(document: OtherDocument) -> None:
    """`NAME.command_N.rows` is `NAME.rows` where N is the last statement; the others have no rows."""
    counts = _statement_counts(document)
    for section in [section for section in document.root if section not in ("apiVersion", "kind", "metadata")]:
        for holder, at, text in list(templates_in(document.root, document.kinds, section)):
            if not _COMMAND.search(text):
                continue
            names: dict[str, str] = {}
            for read in reads_of(text):
                place = next((i for i, part in enumerate(read.path) if _COMMAND.fullmatch(str(part))), None)
                if not place:
                    continue
                owner = read.path[: place - 1] if read.path[place - 1] == "data" else read.path[:place]
                command = _COMMAND.fullmatch(str(read.path[place]))
                assert command is not None
                number, count = int(command[1]), counts.get(_owner(owner), 0)
                if number + 1 == count:
                    names[".".join(map(str, read.path[: place + 1]))] = ".".join(map(str, owner))
                    continue
                construct = f"`{'.'.join(map(str, read.path[: place + 1]))}`"
                hint = "only the last statement has `rows`: give each statement whose rows are read its own task"
                document.refuse_in(holder, at, read.offset, f"{construct} has no counterpart", hint)
            holder[at] = renamed_text(text, names)


def rename_task_results(document: OtherDocument) -> None:
    """`NAME.results.LABEL` is `NAME` where LABEL is the last task; the results of the others end with the step."""
    for holder, at, text in list(templates_in(document.root, document.kinds, "workflow")):
        names: dict[str, str] = {}
        for read in reads_of(text):
            name, *path = read.path[1:] if read.path[0] == "steps" and len(read.path) > 1 else read.path
            labels = document.labels.get(str(name), [])
            if path[:1] == ["result"]:
                path = path[1:]
            if len(path) < 2 or path[0] != "results" or path[1] not in labels:
                continue
            place = read.path.index("results")
            construct = ".".join(map(str, read.path[: place + 2]))
            if path[1] == labels[-1]:
                names[construct] = ".".join(map(str, read.path[:place]))
                continue
            hint = "the result of a step is that of its last task: keep the other with `set_ctx` in a rule of the task"
            document.refuse_in(holder, at, read.offset, f"`{construct}` has no counterpart", hint)
        holder[at] = renamed_text(text, names)


def _owner(path: tuple[str | int, ...]) -> str:
    parts = path[1:] if path[0] in ("steps", "tasks") and len(path) > 1 else path
    return str(parts[0])


def _statement_counts(document: OtherDocument) -> Mapping[str, int]:
    """How many statements the SQL of a step or a task has, by its name."""
    counts: dict[str, int] = {}
    for step in document.steps:
        for task in document.tasks(step):
            texts = [task.tree[key] for key in (task.kind.sql if task.kind else ()) if key in task.tree]
            text = joined(texts[0]) if texts and is_list_of_statements(texts[0]) else texts[0] if texts else None
            if isinstance(text, str):
                counts[task.label] = len(statements(Sql((_TEMPLATE.sub("x", text),))))
        last = last_task(document, step)
        if last is not None and last.label in counts:
            counts[step["step"]] = counts[last.label]
    return counts
