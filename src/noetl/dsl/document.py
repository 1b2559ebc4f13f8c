"""The canonical dialect, described: every key of a playbook, once.

Validation (`Shape.check`), the JSON Schema (`schema.py`) and the reference page of the language are all made from
these tables. `noetl.classic.language` adds the keys of the classic dialect to them.
"""

from __future__ import annotations

from noetl.dsl.other_words import arc_advice, collection_advice, then_advice, version_advice
from noetl.dsl.part_shapes import (
    RUNTIME_VERSION,
    LoopShape,
    PipelineShape,
    TaskShape,
    exactly,
    rule_shape,
    workbook_shape,
)
from noetl.dsl.problem import Check
from noetl.dsl.scalar_shapes import (
    BOOLEAN,
    DATA,
    DELAY,
    DESCRIPTION,
    DURATION,
    GUARD,
    LABEL,
    NAME,
    NUMBER,
    TEXT,
    TIME_LIMIT,
)
from noetl.dsl.shape import Choice, Field, Fields, Form, Integer, ListOf, MapOf, OneOf, Retired
from noetl.dsl.tree import is_template

API_VERSION = Check("NTL104", "error", "the apiVersion is not noetl.io/v2", stored_ok=False)
DOCUMENT_KIND = Check("NTL105", "error", "the kind is not Playbook", stored_ok=False)
ROOT_VARS = Check("NTL107", "error", "`vars` at the root", stored_ok=False)
STEP_WHEN = Check("NTL108", "error", "a step has a `when`", stored_ok=False)
OLD_KEYWORD = Check("NTL109", "error", "a keyword that was removed from the language", stored_ok=False)
NEXT_MODE = Check("NTL110", "error", "`spec.next_mode` was removed", stored_ok=False)
NEXT_WHEN = Check("NTL111", "error", "`next` has when/then/else", stored_ok=False)
DO_OUTSIDE = Check("NTL112", "error", "a directive outside task rules", stored_ok=False)
CREDENTIALS_HERE = Check("NTL117", "error", "credentials under `executor`", stored_ok=False)
POLICY_SHAPE = Check("NTL301", "error", "a task policy is not a map with `rules`", stored_ok=False)
RULE_WITHOUT_DO = Check("NTL302", "error", "a rule has no `then.do`", stored_ok=False)

ADMIT_HINT = "gate the step with `spec: {policy: {admit: {rules: [{when: ..., then: {allow: true}}]}}}`"
VARS_HINT = "put inputs into `workload`, and state into `ctx` by `set_ctx`"
RULES_HINT = "put it into `then` of a rule in `spec.policy.rules` of a task"


def _old(word: str, hint: str, *stands_for: str) -> Retired:
    return Retired(OLD_KEYWORD, f"{word!r} was removed from the language", hint, stands_for)


OLD = {
    "expr": _old("expr", "write the condition as `when`", "when"),
    "eval": _old("eval", "write the condition as `when`, in a rule or on an arc", "when"),
    "pipe": _old("pipe", "write the tasks as the list `tool`", "tool"),
}
NO_DIRECTIVE = {"do": Retired(DO_OUTSIDE, "'do' is not allowed outside task rules", RULES_HINT)}
NO_RULES = {**NO_DIRECTIVE, "rules": Retired(DO_OUTSIDE, "'rules' is not allowed outside a task's policy", RULES_HINT)}

CREDENTIAL_KINDS = (
    "postgres_credential", "secret_manager", "bearer", "basic", "api_key", "oauth2_client_credentials",
    "snowflake_credential", "gcs_credential", "s3_credential",
)  # fmt: skip
PLUGIN_KIND = r"[a-z][a-z0-9_-]*\.[A-Za-z0-9_.-]+"  # a credential kind of a plug-in has a dot in its name
STORES = ("db", "file", "nats_object", "object")


def _kept_in(kind: str, option: Field) -> Form:
    name = Field("kind", Choice(kind), "where large results go", required=True)
    fields = Fields(f"a result store of kind {kind}", name, option)
    return Form(lambda value: isinstance(value, dict) and value.get("kind") == kind, fields)


