"""The playbooks of a server: texts that come in are compiled once, stored by digest, and found by path and version."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from noetl.engine.state import Execution
from noetl.errors import AuthError, Conflict, NoetlError, NotFound, PlaybookInvalid
from noetl.model.playbook import Playbook
from noetl.runtime.loaded import LoadedPlaybook, single_flight
from noetl.runtime.obstacles import obstacles
from noetl.runtime.runtime import Runtime
from noetl.server.compiler import Compiled, Compiler
from noetl.server.problems import Refused

MAX_DIGESTS = 1_000
MAX_UNREADABLE = 100
UNREADABLE_SECONDS = 60.0
"""Seconds before a stored playbook that failed to compile is compiled again."""
DIGEST = re.compile("[0-9a-f]{64}")

Answer = TypeVar("Answer")


class Playbooks:
    """What the server knows of playbooks. The texts are in the store, the compiled ones in the runtime."""

    def __init__(self, runtime: Runtime, compiler: Compiler | None = None) -> None:
        self.runtime, self.store = runtime, runtime.store
        self.compiler = compiler or Compiler()
        runtime.compile = self._compile_stored
        self._digests: OrderedDict[bytes, str] = OrderedDict()
        """By the hash of the text, so that a text which is started often is compiled once."""
        self._adding: dict[bytes, asyncio.Task[str]] = {}
        self._unreadable: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        """Compile failures by hash of the stored text: expiry time and reason."""

    async def check(self, caller: str, text: bytes, *, strict: bool = False) -> Compiled:
        """All problems of a text."""
        return await self.compiler.check(caller, text, strict=strict)

    async def compiled(self, caller: str, text: bytes) -> Compiled:
        """A text that a caller brings, compiled."""
        return await self.compiler.compile(caller, text)

    async def add(self, caller: str, text: bytes) -> str:
        """Store a playbook and bring it into memory: its digest. PlaybookInvalid has all its problems."""
        key = sha256(text).digest()
        digest = self._digests.get(key)
        if digest is None:
            return await single_flight(self._adding, key, lambda: self._add(caller, text))
        self._digests.move_to_end(key)
        await self.runtime.net(digest)
        return digest

    async def _add(self, caller: str, text: bytes) -> str:
        return await self.keep(text, await self.compiled(caller, text))

    async def keep(self, text: bytes, compiled: Compiled) -> str:
        """Store what has been compiled; Refused if this version can't run all of it."""
        loaded = compiled.require()
        check_path(loaded.playbook.path)
        self._check(loaded.playbook)
        await self._in_store(self.store.put_playbook, loaded.digest, loaded.playbook.path, text)
        self.runtime.playbooks.add(loaded)
        self._digests[sha256(text).digest()] = loaded.digest
        while len(self._digests) > MAX_DIGESTS:
            self._digests.popitem(last=False)
        return loaded.digest

    async def named(self, path: str, version: int | None) -> str:
        """The digest of a registered playbook, which is loaded; NotFound if it does not exist."""
        digest = None if "\0" in path else await self.runtime.thread.look(self.store.find, path, version)
        if digest is None:
            raise unknown(path, version)
        self._check((await self.runtime.net(digest)).playbook)
        return digest

    async def know(self, digest: str) -> Playbook:
        """A stored playbook, brought into memory; NotFound if there is none."""
        if not DIGEST.fullmatch(digest):
            raise NotFound(f"playbook {digest[:64]!r} not found")
        return (await self.runtime.net(digest)).playbook

    async def find(self, parent: Execution, request: dict[str, Any]) -> str:
        """For executions that start others: the digest of the playbook that a child is to run."""
        return await self.named(str(request.get("path") or ""), _version(request.get("version")))

    def _check(self, playbook: Playbook) -> None:
        """Refused if not all of it can be run here; what is configured may have changed since it was registered."""
        found = list(obstacles(playbook, nats=self.runtime.shelf is not None))
        if found:
            raise Refused(422, "; ".join(f"{one.place}: {one.reason}" for one in found), kind="playbook-not-runnable")

    async def check_keychain(self, playbook: Playbook) -> None:
        """What a playbook can't sign in with is said before anything of it has run."""
        if playbook.keychain:
            from noetl.keychain.check import missing_entries

            stored = await self._in_store(self.store.credentials.all)
            if faults := missing_entries(playbook, {one.name: one for one in stored}):
                raise AuthError("; ".join(faults))

    async def _compile_stored(self, file: str, text: bytes) -> LoadedPlaybook:
        """A playbook that was fine when it was stored; Conflict if it is not for this version, or this machine."""
        key, now = sha256(text).digest(), asyncio.get_running_loop().time()
        until, why = self._unreadable.get(key, (0.0, ""))
        if now >= until:
            try:
                return (await self.compiler.compile_stored(file, text)).require()
            except PlaybookInvalid as error:
                why = str(error)
            self._unreadable[key] = (now + UNREADABLE_SECONDS, why)
            while len(self._unreadable) > MAX_UNREADABLE:
                self._unreadable.popitem(last=False)
        raise Conflict(f"this version of noetl can't read the stored playbook {file}: {why}")

    async def _in_store(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        return await self.runtime.thread.ask(ask, *arguments)

    def stop(self) -> None:
        """Fail all pending compilations."""
        self.compiler.stop()

    def close(self) -> None:
        self.compiler.close()


def check_path(path: str) -> None:
    """Refused where a path could not be asked for."""
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in parts) or len(path) > 500:
        raise Refused(422, f"metadata.path {path[:100]!r} must be names with single slashes between them, such as a/b")


def unknown(path: str, version: int | None) -> NotFound:
    """Nothing is registered there."""
    if version is None:
        return NotFound(f"no playbook is registered as {path!r}")
    return NotFound(f"playbook {path!r} has no version {version}")


def _version(given: Any) -> int | None:
    if given is None:
        return None
    try:
        return int(given)
    except (TypeError, ValueError):
        raise NoetlError(f"the version of a playbook is a number, not {given!r}") from None
