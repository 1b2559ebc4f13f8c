"""The canonical dialect, described: every key of a playbook, once.

Validation (`Shape.check`), the JSON Schema (`schema.py`) and the reference page of the language are all made from
these tables. `noetl.classic.language` adds the keys of the classic dialect to them.
"""

from __future__ import annotations

from noetl.dsl.part_shapes import (
    POLICY_SHAPE,
    Exactly,
    LoopShape,
    PipelineShape,
    RuntimeVersion,
    TaskShape,
    WorkbookShape,
    rule_shape,
)
from noetl.dsl.problem import Check
from noetl.dsl.shape import (
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
    Choice,
    Field,
    Fields,
    Form,
    Integer,
    ListOf,
    MapOf,
    OneOf,
    Retired,
)
from noetl.dsl.tree import is_template

API_VERSION = Check("NTL104", "error", "the apiVersion is not noetl.io/v2")
DOCUMENT_KIND = Check("NTL105", "error", "the kind is not Playbook")
ROOT_VARS = Check("NTL107", "error", "`vars` at the root")
STEP_WHEN = Check("NTL108", "error", "a step has a `when`")
OLD_KEYWORD = Check("NTL109", "error", "a keyword that was removed from the language")
NEXT_MODE = Check("NTL110", "error", "`spec.next_mode` was removed")
NEXT_WHEN = Check("NTL111", "error", "`next` has when/then/else")
DO_OUTSIDE = Check("NTL112", "error", "a directive outside task rules")
CREDENTIALS_HERE = Check("NTL117", "error", "credentials under `executor`")
RULE_WITHOUT_DO = Check("NTL302", "error", "a rule has no `then.do`")

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


def _kept_in(kind: str, **more: Field) -> Form:
    name = Field(Choice(kind), "where large results go", required=True)
    fields = Fields(f"a result store of kind {kind}", {"kind": name, **more})
    return Form(lambda value: isinstance(value, dict) and value.get("kind") == kind, fields)


STORE = OneOf(
    "a result store",
    Form(str, Choice(*STORES[:3])),
    Form(
        lambda value: not isinstance(value, dict) or value.get("kind") not in STORES[1:],
        Fields("a result store", {"kind": Field(Choice(*STORES), "where large results go", required=True)}),
    ),
    _kept_in("file", path=Field(TEXT, "of `file`: the folder")),
    _kept_in("nats_object", bucket=Field(TEXT, "of `nats_object`: the bucket, `noetl-results` if not given")),
    _kept_in("object", url=Field(TEXT, "of `object`: its address, such as `s3://bucket/prefix`", required=True)),
)
RESULTS = Fields(
    "results",
    {
        "inline_bytes": Field(Integer(0, 65_536), "values above this many bytes become references"),
        "store": Field(STORE, "where they are stored"),
    },
    definition="results",
)
_SANDBOX_KIND = Choice("none", "bubblewrap", "landlock")
_SANDBOX = Fields(
    "a sandbox",
    {
        "kind": Field(_SANDBOX_KIND, "how processes are confined", required=True),
        "network": Field(BOOLEAN, "whether the process may use the network"),
        "read": Field(ListOf(TEXT), "folders it may read"),
        "write": Field(ListOf(TEXT), "folders it may write"),
        "memory_bytes": Field(Integer(1 << 20), "memory it may use"),
        "processes": Field(Integer(1), "how many processes may run at once"),
        "file_bytes": Field(Integer(1), "how large a file that it writes may become"),
        "open_files": Field(Integer(1), "how many files it may have open"),
    },
)
SANDBOX = OneOf("a sandbox", Form(str, _SANDBOX_KIND), Form(object, _SANDBOX))
_LIMITS = {"connect": Field(DURATION, "time to connect"), "read": Field(DURATION, "time between two reads")}
TIMEOUT = OneOf("a time limit", Form(dict, Fields("a time limit", _LIMITS)), Form(object, DURATION))
_RETRY = Fields(
    "retry",
    {
        "attempts": Field(Integer(1, 100), "maximum number of calls, including the first (3)"),
        "delay": Field(DURATION, "wait before the first retry (1 s)"),
        "backoff": Field(Choice("none", "linear", "exponential"), "how the wait grows (exponential)"),
        "max_delay": Field(DURATION, "maximum wait (60 s)"),
    },
)
RETRY = OneOf("a number of retries, or a map", Form(dict, _RETRY), Form(object, Integer(0, 100)))
INHERITED = {
    "results": Field(RESULTS, "how large results are stored"),
    "sandbox": Field(SANDBOX, "how child processes are confined"),
    "on_lost": Field(Choice("retry", "error"), "what happens to a task whose worker was lost: `retry` or `error`"),
    "max_visits": Field(Integer(1, 1_000_000), "how often a task may be visited in one run (10,000)"),
    "retry": Field(RETRY, "number of retries while the error of a call is retryable, before the policy sees it"),
}
LAYERED = {"timeout": TIMEOUT, **{key: INHERITED[key].shape for key in ("retry", "sandbox", "on_lost", "max_visits")}}
"""Options that are allowed among the default inputs of a kind."""

