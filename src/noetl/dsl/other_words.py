"""Words of other engines and other names of keys and inputs, each with the way to write it in a playbook.

A word is looked up only where the language has no such key, so that no table can hide one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from noetl.dsl.problem import FileHint
from noetl.model.kind import Kind


class Word(NamedTuple):
    hint: str | Callable[[Any, str], str]
    """The advice, or a function that makes it of the map and the key."""
    stands_for: tuple[str, ...] = ()
    """Keys that are not reported as missing beside this word."""

    def advice(self, node: Any, key: str, classic: bool = False) -> str:
        advice = self.hint if isinstance(self.hint, str) else self.hint(node, key)
        return _ARC.sub(r"next: \1", advice) if classic else advice


_ARC = re.compile(r"next: \{arcs: \[\{step: ([\w.-]+)\}\]\}")  # in the classic dialect `next: NAME`
Words = Mapping[str, Word]
_PLAIN = re.compile(r"[\w.:/+-][\w .:/+-]{0,40}")


def written(value: Any, otherwise: str = "...") -> str:
    """A short scalar as YAML, for a line that can be pasted; anything else is `otherwise`."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) and _PLAIN.fullmatch(str(value)) else otherwise


def _words(*rows: tuple[str, str | Callable[[Any, str], str]], stands_for: tuple[str, ...] = ()) -> dict[str, Word]:
    return {word: Word(hint, stands_for) for words, hint in rows for word in words.split()}


_RETRY_PARTS = {
    "attempts": ("attempts", "max_attempts", "maxAttempts", "maxAttempt", "limit", "retries", "max"),
    "delay": ("delay", "initial_delay", "interval", "delay_seconds"),
    "backoff": ("backoff", "type"),
    "max_delay": ("max_delay", "max_delay_seconds", "maxInterval"),
}
"""Parts of `spec.retry`, each with its own name and those that others use."""


def retry_advice(node: Any, key: str) -> str:
    value = node[key]
    if isinstance(value, int) and not isinstance(value, bool):
        return f"write `spec: {{retry: {value}}}`"
    parts = []
    for part, names in _RETRY_PARTS.items() if isinstance(value, Mapping) else ():
        text = next((written(value[name], "") for name in names if name in value), "")
        if text and (part != "backoff" or text in ("none", "linear", "exponential")):
            parts.append(f"{part}: {text}")
    return f"write `spec: {{retry: {{{', '.join(parts) or 'attempts: 3, delay: 1s'}}}}}`"


def arc_advice(value: Any) -> str:
    return f"write `{{step: {written(value, 'NAME')}}}`"


def collection_advice(value: Any) -> str | None:
    if isinstance(value, str):
        return f'write "{{{{ {value[:60]} }}}}"'
    return 'write a list, or "{{ workload.NAME | items }}" for the pairs of a map' if isinstance(value, dict) else None


_UPSERT = "write `mode: upsert`, and `key: [id]` with the columns that identify a row"
LOAD_MODES = {
    **dict.fromkeys(["merge", "update"], _UPSERT),
    **dict.fromkeys(["insert", "add"], "write `mode: append`"),
    **dict.fromkeys(["overwrite", "truncate", "truncate_insert", "full_refresh"], "write `mode: replace`"),
}
"""Modes of other engines for rows of a table."""


def then_advice(value: Any) -> str | None:
    """For a `then` that is not a map: a directive alone, or a list of steps, which rules of a task do not have."""
    if value in ("continue", "retry", "jump", "break", "fail", "skip"):
        return f"write `then: {{do: {value}}}`"
    target = value[0] if isinstance(value, list) and value else value
    name = target.get("step", target.get("next")) if isinstance(target, dict) else target
    return f'route on an arc of the step: `next: {{arcs: [{{step: {written(name, "NAME")}, when: "{{{{ ... }}}}"}}]}}`'


def spec_advice(node: Any, key: str, choices: Sequence[str] = ()) -> str:
    """`choices` are the values that the key takes there, if they are few."""
    value = node[key]
    if choices and value not in choices:
        choice = CHOICES.get(value, "") if isinstance(value, str) else ""
        if choice not in choices:
            return f"move it under `spec`, with one of its values: {', '.join(choices)}"
        value = choice
    return f"move it under `spec`: `spec: {{{key}: {written(value)}}}`"


