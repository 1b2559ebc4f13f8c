"""The contract of a tool: a module with `KIND` and `async run(inputs, context) -> Outcome`.

A tool knows nothing of steps, policies or stores. Whatever goes wrong inside it is an error outcome with a kind of
the list in docs/reference/outcomes; an exception that escapes becomes one of kind `internal`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from noetl.model.outcome import Outcome

Run: TypeAlias = Callable[[Any, "Context"], Awaitable[Outcome]]


class Context(msgspec.Struct, frozen=True):
    """What a tool may know of its call beside its inputs."""

    execution: str
    action: str
    """The same over retries and re-grants of one visit: the key that makes an effect idempotent."""
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
    retries: int = 0
    """How often a tool may try again inside one outcome, where nothing can have happened yet."""
    now: float = 0.0
    """When the call began, in seconds since the epoch."""