METADATA = Fields(
    "metadata",
    {
        "name": Field(TEXT, "name of the playbook", required=True),
        "path": Field(TEXT, "its path in the catalog; the name where it is missing"),
        "version": Field(OneOf("a version", Form(str, TEXT), Form(object, NUMBER)), "a label for people"),
        "description": Field(DESCRIPTION, "what it is for"),
    },
    rest=DATA,
)


CREDENTIAL = Fields(
    "a keychain entry",
    {
        "name": Field(NAME, "name that templates and `auth` use", required=True),
        "kind": Field(
            Choice(*CREDENTIAL_KINDS, pattern=PLUGIN_KIND),
            "kind of the credential, or `PLUGIN.KIND` of a plug-in",
            required=True,
        ),
        "credential": Field(
            TEXT,
            "name in the credential store, the entry's own where it is missing; with another provider, what to sign in "
            "with there",
        ),
        "provider": Field(
            Choice("env", "file", "credential", "google", "aws", "vault"),
            "where the values live: `credential` is noetl's own store, which is the default",
        ),
        "key": Field(TEXT, "name of the secret at that provider"),
        "map": Field(MapOf(TEXT), "fields of the credential, each with the field of the secret it comes from"),
    },
)

LIMITS = Fields("limits", {"max_payload_bytes": Field(Integer(1), "values above this size become references")})
BY_REFERENCE = Fields("results", {"reference_first": Field(BOOLEAN, "store large results by reference")})
EXECUTOR_POLICY = Fields(
    "executor.spec.policy",
    {"limits": Field(LIMITS, "size limits"), "results": Field(BY_REFERENCE, "how results are kept")},
    retired=NO_RULES,
)
_RESULT = Fields("result", {"store": Field(STORE, "where large results are stored", required=True)})
EXECUTOR_SPEC = Fields(
    "executor.spec",
    {
        "entry_step": Field(LABEL, "step that gets the first token"),
        "final_step": Field(LABEL, "step that runs once when all others have ended"),
        "output": Field(DATA, "template of the execution's result"),
        "pool": Field(TEXT, "pool of workers that runs the steps"),
        "timeout": Field(DURATION, "time limit of the whole execution"),
        "on_failure": Field(Choice("stop", "finish"), "whether other branches end first when one fails"),
        "join": Field(Choice("any", "all"), "default of the steps' `spec.join`"),
        "durability": Field(Choice("task", "step"), "what is made durable before going on"),
        "max_step_runs": Field(Integer(1, 10_000_000), "how many step runs an execution may have (100,000)"),
        "policy": Field(EXECUTOR_POLICY, "runtime defaults"),
        "result": Field(_RESULT, "result store (the same as `results.store`)"),
        **INHERITED,
    },
    retired=NO_DIRECTIVE,
    kinds=LAYERED,
)
_CREDENTIALS = Retired(CREDENTIALS_HERE, "credentials are not declared under `executor`", "use the root `keychain`")
EXECUTOR = Fields(
    "executor",
    {
        "profile": Field(Choice("local", "distributed"), "where the playbook is meant to run"),
        "kind": Field(Choice("local", "distributed"), "the same as `profile`"),
        "version": Field(RuntimeVersion(), "runtime it was written for: noetl-runtime/2"),
        "spec": Field(EXECUTOR_SPEC, "defaults for all steps and tasks"),
    },
    retired={"keychain": _CREDENTIALS, "credentials": _CREDENTIALS},
)


