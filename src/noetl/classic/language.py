"""The keys that only the classic dialect has, added to the tables of `noetl.dsl.document`.

`ROOT` describes both dialects: a field with a `rewrite` is rejected in a canonical playbook, with that advice.
"""

from __future__ import annotations

from typing import Any

from noetl.dsl import document
from noetl.dsl.document import ARGS, CONDITIONS, OLD, ROUTER, TASK
from noetl.dsl.inputs import check_table
from noetl.dsl.other_words import retry_advice, written
from noetl.dsl.part_shapes import when_or_else, workbook_shape
from noetl.dsl.scalar_shapes import BOOLEAN, DATA, DURATION, GUARD, LABEL, NAME, NUMBER, TEXT
from noetl.dsl.shape import Choice, Field, Fields, Form, Integer, ListOf, MapOf, OneOf, Retired, Schema, Shape, Walk
from noetl.dsl.tree import Span, is_template, key_span, span_in

_BACKOFF = Fields(
    "backoff",
    Field("type", Choice("exponential", "linear", "fixed"), "how the wait grows (fixed)"),
    Field("delay_seconds", NUMBER, "the first wait (1)"),
    Field("max_delay_seconds", NUMBER, "the longest wait"),
    Field("jitter", BOOLEAN, "spread waits at random"),
    hint=lambda value: f"write `backoff: {{type: {written(value, 'fixed')}}}`",
)
RETRY = Fields(
    "retry",
    Field("max_attempts", Integer(1, 10_000), "maximum number of calls (3)"),
    Field("initial_delay", NUMBER, "seconds before the second attempt (1)"),
    Field("backoff_multiplier", NUMBER, "factor of the wait from attempt to attempt (1)"),
    Field("retry_when", GUARD, "retry only while this is true"),
    Field("stop_when", GUARD, "retry until this is true"),
    Field("on", Choice("error"), "what is retried"),
    Field("scope", Choice("tool", "chain", "step"), "what is repeated (tool)"),
    Field("backoff", _BACKOFF, "how long to wait"),
    definition="retry",
    hint=lambda value: retry_advice({"retry": value}, "retry"),
)
POLL = Fields(
    "poll",
    Field("until", GUARD, "condition that ends the poll", required=True),
    Field("interval", DURATION, "time between two calls (1s)"),
    Field("max_attempts", Integer(1, 1_000_000), "maximum number of calls"),
    Field("deadline", DURATION, "maximum total time; it also limits the call under way"),
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
    Field("tool", TASK, "the tool that stores", required=True),
    Field("table", TEXT, "the table, if the tool names none"),
    Field("args", DATA, "columns by name, or a list of rows"),
    Field("when", GUARD, "whether it runs"),
    Field("retry", RETRY, "how it is retried"),
    whole=True,
    definition="sink",
)
SET = MapOf(DATA, NAME)
COMPUTED = OneOf("a step's name, or a template that gives one", Form(is_template, DATA), Form(object, LABEL))


def _targets(step: Shape) -> ListOf:
    args = Field("args", ARGS, "args of the token")
    target = Fields("a target", Field("step", step, "the step", required=True), args, retired=CONDITIONS)
    return ListOf(OneOf("a step", Form(str, step), Form(object, target)), least=1, words="the list of steps")


