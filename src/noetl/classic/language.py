"""The keys that only the classic dialect has, added to the tables of `noetl.dsl.document`.

`ROOT` describes both dialects: a field with a `rewrite` is rejected in a canonical playbook, with that advice.
"""

from __future__ import annotations

from typing import Any

from noetl.dsl import document
from noetl.dsl.document import ARGS, CONDITIONS, OLD, ROUTER, TASK
from noetl.dsl.inputs import check_table
from noetl.dsl.part_shapes import LoopShape, WorkbookShape
from noetl.dsl.shape import (
    BOOLEAN,
    DATA,
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
    Schema,
    Shape,
    Walk,
    WhenOrElse,
)
from noetl.dsl.tree import Span, is_template, key_span, span_in

_BACKOFF = {
    "type": Field(Choice("exponential", "linear", "fixed"), "how the wait grows (fixed)"),
    "delay_seconds": Field(NUMBER, "the first wait (1)"),
    "max_delay_seconds": Field(NUMBER, "the longest wait"),
    "jitter": Field(BOOLEAN, "spread waits at random"),
}
RETRY = Fields(
    "retry",
    {
        "max_attempts": Field(Integer(1, 10_000), "maximum number of calls (3)"),
        "initial_delay": Field(NUMBER, "seconds before the second attempt (1)"),
        "backoff_multiplier": Field(NUMBER, "factor of the wait from attempt to attempt (1)"),
        "retry_when": Field(GUARD, "retry only while this is true"),
        "stop_when": Field(GUARD, "retry until this is true"),
        "on": Field(Choice("error"), "what is retried"),
        "scope": Field(Choice("tool", "chain", "step"), "what is repeated (tool)"),
        "backoff": Field(Fields("backoff", _BACKOFF), "how long to wait"),
    },
    definition="retry",
)
POLL = Fields(
    "poll",
    {
        "until": Field(GUARD, "condition that ends the poll", required=True),
        "interval": Field(DURATION, "time between two calls (1s)"),
        "max_attempts": Field(Integer(1, 1_000_000), "maximum number of calls"),
        "deadline": Field(DURATION, "maximum total time"),
    },
)


class SinkShape(Fields):
    """A sink may name its table next to its tool."""

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        tool = value.get("tool") if isinstance(value, dict) else None
        name = tool.get("kind") if isinstance(tool, dict) else None
        kind = walk.kinds.get(name) if isinstance(name, str) else None
        if kind is not None and "table" in value:
            check_table(value, tool, kind, walk)
            defaults = walk.defaults.get(kind.name, set()) | {"table"}
            walk = walk._replace(defaults={**walk.defaults, kind.name: defaults})
        return super().check(value, span, walk)


SINK = SinkShape(
    "a sink",
    {
        "tool": Field(TASK, "the tool that stores", required=True),
        "table": Field(TEXT, "the table, if the tool names none"),
        "args": Field(DATA, "columns by name, or a list of rows"),
        "when": Field(GUARD, "whether it runs"),
        "retry": Field(RETRY, "how it is retried"),
    },
    whole=True,
    definition="sink",
)
SET = MapOf(DATA, NAME)
COMPUTED = OneOf("a step's name, or a template that gives one", Form(is_template, DATA), Form(object, LABEL))
CHAIN_TARGET = Fields(
    "a target",
    {"step": Field(COMPUTED, "the step", required=True), "args": Field(ARGS, "what the token carries")},
    retired=CONDITIONS,
)
CHAIN_TARGETS = ListOf(
    OneOf("a step", Form(str, COMPUTED), Form(object, CHAIN_TARGET)), least=1, words="the list of steps"
)
_ARCS = Retired(document.NEXT_WHEN, "`arcs` belongs to a step's own router", "write `next: {to: [{step: ...}]}`")
_GOTO = Fields(
    "next",
    {
        "to": Field(CHAIN_TARGETS, "the steps to go to", required=True),
        "policy": Field(Choice("end_step", "break_chain", "defer"), "what it does to other branches"),
        "priority": Field(Integer(-1_000_000, 1_000_000), "the highest priority wins if several are reached"),
        "spec": Field(Fields("next.spec", {"delay": Field(DURATION, "time to wait before")}), "knobs"),
    },
    retired={**CONDITIONS, "arcs": _ARCS},
)
GOTO = OneOf("a `next`", Form(str, COMPUTED), Form(list, CHAIN_TARGETS), Form(object, _GOTO))
CHAIN_TASK = Fields(
    "a task of a chain",
    {
        "tool": Field(TASK, "the tool to call", required=True),
        "args": Field(ARGS, "arguments of the call"),
        "retry": Field(RETRY, "how it is retried"),
        "poll": Field(POLL, "repeats the call until a condition is true"),
    },
    retired=OLD,
    whole=True,
    definition="chainTask",
)


class ChainItemShape(Shape):
    """`- name: {tool: ...}`, `- next: ...`, `- sink: {...}` or `- set: {...}`."""

    special: dict[str, Shape] = {"next": GOTO, "sink": SINK, "set": SET}

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not isinstance(value, dict) or len(value) != 1:
            hint = "write one per item: `- name: {tool: {kind: ...}}` or `- next: {to: [{step: ...}]}`"
            return self.refuse(value, span, walk, hint=hint)
        (name,) = value
        named = name in self.special or LABEL.check(name, key_span(value, name), walk)
        return self.special.get(name, CHAIN_TASK).check(value[name], span_in(value, name), walk) and named

    def schema(self) -> Schema:
        return {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {name: shape.embed() for name, shape in self.special.items()},
            "additionalProperties": CHAIN_TASK.embed(),
        }


