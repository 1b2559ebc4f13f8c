"""The whole playbook, described: every key of both dialects, once.

Validation (`Shape.check`), the JSON Schema (`schema.py`) and the reference page of the language are all made from
these tables. A field with a `rewrite` belongs to the classic dialect only.
"""

from __future__ import annotations

import re
from typing import Any

from noetl.dsl.inputs import check_inputs, check_table
from noetl.dsl.problem import Check
from noetl.dsl.shape import (
    MISSING_KEY,
    WRONG_VALUE,
    Boolean,
    Choice,
    Data,
    Description,
    Duration,
    Field,
    Fields,
    Form,
    Guard,
    Integer,
    Label,
    ListOf,
    MapOf,
    Name,
    Number,
    OneOf,
    Retired,
    Schema,
    Shape,
    Text,
    Walk,
    anything,
    describe,
    drop_items,
    is_list,
    is_map,
    is_template,
    is_text,
)
from noetl.dsl.tree import Span, key_span, span_in

API_VERSION = Check(
    "NTL104",
    "error",
    "the apiVersion is not noetl.io/v2",
    "This engine runs version 2 of the language and no other.",
)
DOCUMENT_KIND = Check("NTL105", "error", "the kind is not Playbook", "A playbook says `kind: Playbook`.")
ROOT_VARS = Check(
    "NTL107",
    "error",
    "`vars` stands at the root",
    "Inputs belong to `workload`, which is fixed when a run starts; what changes during a run belongs to `ctx`.",
)
STEP_WHEN = Check(
    "NTL108",
    "error",
    "a step has a `when`",
    "Whether a token may enter is decided by `spec.policy.admit`, which way it leaves by `next.arcs[].when`.",
)
OLD_KEYWORD = Check(
    "NTL109",
    "error",
    "a keyword of an older language",
    "`when` is the only conditional keyword and `tool` is the only pipeline. `expr`, `eval` and `pipe` are gone.",
)
NEXT_MODE = Check(
    "NTL110", "error", "`spec.next_mode` is gone", "The routing mode belongs to the router: `next.spec.mode`."
)
NEXT_WHEN = Check(
    "NTL111",
    "error",
    "`next` holds when/then/else",
    "Version 1 routed by conditions inside `next`. Now an arc has a guard of its own.",
)
DO_OUTSIDE = Check(
    "NTL112",
    "error",
    "a directive stands outside task rules",
    "`do` (retry, jump, continue, break, fail, skip) steers a pipeline and exists only in `task.spec.policy.rules`.",
)
EXECUTOR_VERSION = Check(
    "NTL116",
    "error",
    "the runtime version is not supported",
    "`executor.version` names the runtime a playbook was written for; this one is `noetl-runtime/2`.",
)
CREDENTIALS_HERE = Check(
    "NTL117",
    "error",
    "credentials stand under `executor`",
    "Credentials are declared in the root `keychain`.",
)
UNKNOWN_KIND = Check(
    "NTL202",
    "error",
    "the tool kind is not known",
    "`noetl tools` lists the kinds, built-in ones and plug-ins.",
)
LOOP_INCOMPLETE = Check(
    "NTL209",
    "error",
    "a loop lacks `in` or `iterator`",
    "A loop needs the collection and a name for the current item.",
)
POLICY_SHAPE = Check(
    "NTL301",
    "error",
    "a task policy is not a map with `rules`",
    "There is one way to write a policy: `spec: {policy: {rules: [...]}}`.",
)
RULE_WITHOUT_DO = Check(
    "NTL302",
    "error",
    "a rule has no `then.do`",
    "Every rule says what happens: `then: {do: continue}`, for instance.",
)
RULE_SHAPE = Check(
    "NTL303",
    "error",
    "a rule is neither `when`/`then` nor `else`",
    "A rule is `{when: ..., then: {...}}`, or as the last one `{else: {then: {...}}}`.",
)

ADMIT_HINT = "gate the step with `spec: {policy: {admit: {rules: [{when: ..., then: {allow: true}}]}}}`"
RULES_HINT = "put it into `then` of a rule in `spec.policy.rules` of a task"


class Exactly(Shape):
    """One fixed word, with a check and advice of its own."""

    def __init__(self, word: str, check: Check, hint: str) -> None:
        self.word, self.check_code, self.advice = word, check, hint
        self.words = f"`{word}`"

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if value != self.word:
            walk.problems.add(self.check_code, span, f"expected {self.words}, found {describe(value)}", self.advice)
        return True

    def schema(self) -> Schema:
        return {"const": self.word}


