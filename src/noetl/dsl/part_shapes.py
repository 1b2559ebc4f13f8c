"""Shapes of particular parts of a playbook: rules, tasks, pipelines, loops, the workbook.

`document.py` describes the playbook with these and with the vocabulary of `shape.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from noetl.dsl import shape
from noetl.dsl.inputs import check_inputs
from noetl.dsl.other_words import KINDS, PAUSE_ADVICE, PAUSES
from noetl.dsl.problem import Check, replacing
from noetl.dsl.scalar_shapes import GUARD, LABEL, NAME
from noetl.dsl.shape import Field, Fields, Form, ListOf, MapOf, OneOf, Retired, Shape, Walk
from noetl.dsl.tree import Seq, Span, is_template, key_span, span_in
from noetl.model.inputs import describe, fields
from noetl.model.kind import Kind

EXECUTOR_VERSION = Check("NTL116", "error", "the runtime version is not supported", stored_ok=False)
UNKNOWN_KIND = Check("NTL202", "error", "the tool kind is unknown", stored_ok=False)
LOOP_INCOMPLETE = Check("NTL209", "error", "a loop has no `in` or no `iterator`", stored_ok=False)
RULE_SHAPE = Check("NTL303", "error", "a rule is neither `when`/`then` nor `else`", stored_ok=False)


def when_or_else(words: str, rule: Fields, otherwise: Fields, wrong: Check = shape.WRONG_VALUE) -> OneOf:
    """A map with `else` is `otherwise`, any other one is `rule`."""
    is_rule = Form(lambda value: isinstance(value, dict) and "else" not in value, rule)
    return OneOf(words, is_rule, Form(dict, otherwise), wrong=wrong)


def exactly(word: str, check: Check, hint: Callable[[Any], str]) -> Shape:
    return Shape(f"`{word}`", lambda value: value == word, {"const": word}, hint=hint, wrong=(check, None))


_MAJOR_2 = r"(.*/)?v?2(\..*)?"
RUNTIME_VERSION = Shape(
    "a version with major 2, such as noetl-runtime/2",
    lambda value: not isinstance(value, dict | list) and re.fullmatch(_MAJOR_2, str(value)) is not None,
    {
        "anyOf": [
            {"type": "string", "pattern": f"^{_MAJOR_2}$"},
            {"type": "number", "minimum": 2, "exclusiveMaximum": 3},
        ]
    },
    wrong=(EXECUTOR_VERSION, "write `noetl-runtime/2`, or leave it out"),
)


def rule_shape(then: Shape, retired: Mapping[str, Retired]) -> OneOf:
    """A rule: `{when, then}` or `{else: {then}}`. What `then` holds differs by scope."""
    happens = Field("then", then, "what happens", required=True)
    when = Field("when", GUARD, "the condition", required=True)
    outside = Retired(RULE_SHAPE, "'do' is not allowed outside `then`", "write `else: {then: {do: ...}}`", ("then",))
    body = Fields("else", happens, retired={"do": outside}, missing=RULE_SHAPE, whole=True)
    otherwise = Fields(
        "a rule",
        Field("else", body, "what happens when nothing matched", required=True),
        retired={
            "then": Retired(RULE_SHAPE, "'then' is not allowed next to `else`", "write `else: {then: {...}}`"),
            "when": Retired(RULE_SHAPE, "a rule has either `when` or `else`", "split it into two rules"),
        },
        whole=True,
    )
    rule = Fields("a rule", when, happens, retired=retired, missing=RULE_SHAPE, whole=True)
    return when_or_else("a rule (`when` and `then`, or `else`)", rule, otherwise, RULE_SHAPE)


class TaskShape(Shape):
    definition = "task"

    def __init__(self, keys: Mapping[str, Shape], retired: Mapping[str, Retired]) -> None:
        super().__init__("a task (a map with `kind`)")
        self.keys, self.retired = keys, retired

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not isinstance(value, dict):
            return self.refuse(value, span, walk)
        if "kind" not in value:
            hint = "add `kind:`, the tool to call; `noetl tools` lists them"
            other = next((key for key in ("type", "uses", "operator", "plugin") if key in value), None)
            if other is not None:
                hint, span = f"write `kind` instead of `{other}`; `noetl tools` lists the kinds", key_span(value, other)
            labels = [key for key, task in value.items() if isinstance(task, dict) and "kind" in task]
            beside = next((key for key in value if key not in labels[:1]), None)
            if labels and beside is not None:
                hint, span = f"indent it further: it belongs to the task {labels[0]!r}", key_span(value, beside)
                if beside in labels:
                    hint = f"begin each task of the list with a dash: `- {beside}: {{kind: ...}}`"
                walk.problems.add(shape.MISSING_KEY, span, f"{beside!r} is beside the task {labels[0]!r}", hint)
                return False
            walk.problems.add(shape.MISSING_KEY, span, "a task has no 'kind'", hint)
            return False
        name = value["kind"]
        kind = walk.kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            message, hint = "the kind of a task cannot be a template", "write the kind itself"
            if not is_template(name):
                names = sorted(walk.kinds.names())
                other = KINDS.get(name) if isinstance(name, str) else None
                hint = (
                    PAUSE_ADVICE
                    if isinstance(name, str) and name in PAUSES
                    else replacing(f"write `kind: {other}`", other)
                    if other
                    else walk.problems.did_you_mean(name, names) or f"known kinds: {', '.join(names)}"
                )
                message = f"unknown tool kind {describe(name).removeprefix('the text ')}"
            walk.problems.add(UNKNOWN_KIND, span_in(value, "kind"), message, hint)
            return False
        if isinstance(value.get("spec"), dict):
            self._take_inputs(value, value["spec"], kind, walk)
        for key, part in {**self.keys, **walk.task_keys}.items():
            if key == "name" and kind.name == "workbook":
                continue  # there it is the input that names the task
            walk.keys.append((key, "a task"))
            if key in value and not part.check(value[key], span_in(value, key), walk):
                del value[key]
            walk.keys.pop()
        for key, retired in self.retired.items():
            if key in value:
                walk.problems.add(retired.check, key_span(value, key), retired.message, retired.hint)
                del value[key]
        check_inputs(value, kind, span, walk)
        inner = value.get("tool") if kind.name == "iterator" else None
        if inner is not None and not PipelineShape(self).check(inner, span_in(value, "tool"), walk):
            del value["tool"]
        return True

    def _take_inputs(self, value: Any, spec: Any, kind: Kind, walk: Walk) -> None:
        """Report inputs that are under `spec`, and move them to their place, so that they are not missing there."""
        options = self.keys["spec"]
        assert isinstance(options, Fields)
        for key in [key for key in spec if key in fields(kind.inputs) and key not in options.fields]:
            message = f"{key!r} is an input of {kind.name} and is not allowed under `spec`"
            walk.problems.add(shape.UNKNOWN_KEY, key_span(spec, key), message, f"write `{key}` beside `kind`")
            if key not in value:
                value.put(key, spec[key], *spec.spans[key])
            del spec[key]


class PipelineShape(Shape):
    definition = "pipeline"

    def __init__(self, task: TaskShape) -> None:
        super().__init__("a task or a list of tasks")
        self.task = task

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if isinstance(value, dict):
            if "kind" not in value and len(value) == 1 and isinstance(next(iter(value.values())), dict):
                hint = "write the list form: `- label: {kind: ...}`"
                walk.problems.add(shape.WRONG_VALUE, span, "a labelled task must be an item of a list", hint)
                return False
            return self.task.check(value, span, walk)
        if not isinstance(value, list):
            is_kind = isinstance(value, str) and walk.kinds.get(value) is not None
            return self.refuse(value, span, walk, hint=f"write `tool: {{kind: {value}, ...}}`" if is_kind else None)
        if not value:
            hint = "add a task, or leave `tool` out"
            walk.problems.add(shape.WRONG_VALUE, span, "the list of tasks is empty", hint)
            return False
        usable = []
        for i, item in enumerate(value):
            if isinstance(item, dict) and "kind" not in item and len(item) == 1:
                (label,) = item
                named = LABEL.check(label, key_span(item, label), walk)
                usable.append(self.task.check(item[label], span_in(item, label), walk) and named)
            else:
                usable.append(self.task.check(item, span_in(value, i), walk))
        shape.drop_items(value, usable)
        return True


class LoopShape(Fields):
    """A loop needs a collection and a name for its item, each under its key or its classic key."""

    needed = (("in", "collection"), ("iterator", "element"))

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        written = set(value) if isinstance(value, dict) else set()
        written |= {name for key in written & set(self.other_words) for name in self.other_words[key].stands_for}
        if not super().check(value, span, walk):
            return False
        if "in" in written and "in" not in value:
            value.put("in", Seq(), span, span)  # it is reported; the names of the loop are still visible
        for keys in self.needed:
            if not written & set(keys):
                hint = 'write `loop: {in: "{{ workload.items }}", iterator: item}`'
                walk.problems.add(LOOP_INCOMPLETE, span, f"the loop has no {keys[0]!r}", hint)
        return all(any(key in value for key in keys) for keys in self.needed)


def workbook_shape(task: Shape, entry: Shape) -> OneOf:
    """Named tasks: `{tasks: {NAME: {...}}}`, `{NAME: {...}}`, or a list of `{name, tool}`."""

    def has_tasks(value: Any) -> bool:
        tasks = value.get("tasks") if isinstance(value, dict) else None
        return isinstance(value, dict) and "tasks" in value and not (isinstance(tasks, dict) and "kind" in tasks)

    tasks = MapOf(task, NAME)
    return OneOf(
        "a map of named tasks",
        Form(has_tasks, Fields("workbook", Field("tasks", tasks, "tasks by name"))),
        Form(lambda value: not isinstance(value, list), tasks),
        Form(list, ListOf(entry)),
    )
