"""What templates see: the namespaces, and the order in which bare names resolve (S13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noetl.expression import View, unwrapped


class Finished(Protocol):
    """The last finished run of a step."""

    status: str
    result: Any
    error: dict[str, Any] | None
    failures: list[dict[str, Any]] | None


class StepView(View):
    """`steps.NAME`: exactly result, status, error and failures."""

    __slots__ = ("step",)

    def __init__(self, step: Finished) -> None:
        self.step = step

    def lookup(self, name: str | int) -> Any:
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


class BareStep(StepView):
    """A step by its bare name: as a value it is its result, and a field is looked up there first."""

    __slots__ = ()

    def lookup(self, name: str | int) -> Any:
        result = self.step.result
        if isinstance(result, dict) and name in result:
            return result[name]
        if isinstance(result, View):
            try:
                return result.lookup(name)
            except KeyError:
                pass
        return super().lookup(name)

    def value(self) -> Any:
        return unwrapped(self.step.result)

    def passed(self) -> Any:
        return self.step.result


class StepsView(View):
    """`steps`."""

    __slots__ = ("steps",)

    def __init__(self, steps: Mapping[str, Finished]) -> None:
        self.steps = steps

    def lookup(self, name: str | int) -> Any:
        return StepView(self.steps[str(name)])


class BareTask(View):
    """A task by its bare label: as a value it is its result, and a field is looked up there first."""

    __slots__ = ("outcome",)

    def __init__(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome

    def lookup(self, name: str | int) -> Any:
        result = self.outcome["result"]
        if isinstance(result, dict) and name in result:
            return result[name]
        if isinstance(result, View):
            try:
                return result.lookup(name)
            except KeyError:
                pass
        if name == "data":
            return result
        return self.outcome[str(name)]

    def value(self) -> Any:
        return unwrapped(self.outcome["result"])

    def passed(self) -> Any:
        return self.outcome["result"]


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
            return BareTask(tasks[name])
        steps: StepsView | None = self.get("steps")
        if steps is not None and name in steps.steps:
            return BareStep(steps.steps[name])
        raise KeyError(name)