class RuntimeVersion(Shape):
    """`noetl-runtime/2`, or any text or number whose major version is 2."""

    words = "a version with major 2, such as noetl-runtime/2"

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        major = str(value).rpartition("/")[2].removeprefix("v").split(".")[0]
        if major != "2" or isinstance(value, dict | list):
            message = f"expected {self.words}, found {describe(value)}"
            walk.problems.add(EXECUTOR_VERSION, span, message, "write `noetl-runtime/2`, or leave it out")
        return True

    def schema(self) -> Schema:
        return {
            "anyOf": [
                {"type": "string", "pattern": r"^(.*/)?v?2(\..*)?$"},
                {"type": "number", "minimum": 2, "exclusiveMaximum": 3},
            ]
        }


def _old(word: str, hint: str, *stands_for: str) -> Retired:
    return Retired(OLD_KEYWORD, f"{word!r} is a keyword of an older language", hint, stands_for)


OLD = {
    "expr": _old("expr", "write the condition as `when`", "when"),
    "eval": _old("eval", "write the condition as `when`, in a rule or on an arc", "when"),
    "pipe": _old("pipe", "write the tasks as the list `tool`", "tool"),
}
NO_DIRECTIVE = {"do": Retired(DO_OUTSIDE, "'do' stands outside task rules", RULES_HINT)}
NO_RULES = {
    **NO_DIRECTIVE,
    "rules": Retired(DO_OUTSIDE, "'rules' stands outside a task's policy", RULES_HINT),
}


STORES = ("db", "file", "nats_object", "object")


def _kept_in(kind: str, **more: Field) -> Form:
    """A store written as a map, with the keys that mean something to its kind."""
    name = Field(Choice(kind), "where large results go", required=True)
    fields = Fields(f"a result store of kind {kind}", {"kind": name, **more})
    return Form(lambda value: is_map(value) and value.get("kind") == kind, fields)


STORE = OneOf(
    "a result store",
    Form(is_text, Choice(*STORES[:3])),
    Form(
        lambda value: not is_map(value) or value.get("kind") not in STORES[1:],
        Fields("a result store", {"kind": Field(Choice(*STORES), "where large results go", required=True)}),
    ),
    _kept_in("file", path=Field(Text(), "of `file`: the folder")),
    _kept_in("nats_object", bucket=Field(Text(), "of `nats_object`: the bucket, `noetl-results` if not given")),
    _kept_in("object", url=Field(Text(), "of `object`: its address, such as `s3://bucket/prefix`", required=True)),
)
RESULTS = Fields(
    "results",
    {
        "inline_bytes": Field(Integer(0, 65_536), "values above this many bytes become references"),
        "store": Field(STORE, "where they are stored"),
    },
    definition="results",
)
SANDBOX = OneOf(
    "a sandbox",
    Form(is_text, Choice("none", "bubblewrap", "landlock")),
    Form(
        anything,
        Fields(
            "a sandbox",
            {
                "kind": Field(Choice("none", "bubblewrap", "landlock"), "how processes are confined", required=True),
                "network": Field(Boolean(), "whether the process may use the network"),
                "read": Field(ListOf(Text()), "folders it may read"),
                "write": Field(ListOf(Text()), "folders it may write"),
                "memory_bytes": Field(Integer(1 << 20), "memory it may use"),
                "processes": Field(Integer(1), "how many processes may run at once"),
                "file_bytes": Field(Integer(1), "how large a file that it writes may become"),
                "open_files": Field(Integer(1), "how many files it may have open"),
            },
        ),
    ),
)
INHERITED = {
    "results": Field(RESULTS, "how large results are stored"),
    "sandbox": Field(SANDBOX, "how child processes are confined"),
    "on_lost": Field(Choice("retry", "error"), "what happens to a task whose worker was lost: `retry` or `error`"),
    "max_visits": Field(Integer(1, 1_000_000), "how often a task may be visited in one run (10,000)"),
    "retry": Field(Integer(0, 100), "transport retries inside one outcome"),
}

METADATA = Fields(
    "metadata",
    {
        "name": Field(Text(), "name of the playbook", required=True),
        "path": Field(Text(), "its path in the catalog; the name where it is missing"),
        "version": Field(OneOf("a version", Form(is_text, Text()), Form(anything, Number())), "a label for people"),
        "description": Field(Description(), "what it is for"),
    },
    rest=Data(),
)


class CredentialKind(Choice):
    """A kind of credential; one that a plug-in brings has a dot in its name."""

    def fits(self, value: Any) -> bool:
        return super().fits(value) or (isinstance(value, str) and re.fullmatch(PLUGIN_KIND, value) is not None)

    def schema(self) -> Schema:
        return {"anyOf": [super().schema(), {"type": "string", "pattern": f"^{PLUGIN_KIND}$"}]}


