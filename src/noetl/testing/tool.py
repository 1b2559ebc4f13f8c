"""One call of a tool, made as a worker makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import msgspec

from noetl.errors import NotFound, TemplateError
from noetl.keychain.kinds import is_dsn
from noetl.keychain.redact import MAX_REDACTED, Redactor
from noetl.keychain.secret_forms import MIN_REDACTED
from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome, failed
from noetl.pipeline.bound import bound_inputs
from noetl.tools.base import Context, Redact, Run
from noetl.tools.registry import BUILTIN, GROUP

PLAIN_FIELDS = frozenset(  # fields of a credential that are not secret
    ["kind", "header", "query", "username", "user", "host", "database", "token_url", "client_id", "scope"]
)
Credentials = Mapping[str, Mapping[str, Any]]


class Tool(NamedTuple):
    kind: Kind
    run: Run
    close: Callable[[], Awaitable[None]] | None
    home: str


def tool_of(subject: Any) -> Tool:
    module = subject
    if isinstance(subject, str):
        entries = entry_points(group=GROUP, name=subject)
        if subject not in BUILTIN and not entries:
            raise NotFound(f"no tool kind {subject!r} is installed: `noetl tools` lists them")
        module = import_module(BUILTIN[subject]) if subject in BUILTIN else next(iter(entries)).load()
    kind, run = getattr(module, "KIND", None), getattr(module, "run", None)
    if not isinstance(kind, Kind) or run is None:
        raise TypeError(f"{subject!r} is not a tool: it needs a `KIND` and an `async def run(inputs, context)`")
    home = getattr(module, "__spec__", None)
    return Tool(kind, run, getattr(module, "close", None), home.name if home else module.__module__)


def call_tool(
    tool: Any, inputs: Mapping[str, Any] | None = None, *, credentials: Credentials | None = None, **context: Any
) -> Outcome:
    """Call a tool, close its open resources, and return its outcome.

    `tool` is a module or the name of a kind. `inputs` are as an author would write them, templates rendered; invalid
    ones give an outcome of kind `input`. `auth` can name `credentials`. Other keywords are fields of the
    context. An exception of the tool is raised here; a worker turns it into an outcome of kind `internal`.
    """
    subject = tool_of(tool)

    async def call() -> Outcome:
        try:
            return await calling(subject, inputs or {}, tool_context(subject.kind, credentials, **context))
        finally:
            if subject.close is not None:
                await subject.close()

    return asyncio.run(call())


async def calling(tool: Tool, inputs: Mapping[str, Any], context: Context) -> Outcome:
    for group in tool.kind.one_of:  # `noetl validate` checks this before a run
        if sum(inputs.get(name) is not None for name in group) != 1:
            return failed("input", f"{tool.kind.name}: exactly one of {', '.join(group)} is needed")
    try:
        typed = msgspec.convert(inputs, tool.kind.inputs, strict=False)
        scope = {**context.args, "args": context.args}
        bound = context.bound or {path: bind(scope) for path, bind in bound_inputs(tool.kind, inputs).items()}
    except msgspec.ValidationError as error:
        return failed("input", f"{tool.kind.name}: {error}")
    except TemplateError as error:
        return failed("template", f"{tool.kind.name}: {error}")
    limit = context.timeout if isinstance(context.timeout, int | float) else None
    try:
        async with asyncio.timeout(limit):
            return await tool.run(typed, msgspec.structs.replace(context, bound=bound))
    except Failure as failure:
        return failure.outcome
    except TimeoutError:
        return failed("timeout", f"the call took longer than {limit:g} s", retryable=True)


def tool_context(kind: Kind | None = None, credentials: Credentials | None = None, **fields: Any) -> Context:
    """The context of a call outside of a run: every field has a default, which `fields` replace.

    `redact` hides the secrets of the credentials, as a worker's does.
    """
    by_name = credentials or {}

    async def credential(auth: str | Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(auth, Mapping):
            return dict(auth)
        if isinstance(auth, str) and is_dsn(auth):
            return {"dsn": auth}
        if not isinstance(auth, str) or auth not in by_name:
            raise Failure("auth", f"the keychain has no entry {auth!r}")
        return dict(by_name[auth])

    timeout = kind.timeout if kind is not None else None
    plain = Context("test", "0" * 32, 1, "step", "task", timeout, {}, None, log=lambda stream, line: None)
    own = {"credential": credential, "redact": hiding(secrets_of(by_name))}
    return msgspec.structs.replace(plain, **own | fields)


def secrets_of(credentials: Credentials) -> list[str]:
    fields = [field for fields in credentials.values() for field in fields.items()]
    return [text for name, value in fields if name not in PLAIN_FIELDS for text in _texts(value)]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


def hiding(secrets: list[str]) -> Redact:
    """Hides these texts as a worker does, except those that are too short or too long to be a secret."""
    return Redactor(secret for secret in secrets if MIN_REDACTED <= len(secret.strip()) <= MAX_REDACTED).redact
