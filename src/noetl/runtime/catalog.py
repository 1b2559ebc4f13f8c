"""The playbooks of a process and their files. The playbook of a child is a registered one, else a file (`child_files`).

The text of each is stored under its digest, so an execution can be resumed without its file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from noetl.dsl.compile import Loaded, load
from noetl.engine.state import Execution
from noetl.errors import AuthError, NoetlError, NotFound
from noetl.files import display_name, load_text
from noetl.latest import Latest
from noetl.model.playbook import Playbook
from noetl.runtime.child_files import child_file
from noetl.runtime.loaded_playbooks import LoadedPlaybooks, obstacles
from noetl.tools.registry import KINDS

Value = TypeVar("Value")
MAX_SOURCES = 100


class PlaybookSource:
    def __init__(self, file: str, text: bytes, loaded: Loaded) -> None:
        self.file, self.text, self.loaded, self.places = file, text, loaded, loaded.places
        relative = os.path.relpath(file) if os.path.isabs(file) else file
        self.display_path = file if relative.startswith(os.pardir) else relative  # relative below the working folder

    def place_of_entry(self, name: str) -> str:
        mark = self.places.get(f"keychain/{name}")
        return f"{self.display_path}:{mark.line}:{mark.column}: " if mark is not None else ""

    def line(self, number: int) -> str:
        lines = self.text.decode("utf-8", "replace").splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


class Catalog:
    """The playbooks of a process, and the playbooks of child executions. `nats` says whether NATS is available."""

    def __init__(self, playbooks: LoadedPlaybooks, *, nats: bool = False) -> None:
        self.playbooks, self.store, self.nats = playbooks, playbooks.store, nats
        self.sources: Latest[str, PlaybookSource] = Latest(MAX_SOURCES)
        self.digests: dict[tuple[str, str], str] = {}  # by folder and path: a child that is called often is read once

    async def find(self, parent: Execution, request: dict[str, Any]) -> str:
        path, version = str(request.get("path") or ""), request.get("version")
        number = version if isinstance(version, int) else None
        digest = self._ask(self.store.find, path, number) if number == version else None
        if digest is not None:
            self.ensure_playbook(digest)
            return digest
        if version is not None:
            raise NoetlError(f"{path}: version {version} is not registered, and files have no versions")
        parent_file = self.source(parent.digest).file
        key = os.path.dirname(parent_file), path
        if key not in self.digests:
            source = read(child_file(parent_file, path))
            self._check(source.loaded.require())
            self.digests[key] = self.add(source)
        return self.digests[key]

    def ensure_playbook(self, digest: str) -> None:
        """Load a playbook of the store; NoetlError if not all of it can run here."""
        source = self.source(digest)
        self._check(source.loaded.require())
        self._load(source)

    def add(self, source: PlaybookSource) -> str:
        digest = self._load(source)
        self.sources[digest] = source
        file = os.path.abspath(source.file)  # resumed from another folder, it still finds its children
        self._ask(self.store.put_playbook, digest, file, source.text)
        return digest

    def _check(self, playbook: Playbook) -> None:
        for place, reason in obstacles(playbook, nats=self.nats):
            raise NoetlError(f"{playbook.path}: {place}: {reason}")

    def _load(self, source: PlaybookSource) -> str:
        """AuthError if a credential of the playbook is missing, before anything of it has run."""
        playbook = source.loaded.require()
        if playbook.keychain:
            from noetl.keychain.keychain import keychain_faults

            stored = self._ask(self.store.credentials.all)
            credentials = {credential.name: credential for credential in stored}
            if faults := keychain_faults(playbook, credentials):
                raise AuthError("; ".join(f"{source.place_of_entry(fault.entry)}{fault}" for fault in faults))
        return self.playbooks.add(playbook, source.display_path, source.places, source.loaded.inputs)

    def source(self, digest: str) -> PlaybookSource:
        """Text and places of a playbook, from memory or the store; NotFound if there is none."""
        source = self.sources.get(digest)
        if source is None:
            stored = self._ask(self.store.playbook, digest)
            if stored is None:
                raise NotFound(f"playbook {digest!r} not found")
            source = PlaybookSource(*stored, load(*stored, KINDS))
        self.sources[digest] = source
        return source

    def _ask(self, query: Callable[..., Value], *arguments: Any) -> Value:
        """Query the store in its thread; blocks."""
        return self.playbooks.thread.submit(query, *arguments).result()


def read(file: str) -> PlaybookSource:
    """Read, check and compile a file; PlaybookInvalid is raised when the playbook is used."""
    return PlaybookSource(display_name(file), *load_text(file))
