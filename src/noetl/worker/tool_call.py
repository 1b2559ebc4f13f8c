"""Calls the tool of a task: opens its args and secrets, limits its time, and turns every error into an outcome."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.clock import Clock
from noetl.dsl.tree import Mark
from noetl.errors import NoetlError, TemplateFailed
from noetl.expression import Sealed
from noetl.keychain.keychain import Keychain, open_handle
from noetl.model.identity import TaskId, action_id
from noetl.model.inputs import rendered_misfit
from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome, failed
from noetl.pipeline.host import ParkedCall, ToolCall
from noetl.pipeline.templates import has_references
from noetl.reference import BINARY, KEYCHAIN, Reference, TooLarge
from noetl.results.read import read_json, read_value
from noetl.tools.base import Context
from noetl.tools.registry import Registry
from noetl.worker.link import Rejected, Reporter
from noetl.worker.output import WriteOutput

MAX_LINE = 400


class ToolCaller:
    def __init__(
        self, registry: Registry, clock: Clock, write_output: WriteOutput, reporter: Reporter, keychain: Keychain
    ) -> None:
        self.registry, self.clock, self.write_output = registry, clock, write_output
        self.reporter, self.keychain = reporter, keychain
        self.link, self.work, self.redact = reporter.link, reporter.work, keychain.redactor.redact
        self.file = self.link.playbook(self.work.digest).file

    async def call(self, call: ToolCall) -> Outcome:
        """The outcome of the tool. May raise Parked, or Rejected if the lease is void."""
        outcome = await self._run(call)
        error = outcome.error
        if error is None or "source" in error.details:
            return outcome
        source: dict[str, Any] = {}
        if isinstance(line := error.details.get("line"), int):
            column = error.details.get("column")  # that of Postgres is a name
            source = self._source(call, line, column if isinstance(column, int) else 1)
        elif mark := self.file.places.get(f"{self._place(call.task)}/input/{error.details.get('input')}"):
            source = {"source": {"line": mark.line, "column": mark.column}}
        return replace(outcome, error=replace(error, details={**error.details, **source})) if source else outcome

    def _source(self, call: ToolCall, line: int, column: int) -> dict[str, Any]:
        """The place in the playbook of a place in the program text of the task, and the text of its line."""
        plan = call.plan
        name = next((name for name in plan.kind.programs if isinstance(plan.task.inputs.get(name), str)), "")
        key, text = f"{self._place(call.task)}/{name}", plan.task.inputs.get(name, "")
        lines = text.split("\n")
        if (first := self.file.places.get(f"{key}/1")) is not None and 0 < line <= len(lines):
            indented = " " * (first.column - 1) + lines[line - 1]
            place = {"line": first.line + line - 1, "column": first.column + column - 1}
            return {"source": {**place, "text": self.redact(indented)[:MAX_LINE]}}
        if 0 < line <= len(lines) and (parts := self._parts(f"{key}/{line}", lines[line - 1])):
            start, begins, _ = next(part for part in reversed(parts) if part[0] <= max(column, 1))
            excerpt = ""
            for _, at, characters in parts:
                if at.line == begins.line:
                    excerpt = excerpt.ljust(at.column - 1) + characters
            place = {"line": begins.line, "column": begins.column + max(column, 1) - start}
            return {"source": {**place, "text": self.redact(excerpt)[:MAX_LINE]}}
        if (mark := self.file.places.get(key)) is not None:
            return {"source": {"line": mark.line, "column": mark.column}}
        return {}

    def _parts(self, key: str, line: str) -> list[tuple[int, Mark, str]]:
        """The parts of a line of a folded or escaped program: column in the line, place in the playbook, and text."""
        places = self.file.places
        starts = [column for column in range(1, len(line) + 2) if f"{key}/{column}" in places]
        ends = [*starts[1:], len(line) + 1]
        return [
            (start, places[f"{key}/{start}"], line[start - 1 : end - 1])
            for start, end in zip(starts, ends, strict=True)
        ]

    def _place(self, task: TaskId) -> str:
        labels = "/".join(part.partition("#")[0] for part in task.path.split("/"))
        return f"{self.work.step}/{labels}"

    async def _run(self, call: ToolCall) -> Outcome:
        plan = call.plan
        run = self.registry.runner(plan.kind.name)
        if run is None:
            return failed("not_found", f"this version cannot run tools of kind {plan.kind.name!r}")
        try:
            inputs = msgspec.convert(call.inputs, plan.kind.inputs, strict=False)
            args = call.scope["args"]
            if plan.kind.takes_args:
                args = await self._opened(args)
            own_args: dict[str, Any] = {}
            if plan.task.args:
                own_args = await self._opened({key: args[key] for key in plan.task.args})
            context = self._context(call, args, own_args)
        except msgspec.ValidationError as error:
            wrong, message = rendered_misfit(plan.kind.inputs, call.inputs, error)
            return failed("input", f"{plan.kind.name}: {message}", input=wrong)
        except TemplateFailed as error:
            return failed("input", f"{plan.kind.name}: {error}")
        if (name := _null_choice(plan.kind, call.inputs)) is not None:
            message = f"{plan.kind.name}: the template of `{name}` gives null: give it a value, or a `default(...)`"
            return failed("input", message, input=name)
        limit = call.timeout if isinstance(call.timeout, (int, float)) else None
        if not await self.link.holds(self.work.execution, self.work.fence):
            raise Rejected
        try:
            if limit is None:
                return await run(inputs, context)
            async with asyncio.timeout(limit):
                return await run(inputs, context)
        except ParkedCall:
            raise
        except Failure as failure:
            return failure.outcome
        except TimeoutError as error:
            late = f"the call took longer than {limit:g} s" if limit is not None else str(error) or "the call timed out"
            return failed("timeout", late, retryable=True)
        except NoetlError as error:
            return failed("internal", str(error))
        except Exception as error:  # a defect of a tool must not stop the worker
            last = traceback.extract_tb(error.__traceback__)[-1]
            return failed("internal", f"{type(error).__name__}: {error} ({last.name}:{last.lineno})")

    def _context(self, call: ToolCall, args: dict[str, Any], own_args: dict[str, Any]) -> Context:
        plan, task, redact, source = call.plan, call.task, self.redact, None
        if plan.kind.verbatim:  # where the program text begins, for tracebacks
            mark = self.file.places.get(f"{self._place(task)}/{plan.kind.verbatim[0]}/1")
            source = None if mark is None else (self.file.name, mark.line)
        return Context(
            execution=self.work.execution,
            action=action_id(self.work.execution, task),
            repeats=call.repeats,
            attempt=call.attempt,
            step=self.work.step,
            task=plan.label,
            timeout=call.timeout,
            args=args,
            prev=call.scope["_prev"],
            own_args=own_args,
            spec=plan.task.spec,
            bound=call.bound,
            credential=self.keychain.credential,
            redact=redact,
            keychain=self.keychain,
            folder=self.file.folder,
            source=source,
            now=self.clock.now(),
            log=lambda stream, line: self.write_output(f"{self.work.execution}|{task}", stream, redact(line)),
        )

    async def _opened(self, value: Any) -> Any:
        """Args with stored values as JSON, which is passed on without decoding it."""
        if isinstance(value, Reference):
            if value.is_secret:
                return await self.secret(value)
            if value.schema_hint == BINARY:
                return value
            local = value.digest in self.reporter.blobs
            content = read_json(self.reporter.blobs.get, value) if local else await self.link.contents.read_json(value)
            return value if isinstance(content, TooLarge) else msgspec.Raw(content)
        if isinstance(value, Sealed):
            return value.content
        if not has_references(value):
            return value
        if isinstance(value, dict):
            return {key: await self._opened(item) for key, item in value.items()}
        return [await self._opened(item) for item in value]

    async def content(self, reference: Reference) -> Any:
        try:
            if reference.digest in self.reporter.blobs:
                return read_value(self.reporter.blobs.get, reference)
            return await self.link.contents.read(reference)
        except NoetlError as error:
            raise TemplateFailed(str(error)) from error

    async def secret(self, reference: Reference) -> Any:
        try:
            if reference.store != KEYCHAIN:
                return await open_handle(self.keychain, reference)
            name, _, field = reference.key.partition(".")
            fields = await self.keychain.fields(name)
        except Failure as failure:
            raise TemplateFailed(str(failure)) from failure
        if field not in fields:
            raise TemplateFailed(f"keychain.{name} has no field {field!r}: it has {', '.join(sorted(fields))}")
        return fields[field]


def _null_choice(kind: Kind, inputs: Mapping[str, Any]) -> str | None:
    """The input that was chosen among those of which exactly one is needed, if it is null."""
    for group in kind.one_of:
        set_inputs = [name for name in group if name in inputs]
        if set_inputs and all(inputs[name] is None for name in set_inputs):
            return set_inputs[0]
    return None