PLUGIN_KIND = r"[a-z][a-z0-9_-]*\.[A-Za-z0-9_.-]+"
CREDENTIAL = Fields(
    "a keychain entry",
    {
        "name": Field(Name(), "name that templates and `auth` use", required=True),
        "kind": Field(
            CredentialKind(
                "postgres_credential",
                "secret_manager",
                "bearer",
                "basic",
                "api_key",
                "oauth2_client_credentials",
                "snowflake_credential",
                "gcs_credential",
                "s3_credential",
            ),
            "kind of the credential, or `PLUGIN.KIND` of a plug-in",
            required=True,
        ),
        "credential": Field(
            Text(),
            "name in the credential store, the entry's own where it is missing; with another provider, what to sign in "
            "with there",
        ),
        "provider": Field(
            Choice("env", "file", "credential", "google", "aws", "vault"),
            "where the values live: `credential` is noetl's own store, which is the default",
        ),
        "key": Field(Text(), "name of the secret at that provider"),
        "map": Field(MapOf(Text()), "fields of the credential, each with the field of the secret it comes from"),
    },
)

EXECUTOR_SPEC = Fields(
    "executor.spec",
    {
        "entry_step": Field(Label(), "step that gets the first token"),
        "final_step": Field(Label(), "step that runs once when all others have ended"),
        "output": Field(Data(), "template of the execution's result"),
        "pool": Field(Text(), "pool of workers that runs the steps"),
        "timeout": Field(Duration(), "time limit of the whole execution"),
        "on_failure": Field(Choice("stop", "finish"), "whether other branches end first when one fails"),
        "join": Field(Choice("any", "all"), "default of the steps' `spec.join`"),
        "durability": Field(Choice("task", "step"), "what is made durable before going on"),
        "max_step_runs": Field(Integer(1, 10_000_000), "how many step runs an execution may have (100,000)"),
        "policy": Field(
            Fields(
                "executor.spec.policy",
                {
                    "limits": Field(
                        Fields(
                            "limits",
                            {"max_payload_bytes": Field(Integer(1), "values above this size become references")},
                        ),
                        "size limits",
                    ),
                    "results": Field(
                        Fields(
                            "results",
                            {"reference_first": Field(Boolean(), "store large results by reference")},
                        ),
                        "how results are kept",
                    ),
                },
                retired=NO_RULES,
            ),
            "runtime defaults",
        ),
        "result": Field(
            Fields("result", {"store": Field(STORE, "where large results are stored", required=True)}),
            "result store (the same as `results.store`)",
        ),
        **INHERITED,
    },
    retired=NO_DIRECTIVE,
    kinds=True,
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


class _Rule(Shape):
    """A rule: `{when, then}` or `{else: {then}}`. What `then` holds differs by scope."""

    words = "a rule (`when` and `then`, or `else`)"

    def __init__(self, then: Shape) -> None:
        self.rule = Fields(
            "a rule",
            {
                "when": Field(Guard(), "the condition", required=True),
                "then": Field(then, "what happens", required=True),
            },
            retired=OLD,
            missing=RULE_SHAPE,
        )
        self.otherwise = Fields(
            "a rule",
            {
                "else": Field(
                    Fields(
                        "else",
                        {"then": Field(then, "what happens", required=True)},
                        retired={
                            "do": Retired(
                                RULE_SHAPE, "'do' stands outside `then`", "write `else: {then: {do: ...}}`", ("then",)
                            )
                        },
                        missing=RULE_SHAPE,
                    ),
                    "what happens when nothing matched",
                    required=True,
                )
            },
            retired={
                "then": Retired(RULE_SHAPE, "'then' stands beside `else`", "write `else: {then: {...}}`"),
                "when": Retired(RULE_SHAPE, "a rule has either `when` or `else`", "split it into two rules"),
            },
        )

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            walk.problems.add(RULE_SHAPE, span, f"expected {self.words}, found {describe(value)}")
            return False
        before = set(value)
        shape = self.otherwise if "else" in value else self.rule
        return shape.check(value, span, walk) and self._complete(value, before)

    def _complete(self, value: Any, before: set[str]) -> bool:
        """A rule that lost its head or body is of no use to the checks that follow."""
        body = value.get("else") if "else" in before else value
        return is_map(body) and "then" in body and ("else" in before or "when" in value)

    def schema(self) -> Schema:
        return {"anyOf": [self.rule.schema(), self.otherwise.schema()]}


DELAY = Duration(templates=True)
TASK_THEN = Fields(
    "then",
    {
        "do": Field(
            Choice("continue", "retry", "jump", "break", "fail", "skip"), "what the pipeline does next", required=True
        ),
        "attempts": Field(Integer(1, 10_000), "retry: how often the task runs in all (3)"),
        "backoff": Field(Choice("none", "linear", "exponential"), "retry: how the wait grows (none)"),
        "delay": Field(DELAY, "retry or jump: seconds to wait (1 for retry, 0 for jump)"),
        "max_delay": Field(Duration(), "retry: the longest wait"),
        "jitter": Field(Boolean(), "retry: spread waits at random"),
        "to": Field(Label(), "jump: label of the task that runs next"),
        "set_iter": Field(MapOf(Data(), Name()), "writes to `iter`"),
        "set_ctx": Field(MapOf(Data(), Name()), "writes to `ctx`"),
    },
    retired=OLD,
    missing=RULE_WITHOUT_DO,
)
ADMIT_THEN = Fields(
    "then", {"allow": Field(Boolean(), "whether the token may enter", required=True)}, retired=NO_DIRECTIVE
)
TASK_RULE = _Rule(TASK_THEN)
ADMIT_RULE = _Rule(ADMIT_THEN)


class _Policy(Fields):
    """A task's policy, which has exactly one shape."""

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            message = f"a task policy is a map with `rules`, found {describe(value)}"
            walk.problems.add(POLICY_SHAPE, span, message, "write `policy: {rules: [...]}`")
            return False
        return super().check(value, span, walk) and "rules" in value


TASK_POLICY = _Policy(
    "a task policy",
    {"rules": Field(ListOf(TASK_RULE, least=1, what="the list of rules"), "rules, tried in order", required=True)},
    retired={**OLD, **NO_DIRECTIVE},
    missing=POLICY_SHAPE,
    definition="taskPolicy",
)
TIMEOUT = OneOf(
    "a time limit",
    Form(
        is_map,
        Fields(
            "a time limit",
            {
                "connect": Field(Duration(), "time to connect"),
                "read": Field(Duration(), "time between two reads"),
            },
        ),
    ),
    Form(anything, Duration()),
)
TASK_SPEC = Fields(
    "task.spec",
    {
        "timeout": Field(TIMEOUT, "time limit of one call; for http also {connect, read}"),
        "policy": Field(TASK_POLICY, "what happens after each outcome"),
        "pool": Field(Text(), "pool of workers that runs the task"),
        "exactly_once": Field(Boolean(), "postgres: keep a ledger row in the same transaction"),
        "async": Field(Boolean(), "accepted, without effect"),
        "mode": Field(Choice("sequential", "parallel"), "iterator: order of the items"),
        "max_in_flight": Field(Integer(1, 10_000), "iterator: how many items at once"),
        **INHERITED,
    },
    retired={
        **OLD,
        **NO_DIRECTIVE,
        "rules": Retired(POLICY_SHAPE, "'rules' stands outside `policy`", "write `spec: {policy: {rules: [...]}}`"),
    },
    definition="taskSpec",
)


class TaskShape(Shape):
    """A tool call: keys every task has, and the inputs of its kind."""

    words = "a task (a map with `kind`)"
    definition = "task"
    own_keys = ("kind", "name", "args", "spec")

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            walk.problems.add(WRONG_VALUE, span, f"expected {self.words}, found {describe(value)}")
            return False
        if "kind" not in value:
            hint = "add `kind:`, the tool to call; `noetl tools` lists them"
            walk.problems.add(MISSING_KEY, span, "a task has no 'kind'", hint)
            return False
        kind = walk.kinds.get(value["kind"]) if is_text(value["kind"]) else None
        if kind is None:
            self._unknown_kind(value, walk)
            return False
        self._check_common(value, kind.name, walk)
        check_inputs(value, kind, span, walk)
        if (
            kind.name == "iterator"
            and "tool" in value
            and not PIPELINE.check(value["tool"], span_in(value, "tool"), walk)
        ):
            del value["tool"]
        return True

    def _unknown_kind(self, value: Any, walk: Walk) -> None:
        where, given = span_in(value, "kind"), value["kind"]
        if is_template(given):
            walk.problems.add(UNKNOWN_KIND, where, "the kind of a task can't be a template", "write the kind itself")
            return
        known = sorted(walk.kinds.names())
        hint = walk.problems.did_you_mean(given, known) or f"known kinds: {', '.join(known)}"
        walk.problems.add(
            UNKNOWN_KIND, where, f"no tool kind is called {describe(given).removeprefix('the text ')}", hint
        )

    def _check_common(self, value: Any, kind: str, walk: Walk) -> None:
        shapes: dict[str, Shape] = {"args": ARGS, "spec": TASK_SPEC}
        if kind != "workbook":  # there `name` is the input that says which task
            shapes["name"] = Label()
        if walk.classic:
            shapes["retry"] = RETRY
        for key, shape in shapes.items():
            if key in value and not shape.check(value[key], span_in(value, key), walk):
                del value[key]
        for key, retired in OLD.items():
            if key in value:
                walk.problems.add(retired.check, key_span(value, key), retired.message, retired.hint)
                del value[key]


TASK = TaskShape()
ARGS = MapOf(Data(), Name())


class PipelineShape(Shape):
    """`tool`: one task, or a list of tasks in any of their forms."""

    words = "a task or a list of tasks"
    definition = "pipeline"

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if is_map(value):
            if "kind" not in value and len(value) == 1 and is_map(next(iter(value.values()))):
                hint = "write the list form: `- label: {kind: ...}`"
                walk.problems.add(WRONG_VALUE, span, "a labelled task must be an item of a list", hint)
                return False
            return TASK.check(value, span, walk)
        if not is_list(value):
            walk.problems.add(WRONG_VALUE, span, f"expected {self.words}, found {describe(value)}")
            return False
        if not value:
            walk.problems.add(WRONG_VALUE, span, "the list of tasks is empty", "add a task, or leave `tool` out")
            return False
        drop_items(value, [self._check_item(item, span_in(value, i), walk) for i, item in enumerate(value)])
        return True

    def _check_item(self, item: Any, span: Span, walk: Walk) -> bool:
        if not is_map(item) or "kind" in item or len(item) != 1:
            return TASK.check(item, span, walk)
        (label,) = item
        named = Label().check(label, key_span(item, label), walk)
        return TASK.check(item[label], span_in(item, label), walk) and named


PIPELINE = PipelineShape()

LOOP_SPEC = Fields(
    "loop.spec",
    {
        "mode": Field(Choice("sequential", "parallel"), "order of the items (sequential)"),
        "max_in_flight": Field(Integer(1, 10_000), "parallel: how many items at once (10)"),
        "policy": Field(
            Fields(
                "loop.spec.policy",
                {"exec": Field(Choice("distributed", "local"), "whether one worker keeps all items")},
                retired=NO_RULES,
            ),
            "where items run",
        ),
        "on_error": Field(Choice("fail", "continue"), "whether one failed item fails the step (fail)"),
        "collect": Field(Boolean(), "whether results of the items are kept (true)"),
        "batch_size": Field(Integer(1, 10_000), "the same as max_in_flight", rewrite="write `max_in_flight`"),
        **INHERITED,
    },
    retired=NO_DIRECTIVE,
    kinds=True,
)


class _Loop(Fields):
    """A loop needs a collection and a name, in either dialect's spelling."""

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        given = set(value) if is_map(value) else set()
        if not super().check(value, span, walk):
            return False
        complete = True
        for key, classic in (("in", "collection"), ("iterator", "element")):
            if key not in given and classic not in given:
                hint = 'write `loop: {in: "{{ workload.items }}", iterator: item}`'
                walk.problems.add(LOOP_INCOMPLETE, span, f"the loop has no {key!r}", hint)
            complete = complete and (key in value or classic in value)
        return complete


COLLECTION = OneOf("a list, or a template that gives one", Form(is_list, Data()), Form(is_template, Data()))
LOOP = _Loop(
    "a loop",
    {
        "in": Field(COLLECTION, "the collection"),
        "iterator": Field(Name(), "name of the current item in `iter`"),
        "spec": Field(LOOP_SPEC, "how the items run"),
        "mode": Field(
            Choice("sequential", "parallel", "async"),
            "order of the items",
            rewrite="write `loop: {spec: {mode: ...}}`",
        ),
        "collection": Field(COLLECTION, "the collection", rewrite="write `in`"),
        "element": Field(Name(), "name of the current item", rewrite="write `iterator`"),
    },
    retired={**OLD, **NO_DIRECTIVE},
)

ARC = Fields(
    "an arc",
    {
        "step": Field(Label(), "the step it leads to", required=True),
        "when": Field(Guard(), "its guard (always)"),
        "args": Field(ARGS, "what the token carries"),
        "spec": Field(Fields("arc.spec", {"delay": Field(Duration(), "time before the token arrives")}), "knobs"),
    },
    retired={**OLD, **NO_DIRECTIVE},
)


def _next_when(word: str) -> Retired:
    hint = "write `next: {arcs: [{step: ..., when: ...}]}`, or in the classic dialect a `case`"
    return Retired(NEXT_WHEN, f"{word!r} can't stand in `next`", hint, ("step", "to", "arcs"))


TARGET = Fields(
    "a target",
    {
        "step": Field(Label(), "the step", required=True),
        "args": Field(ARGS, "what the token carries"),
    },
    retired={word: _next_when(word) for word in ("when", "then", "else")},
)
TARGETS = ListOf(OneOf("a step", Form(is_text, Label()), Form(anything, TARGET)), least=1, what="the list of steps")
ROUTER = Fields(
    "next",
    {
        "spec": Field(
            Fields(
                "next.spec",
                {
                    "mode": Field(Choice("exclusive", "inclusive"), "whether the first or every matching arc fires"),
                    "policy": Field(Fields("next.spec.policy", {}, retired=NO_RULES), "reserved; must be empty"),
                },
                retired=NO_DIRECTIVE,
            ),
            "how arcs are chosen",
        ),
        "arcs": Field(ListOf(ARC), "the ways out", required=True),
    },
    retired={**{word: _next_when(word) for word in ("when", "then", "else")}, **OLD, **NO_DIRECTIVE},
)
NEXT_REWRITE = "write `next: {arcs: [{step: NAME}]}`; for several steps at once add `spec: {mode: inclusive}`"


def _has_conditions(value: Any) -> bool:
    """A list of conditions, as version 1 had it: the advice to drop the list would lose them."""
    return is_list(value) and any(is_map(item) and {"when", "then", "else"} & set(item) for item in value)


NEXT = OneOf(
    "the router `next`",
    Form(is_text, Label(), NEXT_REWRITE),
    Form(_has_conditions, TARGETS),
    Form(is_list, TARGETS, NEXT_REWRITE),
    Form(anything, ROUTER),
)

# ---- classic only -------------------------------------------------------------------------------------------------

RETRY = Fields(
    "retry",
    {
        "max_attempts": Field(Integer(1, 10_000), "how often the tool runs in all (3)"),
        "initial_delay": Field(Number(), "seconds before the second attempt (1)"),
        "backoff_multiplier": Field(Number(), "growth of the wait from attempt to attempt (1)"),
        "retry_when": Field(Guard(), "attempts go on only while this holds"),
        "stop_when": Field(Guard(), "attempts go on until this holds"),
        "on": Field(Choice("error"), "what is retried"),
        "scope": Field(Choice("tool", "chain", "step"), "what is run again (tool)"),
        "backoff": Field(
            Fields(
                "backoff",
                {
                    "type": Field(Choice("exponential", "linear", "fixed"), "how the wait grows (fixed)"),
                    "delay_seconds": Field(Number(), "the first wait (1)"),
                    "max_delay_seconds": Field(Number(), "the longest wait"),
                    "jitter": Field(Boolean(), "spread waits at random"),
                },
            ),
            "how long to wait",
        ),
    },
    definition="retry",
)
POLL = Fields(
    "poll",
    {
        "until": Field(Guard(), "the condition that ends it", required=True),
        "interval": Field(Duration(), "time between two calls (1s)"),
        "max_attempts": Field(Integer(1, 1_000_000), "how many calls"),
        "deadline": Field(Duration(), "how long in all"),
    },
)


class _Sink(Fields):
    """A sink may name its table itself, beside the tool."""

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        tool = value.get("tool") if is_map(value) else None
        name = tool.get("kind") if isinstance(tool, dict) else None
        kind = walk.kinds.get(name) if isinstance(name, str) else None
        if kind is not None and "table" in value:
            check_table(value, tool, kind, walk)
            known = walk.defaults.get(kind.name, set()) | {"table"}
            walk = walk._replace(defaults={**walk.defaults, kind.name: known})
        return super().check(value, span, walk) and "tool" in value


SINK = _Sink(
    "a sink",
    {
        "tool": Field(TASK, "the tool that stores", required=True),
        "table": Field(Text(), "the table, where the tool has none"),
        "args": Field(Data(), "columns by name, or a list of rows"),
        "when": Field(Guard(), "whether it runs"),
        "retry": Field(RETRY, "how it is retried"),
    },
    definition="sink",
)
SET = MapOf(Data(), Name())
COMPUTED = OneOf("a step's name, or a template that gives one", Form(is_template, Data()), Form(anything, Label()))
CHAIN_TARGET = Fields(
    "a target",
    {"step": Field(COMPUTED, "the step", required=True), "args": Field(ARGS, "what the token carries")},
    retired={word: _next_when(word) for word in ("when", "then", "else")},
)
CHAIN_TARGETS = ListOf(
    OneOf("a step", Form(is_text, COMPUTED), Form(anything, CHAIN_TARGET)), least=1, what="the list of steps"
)
GOTO = OneOf(
    "a `next`",
    Form(is_text, COMPUTED),
    Form(is_list, CHAIN_TARGETS),
    Form(
        anything,
        Fields(
            "next",
            {
                "to": Field(CHAIN_TARGETS, "the steps to go to", required=True),
                "policy": Field(Choice("end_step", "break_chain", "defer"), "what it does to other branches"),
                "priority": Field(Integer(-1_000_000, 1_000_000), "which `next` wins where several are reached"),
                "spec": Field(Fields("next.spec", {"delay": Field(Duration(), "time to wait before")}), "knobs"),
            },
            retired={
                **{word: _next_when(word) for word in ("when", "then", "else")},
                "arcs": Retired(
                    NEXT_WHEN, "`arcs` belongs to a step's own router", "write `next: {to: [{step: ...}]}`"
                ),
            },
        ),
    ),
)
CHAIN_TASK = Fields(
    "a task of a chain",
    {
        "tool": Field(TASK, "the tool to call", required=True),
        "args": Field(ARGS, "arguments of the call"),
        "retry": Field(RETRY, "how it is retried"),
        "poll": Field(POLL, "until when it is repeated"),
    },
    retired=OLD,
    definition="chainTask",
)


class _ChainItem(Shape):
    """`- name: {tool: ...}`, `- next: ...`, `- sink: {...}` or `- set: {...}`."""

    words = "a task, `next`, `sink` or `set`"

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value) or len(value) != 1:
            hint = "write one per item: `- name: {tool: {kind: ...}}` or `- next: {to: [{step: ...}]}`"
            walk.problems.add(WRONG_VALUE, span, f"expected {self.words}, found {describe(value)}", hint)
            return False
        (name,) = value
        special: dict[str, Shape] = {"next": GOTO, "sink": SINK, "set": SET}
        shape = special.get(name, CHAIN_TASK)
        named = name in special or Label().check(name, key_span(value, name), walk)
        usable = shape.check(value[name], span_in(value, name), walk)
        needed = {"next": None, "set": None}.get(name, "tool")
        return named and usable and (needed is None or needed in value[name])

    def schema(self) -> Schema:
        special = {"next": GOTO.embed(), "sink": SINK.embed(), "set": SET.embed()}
        return {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": special,
            "additionalProperties": CHAIN_TASK.embed(),
        }


