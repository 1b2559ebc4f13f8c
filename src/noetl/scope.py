"""The scope of templates: namespaces, and the order in which bare names resolve (S13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noetl.expression import Contents, View, unwrapped
from noetl.model.playbook import STEP_FIELDS


class FinishedStep(Protocol):
    """The last finished run of a step."""

    status: str
    result: Any
    error: dict[str, Any] | None
    failures: list[dict[str, Any]] | None


class StepNamespace(View):
    """`steps.NAME`: exactly result, status, error and failures."""

    __slots__ = ("step",)
    field_names = STEP_FIELDS

    def __init__(self, step: FinishedStep) -> None:
        self.step = step

    def lookup(self, name: str | int, contents: Contents) -> Any:
        match name:
            case "result" | "data":
                return self.step.result
            case "status":
                return self.step.status
            case "error":
                return self.step.error
            case "failures" if self.step.failures is not None:
                return self.step.failures
        raise KeyError(name)

    def value(self, contents: Contents) -> dict[str, Any]:
        return {name: unwrapped(field, contents) for name, field in self.passed(contents).items()}

    def passed(self, contents: Contents) -> dict[str, Any]:
        step = self.step
        fields = {"result": step.result, "status": step.status, "error": step.error}
        return fields if step.failures is None else {**fields, "failures": step.failures}


class StepsView(View):
    """`steps`: as a value, a map of all steps that have ended."""

    __slots__ = ("steps",)

    def __init__(self, steps: Mapping[str, FinishedStep]) -> None:
        self.steps = steps

    def lookup(self, name: str | int, contents: Contents) -> Any:
        return StepNamespace(self.steps[str(name)])

    def value(self, contents: Contents) -> dict[str, Any]:
        return {name: StepNamespace(step).value(contents) for name, step in self.steps.items()}

    def passed(self, contents: Contents) -> dict[str, Any]:
        return {name: StepNamespace(step).passed(contents) for name, step in self.steps.items()}


class Bare(View):
    """A step or task by its bare name: as a value it is its result, and a field is looked up there first."""

    __slots__ = ("fields", "result")

    def __init__(self, result: Any, fields: View | Mapping[Any, Any]) -> None:
        self.result, self.fields = result, fields

    def lookup(self, name: str | int, contents: Contents) -> Any:
        if isinstance(self.result, dict) and name in self.result:
            return self.result[name]
        if isinstance(self.result, View):
            try:
                return self.result.lookup(name, contents)
            except KeyError:
                pass
        return self.fields.lookup(name, contents) if isinstance(self.fields, View) else self.fields[name]

    def value(self, contents: Contents) -> Any:
        return unwrapped(self.result, contents)

    def passed(self, contents: Contents) -> Any:
        return self.result


class Scope(dict[str, Any]):
    """Namespaces are its items; a bare name is looked for in `args`, `ctx`, `iter`, `workload`, tasks and steps."""

    __slots__ = ()

    def __missing__(self, name: str) -> Any:
        for space in ("args", "ctx", "iter", "workload"):
            values = self.get(space)
            if values is not None and name in values:
                return values[name]
        tasks = self.get("tasks")
        if tasks is not None and name in tasks:
            outcome = tasks[name]
            return Bare(outcome["result"], {**outcome, "data": outcome["result"]})
        steps: StepsView | None = self.get("steps")
        if steps is not None and name in steps.steps:
            step = steps.steps[name]
            return Bare(step.result, StepNamespace(step))
        raise KeyError(name)
