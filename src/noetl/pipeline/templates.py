"""Evaluates the templates of a pipeline, and loads the stored values and secrets that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from noetl.engine.patch import BadPatch
from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import CONTENTS_KEY, Sealed, template_offsets
from noetl.model.outcome import Error, Outcome
from noetl.model.playbook import Task
from noetl.pipeline.host import Host, Value
from noetl.reference import KEYCHAIN, Need, Reference, TooLarge
from noetl.scope import Scope

OPENED = (Reference, Sealed)


class Templates:
    """Evaluates templates with the stored values that a task has read."""

    __slots__ = ("contents", "host", "secrets")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.contents: dict[str, Any] = {}  # Stored values that the current task has read
        self.secrets: dict[str, Any] = {}  # Secrets that inputs have opened; no other template can read them

    async def evaluate(self, evaluate: Callable[[Scope], Value], scope: Scope, *, inputs: bool = False) -> Value:
        """Evaluate templates, and load the stored values that they read. Only inputs can read secrets."""
        while True:
            contents = {**self.contents, **self.secrets} if inputs and self.secrets else self.contents
            try:
                return evaluate(Scope(scope, **{CONTENTS_KEY: contents}) if contents else scope)
            except Need as need:
                reference = need.reference
                if not reference.is_secret:
                    self.contents[reference.key] = await self.host.content(reference)
                elif inputs:
                    self.secrets[reference.key] = await self.host.secret(reference)
                else:
                    raise TemplateFailed("a secret can only be used in the inputs of a tool") from None

    async def opened(self, value: Any) -> Any:
        """The value with the contents of its references: a tool gets values."""
        if isinstance(value, Reference):
            return await (self.host.secret(value) if value.is_secret else self.content(value))
        if isinstance(value, Sealed):
            return value.content
        if isinstance(value, dict):
            return {key: await self.opened(item) for key, item in value.items()}
        return [await self.opened(item) for item in value] if isinstance(value, list) else value

    async def content(self, reference: Reference) -> Any:
        content = await self.host.content(reference)
        if isinstance(content, TooLarge):
            raise TemplateFailed(f"a stored value of {reference.size:,} bytes is too large ({content.limit})")
        return content


def has_references(value: Any) -> bool:
    """Whether a rendered value contains a reference or a secret."""
    if isinstance(value, dict):
        return any(map(has_references, value.values()))
    return any(map(has_references, value)) if isinstance(value, list) else isinstance(value, OPENED)


def is_of_keychain(value: Any) -> bool:
    """Whether a rendered value contains a reference to the keychain."""
    if isinstance(value, dict):
        return any(map(is_of_keychain, value.values()))
    if isinstance(value, list):
        return any(map(is_of_keychain, value))
    return isinstance(value, Reference) and value.store == KEYCHAIN


def template_outcome(error: TemplateError, task: Task) -> Outcome:
    """The outcome of a call whose inputs cannot be rendered. The detail `input` is the path of the text that failed,
    `template` the number of the template in a text that has several."""
    cause = template_error(error)
    path = (
        _path_of(error.source, {**task.inputs, "args": task.args, "timeout": task.spec.get("timeout")})
        if error.source
        else None
    )
    if path is not None:
        *keys, text = path
        number = len(template_offsets(text[: text.index(error.source) + error.offset + 1])) - 1
        template = {"template": number} if number > 0 else {}
        cause = replace(cause, details={**cause.details, "input": "/".join(keys), **template})
    return Outcome("error", error=cause)


def _path_of(text: str, value: Any) -> list[str] | None:
    """The keys that lead to the first string with the text, and that string."""
    if isinstance(value, str):
        return [value] if text in value else None
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    paths = ((key, _path_of(text, item)) for key, item in items)
    return next(([str(key), *path] for key, path in paths if path is not None), None)


def template_error(error: TemplateError | BadPatch) -> Error:
    if isinstance(error, BadPatch):
        return Error("ctx_conflict", str(error))
    return Error("template", f"{error.message} in {error.source[:200]!r}", details={"hint": error.hint})