def defaults_advice(node: Any, kind: str) -> str:
    """For the name of a kind under `spec` of a task: inputs are beside `kind`, and defaults in the executor."""
    values = node[kind] if isinstance(node[kind], Mapping) else {}
    defaults = ", ".join(f"{name}: {written(value)}" for name, value in values.items()) or "..."
    return f"write inputs beside `kind`, or for all {kind} tasks `executor: {{spec: {{{kind}: {{{defaults}}}}}}}`"


def _before(node: Any, key: str) -> str:
    names = [node[key]] if isinstance(node[key], str) else node[key] if isinstance(node[key], list) else []
    steps = " and ".join(f"step {name!r}" for name in names[:3] if isinstance(name, str)) or "the step before it"
    arc = f"`next: {{arcs: [{{step: {written(node.get('step', node.get('id')), 'NAME')}}}]}}`"
    return f"put {arc} into {steps}" + "; `spec: {join: all}` here waits for all of them" * (len(names) > 1)


def _following(node: Any, key: str) -> str:
    return f"write `next: {{arcs: [{{step: {written(node[key], 'NAME')}}}]}}`"


def _loop(node: Any, key: str) -> str:
    items = node[key] if isinstance(node[key], str) and "{{" in node[key] else "{{ workload.items }}"
    return f'write `loop: {{in: "{items[:60]}", iterator: item}}` and read `iter.item`'


def _step_name(node: Any, key: str) -> str:
    return f"name the step with `step: {written(node[key], 'NAME')}`"


def _label(node: Any, key: str) -> str:
    return f"label the task in the list: `- {written(node[key], 'LABEL')}: {{kind: ...}}`"


def _executor_spec(node: Any, key: str) -> str:
    return f"write `executor: {{spec: {{{'retry' if key == 'retries' else key}: {written(node[key])}}}}}`"


def result_of(step: Any, missing: str = "") -> str:
    """The template of a step's result; `missing` is its value where the step did not run."""
    name = written(step, "NAME")
    path = f"steps.{name}" if name.isidentifier() else f"steps['{name}']"
    return f"{{{{ {path}.result{f' | default({missing})' if missing else ''} }}}}"


def _return_step(node: Any, key: str) -> str:
    return f'write `executor: {{spec: {{output: "{result_of(node[key])}"}}}}`'