CHAIN = OneOf(
    "what a branch does",
    Form(is_list, ListOf(_ChainItem(), what="the list of tasks")),
    Form(
        anything,
        Fields(
            "then",
            {
                "next": Field(GOTO, "where to go"),
                "sink": Field(SINK, "what to store"),
                "set": Field(SET, "variables to set"),
                "retry": Field(RETRY, "default of the branch's tools"),
            },
            retired=OLD,
        ),
    ),
)


class _Branch(Shape):
    """`{when, then}` or `{else: chain}`."""

    words = "a branch (`when` and `then`, or `else`)"
    common = {
        "priority": Field(Integer(-1_000_000, 1_000_000), "rank for branch_order: priority"),
        "spec": Field(Fields("case.spec", {"cache": Field(Boolean(), "accepted, without effect")}), "knobs"),
        "retry": Field(RETRY, "default of the branch's tools"),
    }
    branch = Fields(
        "a branch",
        {
            "when": Field(Guard(), "the condition", required=True),
            "then": Field(CHAIN, "what happens", required=True),
            **common,
        },
        retired=OLD,
    )
    otherwise = Fields("a branch", {"else": Field(CHAIN, "what happens when nothing matched", required=True), **common})

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            walk.problems.add(WRONG_VALUE, span, f"expected {self.words}, found {describe(value)}")
            return False
        otherwise = "else" in value
        shape = self.otherwise if otherwise else self.branch
        return shape.check(value, span, walk) and ("else" in value or ("when" in value and "then" in value))

    def schema(self) -> Schema:
        return {"anyOf": [self.branch.schema(), self.otherwise.schema()]}


