"""Shapes of particular parts of a playbook: rules, tasks, pipelines, loops, the workbook.

`document.py` describes the playbook with these and with the vocabulary of `shape.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from noetl.dsl.inputs import check_inputs
from noetl.dsl.problem import Check
from noetl.dsl.shape import (
    GUARD,
    LABEL,
    MISSING_KEY,
    NAME,
    WRONG_VALUE,
    Choice,
    Field,
    Fields,
    ListOf,
    MapOf,
    Retired,
    Schema,
    Shape,
    Walk,
    describe,
    drop_items,
    is_list,
    is_map,
    is_text,
)
from noetl.dsl.tree import Span, is_template, key_span, span_in

EXECUTOR_VERSION = Check("NTL116", "error", "the runtime version is not supported")
UNKNOWN_KIND = Check("NTL202", "error", "the tool kind is unknown")
LOOP_INCOMPLETE = Check("NTL209", "error", "a loop has no `in` or no `iterator`")
POLICY_SHAPE = Check("NTL301", "error", "a task policy is not a map with `rules`")
RULE_SHAPE = Check("NTL303", "error", "a rule is neither `when`/`then` nor `else`")


class Exactly(Shape):
    """One fixed word, with a check and advice of its own."""

    def __init__(self, word: str, check: Check, hint: str) -> None:
        self.word, self.check_code, self.advice = word, check, hint
        self.words = f"`{word}`"

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if value != self.word:
            self.refuse(value, span, walk, self.check_code, self.advice)
        return True

    def schema(self) -> Schema:
        return {"const": self.word}


class RuntimeVersion(Shape):
    """`noetl-runtime/2`, or any text or number whose major version is 2."""

    words = "a version with major 2, such as noetl-runtime/2"

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        major = str(value).rpartition("/")[2].removeprefix("v").split(".")[0]
        if major != "2" or isinstance(value, dict | list):
            self.refuse(value, span, walk, EXECUTOR_VERSION, "write `noetl-runtime/2`, or leave it out")
        return True

    def schema(self) -> Schema:
        return {
            "anyOf": [
                {"type": "string", "pattern": r"^(.*/)?v?2(\..*)?$"},
                {"type": "number", "minimum": 2, "exclusiveMaximum": 3},
            ]
        }


PLUGIN_KIND = r"[a-z][a-z0-9_-]*\.[A-Za-z0-9_.-]+"


class CredentialKind(Choice):
    """A kind of credential; one that a plug-in brings has a dot in its name."""

    def fits(self, value: Any) -> bool:
        return super().fits(value) or (isinstance(value, str) and re.fullmatch(PLUGIN_KIND, value) is not None)

    def schema(self) -> Schema:
        return {"anyOf": [super().schema(), {"type": "string", "pattern": f"^{PLUGIN_KIND}$"}]}


class RuleShape(Shape):
    """A rule: `{when, then}` or `{else: {then}}`. What `then` holds differs by scope."""

    words = "a rule (`when` and `then`, or `else`)"

    def __init__(self, then: Shape, retired: Mapping[str, Retired]) -> None:
        happens = Field(then, "what happens", required=True)
        when = Field(GUARD, "the condition", required=True)
        self.rule = Fields("a rule", {"when": when, "then": happens}, retired, missing=RULE_SHAPE)
        hint = "write `else: {then: {do: ...}}`"
        outside = Retired(RULE_SHAPE, "'do' is not allowed outside `then`", hint, ("then",))
        body = Fields("else", {"then": happens}, {"do": outside}, missing=RULE_SHAPE)
        self.otherwise = Fields(
            "a rule",
            {"else": Field(body, "what happens when nothing matched", required=True)},
            retired={
                "then": Retired(RULE_SHAPE, "'then' is not allowed beside `else`", "write `else: {then: {...}}`"),
                "when": Retired(RULE_SHAPE, "a rule has either `when` or `else`", "split it into two rules"),
            },
        )

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            return self.refuse(value, span, walk, RULE_SHAPE)
        otherwise = "else" in value
        if not (self.otherwise if otherwise else self.rule).check(value, span, walk):
            return False
        body = value.get("else") if otherwise else value  # a rule that lost a part is of no use to later checks
        return is_map(body) and "then" in body and (otherwise or "when" in value)

    def schema(self) -> Schema:
        return {"anyOf": [self.rule.schema(), self.otherwise.schema()]}


class PolicyShape(Fields):
    """A task's policy, which has exactly one shape."""

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            message = f"a task policy is a map with `rules`, found {describe(value)}"
            walk.problems.add(POLICY_SHAPE, span, message, "write `policy: {rules: [...]}`")
            return False
        return super().check(value, span, walk) and "rules" in value