_ARGS = 'give the task `args: {name: "{{ workload.name }}"}`'
_RESULT = "results need no declaration: read `steps.NAME.result`, or `_prev` in the next task; keep more with `set_ctx`"
_ON_ERROR = (
    "write a rule in the task: `spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", "
    "then: {do: continue}}, {else: {then: {do: continue}}}]}}`, or an arc with "
    "`when: \"{{ event.name == 'step.failed' }}\"`"
)
_ENV = "declare inputs in `workload` and secrets in `keychain`, and pass them with `args`; shell tasks have `env`"
_AUTH = "declare it in the root `keychain`, and name the entry with `auth` of the task"
_NAME_TOOL = "name the tool with `tool: {kind: ...}`; `noetl tools` lists the kinds"
_SKIP = 'skip it with a rule: `{when: "{{ ... }}", then: {do: skip}}` in `spec.policy.rules`'
_ON_ARC = 'put it on the arc that leads here: `next: {arcs: [{step: NAME, when: "{{ ... }}"}]}`'
_STEP = {
    **_words(("id name task_id key job label", _step_name), stands_for=("step",)),
    **_words(
        ("type uses kind operator action plugin", _NAME_TOOL),
        ("tasks steps", "write the tasks as the list `tool: [{LABEL: {kind: ...}}]`"),
        ("depends_on dependsOn needs upstream dependencies after requires", _before),
        ("then on_success onSuccess goto downstream transitions", _following),
        ("if condition runIf", _ON_ARC),
        ("retry retries max_retries maxRetries", retry_advice),
        ("on_error onError on_failure onFailure errors allow_failure continue_on_error allowFailure", _ON_ERROR),
        ("args inputs input with params parameters variables payload arguments", _ARGS),
        ("outputs output register set save returns return_step result", _RESULT),
        ("env environment", _ENV),
        ("rules", "write them in the task: `spec: {policy: {rules: [...]}}`"),
        ("set_ctx set_iter", "write it in `then` of a rule of the task: `spec: {policy: {rules: [...]}}`"),
        ("run script bash bash_command cmd cmds command commands", "write `tool: {kind: shell, command: ...}`"),
        ("code python python_callable", "write `tool: {kind: python, code: ...}`"),
        ("sql query statement", "write `tool: {kind: postgres, query: ...}`"),
        ("url uri endpoint", "write `tool: {kind: http, url: ...}`"),
        ("foreach for_each forEach with_items items matrix strategy", _loop),
        ("description doc title", "write `desc`"),
        ("auth credential credentials secrets", _AUTH),
    ),
}
_HEAD = "a playbook starts with `apiVersion: noetl.io/v2`, `kind: Playbook` and `metadata: {name: ...}`; its steps are "
_WORKFLOW = "`workflow: [{step: NAME, tool: {kind: ...}, next: {arcs: [{step: OTHER}]}}]`"
_ROOT = {
    **_words(
        ("jobs tasks dag flow stages", _HEAD + _WORKFLOW), stands_for=("workflow", "apiVersion", "kind", "metadata")
    ),
    **_words(("steps pipeline", f"write {_WORKFLOW}"), stands_for=("workflow",)),
    **_words(
        ("id name namespace dag_id", lambda n, k: f"write `metadata: {{name: {written(n[k], 'NAME')}}}`"),
        stands_for=("metadata",),
    ),
    **_words(
        ("description doc labels tags owner version", "put it into `metadata`"),
        ("inputs input params parameters variables payload args", "declare inputs with their defaults in `workload`"),
        ("outputs output result returns", "write `executor: {spec: {output: ...}}`"),
        ("return_step", _return_step),
        ("env environment", _ENV),
        ("secrets credentials auth connections", "write `keychain: [{name: ..., kind: ...}]`"),
        ("schedule schedule_interval cron triggers on", 'run `noetl schedule add NAME PATH --cron "0 6 * * *"`'),
        ("default_args defaults pluginDefaults", "write defaults by kind: `executor: {spec: {http: {timeout: 30s}}}`"),
        ("retries retry timeout pool entry_step final_step", _executor_spec),
        ("errors on_error on_failure finally", "name the last step with `executor: {spec: {final_step: NAME}}`"),
        ("spec", "write `executor: {spec: {...}}`"),
    ),
}  # fmt: skip
_SPEC = _words(
    ("retries max_retries maxRetries max_attempts", lambda n, k: f"write `retry: {written(n[k], '3')}`"),
    ("timeout_seconds timeoutSeconds execution_timeout", lambda n, k: f"write `timeout: {written(n[k], '30s')}`"),
    ("env environment", _ENV),
)
_IN_LOOP = (
    "write it in the loop of the step: `loop: {in: ..., iterator: item, spec: {mode: parallel, max_in_flight: 10}}`"
)
_PARALLEL = "concurrency parallel parallelism max_parallel max_concurrency"
OF_PART: Mapping[str, Words] = {
    "executor": _words(("return_step", _return_step)),
    "executor.spec": _SPEC | _words((_PARALLEL, _IN_LOOP), ("return_step", _return_step)),
    "step.spec": _SPEC
    | _words(
        (_PARALLEL, _IN_LOOP),
        ("when if condition", _ON_ARC),
        ("on_error onError on_failure allow_failure continue_on_error", _ON_ERROR),
    ),
    "loop.spec": _words((_PARALLEL, "write `mode: parallel` and `max_in_flight: 10`"))
    | _words(("timeout timeout_seconds", "write it in the task: `spec: {timeout: 30s}`, for one item")),
    "task.spec": _SPEC
    | _words(
        ("when if condition", _SKIP),
        ("on_error onError on_failure allow_failure continue_on_error", _ON_ERROR),
    ),
    "a rule": _words(
        ("if condition", "write `when`"),
        ("attempts delay backoff set_ctx set_iter to", "put it into `then`"),
    ),
    "a step": _STEP,
    "a playbook": _ROOT,
    "an arc": _words(
        ("to target next then", lambda n, k: f"write `step: {written(n[k], 'NAME')}`"),
        ("if condition", "write `when`"),
        ("set set_ctx", "write `set_ctx` in a rule of a task, or pass the value with `args`"),
        stands_for=("step",),
    ),
    "retry": _words(
        ("attempts limit retries", "write `max_attempts`"),
        ("max_attempts maxAttempts", "write `attempts`"),
        ("delay interval delay_seconds", "write `initial_delay`"),
        ("initial_delay", "write `delay`"),
        ("max_delay", "write `backoff: {max_delay_seconds: ...}`"),
        ("max_delay_seconds maxInterval", "write `max_delay`"),
        ("retry_when stop_when when", "write a rule with `do: retry` in `spec.policy.rules` of the task"),
    ),
    "then": _words(
        ("max_attempts maxAttempts retries max_retries", "write `attempts`"),
        ("retry", "write `do: retry` and `attempts: 3`"),
        ("delay_seconds initial_delay", "write `delay`"),
        ("set set_vars vars", "write `set_ctx: {NAME: ...}`, or `set_iter` for values of one item"),
        ("step next goto", "route on an arc of the step: `next: {arcs: [{step: NAME, when: ...}]}`"),
    ),
    "a loop": {
        **_words(("items over values foreach", "write `in`"), stands_for=("in",)),
        **_words(("item as var variable name", "write `iterator`"), stands_for=("iterator",)),
        **_words(
            ("concurrency parallel parallelism max_parallel", "write `spec: {mode: parallel, max_in_flight: 10}`")
        ),
    },
}
"""Other words by the part of the language that they stand in; `of_task` has those of tasks."""
_OF_TASK = _words(
    ("id task_id label", _label),
    ("type uses operator plugin tool", "name the tool with `kind`"),
    ("depends_on dependsOn needs after", "tasks run in the order of the list `tool`"),
    ("when if condition runIf", _SKIP),
    ("retry retries max_retries maxRetries", retry_advice),
    ("next then on_success", "`next` is a key of the step, beside `tool`"),
    ("loop foreach for_each with_items", "`loop` is a key of the step; inside a pipeline use `kind: iterator`"),
    ("on_error onError on_failure allow_failure continue_on_error errors", _ON_ERROR),
    ("rules", "write `spec: {policy: {rules: [...]}}`"),
    ("input inputs with params parameters vars variables arguments payload data", _ARGS),
    ("output outputs register set save result return_step returns", _RESULT),
    ("env environment", _ENV),
    ("credential credentials connection conn_id", _AUTH),
    ("description desc doc", "describe the step with `desc`"),
)
_SQL = {"statement": "query", "sql": "query", "commands": "command"}
_REMOTE_SQL = {**_SQL, "credential": "auth"}
OTHER_INPUTS: Mapping[str, Mapping[str, str]] = {
    "http": {"payload": "json", "data": "json", "endpoint": "url", "uri": "url", "query": "params"},
    **dict.fromkeys(["postgres", "snowflake"], _REMOTE_SQL),
    "duckdb": _SQL,
    "shell": {"script": "command", "run": "command", "bash_command": "command", "commands": "cmds"},
    "python": {"script": "code"},
    "script": {"file": "path", "script": "path", "args": "argv"},
    "playbook": {"playbook": "path"},
    "nats": {"value": "data"},
    "wait": {"event": "signal", "message": "signal"},
}
"""By kind: other names of inputs, each with the input."""
SIGN_IN = ("auth", "credential")
DUCKDB_SIGN_IN = "read the other database with a task of its own kind, or copy its rows with `kind: transfer`"


