"""Which tool kinds exist.

The built-in kinds are the dict below. Others come from installed distributions through the entry point group
`noetl.tools`, where the name is the kind and the object a module with a `KIND`. A module is imported when its
kind is first used, and entry points are read for the first name that is not built in: both would slow every start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noetl.errors import NoetlError, NotFound
from noetl.model.kind import Kind

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from importlib.metadata import EntryPoint

    from noetl.tools.base import Run

GROUP = "noetl.tools"

BUILTIN = {
    name: f"noetl.tools.{name}"
    for name in (
        "noop", "http", "postgres", "duckdb", "snowflake", "python", "shell", "script", "container", "workbook",
        "playbook", "iterator", "wait", "secrets", "gcs", "s3", "object", "nats", "transfer", "quantum",
    )
}  # fmt: skip


class ToolKindTaken(NoetlError):
    """Two tools claim one kind: uninstall one of them, or have its author rename it."""


class ToolKindBroken(NoetlError):
    """A plug-in offers no valid tool kind."""


class Registry:
    def __init__(self) -> None:
        self._loaded: dict[str, Kind] = {}
        self._runners: dict[str, Run | None] = {}
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._users: Counter[AbstractEventLoop] = Counter()

    def get(self, name: str) -> Kind | None:
        if name not in self._loaded and (kind := builtin(name) or self._plugin(name)) is not None:
            self._loaded[name] = kind
        return self._loaded.get(name)

    def require(self, name: str) -> Kind:
        if (kind := self.get(name)) is None:
            raise NotFound(f"unknown tool kind {name!r}")
        return kind

    def runner(self, name: str) -> Run | None:
        """The function that runs a kind; None if there is no such kind or it cannot be run."""
        if name not in self._runners:
            module: Any = None
            if name in BUILTIN:
                module = import_module(BUILTIN[name])
            elif entry := self._entry_points.get(name):
                module = entry.load()
            self._runners[name] = getattr(module, "run", None)
            if close := getattr(module, "close", None):
                self._closers.append(close)
        return self._runners[name]

    def join(self) -> None:
        """Keep the processes and connections of the tools in the running loop open until this user closes, too."""
        from asyncio import get_running_loop  # slow to import, and `noetl validate` runs no loop

        self._users[get_running_loop()] += 1

    async def close(self) -> None:
        """Close the resources of the tools in the running loop, unless others have joined and use them."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        self._users -= Counter([loop])
        if self._users[loop]:
            return
        async with AsyncExitStack() as stack:
            for close in self._closers:
                stack.push_async_callback(close)

    def names(self) -> list[str]:
        return [*BUILTIN, *sorted(self._entry_points)]

    def all(self) -> dict[str, Kind]:
        return {name: kind for name in self.names() if (kind := self.get(name)) is not None}

    def _plugin(self, name: str) -> Kind | None:
        entry = self._entry_points.get(name)
        if entry is None:
            return None
        cause = None
        try:
            kind = getattr(entry.load(), "KIND", None)
        except Exception as error:  # a plug-in is foreign code: name its distribution, whatever it raises
            cause, reason = error, f"{type(error).__name__}: {error}"
        else:
            if isinstance(kind, Kind) and kind.name == name:
                return kind
            reason = f"its KIND has the name {kind.name!r}" if isinstance(kind, Kind) else f"{entry.value} has no KIND"
        raise ToolKindBroken(f"tool kind {name!r} of {_owner(entry)} cannot be used: {reason}") from cause

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        plugins: dict[str, EntryPoint] = {}
        for entry in entry_points(group=GROUP):
            if entry.name in BUILTIN or entry.name in plugins:
                owner = "noetl itself" if entry.name in BUILTIN else _owner(plugins[entry.name])
                raise ToolKindTaken(f"tool kind {entry.name!r} of {_owner(entry)} is already taken by {owner}")
            plugins[entry.name] = entry
        return plugins


def builtin(name: str) -> Kind | None:
    if name not in BUILTIN:
        return None
    kind: Kind = import_module(BUILTIN[name]).KIND
    return kind


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


KINDS = Registry()