CASE = ListOf(_Branch(), least=1, what="the list of branches")

# ---- step and root ------------------------------------------------------------------------------------------------

_CASE_REWRITE = "route with guards on `next.arcs`; put calls into steps of their own"
STEP_SPEC = Fields(
    "step.spec",
    {
        "timeout": Field(Duration(), "wall time a run of the step may take"),
        "pool": Field(Text(), "pool of workers that runs the step"),
        "join": Field(Choice("any", "all"), "whether each token fires the step or all meet first (any)"),
        "timers": Field(MapOf(Duration(), Name()), "timers armed on entry, by name"),
        "policy": Field(
            Fields(
                "step.spec.policy",
                {
                    "admit": Field(
                        Fields(
                            "admit",
                            {
                                "mode": Field(
                                    Choice("exclusive", "inclusive"), "first match, or every match must allow"
                                ),
                                "rules": Field(
                                    ListOf(ADMIT_RULE, least=1, what="the list of rules"),
                                    "rules",
                                    required=True,
                                ),
                            },
                            retired={**OLD, **NO_DIRECTIVE},
                        ),
                        "the gate a token passes before the step is scheduled",
                    )
                },
                retired=NO_RULES,
            ),
            "server-side policy",
        ),
        "case_mode": Field(Choice("exclusive", "inclusive"), "first or all matching branches", rewrite=_CASE_REWRITE),
        "eval_mode": Field(Choice("on_entry", "on_event"), "when the case is looked at", rewrite=_CASE_REWRITE),
        "branch_order": Field(Choice("source", "priority"), "order of branches", rewrite=_CASE_REWRITE),
        "next_policy": Field(
            Choice("end_step", "break_chain", "defer"),
            "what `next` does to other branches",
            rewrite=_CASE_REWRITE,
        ),
        "on_error": Field(
            Choice("fail", "ignore", "retry"),
            "what an error of the tool does",
            rewrite="write a rule in the task's policy",
        ),
        **INHERITED,
    },
    retired={
        "next_mode": Retired(NEXT_MODE, "`spec.next_mode` is gone", "write `next: {spec: {mode: ...}, arcs: [...]}`"),
        **NO_DIRECTIVE,
    },
    kinds=True,
)
STEP = Fields(
    "a step",
    {
        "step": Field(Label(), "its name", required=True),
        "desc": Field(Description(), "what it does"),
        "spec": Field(STEP_SPEC, "knobs and the admission gate"),
        "loop": Field(LOOP, "runs the pipeline once per item"),
        "tool": Field(PIPELINE, "the pipeline: tasks in order"),
        "next": Field(NEXT, "the router: arcs to other steps"),
        "args": Field(ARGS, "arguments of the tool", rewrite="give `args` to the task, or to the arc that leads here"),
        "vars": Field(SET, "variables from the result", rewrite="write `set_ctx` in a rule of the task's policy"),
        "case": Field(CASE, "branches on the outcome", rewrite=_CASE_REWRITE),
        "sink": Field(SINK, "stores the result", rewrite="add a storage task to the end of `tool`"),
        "retry": Field(RETRY, "how the tool is retried", rewrite="write a rule with `do: retry` in the task's policy"),
    },
    retired={
        "when": Retired(STEP_WHEN, "a step can't have 'when'", ADMIT_HINT),
        **OLD,
        **NO_DIRECTIVE,
    },
)