def inputs_of(task: Any, kind: Kind) -> list[str]:
    """The inputs that a task gives under other names."""
    names = OTHER_INPUTS.get(kind.name, {})
    return [names[key] for key in task if key in names]


def of_task(task: Any, key: str, kind: Kind) -> str | None:
    """Advice for a key that a task of this kind does not have."""
    if name := OTHER_INPUTS.get(kind.name, {}).get(key):
        return f"write `{name}`"
    if kind.name == "duckdb" and key in SIGN_IN:
        return DUCKDB_SIGN_IN
    if kind.name == "http" and key in ("verify_ssl", "verify", "ssl_verify"):
        return f"write `tls: {{verify: {written(task[key], 'false')}}}`"
    if kind.name == "wait" and key in ("seconds", "duration", "delay", "for", "time", "until", "interval", "sleep"):
        time = written(task[key], "5s") if key != "until" else "5s"
        return f"to wait for a time, delay an arc: `next: {{arcs: [{{step: NAME, spec: {{delay: {time}}}}}]}}`"
    return _OF_TASK[key].advice(task, key) if key in _OF_TASK else None


VERSIONS = ("noetl.io/v1", "noetl.io/v10")
"""Other values of `apiVersion` that `noetl migrate` reads."""


def version_advice(version: Any) -> str:
    if version in VERSIONS:
        return FileHint("the text may be the same: set noetl.io/v2, or run", "noetl", "migrate")
    return f"set noetl.io/v2; `noetl migrate` reads only {' and '.join(VERSIONS)} besides"