TASK_THEN = Fields(
    "then",
    {
        "do": Field(
            Choice("continue", "retry", "jump", "break", "fail", "skip"), "what the pipeline does next", required=True
        ),
        "attempts": Field(Integer(1, 10_000), "retry: maximum number of attempts, including the first (3)"),
        "backoff": Field(Choice("none", "linear", "exponential"), "retry: how the wait grows (none)"),
        "delay": Field(DELAY, "retry or jump: seconds to wait (1 for retry, 0 for jump)"),
        "max_delay": Field(DURATION, "retry: maximum wait"),
        "jitter": Field(BOOLEAN, "retry: spread waits at random"),
        "to": Field(LABEL, "jump: label of the task that runs next"),
        "set_iter": Field(MapOf(DATA, NAME), "writes to `iter`"),
        "set_ctx": Field(MapOf(DATA, NAME), "writes to `ctx`"),
    },
    retired=OLD,
    missing=RULE_WITHOUT_DO,
)
ADMIT_THEN = Fields(
    "then", {"allow": Field(BOOLEAN, "whether the token may enter", required=True)}, retired=NO_DIRECTIVE
)
TASK_RULE = rule_shape(TASK_THEN, OLD)
ADMIT_RULE = rule_shape(ADMIT_THEN, OLD)
TASK_POLICY = Fields(
    "a task policy",
    {"rules": Field(ListOf(TASK_RULE, least=1, words="the list of rules"), "rules, tried in order", required=True)},
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
    {
        "timeout": Field(TIMEOUT, "time limit of one call; for http also {connect, read}"),
        "policy": Field(TASK_POLICY, "what happens after each outcome"),
        "pool": Field(TEXT, "pool of workers that runs the task"),
        "exactly_once": Field(BOOLEAN, "postgres: keep a ledger row in the same transaction"),
        "async": Field(BOOLEAN, "accepted, without effect"),
        "mode": Field(Choice("sequential", "parallel"), "iterator: order of the items"),
        "max_in_flight": Field(Integer(1, 10_000), "iterator: how many items at once"),
        **INHERITED,
    },
    retired={**OLD, **NO_DIRECTIVE, "rules": _STRAY_RULES},
    definition="taskSpec",
)
ARGS = MapOf(DATA, NAME)
TASK = TaskShape({"args": ARGS, "spec": TASK_SPEC, "name": LABEL}, retired=OLD)
PIPELINE = PipelineShape(TASK)

_LOOP_EXEC = {"exec": Field(Choice("distributed", "local"), "whether one worker keeps all items")}
ON_ERROR = "`fail`: a failed item fails the step at once; `collect`: after all items; `continue`: not at all (fail)"
LOOP_SPEC = Fields(
    "loop.spec",
    {
        "mode": Field(Choice("sequential", "parallel"), "order of the items (sequential)"),
        "max_in_flight": Field(Integer(1, 10_000), "parallel: how many items at once (10)"),
        "policy": Field(Fields("loop.spec.policy", _LOOP_EXEC, retired=NO_RULES), "where items run"),
        "on_error": Field(Choice("fail", "continue", "collect"), ON_ERROR),
        "collect": Field(BOOLEAN, "whether results of the items are kept (true)"),
        **INHERITED,
    },
    retired=NO_DIRECTIVE,
    kinds=LAYERED,
)
COLLECTION = OneOf("a list, or a template that gives one", Form(list, DATA), Form(is_template, DATA))
LOOP = LoopShape(
    "a loop",
    {
        "in": Field(COLLECTION, "the collection"),
        "iterator": Field(NAME, "name of the current item in `iter`"),
        "spec": Field(LOOP_SPEC, "how the items run"),
    },
    retired={**OLD, **NO_DIRECTIVE},
)

ARC = Fields(
    "an arc",
    {
        "step": Field(LABEL, "the step it leads to", required=True),
        "when": Field(GUARD, "its guard (always)"),
        "args": Field(ARGS, "what the token carries"),
        "spec": Field(Fields("arc.spec", {"delay": Field(DURATION, "time before the token arrives")}), "options"),
    },
    retired={**OLD, **NO_DIRECTIVE},
)