STORE = OneOf(
    "a result store",
    Form(str, Choice(*STORES[:3])),
    Form(
        lambda value: not isinstance(value, dict) or value.get("kind") not in STORES[1:],
        Fields("a result store", Field("kind", Choice(*STORES), "where large results go", required=True)),
    ),
    _kept_in("file", Field("path", TEXT, "of `file`: the folder")),
    _kept_in("nats_object", Field("bucket", TEXT, "of `nats_object`: the bucket, `noetl-results` if not given")),
    _kept_in("object", Field("url", TEXT, "of `object`: its address, such as `s3://bucket/prefix`", required=True)),
)
RESULTS = Fields(
    "results",
    Field("inline_bytes", Integer(0, 65_536), "values above this many bytes become references"),
    Field("store", STORE, "where they are stored"),
    definition="results",
)
_SANDBOX_KIND = Choice("none", "bubblewrap", "landlock")
_SANDBOX = Fields(
    "a sandbox",
    Field("kind", _SANDBOX_KIND, "how processes are confined", required=True),
    Field("network", BOOLEAN, "whether the process may use the network"),
    Field("read", ListOf(TEXT), "folders it may read"),
    Field("write", ListOf(TEXT), "folders it may write"),
    Field("memory_bytes", Integer(1 << 20), "maximum memory, in bytes"),
    Field("processes", Integer(1), "maximum number of processes"),
    Field("file_bytes", Integer(1), "maximum size of a file that it writes, in bytes"),
    Field("open_files", Integer(1), "maximum number of open files"),
)
SANDBOX = OneOf("a sandbox", Form(str, _SANDBOX_KIND), Form(object, _SANDBOX))
_LIMITS = (Field("connect", DURATION, "maximum time to connect"), Field("read", DURATION, "maximum time without data"))
_LIMIT_MAP = Form(dict, Fields("a time limit", *_LIMITS))
TIMEOUT = OneOf("a time limit", _LIMIT_MAP, Form(object, DURATION))
_RETRY = Fields(
    "retry",
    Field("attempts", Integer(1, 100), "maximum number of calls, including the first (3)"),
    Field("delay", DURATION, "wait before the first retry (1 s)"),
    Field("backoff", Choice("none", "linear", "exponential"), "how the wait grows (exponential)"),
    Field("max_delay", DURATION, "maximum wait (60 s)"),
)
RETRY = OneOf("a number of retries, or a map", Form(dict, _RETRY), Form(object, Integer(0, 100)))
INHERITED = (
    Field("results", RESULTS, "how large results are stored"),
    Field("sandbox", SANDBOX, "how child processes are confined"),
    Field("on_lost", Choice("retry", "error"), "what happens to a task whose worker was lost: `retry` or `error`"),
    Field("max_visits", Integer(1, 1_000_000), "maximum number of visits of a task in one run (10,000)"),
    Field("retry", RETRY, "number of retries while the error of a call is retryable, before the policy sees it"),
)
LAYERED = {"timeout": TIMEOUT, **{field.key: field.shape for field in INHERITED if field.key != "results"}}
"""Options that are allowed among the default inputs of a kind."""

METADATA = Fields(
    "metadata",
    Field("name", TEXT, "name of the playbook", required=True),
    Field("path", TEXT, "its path in the catalog; the name where it is missing"),
    Field("version", OneOf("a version", Form(str, TEXT), Form(object, NUMBER)), "a label for people"),
    Field("description", DESCRIPTION, "purpose of the playbook"),
    rest=DATA,
)


CREDENTIAL = Fields(
    "a keychain entry",
    Field("name", NAME, "name that templates and `auth` use", required=True),
    Field(
        "kind",
        Choice(*CREDENTIAL_KINDS, pattern=PLUGIN_KIND),
        "kind of the credential, or `PLUGIN.KIND` of a plug-in",
        required=True,
    ),
    Field(
        "credential",
        TEXT,
        "name in the credential store, the entry's own where it is missing; with another provider, what to sign in "
        "with there",
    ),
    Field(
        "provider",
        Choice("env", "file", "credential", "google", "aws", "vault"),
        "where the values live: `credential` is noetl's own store, which is the default",
    ),
    Field("key", TEXT, "name of the secret at that provider"),
    Field("map", MapOf(TEXT), "fields of the credential, each with the field of the secret it comes from"),
)

