"""Every error that noetl raises on purpose. The first line of a docstring is the meaning of the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.dsl.problem import Problem


class NoetlError(Exception):
    """Base of all errors that noetl raises on purpose."""


class PlaybookInvalid(NoetlError):
    """The playbook cannot run until its problems are fixed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        errors = [problem for problem in problems if problem.severity == "error"]
        first = f"{errors[0]}; {errors[0].hint}" if errors[0].hint else str(errors[0])
        super().__init__(f"{len(errors)} problem{'s' * (len(errors) != 1)}; the first: {first}")
        self.problems = tuple(problems)


class FileMissing(NoetlError):
    """A file does not exist or cannot be read."""


class UsageError(NoetlError):
    """The command, an option or a request is invalid; nothing was done."""


class NotFound(NoetlError):
    """A run, playbook, credential or other named thing does not exist."""


class AuthError(NoetlError):
    """Not authorized, or a credential is missing, or the master key cannot decrypt it."""


class Conflict(NoetlError):
    """Conflict: the run has ended, or another process is running it."""


class ServerUnreachable(NoetlError):
    """No server responds at the address."""


class NatsUnavailable(NoetlError):
    """NATS does not respond; callers continue without it, or try later."""


class TimedOut(NoetlError):
    """The run did not end in time; it goes on."""


class Interrupted(NoetlError):
    """Interrupted by Ctrl-C or a signal; the run can be resumed."""


class TemplateError(NoetlError):
    """A template is invalid or failed. `offset` counts characters into `source`."""

    def __init__(self, message: str, source: str = "", offset: int = 0, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.source, self.offset, self.hint = message, source, offset, hint
        self.path: tuple[str | int, ...] = ()  # of the template in a rendered value
        self.rule: int | None = None  # whose guard it is, by its place in the policy


class TemplateSyntax(TemplateError):
    """The template does not parse, or uses a construct that playbooks may not use."""


class TemplateUndefined(TemplateError):
    """A value that the template needs does not exist."""

    missing: tuple[str | int, ...] = ()  # its path in the scope, if it is known


class TemplateFailed(TemplateError):
    """Evaluating the template raised."""


class BudgetExceeded(TemplateError):
    """The template took too long, grew too large or looped too often."""


class StoreError(NoetlError):
    """The store failed. The transaction was rolled back."""


class NewerDatabase(StoreError):
    """A newer version of noetl made this database; upgrade noetl to use it."""


class DatabaseBehind(StoreError):
    """The database lacks commits that it had: a copy was restored, or the end of its write-ahead log was lost."""


class DiskFull(StoreError):
    """The disk of the database is full."""


class Unstorable(NoetlError):
    """A value cannot be stored as JSON."""


class Unreadable(NoetlError):
    """A stored event cannot be read: it is damaged, or a newer version wrote it."""
