"""The playbooks of a server: texts that come in are compiled once, kept by digest, and found by path and version.

Compiling takes time that other requests need not wait for, so it has a thread of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, TypeVar

from noetl.dsl.compile import Loaded, load
from noetl.engine.state import Execution
from noetl.errors import AuthError, Conflict, NoetlError, NotFound, PlaybookInvalid
from noetl.model.playbook import Playbook
from noetl.runtime.obstacles import obstacles
from noetl.runtime.runtime import Runtime
from noetl.server.problems import Refused
from noetl.tools.registry import KINDS

FILE = "playbook.yaml"
"""What a text is called that came without a name."""
KEPT_TEXTS = 1_000
DIGEST = re.compile("[0-9a-f]{64}")

Answer = TypeVar("Answer")


class Playbooks:
    """What the server knows of playbooks. The texts are in the store; here is what has been compiled."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.store = runtime, runtime.store
        self._thread = ThreadPoolExecutor(1, "noetl-compile")
        self._digests: OrderedDict[bytes, str] = OrderedDict()
        """By the hash of the text, so that a text which is started often is compiled once."""

    async def compiled(self, text: bytes, *, strict: bool = False) -> Loaded:
        """What becomes of a text."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: load(FILE, text, KINDS, strict=strict))

    async def add(self, text: bytes) -> str:
        """Keep a playbook and make it known to the engine: its digest. PlaybookInvalid tells all its problems."""
        key = sha256(text).digest()
        if (known := self._digests.get(key)) is not None:
            self._digests.move_to_end(key)
            return known
        return await self.keep(text, await self.compiled(text))

    async def keep(self, text: bytes, loaded: Loaded) -> str:
        """Keep what has been compiled; Refused if this version can't run all of it."""
        playbook = loaded.require()
        check_path(playbook.path)
        self._check(playbook)
        digest = playbook.digest
        await self._in_store(self.store.put_playbook, digest, playbook.path, text)
        self.runtime.add(playbook, playbook.path, loaded.places)
        self._digests[sha256(text).digest()] = digest
        while len(self._digests) > KEPT_TEXTS:
            self._digests.popitem(last=False)
        return digest

    async def named(self, path: str, version: int | None) -> str:
        """The digest of a registered playbook that is known to the engine; NotFound says what is missing."""
        digest = None if "\0" in path else await self.runtime.thread.look(self.store.find, path, version)
        if digest is None:
            raise unknown(path, version)
        self._check(await self.know(digest))
        return digest

    def _check(self, playbook: Playbook) -> None:
        """Refused if not all of it can be run here; what is configured may have changed since it was registered."""
        found = list(obstacles(playbook, nats=self.runtime.shelf is not None))
        if found:
            raise Refused(422, "; ".join(f"{one.place}: {one.reason}" for one in found), kind="playbook-not-runnable")

    async def know(self, digest: str) -> Playbook:
        """Make a stored playbook known to the engine."""
        if digest not in self.runtime.nets:
            stored = await self._in_store(self.store.playbook, digest) if DIGEST.fullmatch(digest) else None
            if stored is None:
                raise NotFound(f"there is no playbook {digest[:64]!r}")
            file, text = stored
            loop = asyncio.get_running_loop()
            loaded = await loop.run_in_executor(self._thread, load, file, text, KINDS)
            self.runtime.add(_required(loaded), file, loaded.places)
        return self.runtime.playbook(digest)

    async def check_keychain(self, playbook: Playbook) -> None:
        """What a playbook can't sign in with is said before anything of it has run."""
        if playbook.keychain:
            from noetl.keychain.check import missing_entries

            stored = await self._in_store(self.store.credentials.all)
            if faults := missing_entries(playbook, {one.name: one for one in stored}):
                raise AuthError("; ".join(faults))

    def find(self, parent: Execution, request: dict[str, Any]) -> str:
        """For executions that start others: the digest of the playbook that a child is to run."""
        path, version = str(request.get("path") or ""), _version(request.get("version"))
        digest = self.runtime.thread.submit(self.store.find, path, version).result()
        if digest is None:
            raise unknown(path, version)
        if digest not in self.runtime.nets:
            stored = self.runtime.thread.submit(self.store.playbook, digest).result()
            assert stored is not None
            loaded = load(*stored, KINDS)
            self.runtime.add(_required(loaded), stored[0], loaded.places)
        return digest

    async def _in_store(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        return await self.runtime.thread.ask(ask, *arguments)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def check_path(path: str) -> None:
    """Refused where a path could not be asked for."""
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in parts) or len(path) > 500:
        raise Refused(422, f"metadata.path {path[:100]!r} must be names with single slashes between them, such as a/b")


def _required(loaded: Loaded) -> Playbook:
    """A playbook that was fine when it was stored, and may not be for this version."""
    try:
        return loaded.require()
    except PlaybookInvalid as error:
        raise Conflict(f"this version of noetl can't read the stored playbook any more: {error}") from None


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