LIMITS = Fields(
    "limits", Field("max_payload_bytes", Integer(1), "values above this size become references (at most 65,536)")
)
BY_REFERENCE = Fields("results", Field("reference_first", BOOLEAN, "store large results by reference"))
EXECUTOR_POLICY = Fields(
    "executor.spec.policy",
    Field("limits", LIMITS, "size limits"),
    Field("results", BY_REFERENCE, "how results are stored"),
    retired=NO_RULES,
)
_RESULT = Fields("result", Field("store", STORE, "where large results are stored", required=True))
_SCHEMA = Fields("schema", Field("workload", MapOf(DATA), "JSON Schema (2020-12) that inputs of a run must satisfy"))
EXECUTOR_SPEC = Fields(
    "executor.spec",
    Field("entry_step", LABEL, "step that gets the first token"),
    Field("final_step", LABEL, "step that runs once when all others have ended"),
    Field("output", DATA, "template of the execution's result"),
    Field("pool", TEXT, "pool of workers that runs the steps"),
    Field("timeout", TIME_LIMIT, "time limit of the whole execution"),
    Field("on_failure", Choice("stop", "finish"), "whether other branches end first when one fails"),
    Field("join", Choice("any", "all"), "default of the steps' `spec.join`"),
    Field("durability", Choice("task", "step"), "the unit that is durable before the run continues"),
    Field("max_step_runs", Integer(1, 10_000_000), "maximum number of step runs of an execution (100,000)"),
    Field("policy", EXECUTOR_POLICY, "runtime defaults"),
    Field("result", _RESULT, "result store (the same as `results.store`)"),
    Field("schema", _SCHEMA, "schemas of data"),
    *INHERITED,
    retired=NO_DIRECTIVE,
    kinds=LAYERED,
)
_CREDENTIALS = Retired(CREDENTIALS_HERE, "credentials are not declared under `executor`", "use the root `keychain`")
EXECUTOR = Fields(
    "executor",
    Field("profile", Choice("local", "distributed"), "default of `loop.spec.policy.exec` (distributed)"),
    Field("kind", Choice("local", "distributed"), "the same as `profile`"),
    Field("version", RUNTIME_VERSION, "runtime it was written for: noetl-runtime/2"),
    Field("spec", EXECUTOR_SPEC, "defaults for all steps and tasks"),
    retired={"keychain": _CREDENTIALS, "credentials": _CREDENTIALS},
)