WORKBOOK_ENTRY = Fields(
    "a workbook entry",
    {
        "name": Field(Name(), "name it is called by", required=True),
        "tool": Field(TASK, "the tool call", required=True),
        "sink": Field(SINK, "stores the result", rewrite="add a storage task after the call"),
    },
)


class _Workbook(Shape):
    """Named tasks: `{tasks: {NAME: {...}}}`, `{NAME: {...}}`, or a list of `{name, tool}`."""

    words = "a map of named tasks"
    tasks = MapOf(TASK, Name())
    wrapped = Fields("workbook", {"tasks": Field(tasks, "tasks by name")})

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if is_list(value):
            return ListOf(WORKBOOK_ENTRY).check(value, span, walk)
        if is_map(value) and "tasks" in value and not (is_map(value["tasks"]) and "kind" in value["tasks"]):
            return self.wrapped.check(value, span, walk)
        return self.tasks.check(value, span, walk)

    def schema(self) -> Schema:
        forms = [self.wrapped.schema(), self.tasks.schema(), ListOf(WORKBOOK_ENTRY).schema()]
        return {"anyOf": forms}


def _root_vars() -> Retired:
    return Retired(
        ROOT_VARS,
        "'vars' can't stand at the root",
        "put inputs into `workload`, and state into `ctx` by `set_ctx`",
    )


ROOT = Fields(
    "a playbook",
    {
        "apiVersion": Field(
            Exactly("noetl.io/v2", API_VERSION, "this engine runs noetl.io/v2 only"),
            "version of the language: `noetl.io/v2`",
            required=True,
        ),
        "kind": Field(
            Exactly("Playbook", DOCUMENT_KIND, "write `kind: Playbook`"),
            "what the document is: `Playbook`",
            required=True,
        ),
        "metadata": Field(METADATA, "name, path and what else describes it", required=True),
        "keychain": Field(ListOf(CREDENTIAL), "credentials it needs"),
        "executor": Field(EXECUTOR, "runtime choices and defaults"),
        "workload": Field(MapOf(Data()), "inputs with their defaults"),
        "workflow": Field(ListOf(STEP, least=1, what="the list of steps"), "the steps", required=True),
        "workbook": Field(_Workbook(), "tasks that several steps use"),
    },
    retired={"vars": _root_vars()},
)

DEFINITIONS = (TASK_SPEC, TASK_POLICY, RESULTS, RETRY, SINK, CHAIN_TASK)
"""Shapes that the schema defines once and refers to."""
