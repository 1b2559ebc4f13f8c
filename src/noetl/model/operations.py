"""Kinds with an input `operation`, whose value decides which of the other inputs a call takes and needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from msgspec import UNSET, Struct

from noetl.model.inputs import InputField, fields
from noetl.model.kind import Kind
from noetl.model.outcome import Failure


class OperationProblem(NamedTuple):
    input: str | None  # the one to leave out; None if one is missing
    message: str
    hint: str


def is_given(value: object, field: InputField) -> bool:
    """Whether a value is another one than that of an input which is left out."""
    return value is not UNSET and value != field.default and not (value == "" and field.default is None)


def operation_problems(
    kind: Kind, operation: str, given: Collection[str], possible: Collection[str] = ()
) -> Iterator[OperationProblem]:
    """What is wrong with the given inputs of an operation. The `possible` ones may be given, too."""
    takes, needs = kind.operations[operation].takes, kind.operations[operation].needs
    others = {name for other in kind.operations.values() for name in other.takes} - takes
    for name in given:
        if name in others:
            yield OperationProblem(name, f"operation {operation} takes no `{name}`", "leave it out")
    for group in needs:
        number = sum(name in given for name in group)
        if number > 1 or (not number and not any(name in possible for name in group)):
            names = [f"`{name}`" for name in group]
            either = "either " if len(names) > 1 else ""
            yield OperationProblem(None, f"operation {operation} needs {either}{' or '.join(names)}", f"add {names[0]}")


def check_operation(kind: Kind, inputs: Struct) -> None:
    """Failure if a call has inputs that its operation does not take, or lacks one that it needs."""
    declared = fields(kind.inputs)
    given = [name for name, field in declared.items() if is_given(getattr(inputs, name), field)]
    operation: str = inputs.operation  # type: ignore[attr-defined]
    for problem in operation_problems(kind, operation, given):
        raise Failure("input", f"{problem.message}: {problem.hint}" if problem.input else problem.message)
