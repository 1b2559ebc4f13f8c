"""The playbooks of a server: compiled once in other processes, stored by digest, and found by path and version."""

from __future__ import annotations

import asyncio
import os
import re
from hashlib import sha256
from typing import Any

from noetl.engine.state import Execution
from noetl.errors import AuthError, Conflict, FileMissing, NoetlError, NotFound, PlaybookInvalid
from noetl.files import read_playbook
from noetl.keychain.keychain import KeychainFault, keychain_faults
from noetl.latest import Latest
from noetl.model.playbook import Playbook
from noetl.runtime.child_files import child_file
from noetl.runtime.loaded_playbooks import LoadedPlaybook, LoadedPlaybooks, obstacles, single_flight
from noetl.runtime.store_thread import StoreThread
from noetl.server.compiler import Compiled, PlaybookCompiler
from noetl.server.problems import Refused
from noetl.store.store import Store
from noetl.switch_interval import short_switch_interval

MAX_PATH_LENGTH = 500
MAX_DIGESTS = 1_000
MAX_UNREADABLE = 100
UNREADABLE_SECONDS = 60.0  # seconds before a stored playbook that failed to compile is compiled again
DIGEST = re.compile("[0-9a-f]{64}")


class Playbooks:
    def __init__(self, store: Store, thread: StoreThread, *, nats: bool = False) -> None:
        self.store, self.thread, self.nats = store, thread, nats
        self.compiler = PlaybookCompiler()
        self.loaded = LoadedPlaybooks(store, self._compile_stored, thread)
        self._digests: Latest[bytes, str] = Latest(MAX_DIGESTS)  # by the hash of the text
        self._obstacles: Latest[str, list[str]] = Latest(MAX_DIGESTS)  # by digest
        self._adding: dict[bytes, asyncio.Task[str]] = {}
        self._unreadable: Latest[bytes, tuple[float, str]] = Latest(MAX_UNREADABLE)  # expiry and reason by hash

    async def add(self, caller: str, text: str) -> str:
        """Store a playbook and load it; its digest. PlaybookInvalid has all its problems."""
        source = text.encode("utf-8", "surrogatepass")
        key = sha256(source).digest()

        async def compile_and_save() -> str:
            return await self.save(source, await self.compiler.compile(caller, source))

        digest = self._digests.get(key)
        if digest is None:
            return await single_flight(self._adding, key, compile_and_save)
        self._digests.move_to_end(key)
        await self.loaded.load(digest)
        return digest

    async def save(self, text: bytes, compiled: Compiled) -> str:
        """Store a compiled playbook; Refused if this server cannot run all of it."""
        loaded = compiled.require()
        path = loaded.playbook.path
        is_url_path = path.isprintable() and "\\" not in path and not {"", ".", ".."} & {*path.split("/")}
        if not is_url_path or len(path) > MAX_PATH_LENGTH:
            detail = f"metadata.path {path[:100]!r} must be names with single slashes between them, such as a/b"
            raise Refused(422, detail)
        await self._check(loaded)
        await self.thread.ask(self.store.put_playbook, loaded.digest, path, text)
        self.loaded.cache.add(loaded)
        self._digests[sha256(text).digest()] = loaded.digest
        return loaded.digest

    async def registered(self, path: str, version: int | None) -> str:
        """The digest of a registered playbook, which is loaded; NotFound if it does not exist."""
        digest = await self.check_registered(path, version)
        await self._check(await self.loaded.load(digest))
        return digest

    async def check_registered(self, path: str, version: int | None) -> str:
        digest = None if "\0" in path else await self.thread.ask(self.store.find, path, version, shared=True)
        if digest is None:
            latest = None if "\0" in path or version is None else await self.thread.ask(self.store.versions, path, 1)
            raise unknown(path, version if latest else None)
        return digest

    async def stored(self, digest: str, *, registered: bool) -> str:
        """The digest, after its playbook was loaded; NotFound if it is not stored, or not `registered` under a path."""
        not_found = NotFound(f"playbook {digest[:64]!r} not found")
        if not DIGEST.fullmatch(digest):
            raise not_found
        try:
            playbook = (await self.loaded.load(digest)).playbook
        except NotFound:
            raise not_found from None
        if registered:
            versions = await self.thread.ask(self.store.versions, playbook.path)
            if not any(version.digest == digest for version in versions):
                raise not_found
        return digest

    async def find(self, parent: Execution, request: dict[str, Any]) -> str:
        version = request.get("version")
        try:
            number = None if version is None else int(version)
        except (TypeError, ValueError):
            raise NoetlError(f"the version of a playbook must be a number, not {version!r}") from None
        path = str(request.get("path") or "")
        try:
            return await self.registered(path, number)
        except NotFound as missing:
            stored = await self.thread.ask(self.store.playbook, parent.digest)
            if number is not None or stored is None or not os.path.isabs(stored[0]):  # its text came without its file
                raise
            try:
                file = await asyncio.to_thread(child_file, stored[0], path)
            except FileMissing as error:
                raise NotFound(str(error)) from missing
            return await self._add_file(file)

    async def _add_file(self, file: str) -> str:
        text = await asyncio.to_thread(read_playbook, file)
        loaded = (await self.compiler.compile(None, text, file)).require()
        await self._check(loaded)
        await self.thread.ask(self.store.put_playbook, loaded.digest, file, text)
        self.loaded.cache.add(loaded)
        return loaded.digest

    async def _check(self, loaded: LoadedPlaybook) -> None:
        """Refused if this server cannot run all of it; its settings may have changed since the registration."""
        reasons = self._obstacles.get(loaded.digest)
        if reasons is None:  # in a thread, because it may have thousands of steps
            reasons = self._obstacles[loaded.digest] = await asyncio.to_thread(self._reasons, loaded.playbook)
        if reasons:
            raise Refused(422, "; ".join(reasons), kind="playbook-not-runnable")

    @short_switch_interval()
    def _reasons(self, playbook: Playbook) -> list[str]:
        return [f"{place}: {reason}" for place, reason in obstacles(playbook, nats=self.nats)]

    async def check_keychain(self, playbook: Playbook) -> None:
        """AuthError if a credential of the playbook is missing, before anything has run."""
        if faults := await self.keychain_faults(playbook):
            raise AuthError("; ".join(map(str, faults)))

    async def keychain_faults(self, playbook: Playbook) -> list[KeychainFault]:
        if not playbook.keychain:
            return []
        stored = await self.thread.ask(self.store.credentials.all)
        return keychain_faults(playbook, {credential.name: credential for credential in stored})

    async def _compile_stored(self, file: str, text: bytes) -> LoadedPlaybook:
        """Compile a stored playbook; Conflict if this version cannot read it. Failures are cached for a while."""
        key, now = sha256(text).digest(), asyncio.get_running_loop().time()
        until, reason = self._unreadable.get(key, (0.0, ""))
        if now >= until:
            try:
                return (await self.compiler.compile(None, text, file, stored=True)).require()
            except PlaybookInvalid as error:
                reason = str(error)
            self._unreadable[key] = (now + UNREADABLE_SECONDS, reason)
        raise Conflict(f"this version of noetl cannot read the stored playbook {file}: {reason}")


def unknown(path: str, version: int | None) -> NotFound:
    if version is None:
        return NotFound(f"playbook {path!r} not found: `noetl catalog list` lists all, `noetl register` adds one")
    return NotFound(f"version {version} of playbook {path!r} not found: `noetl catalog show {path}` lists its versions")