KINDS: Mapping[str, str] = {
    **dict.fromkeys(["bash", "sh", "command", "exec", "cmd"], "shell"),
    **dict.fromkeys(["rest", "request", "api", "web", "curl"], "http"),
    **dict.fromkeys(["sql", "pg", "psql", "postgresql"], "postgres"),
    **dict.fromkeys(["py", "python3", "function", "lambda"], "python"),
    **dict.fromkeys(["docker", "podman", "kubernetes"], "container"),
    **dict.fromkeys(["subflow", "flow", "workflow", "child"], "playbook"),
    **dict.fromkeys(["approval", "signal", "sensor"], "wait"),
    **dict.fromkeys(["foreach", "loop", "map"], "iterator"),
    **dict.fromkeys(["dummy", "empty", "end", "log", "print", "echo"], "noop"),
}
"""Other names of tool kinds."""
PAUSES = frozenset(["sleep", "delay", "pause", "timer"])
PAUSE_ADVICE = "delay the token that starts the next step: `next: {arcs: [{step: NAME, spec: {delay: 10s}}]}`"
CHOICES: Mapping[str, str] = {
    **dict.fromkeys(["fixed", "constant"], "none"),
    **dict.fromkeys(["async", "concurrent"], "parallel"),
    **dict.fromkeys(["serial", "sync"], "sequential"),
    **dict.fromkeys(["ignore", "pass", "next"], "continue"),
    **dict.fromkeys(["abort", "raise", "error"], "fail"),
}
"""Other names of values."""
NAMES: Mapping[str, str] = {
    "env": "templates do not see the environment: declare an input in `workload`, or a secret in `keychain`",
    "outputs": "read `steps.NAME.result`",
    "output": "read `outcome` in a rule, `_prev` in the next task, `steps.NAME.result` elsewhere",
    **dict.fromkeys(["inputs", "input", "params", "parameters"], "read `workload`: it has the inputs of the run"),
    "payload": "read `workload`: the payload is laid over it",
    **dict.fromkeys(["loop_index", "index"], "read `iter.index`"),
    **dict.fromkeys(["item", "each"], "read `iter.NAME`, with the `iterator` of the loop"),
    **dict.fromkeys(["job", "execution", "run_id", "dag_run"], "read `execution_id`"),
    **dict.fromkeys(
        ["secrets", "secret", "credentials"], "name an entry of the root `keychain` with `auth` of the task"
    ),
    "error": "read `outcome.error` in a rule, `event.data.error` on an arc, `steps.NAME.error` elsewhere",
    **dict.fromkeys(["task", "taskrun", "needs"], "read `tasks.LABEL.result`, or `steps.NAME.result`"),
    **dict.fromkeys(
        ["var", "variables", "xcom"], "read `workload` for inputs, `ctx` for values that the run has written"
    ),
}
"""Names that other engines have in templates, with their replacements."""
