"""Every error noetl raises on purpose.

NoetlError
 +-- PlaybookInvalid        the document has problems; carries all of them
 +-- FileMissing            a file named by the user does not exist or can't be read
 +-- UsageError             the command line asks for something impossible
 +-- NotFound               there is no such execution, playbook or database
 +-- AuthError              a credential or the key that seals it can't be used
 +-- Conflict               what is asked does not fit what is going on
 +-- ServerUnreachable      no server answers at the address
 +-- NatsUnavailable        NATS does not respond; everything keeps working without it
 +-- TimedOut               what was waited for did not come in time
 +-- Interrupted            somebody stopped the process; the run can be resumed
 +-- TemplateError          a template; carries the offset in its source
      +-- TemplateSyntax    it does not parse, or uses what playbooks may not use
      +-- TemplateUndefined a value it needs is missing
      +-- TemplateFailed    it raised while it was evaluated
      +-- BudgetExceeded    it took too long, grew too large, or looped too often
 +-- StoreError             the store can't do what it was asked; nothing was half-written
      +-- NewerDatabase     a newer version of noetl made the database
      +-- DiskFull          there is no room left
 +-- Unstorable             an event holds a value that JSON can't hold; names its path
 +-- Unreadable             a stored event is damaged, or a newer version wrote it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.dsl.problem import Problem


class NoetlError(Exception):
    """Base of all errors that noetl raises on purpose."""


class PlaybookInvalid(NoetlError):
    """The playbook can't run until its problems are mended."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        errors = [problem for problem in problems if problem.severity == "error"]
        super().__init__(f"{len(errors)} problem{'s' * (len(errors) != 1)}; the first: {errors[0]}")
        self.problems = tuple(problems)


class FileMissing(NoetlError):
    """A file that was named does not exist or can't be read."""


class UsageError(NoetlError):
    """The request itself makes no sense; nothing was done."""


class NotFound(NoetlError):
    """What was asked for by name does not exist."""


class AuthError(NoetlError):
    """A credential is missing or damaged, or the key that seals it can't be used."""


class Conflict(NoetlError):
    """The request is fine, but not at this moment: something else is going on."""


class ServerUnreachable(NoetlError):
    """No server answers: it is down, or the address is not its own."""


class NatsUnavailable(NoetlError):
    """NATS does not respond; callers continue without it, or try later."""


class TimedOut(NoetlError):
    """What was waited for did not come in time; it may still come."""


class Interrupted(NoetlError):
    """Ctrl-C or a signal to end the process; what was running can be resumed."""


class TemplateError(NoetlError):
    """A template is at fault. `offset` counts characters into `source`."""

    def __init__(self, message: str, source: str = "", offset: int = 0, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.source, self.offset, self.hint = message, source, offset, hint
        self.path: tuple[str | int, ...] = ()  # where in a rendered value the template stands


class TemplateSyntax(TemplateError):
    """The template does not parse, or uses a construct that playbooks may not use."""


class TemplateUndefined(TemplateError):
    """A value that the template needs does not exist."""


class TemplateFailed(TemplateError):
    """Evaluating the template raised."""


class BudgetExceeded(TemplateError):
    """The template took too long, grew too large or looped too often."""


class StoreError(NoetlError):
    """The store can't do what it was asked. The transaction was rolled back: nothing is half-written."""


class NewerDatabase(StoreError):
    """A newer version of noetl made this database; upgrade noetl to use it."""


class DiskFull(StoreError):
    """There is no room left for the database."""


class Unstorable(NoetlError):
    """A value can't be stored: what would be read back is not what was meant."""


class Unreadable(NoetlError):
    """A stored event can't be read: it is damaged, or a newer version wrote it."""