CHAIN_TARGETS, TARGETS = _targets(COMPUTED), _targets(LABEL)
_ARCS = Retired(document.NEXT_WHEN, "`arcs` belongs to a step's own router", "write `next: {to: [{step: ...}]}`")
_GOTO = Fields(
    "next",
    Field("to", CHAIN_TARGETS, "the steps to go to", required=True),
    Field("policy", Choice("end_step", "break_chain", "defer"), "effect on other branches"),
    Field("priority", Integer(-1_000_000, 1_000_000), "the highest priority wins if several are reached"),
    Field("spec", Fields("next.spec", Field("delay", DURATION, "delay of the tokens")), "options"),
    retired={**CONDITIONS, "arcs": _ARCS},
)
GOTO = OneOf("a `next`", Form(str, COMPUTED), Form(list, CHAIN_TARGETS), Form(object, _GOTO))
CHAIN_TASK = Fields(
    "a task of a chain",
    Field("tool", TASK, "the tool to call", required=True),
    Field("args", ARGS, "arguments of the call"),
    Field("retry", RETRY, "how it is retried"),
    Field("poll", POLL, "repeats the call until a condition is true"),
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
        if name == "step":
            hint = f"write `- next: {{to: [{{step: {written(value[name], 'NAME')}}}]}}`"
            return self.refuse(value, span, walk, hint=hint)
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
    Field("next", GOTO, "where to go"),
    Field("sink", SINK, "what to store"),
    Field("set", SET, "variables to set"),
    Field("retry", RETRY, "default of the branch's tools; without tools, it repeats the call of the step"),
    retired=OLD,
)
_CHAIN_ITEMS = ListOf(ChainItemShape("a task, `next`, `sink` or `set`"), words="the list of tasks")
CHAIN = OneOf("what a branch does", Form(list, _CHAIN_ITEMS), Form(object, _CHAIN))
_BRANCH = (
    Field("priority", Integer(-1_000_000, 1_000_000), "rank for branch_order: priority"),
    Field("spec", Fields("case.spec", Field("cache", BOOLEAN, "accepted, without effect")), "options"),
    Field("retry", RETRY, "default of the branch's tools; without tools, it repeats the call of the step"),
)
_WHEN = (Field("when", GUARD, "the condition", required=True), Field("then", CHAIN, "what happens", required=True))
_ELSE = Field("else", CHAIN, "what happens if no branch matched", required=True)
BRANCH = when_or_else(
    "a branch (`when` and `then`, or `else`)",
    Fields("a branch", *_WHEN, *_BRANCH, retired=OLD, whole=True),
    Fields("a branch", _ELSE, *_BRANCH, whole=True),
)
CASE = ListOf(BRANCH, least=1, words="the list of branches")

_CASE_REWRITE = "route with guards on `next.arcs`; put calls into steps of their own"
_NEXT_REWRITE = "write `next: {arcs: [{step: NAME}]}`; for several steps at once add `spec: {mode: inclusive}`"


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
    Field("batch_size", Integer(1, 10_000), "the same as max_in_flight", rewrite="write `max_in_flight`")
)
LOOP = document.LOOP.extended(
    Field("spec", LOOP_SPEC, "how the items run"),
    Field(
        "mode",
        Choice("sequential", "parallel", "async"),
        "order of the items",
        rewrite="write `loop: {spec: {mode: ...}}`",
    ),
    Field("collection", document.COLLECTION, "the collection", rewrite="write `in`"),
    Field("element", NAME, "name of the current item", rewrite="write `iterator`"),
)
STEP_SPEC = document.STEP_SPEC.extended(
    Field("case_mode", Choice("exclusive", "inclusive"), "first or all matching branches", rewrite=_CASE_REWRITE),
    Field("eval_mode", Choice("on_entry", "on_event"), "when branches are evaluated", rewrite=_CASE_REWRITE),
    Field("branch_order", Choice("source", "priority"), "order of branches", rewrite=_CASE_REWRITE),
    Field(
        "next_policy",
        Choice("end_step", "break_chain", "defer"),
        "effect of `next` on other branches",
        rewrite=_CASE_REWRITE,
    ),
    Field(
        "on_error",
        Choice("fail", "ignore", "retry"),
        "effect of an error of the tool",
        rewrite="write a rule in the task's policy",
    ),
)
STEP = document.STEP.extended(
    Field("spec", STEP_SPEC, "options and the admission gate"),
    Field("loop", LOOP, "runs the pipeline once per item"),
    Field("next", NEXT, "the router: arcs to other steps"),
    Field("args", ARGS, "arguments of the tool", rewrite="give `args` to the task, or to the arc that leads here"),
    Field("vars", SET, "variables from the result", rewrite="write `set_ctx` in a rule of the task's policy"),
    Field("case", CASE, "branches on the outcome", rewrite=_CASE_REWRITE),
    Field("sink", SINK, "stores the result", rewrite="add a storage task to the end of `tool`"),
    Field("retry", RETRY, "how the tool is retried", rewrite="write a rule with `do: retry` in the task's policy"),
)
WORKBOOK_ENTRY = document.WORKBOOK_ENTRY.extended(
    Field("sink", SINK, "stores the result", rewrite="add a storage task after the call")
)
WORKBOOK = workbook_shape(TASK, WORKBOOK_ENTRY)
ROOT = document.ROOT.extended(
    Field(
        "workflow",
        ListOf(STEP, least=1, words="the list of steps", example=document.STEPS_EXAMPLE),
        "the steps",
        required=True,
    ),
    Field("workbook", WORKBOOK, "tasks that several steps use"),
)
DEFINITIONS = (*document.DEFINITIONS, RETRY, SINK, CHAIN_TASK)
TASK_KEYS: dict[str, Shape] = {"retry": RETRY}