_ARCS_HINT = "write `next: {arcs: [{step: ..., when: ...}]}`, or in the classic dialect a `case`"
CONDITIONS = {
    word: Retired(NEXT_WHEN, f"{word!r} is not allowed in `next`", _ARCS_HINT, ("step", "to", "arcs"))
    for word in ("when", "then", "else")
}
"""Keys of `next` in version 1 of the language."""
ROUTER_SPEC = Fields(
    "next.spec",
    {
        "mode": Field(Choice("exclusive", "inclusive"), "whether the first or every matching arc fires"),
        "policy": Field(Fields("next.spec.policy", {}, retired=NO_RULES), "reserved; must be empty"),
    },
    retired=NO_DIRECTIVE,
)
ROUTER = Fields(
    "next",
    {"spec": Field(ROUTER_SPEC, "how arcs are chosen"), "arcs": Field(ListOf(ARC), "the ways out", required=True)},
    retired={**CONDITIONS, **OLD, **NO_DIRECTIVE},
)
ADMIT = Fields(
    "admit",
    {
        "mode": Field(Choice("exclusive", "inclusive"), "first match, or every match must allow"),
        "rules": Field(ListOf(ADMIT_RULE, least=1, words="the list of rules"), "rules", required=True),
    },
    retired={**OLD, **NO_DIRECTIVE},
)
ADMIT_FIELD = Field(ADMIT, "the gate a token passes before the step is scheduled")
STEP_POLICY = Fields("step.spec.policy", {"admit": ADMIT_FIELD}, retired=NO_RULES)
_NEXT_MODE = Retired(NEXT_MODE, "`spec.next_mode` was removed", "write `next: {spec: {mode: ...}, arcs: [...]}`")
STEP_SPEC = Fields(
    "step.spec",
    {
        "timeout": Field(DURATION, "wall time a run of the step may take"),
        "pool": Field(TEXT, "pool of workers that runs the step"),
        "join": Field(Choice("any", "all"), "whether each token fires the step or all meet first (any)"),
        "timers": Field(MapOf(DURATION, NAME), "timers armed on entry, by name"),
        "policy": Field(STEP_POLICY, "server-side policy"),
        **INHERITED,
    },
    retired={"next_mode": _NEXT_MODE, **NO_DIRECTIVE},
    kinds=LAYERED,
)
STEP = Fields(
    "a step",
    {
        "step": Field(LABEL, "its name", required=True),
        "desc": Field(DESCRIPTION, "what it does"),
        "spec": Field(STEP_SPEC, "options and the admission gate"),
        "loop": Field(LOOP, "runs the pipeline once per item"),
        "tool": Field(PIPELINE, "the pipeline: tasks in order"),
        "next": Field(ROUTER, "the router: arcs to other steps"),
    },
    retired={"when": Retired(STEP_WHEN, "a step cannot have 'when'", ADMIT_HINT), **OLD, **NO_DIRECTIVE},
)

WORKBOOK_ENTRY = Fields(
    "a workbook entry",
    {"name": Field(NAME, "name it is called by", required=True), "tool": Field(TASK, "the tool call", required=True)},
)
LANGUAGE = Exactly("noetl.io/v2", API_VERSION, "this engine runs noetl.io/v2 only")
PLAYBOOK = Exactly("Playbook", DOCUMENT_KIND, "write `kind: Playbook`")
ROOT = Fields(
    "a playbook",
    {
        "apiVersion": Field(LANGUAGE, "version of the language: `noetl.io/v2`", required=True),
        "kind": Field(PLAYBOOK, "what the document is: `Playbook`", required=True),
        "metadata": Field(METADATA, "name, path and what else describes it", required=True),
        "keychain": Field(ListOf(CREDENTIAL), "credentials it needs"),
        "executor": Field(EXECUTOR, "runtime choices and defaults"),
        "workload": Field(MapOf(DATA), "inputs with their defaults"),
        "workflow": Field(ListOf(STEP, least=1, words="the list of steps"), "the steps", required=True),
        "workbook": Field(WorkbookShape(TASK, WORKBOOK_ENTRY), "tasks that several steps use"),
    },
    retired={"vars": Retired(ROOT_VARS, "'vars' is not allowed at the root", VARS_HINT)},
)
DEFINITIONS: tuple[Fields, ...] = (TASK_SPEC, TASK_POLICY, RESULTS)
