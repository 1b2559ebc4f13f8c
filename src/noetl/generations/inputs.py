"""Inputs of tasks under other names and in other places."""

from __future__ import annotations

from noetl.classic.language import STEP
from noetl.classic.nodes import as_map, map_at, merged, rename_key
from noetl.dsl.document import TASK_SPEC
from noetl.dsl.inputs import COMMON, UNDER_SPEC
from noetl.dsl.other_words import DUCKDB_SIGN_IN, OTHER_INPUTS, SIGN_IN
from noetl.dsl.tree import Map, is_template
from noetl.generations.document import OtherDocument
from noetl.generations.statements import is_list_of_statements
from noetl.model.inputs import fields, misfit

ARGS = {"playbook": ("input", "payload", "data", "inputs", "with")}
"""Other names of `args` by kind; every kind has `input`."""
KINDS = {
    "artifact": "store files with `kind: object`, `s3` or `gcs`",
    "ducklake": "use `kind: duckdb`",
    "agent": "call a playbook with `kind: playbook`, or a service with `kind: http`",
    "subscription": "start a run for each message: `noetl hook add --help`",
    "gateway": "answer with the result of the run, or call the gateway with `kind: http`",
    "event_log": "read the log with `noetl runs events RUN`",
}
"""Kinds of other engines, each with what to use instead."""
OF_STEPS = frozenset(["set", "set_ctx", "output", "result", "input"])
"""Keys of a step in other generations, which the other rewrites know."""
VERIFY = ("verify_ssl", "verify", "ssl_verify")


def move_below_tool(document: OtherDocument) -> None:
    """`tool: python` with the inputs beside it becomes a task; keys of a step stay where they are."""
    for step in document.steps:
        if not isinstance(step.get("tool"), str) or document.kinds.get(step["tool"]) is None:
            continue
        task = map_at(step, kind=step["tool"])
        for key in [key for key in step if key not in {*STEP.fields, *STEP.retired, *OF_STEPS}]:
            task.put(key, step.pop(key), *step.spans[key])
        step["tool"] = task


def move_out_of_spec(document: OtherDocument) -> None:
    """Inputs under `spec` are moved beside `kind`."""
    for _, task, kind in document.all_tasks:
        spec = as_map(task.get("spec"))
        names = set(OTHER_INPUTS.get(kind.name, ())) | set(fields(kind.inputs)) if kind is not None else set()
        for key in [key for key in spec if key in names and key not in TASK_SPEC.fields and key not in task]:
            task.put(key, spec.pop(key), *spec.spans[key])
        if not spec and "spec" in task:
            del task["spec"]


def rename_inputs(document: OtherDocument) -> None:
    for _, task, kind in document.all_tasks:
        if kind is None:
            continue
        declared, renames = fields(kind.inputs), OTHER_INPUTS.get(kind.name, {})
        for key in [key for key in task if key in renames and key not in COMMON and key not in declared]:
            name = renames[key]
            if name == "json" and isinstance(task[key], str):
                name = "body"  # text is sent as it is
            fits = misfit(declared[name].type, task[key]) is None
            if name not in task and (fits or (name in kind.sql and is_list_of_statements(task[key]))):
                rename_key(task, key, name)


def rename_input(document: OtherDocument) -> None:
    for _, task, kind in document.all_tasks:
        declared = fields(kind.inputs) if kind is not None else {}
        for key in ARGS.get(kind.name if kind is not None else "", ("input",)):
            if not isinstance(task.get(key), Map) or key in declared:
                continue
            if isinstance(task.get("args"), Map):
                task["args"] = merged(task.pop(key), task["args"])
            else:
                rename_key(task, key, "args")


def move_under_spec(document: OtherDocument) -> None:
    """`timeout` and its like belong under `spec`, `verify_ssl` under `tls`."""
    for _, task, kind in document.all_tasks:
        declared = fields(kind.inputs) if kind is not None else {}
        for key in [key for key in task if key in UNDER_SPEC and key not in declared]:
            if key == "pool" and kind is not None and kind.sql:
                continue  # of connections
            spec = task["spec"] if isinstance(task.get("spec"), Map) else map_at(task)
            if key not in spec:
                spec.put(key, task.pop(key), *task.spans[key])
                task["spec"] = spec
        verify = next((key for key in VERIFY if key in task), None)
        if verify is None or "tls" not in declared or "tls" in task:
            continue
        if isinstance(task[verify], bool) or is_template(task[verify]):
            rename_key(task, verify, "tls")
            task["tls"] = map_at(task, verify=task["tls"])


def drop_inputs(document: OtherDocument) -> None:
    """`task` of a playbook and the options of a connection pool have no counterpart."""
    for _, task, kind in document.all_tasks:
        name = kind.name if kind is not None else ""
        if name == "playbook" and isinstance(task.get("task"), str):
            document.note(task, "task", "`task` was dropped", "a task has a label: `- LABEL: {kind: ...}`")
            del task["task"]
        if kind is not None and kind.sql and "pool" in task:
            document.note(task, "pool", "`pool` was dropped", "connections are reused without an option")
            del task["pool"]


def refuse_kinds(document: OtherDocument) -> None:
    """Kinds, programs, credentials and loops that have no counterpart."""
    for _, task, _ in document.all_tasks:
        kind = task.get("kind")
        if isinstance(kind, str) and kind in KINDS and document.kinds.get(kind) is None:
            document.refuse(task, "kind", f"`kind: {kind}` has no counterpart", KINDS[kind])
        if kind == "python" and isinstance(task.get("script"), Map):
            hint = "put the program into `code`, or run a file with `kind: script`"
            document.refuse(task, "script", "`script` with a place elsewhere has no counterpart", hint)
        for key in [key for key in SIGN_IN if kind == "duckdb" and key in task]:
            document.refuse(task, key, f"`{key}` of duckdb has no counterpart", DUCKDB_SIGN_IN)
    for step in document.steps:
        if "cursor" in as_map(step.get("loop")):
            hint = "claim a row in the first task, and `jump` back to it from a rule of the last"
            document.refuse(step["loop"], "cursor", "`cursor` of a loop has no counterpart", hint)
