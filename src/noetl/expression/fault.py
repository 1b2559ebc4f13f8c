"""What operators, filters and functions raise; the compiler turns it into a located TemplateError.

A filter does not know its place in the source. It raises a Fault with a message; the closure that
called it knows source and offset and raises the public error. Nothing else ever leaves an evaluation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.errors import BudgetExceeded, TemplateError, TemplateFailed, TemplateUndefined

if TYPE_CHECKING:
    from noetl.expression.missing import Missing

REPR_CHARACTERS = 60


class Fault(Exception):
    """An operation can't be done; the message is for the author of the playbook."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class OutOfBudget(Fault):
    """The evaluation took too long, grew too large or looped too often."""


class Undefined(Fault):
    """A missing value was needed, for example as text."""

    def __init__(self, missing: Missing) -> None:
        super().__init__("undefined")
        self.missing = missing


def undefined(missing: Missing, source: str, offset: int) -> TemplateUndefined:
    """The error for a missing value that had to be there."""
    text = missing.text or "this expression"
    hint = missing.hint or "give it a value, or write | default(...) behind it"
    if missing.part and missing.part != missing.text:
        hint = f"'{missing.part}' does not exist; {hint}"
    return TemplateUndefined(f"'{text}' is undefined", source, max(missing.offset, 0) or offset, hint)


def located(error: Exception, source: str, offset: int) -> TemplateError:
    """The public error for whatever an operation raised at `offset` of `source`."""
    match error:
        case TemplateError():
            return error
        case Undefined():
            return undefined(error.missing, source, offset)
        case OutOfBudget():
            return BudgetExceeded(error.message, source, offset, error.hint)
        case Fault():
            return TemplateFailed(error.message, source, offset, error.hint)
        case RecursionError():
            return TemplateFailed("the values are nested too deeply", source, offset)
        case ZeroDivisionError():
            return TemplateFailed("division by zero", source, offset)
        case OverflowError():
            return TemplateFailed("the number is too large", source, offset)
        case MemoryError():
            return BudgetExceeded("the value is too large", source, offset)
    return TemplateFailed(f"this can't be evaluated: {clipped(str(error))}", source, offset)


def clipped(text: str) -> str:
    """At most 60 characters, so that an error never carries the data it is about."""
    return text if len(text) <= REPR_CHARACTERS else text[: REPR_CHARACTERS - 3] + "..."