TASK_THEN = Fields(
    "then",
    Field(
        "do",
        Choice("continue", "retry", "jump", "break", "fail", "skip"),
        "the next action of the pipeline",
        required=True,
    ),
    Field("attempts", Integer(1, 10_000), "retry: maximum number of attempts, including the first (3)"),
    Field("backoff", Choice("none", "linear", "exponential"), "retry: how the wait grows (none)"),
    Field("delay", DELAY, "retry or jump: seconds to wait (1 for retry, 0 for jump)"),
    Field("max_delay", DURATION, "retry: maximum wait"),
    Field("jitter", BOOLEAN, "retry: spread waits at random"),
    Field("to", LABEL, "jump: label of the task that runs next"),
    Field("set_iter", MapOf(DATA, NAME), "writes to `iter`"),
    Field("set_ctx", MapOf(DATA, NAME), "writes to `ctx`"),
    retired=OLD,
    missing=RULE_WITHOUT_DO,
    hint=then_advice,
)
ADMIT_THEN = Fields("then", Field("allow", BOOLEAN, "whether the token may enter", required=True), retired=NO_DIRECTIVE)
RULES_EXAMPLE = 'write `- when: "{{ ... }}"` for each, with `then` below'
TASK_RULE = rule_shape(TASK_THEN, OLD)
ADMIT_RULE = rule_shape(ADMIT_THEN, OLD)
TASK_POLICY = Fields(
    "a task policy",
    Field(
        "rules",
        ListOf(TASK_RULE, least=1, words="the list of rules", example=RULES_EXAMPLE),
        "rules, tried in order",
        required=True,
    ),
    retired={**OLD, **NO_DIRECTIVE},
    missing=POLICY_SHAPE,
    wrong=(POLICY_SHAPE, "write `policy: {rules: [...]}`"),
    whole=True,
    definition="taskPolicy",
)
_STRAY_RULES = Retired(
    POLICY_SHAPE, "'rules' is not allowed outside `policy`", "write `spec: {policy: {rules: [...]}}`"
)
TASK_SPEC = Fields(
    "task.spec",
    Field(
        "timeout",
        OneOf("a time limit", _LIMIT_MAP, Form(object, DELAY)),
        "time limit of one call, which may be a template; for http also {connect, read}",
    ),
    Field("policy", TASK_POLICY, "action after each outcome"),
    Field("pool", TEXT, "without effect: set the pool of the step"),
    Field("exactly_once", BOOLEAN, "postgres, duckdb: keep a ledger row in the same transaction"),
    Field("async", BOOLEAN, "accepted, without effect"),
    Field("mode", Choice("sequential", "parallel"), "iterator: order of the items"),
    Field("max_in_flight", Integer(1, 10_000), "iterator: maximum number of items at once (10)"),
    *INHERITED,
    retired={**OLD, **NO_DIRECTIVE, "rules": _STRAY_RULES},
    definition="taskSpec",
)
ARGS = MapOf(DATA, NAME)
TASK = TaskShape({"args": ARGS, "spec": TASK_SPEC, "name": LABEL}, retired=OLD)
PIPELINE = PipelineShape(TASK)

_LOOP_EXEC = Field("exec", Choice("distributed", "local"), "whether one worker keeps all items")
ON_ERROR = "`fail`: a failed item fails the step at once; `collect`: after all items; `continue`: not at all (fail)"
LOOP_SPEC = Fields(
    "loop.spec",
    Field("mode", Choice("sequential", "parallel"), "order of the items (sequential)"),
    Field("max_in_flight", Integer(1, 10_000), "parallel: maximum number of items at once (10)"),
    Field("policy", Fields("loop.spec.policy", _LOOP_EXEC, retired=NO_RULES), "where items run"),
    Field("on_error", Choice("fail", "continue", "collect"), ON_ERROR),
    Field("collect", BOOLEAN, "whether results of the items are kept (true)"),
    *INHERITED,
    retired=NO_DIRECTIVE,
    kinds=LAYERED,
)
COLLECTION = OneOf(
    "a list, or a template that gives one", Form(list, DATA), Form(is_template, DATA), hint=collection_advice
)
LOOP = LoopShape(
    "a loop",
    Field("in", COLLECTION, "the collection"),
    Field("iterator", NAME, "name of the current item in `iter`"),
    Field("spec", LOOP_SPEC, "how the items run"),
    retired={**OLD, **NO_DIRECTIVE},
)

ARC = Fields(
    "an arc",
    Field("step", LABEL, "the step it leads to", required=True),
    Field("when", GUARD, "its guard (always)"),
    Field("args", ARGS, "args of the token"),
    Field("spec", Fields("arc.spec", Field("delay", DURATION, "time before the token arrives")), "options"),
    retired={**OLD, **NO_DIRECTIVE},
    hint=arc_advice,
)


