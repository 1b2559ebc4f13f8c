"""The contract of a tool: a module with `KIND` and `async run(inputs, context) -> Outcome`.

A tool knows nothing of steps, policies or stores. Every failure is an error outcome with a kind of the list in
docs/reference/outcomes: returned, or raised as a `Failure`. Any other exception becomes one of kind `internal`. An
error in program text (an input in `verbatim` or `sql`) has the details `line` and `column`, from 1: the worker adds its
place in the playbook. The detail `input` names an input to blame that has a place of its own, as `requirements/0`.

A result is JSON data or `bytes`, on its own or as a value of a map: bytes are stored as they are and become a
reference. The worker redacts secrets in the outcome and in log lines; a tool that truncates a text (the end of an
output, the beginning of a body) calls `context.redact` before, since half a secret is not recognised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from noetl.model.outcome import Failure, Outcome, failed

Run: TypeAlias = Callable[[Any, "Context"], Awaitable[Outcome]]
Value = TypeVar("Value")

RETRYABLE_STATUSES = frozenset([408, 425, 429, 500, 502, 503, 504])
MAX_RESULT_BYTES = 50 * 2**20


def missing_driver(kind: str, extra: str) -> Outcome:
    message = f"kind {kind} needs a driver that is not installed: pip install 'noetl-engine[{extra}]'"
    return failed("not_found", message)


class Redact(Protocol):
    def __call__(self, value: Value, /) -> Value: ...


async def _no_credential(auth: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(auth, str):
        raise Failure("auth", f"the keychain has no entry {auth!r}")
    return dict(auth)


def _no_redaction(value: Value, /) -> Value:
    return value


class Context(msgspec.Struct, frozen=True):
    execution: str
    action: str
    """The same over retries and re-grants of one visit."""
    attempt: int
    step: str
    task: str
    timeout: Any
    """Seconds, a map of them for http, or None."""
    args: dict[str, Any]
    """The token's args under the task's own."""
    prev: Any
    log: Callable[[str, str], None]
    """Takes a stream (`stdout`, `stderr`) and a line of output."""
    own_args: dict[str, Any] = {}
    """The task's own args, without the token's."""
    now: float = 0.0
    """When the call began, in seconds since the epoch."""
    repeats: int = 0
    """How often rules have repeated the call although it was ok."""
    spec: Mapping[str, Any] = {}
    bound: Mapping[str, Any] = {}
    """Inputs whose templates are bound as values and never spliced, by their path: `Sql` and `ShellText`."""
    credential: Callable[[str | Mapping[str, Any]], Awaitable[dict[str, Any]]] = _no_credential
    """The fields behind an `auth` input, its kind as `kind`: of a keychain entry by name, or those of the map itself.
    Failure of kind `auth` if there is none."""
    redact: Redact = _no_redaction
    keychain: Any = None

    folder: str = ""
    """The folder of the playbook's file, where it has one on this machine."""
    source: tuple[str, int] | None = None
    """The playbook's file and the line in it where the task's program text begins."""

    @property
    def deadline(self) -> float | None:
        """When the call times out; None without a time limit in seconds."""
        return self.now + self.timeout if isinstance(self.timeout, int | float) else None

    @property
    def idempotency_key(self) -> str:
        """The key that makes an effect idempotent: the action, and a number if an ok call is repeated."""
        return f"{self.action}.{self.repeats}" if self.repeats else self.action