class TaskShape(Shape):
    """A tool call: keys every task has, and the inputs of its kind."""

    words = "a task (a map with `kind`)"
    definition = "task"

    def __init__(self, keys: Mapping[str, Shape], retired: Mapping[str, Retired]) -> None:
        self.keys, self.retired = keys, retired

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not is_map(value):
            return self.refuse(value, span, walk)
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
        inner = value.get("tool") if kind.name == "iterator" else None
        if inner is not None and not PipelineShape(self).check(inner, span_in(value, "tool"), walk):
            del value["tool"]
        return True

    def _unknown_kind(self, value: Any, walk: Walk) -> None:
        where, name = span_in(value, "kind"), value["kind"]
        if is_template(name):
            walk.problems.add(UNKNOWN_KIND, where, "the kind of a task can't be a template", "write the kind itself")
            return
        names = sorted(walk.kinds.names())
        hint = walk.problems.did_you_mean(name, names) or f"known kinds: {', '.join(names)}"
        walk.problems.add(UNKNOWN_KIND, where, f"unknown tool kind {describe(name).removeprefix('the text ')}", hint)

    def _check_common(self, value: Any, kind: str, walk: Walk) -> None:
        shapes = {**self.keys, **walk.task_keys}
        if kind == "workbook":  # there `name` is the input that says which task
            del shapes["name"]
        for key, shape in shapes.items():
            if key in value and not shape.check(value[key], span_in(value, key), walk):
                del value[key]
        for key, retired in self.retired.items():
            if key in value:
                walk.problems.add(retired.check, key_span(value, key), retired.message, retired.hint)
                del value[key]


class PipelineShape(Shape):
    """`tool`: one task, or a list of tasks in any of their forms."""

    words = "a task or a list of tasks"
    definition = "pipeline"

    def __init__(self, task: TaskShape) -> None:
        self.task = task

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if is_map(value):
            if "kind" not in value and len(value) == 1 and is_map(next(iter(value.values()))):
                hint = "write the list form: `- label: {kind: ...}`"
                walk.problems.add(WRONG_VALUE, span, "a labelled task must be an item of a list", hint)
                return False
            return self.task.check(value, span, walk)
        if not is_list(value):
            return self.refuse(value, span, walk)
        if not value:
            walk.problems.add(WRONG_VALUE, span, "the list of tasks is empty", "add a task, or leave `tool` out")
            return False
        drop_items(value, [self._check_item(item, span_in(value, i), walk) for i, item in enumerate(value)])
        return True

    def _check_item(self, item: Any, span: Span, walk: Walk) -> bool:
        if not is_map(item) or "kind" in item or len(item) != 1:
            return self.task.check(item, span, walk)
        (label,) = item
        named = LABEL.check(label, key_span(item, label), walk)
        return self.task.check(item[label], span_in(item, label), walk) and named


class LoopShape(Fields):
    """A loop needs a collection and a name for its item, each under one of some keys."""

    def __init__(
        self,
        fields: Mapping[str, Field],
        retired: Mapping[str, Retired],
        needed: Sequence[tuple[str, ...]] = (("in",), ("iterator",)),
    ) -> None:
        super().__init__("a loop", fields, retired)
        self.needed = needed

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        written = set(value) if is_map(value) else set()
        if not super().check(value, span, walk):
            return False
        for keys in self.needed:
            if not written & set(keys):
                hint = 'write `loop: {in: "{{ workload.items }}", iterator: item}`'
                walk.problems.add(LOOP_INCOMPLETE, span, f"the loop has no {keys[0]!r}", hint)
        return all(any(key in value for key in keys) for keys in self.needed)


class WorkbookShape(Shape):
    """Named tasks: `{tasks: {NAME: {...}}}`, `{NAME: {...}}`, or a list of `{name, tool}`."""

    words = "a map of named tasks"

    def __init__(self, task: Shape, entry: Shape) -> None:
        self.tasks, self.entries = MapOf(task, NAME), ListOf(entry)
        self.wrapped = Fields("workbook", {"tasks": Field(self.tasks, "tasks by name")})

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if is_list(value):
            return self.entries.check(value, span, walk)
        if is_map(value) and "tasks" in value and not (is_map(value["tasks"]) and "kind" in value["tasks"]):
            return self.wrapped.check(value, span, walk)
        return self.tasks.check(value, span, walk)

    def schema(self) -> Schema:
        return {"anyOf": [self.wrapped.schema(), self.tasks.schema(), self.entries.schema()]}