_CHAIN = Fields(
    "then",
    {
        "next": Field(GOTO, "where to go"),
        "sink": Field(SINK, "what to store"),
        "set": Field(SET, "variables to set"),
        "retry": Field(RETRY, "default of the branch's tools"),
    },
    retired=OLD,
)
_CHAIN_ITEMS = ListOf(ChainItemShape("a task, `next`, `sink` or `set`"), words="the list of tasks")
CHAIN = OneOf("what a branch does", Form(list, _CHAIN_ITEMS), Form(object, _CHAIN))
_BRANCH = {
    "priority": Field(Integer(-1_000_000, 1_000_000), "rank for branch_order: priority"),
    "spec": Field(Fields("case.spec", {"cache": Field(BOOLEAN, "accepted, without effect")}), "knobs"),
    "retry": Field(RETRY, "default of the branch's tools"),
}
_WHEN = {"when": Field(GUARD, "the condition", required=True), "then": Field(CHAIN, "what happens", required=True)}
_ELSE = {"else": Field(CHAIN, "what happens if no branch matched", required=True)}
BRANCH = WhenOrElse(
    "a branch (`when` and `then`, or `else`)",
    Fields("a branch", _WHEN | _BRANCH, retired=OLD, whole=True),
    Fields("a branch", _ELSE | _BRANCH, whole=True),
)
CASE = ListOf(BRANCH, least=1, words="the list of branches")

_CASE_REWRITE = "route with guards on `next.arcs`; put calls into steps of their own"
_NEXT_REWRITE = "write `next: {arcs: [{step: NAME}]}`; for several steps at once add `spec: {mode: inclusive}`"
TARGET = Fields(
    "a target",
    {"step": Field(LABEL, "the step", required=True), "args": Field(ARGS, "what the token carries")},
    retired=CONDITIONS,
)
TARGETS = ListOf(OneOf("a step", Form(str, LABEL), Form(object, TARGET)), least=1, words="the list of steps")


def _has_conditions(value: Any) -> bool:
    """Whether the value is a list of conditions, as in version 1; the usual advice would lose them."""
    return isinstance(value, list) and any(isinstance(item, dict) and CONDITIONS.keys() & set(item) for item in value)


NEXT = OneOf(
    "the router `next`",
    Form(str, LABEL, _NEXT_REWRITE),
    Form(_has_conditions, TARGETS),
    Form(list, TARGETS, _NEXT_REWRITE),
    Form(object, ROUTER),
)
LOOP_SPEC = document.LOOP_SPEC.extended(
    batch_size=Field(Integer(1, 10_000), "the same as max_in_flight", rewrite="write `max_in_flight`")
)


class ClassicLoopShape(LoopShape):
    needed = (("in", "collection"), ("iterator", "element"))


LOOP = ClassicLoopShape(
    "a loop",
    {
        **document.LOOP.fields,
        "spec": Field(LOOP_SPEC, "how the items run"),
        "mode": Field(
            Choice("sequential", "parallel", "async"), "order of the items", rewrite="write `loop: {spec: {mode: ...}}`"
        ),
        "collection": Field(document.COLLECTION, "the collection", rewrite="write `in`"),
        "element": Field(NAME, "name of the current item", rewrite="write `iterator`"),
    },
    document.LOOP.retired,
)
STEP_SPEC = document.STEP_SPEC.extended(
    case_mode=Field(Choice("exclusive", "inclusive"), "first or all matching branches", rewrite=_CASE_REWRITE),
    eval_mode=Field(Choice("on_entry", "on_event"), "when branches are evaluated", rewrite=_CASE_REWRITE),
    branch_order=Field(Choice("source", "priority"), "order of branches", rewrite=_CASE_REWRITE),
    next_policy=Field(
        Choice("end_step", "break_chain", "defer"), "what `next` does to other branches", rewrite=_CASE_REWRITE
    ),
    on_error=Field(
        Choice("fail", "ignore", "retry"), "what an error of the tool does", rewrite="write a rule in the task's policy"
    ),
)
STEP = document.STEP.extended(
    spec=Field(STEP_SPEC, "knobs and the admission gate"),
    loop=Field(LOOP, "runs the pipeline once per item"),
    next=Field(NEXT, "the router: arcs to other steps"),
    args=Field(ARGS, "arguments of the tool", rewrite="give `args` to the task, or to the arc that leads here"),
    vars=Field(SET, "variables from the result", rewrite="write `set_ctx` in a rule of the task's policy"),
    case=Field(CASE, "branches on the outcome", rewrite=_CASE_REWRITE),
    sink=Field(SINK, "stores the result", rewrite="add a storage task to the end of `tool`"),
    retry=Field(RETRY, "how the tool is retried", rewrite="write a rule with `do: retry` in the task's policy"),
)
WORKBOOK_ENTRY = document.WORKBOOK_ENTRY.extended(
    sink=Field(SINK, "stores the result", rewrite="add a storage task after the call")
)
ROOT = document.ROOT.extended(
    workflow=Field(ListOf(STEP, least=1, words="the list of steps"), "the steps", required=True),
    workbook=Field(WorkbookShape(TASK, WORKBOOK_ENTRY), "tasks that several steps use"),
)
DEFINITIONS = (*document.DEFINITIONS, RETRY, SINK, CHAIN_TASK)
TASK_KEYS: dict[str, Shape] = {"retry": RETRY}