_ARCS_HINT = "write `next: {arcs: [{step: ..., when: ...}]}`, or in the classic dialect a `case`"
CONDITIONS = {
    word: Retired(NEXT_WHEN, f"{word!r} is not allowed in `next`", _ARCS_HINT, ("step", "to", "arcs"))
    for word in ("when", "then", "else")
}
"""Keys of `next` in version 1 of the language."""
ROUTER_SPEC = Fields(
    "next.spec",
    Field("mode", Choice("exclusive", "inclusive"), "whether the first or every matching arc fires"),
    Field("policy", Fields("next.spec.policy", retired=NO_RULES), "reserved; must be empty"),
    retired=NO_DIRECTIVE,
)
ROUTER = Fields(
    "next",
    Field("spec", ROUTER_SPEC, "how arcs are chosen"),
    Field(
        "arcs",
        ListOf(ARC, example="write `- step: NAME` for each, with `when` below"),
        "arcs to other steps",
        required=True,
    ),
    retired={**CONDITIONS, **OLD, **NO_DIRECTIVE},
)
ADMIT = Fields(
    "admit",
    Field("mode", Choice("exclusive", "inclusive"), "first match, or every match must allow"),
    Field(
        "rules", ListOf(ADMIT_RULE, least=1, words="the list of rules", example=RULES_EXAMPLE), "rules", required=True
    ),
    retired={**OLD, **NO_DIRECTIVE},
)
ADMIT_FIELD = Field("admit", ADMIT, "the gate a token passes before the step is scheduled")
STEP_POLICY = Fields("step.spec.policy", ADMIT_FIELD, retired=NO_RULES)
_NEXT_MODE = Retired(NEXT_MODE, "`spec.next_mode` was removed", "write `next: {spec: {mode: ...}, arcs: [...]}`")
STEP_SPEC = Fields(
    "step.spec",
    Field("timeout", TIME_LIMIT, "wall time a run of the step may take"),
    Field("pool", TEXT, "pool of workers that runs the step"),
    Field("join", Choice("any", "all"), "whether each token fires the step or all meet first (any)"),
    Field("timers", MapOf(DURATION, NAME), "timers armed on entry, by name"),
    Field("policy", STEP_POLICY, "server-side policy"),
    *INHERITED,
    retired={"next_mode": _NEXT_MODE, **NO_DIRECTIVE},
    kinds=LAYERED,
)
STEP = Fields(
    "a step",
    Field("step", LABEL, "its name", required=True),
    Field("desc", DESCRIPTION, "purpose of the step"),
    Field("spec", STEP_SPEC, "options and the admission gate"),
    Field("loop", LOOP, "runs the pipeline once per item"),
    Field("tool", PIPELINE, "the pipeline: tasks in order"),
    Field("next", ROUTER, "the router: arcs to other steps"),
    retired={"when": Retired(STEP_WHEN, "a step cannot have 'when'", ADMIT_HINT), **OLD, **NO_DIRECTIVE},
)

WORKBOOK_ENTRY = Fields(
    "a workbook entry",
    Field("name", NAME, "name it is called by", required=True),
    Field("tool", TASK, "the tool call", required=True),
)
LANGUAGE = exactly("noetl.io/v2", API_VERSION, version_advice)
PLAYBOOK = exactly("Playbook", DOCUMENT_KIND, lambda value: "write `kind: Playbook`")
STEPS_EXAMPLE = "write `- step: NAME` for each, with `tool` and `next` below"
ROOT = Fields(
    "a playbook",
    Field("apiVersion", LANGUAGE, "version of the language: `noetl.io/v2`", required=True),
    Field("kind", PLAYBOOK, "type of the document: `Playbook`", required=True),
    Field("metadata", METADATA, "name, path, version and description", required=True),
    Field(
        "keychain", ListOf(CREDENTIAL, example="write `- {name: NAME, kind: KIND}` for each"), "credentials it needs"
    ),
    Field("executor", EXECUTOR, "runtime choices and defaults"),
    Field("workload", MapOf(DATA, example="write `NAME: DEFAULT` for each input"), "inputs with their defaults"),
    Field(
        "workflow",
        ListOf(STEP, least=1, words="the list of steps", example=STEPS_EXAMPLE),
        "the steps",
        required=True,
    ),
    Field("workbook", workbook_shape(TASK, WORKBOOK_ENTRY), "tasks that several steps use"),
    retired={"vars": Retired(ROOT_VARS, "'vars' is not allowed at the root", VARS_HINT)},
)
DEFINITIONS: tuple[Fields, ...] = (TASK_SPEC, TASK_POLICY, RESULTS)
