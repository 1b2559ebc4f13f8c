"""Writes of the rules of a pipeline to `iter` and `ctx`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.engine.patch import SET, BadPatch, Patch, Write, apply_patch, reducer_references
from noetl.errors import TemplateFailed
from noetl.pipeline.plan import RulePlan
from noetl.pipeline.templates import Templates, is_of_keychain
from noetl.scope import Scope


class Writes:
    """The writes of one pipeline, which it sees at once."""

    __slots__ = ("prefix", "scope", "templates", "to_ctx", "writers")

    def __init__(self, scope: Scope, templates: Templates, prefix: str, to_ctx: list[Write]) -> None:
        self.scope, self.templates, self.prefix = scope, templates, prefix
        self.to_ctx = to_ctx
        """Writes to ctx; an item of a sequential iterator shares the list of the enclosing pipeline."""
        self.writers: dict[str, tuple[str, Any]] | None = None
        """In a parallel iterator: by key of ctx, the item that wrote it and the value."""

    async def patch(self, rule: RulePlan) -> tuple[Patch, Patch]:
        """Render all values of both patches of a rule, then write them."""
        scope, templates = self.scope, self.templates
        rendered = await templates.evaluate(lambda scope: (rule.set_iter(scope), rule.set_ctx(scope)), scope)
        set_iter, set_ctx = templates.host.redact(rendered)
        if any(is_of_keychain(value) for _, _, value in (*set_iter, *set_ctx)):
            raise TemplateFailed("a secret cannot be stored in ctx or iter: use it in the inputs of a tool")
        if self.writers is not None:
            self._write_once(self.writers, set_ctx)
        await self.apply(scope["iter"], set_iter)
        await self.apply(scope["ctx"], set_ctx)
        self.to_ctx += set_ctx
        return set_iter, set_ctx

    async def apply(self, target: dict[str, Any], patch: Sequence[Write]) -> None:
        """Write a patch, with the stored values that its reducers read."""
        if patch:
            contents = {
                reference.key: await self.templates.content(reference)
                for reference in reducer_references(target, patch)
            }
            apply_patch(target, patch, contents)

    def _write_once(self, writers: dict[str, tuple[str, Any]], patch: Patch) -> None:
        """BadPatch if a parallel item has written another value to the same key (S20)."""
        for key, operator, value in patch:
            if operator == SET:
                writer, old = writers.get(key, (self.prefix, value))
                if writer != self.prefix and old != value:
                    raise BadPatch(f"ctx.{key} was already written by {writer.rstrip('/')} with another value")
                writers[key] = (self.prefix, value)
