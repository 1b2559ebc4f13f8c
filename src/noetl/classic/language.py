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
    WRONG_VALUE,
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
    anything,
    describe,
    is_list,
    is_map,
    is_text,
)
from noetl.dsl.tree import Span, is_template, key_span, span_in

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
        "backoff": Field(
            Fields(
                "backoff",
                {
                    "type": Field(Choice("exponential", "linear", "fixed"), "how the wait grows (fixed)"),
                    "delay_seconds": Field(NUMBER, "the first wait (1)"),
                    "max_delay_seconds": Field(NUMBER, "the longest wait"),
                    "jitter": Field(BOOLEAN, "spread waits at random"),
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
        "until": Field(GUARD, "condition that ends the poll", required=True),
        "interval": Field(DURATION, "time between two calls (1s)"),
        "max_attempts": Field(Integer(1, 1_000_000), "maximum number of calls"),
        "deadline": Field(DURATION, "maximum total time"),
    },
)


class SinkShape(Fields):
    """A sink may name its table itself, beside the tool."""

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        tool = value.get("tool") if is_map(value) else None
        name = tool.get("kind") if isinstance(tool, dict) else None
        kind = walk.kinds.get(name) if isinstance(name, str) else None
        if kind is not None and "table" in value:
            check_table(value, tool, kind, walk)
            defaults = walk.defaults.get(kind.name, set()) | {"table"}
            walk = walk._replace(defaults={**walk.defaults, kind.name: defaults})
        return super().check(value, span, walk) and "tool" in value


SINK = SinkShape(
    "a sink",
    {
        "tool": Field(TASK, "the tool that stores", required=True),
        "table": Field(TEXT, "the table, if the tool names none"),
        "args": Field(DATA, "columns by name, or a list of rows"),
        "when": Field(GUARD, "whether it runs"),
        "retry": Field(RETRY, "how it is retried"),
    },
    definition="sink",
)
SET = MapOf(DATA, NAME)
COMPUTED = OneOf("a step's name, or a template that gives one", Form(is_template, DATA), Form(anything, LABEL))
CHAIN_TARGET = Fields(
    "a target",
    {"step": Field(COMPUTED, "the step", required=True), "args": Field(ARGS, "what the token carries")},
    retired=CONDITIONS,
)
CHAIN_TARGETS = ListOf(
    OneOf("a step", Form(is_text, COMPUTED), Form(anything, CHAIN_TARGET)), least=1, words="the list of steps"
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
                "priority": Field(Integer(-1_000_000, 1_000_000), "the highest priority wins if several are reached"),
                "spec": Field(Fields("next.spec", {"delay": Field(DURATION, "time to wait before")}), "knobs"),
            },
            retired={
                **CONDITIONS,
                "arcs": Retired(
                    document.NEXT_WHEN, "`arcs` belongs to a step's own router", "write `next: {to: [{step: ...}]}`"
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
        "poll": Field(POLL, "repeats the call until a condition is true"),
    },
    retired=OLD,
    definition="chainTask",
)


class ChainItemShape(Shape):
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
        named = name in special or LABEL.check(name, key_span(value, name), walk)
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
    Form(is_list, ListOf(ChainItemShape(), words="the list of tasks")),
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


class BranchShape(Shape):
    """`{when, then}` or `{else: chain}`."""

    words = "a branch (`when` and `then`, or `else`)"
    common = {
        "priority": Field(Integer(-1_000_000, 1_000_000), "rank for branch_order: priority"),
        "spec": Field(Fields("case.spec", {"cache": Field(BOOLEAN, "accepted, without effect")}), "knobs"),
        "retry": Field(RETRY, "default of the branch's tools"),
    }
    branch = Fields(
        "a branch",
        {
            "when": Field(GUARD, "the condition", required=True),
            "then": Field(CHAIN, "what happens", required=True),
            **common,
        },
        retired=OLD,
    )
    otherwise = Fields("a branch", {"else": Field(CHAIN, "what happens if no branch matched", required=True), **common})

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            return self.refuse(value, span, walk)
        otherwise = "else" in value
        shape = self.otherwise if otherwise else self.branch
        return shape.check(value, span, walk) and ("else" in value or ("when" in value and "then" in value))

    def schema(self) -> Schema:
        return {"anyOf": [self.branch.schema(), self.otherwise.schema()]}


CASE = ListOf(BranchShape(), least=1, words="the list of branches")

_CASE_REWRITE = "route with guards on `next.arcs`; put calls into steps of their own"
_NEXT_REWRITE = "write `next: {arcs: [{step: NAME}]}`; for several steps at once add `spec: {mode: inclusive}`"
TARGET = Fields(
    "a target",
    {"step": Field(LABEL, "the step", required=True), "args": Field(ARGS, "what the token carries")},
    retired=CONDITIONS,
)
TARGETS = ListOf(OneOf("a step", Form(is_text, LABEL), Form(anything, TARGET)), least=1, words="the list of steps")


def _has_conditions(value: Any) -> bool:
    """Whether the value is a list of conditions, as in version 1; the usual advice would lose them."""
    return is_list(value) and any(is_map(item) and CONDITIONS.keys() & set(item) for item in value)


NEXT = OneOf(
    "the router `next`",
    Form(is_text, LABEL, _NEXT_REWRITE),
    Form(_has_conditions, TARGETS),
    Form(is_list, TARGETS, _NEXT_REWRITE),
    Form(anything, ROUTER),
)
LOOP_SPEC = document.LOOP_SPEC.extended(
    batch_size=Field(Integer(1, 10_000), "the same as max_in_flight", rewrite="write `max_in_flight`")
)
LOOP = LoopShape(
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
    (("in", "collection"), ("iterator", "element")),
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
