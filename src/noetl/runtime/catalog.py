"""Which playbooks a process knows, where they came from, and how a child is found: in the catalog, else as a file
beside its parent.

The text of each is kept in the store under its digest, so an execution can be resumed without its file.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from noetl.dsl.compile import Loaded, load
from noetl.dsl.tree import Mark
from noetl.engine.state import Execution
from noetl.errors import AuthError, FileMissing, NoetlError, NotFound
from noetl.files import STDIN, read_file
from noetl.model.playbook import Playbook
from noetl.runtime.obstacles import obstacles
from noetl.runtime.runtime import Runtime
from noetl.tools.registry import KINDS

Answer = TypeVar("Answer")
ENDINGS = ("", ".yaml", ".yml")
MAX_SOURCES = 100


class Source:
    """The text of a playbook, where it is from, and what became of it."""

    def __init__(self, file: str, text: bytes, loaded: Loaded) -> None:
        self.file, self.text, self.loaded = file, text, loaded

    @property
    def shown(self) -> str:
        """The file's name as people like to read it: relative, where it lies below the working folder."""
        relative = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        return self.file if relative.startswith(os.pardir) else relative

    @property
    def places(self) -> dict[str, Mark]:
        return self.loaded.places

    def line(self, number: int) -> str:
        lines = self.text.decode("utf-8", "replace").splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


class Catalog:
    """The playbooks of one runtime. `find` is what Embedded asks for the playbook of a child."""

    def __init__(self) -> None:
        self.sources: OrderedDict[str, Source] = OrderedDict()
        """By digest: those that were used last."""
        self.digests: dict[str, str] = {}
        """By file: a playbook that is called a thousand times is read once."""
        self.runtime: Runtime | None = None

    async def find(self, parent: Execution, request: dict[str, Any]) -> str:
        """The digest of the playbook a child is to run; NoetlError says why there is none."""
        path, version = str(request.get("path") or ""), request.get("version")
        number = version if isinstance(version, int) else None
        digest = self._stored(lambda: self._runtime.store.find(path, number)) if number == version else None
        if digest is not None:
            self.know(digest)
            return digest
        if version is not None:
            raise NoetlError(f"{path}: no version {version} is registered, and files have none")
        file = beside(self.source(parent.digest).file, path)
        if file not in self.digests:
            found = read(file)
            self._check(found.loaded.require())
            self.digests[file] = self.add(found)
        return self.digests[file]

    def know(self, digest: str) -> None:
        """Make a playbook of the store known to the runtime."""
        source = self.source(digest)
        self._check(source.loaded.require())
        self._check_keychain(source.loaded.require())
        self._runtime.add(source.loaded.require(), source.shown, source.places)

    def add(self, source: Source) -> str:
        """Keep a playbook in the store and make it known to the runtime."""
        self._check_keychain(source.loaded.require())
        digest = self._runtime.add(source.loaded.require(), source.shown, source.places)
        self._remember(digest, source)
        file = os.path.abspath(source.file)  # resumed from another folder, it still finds its children
        self._stored(lambda: self._runtime.store.put_playbook(digest, file, source.text))
        return digest

    def _check(self, playbook: Playbook) -> None:
        """NoetlError if not all of the playbook can be run here."""
        for obstacle in obstacles(playbook, nats=self._runtime.shelf is not None):
            raise NoetlError(f"{playbook.path}: {obstacle.place}: {obstacle.reason}")

    def _check_keychain(self, playbook: Playbook) -> None:
        """What a playbook can't sign in with is said before anything of it has run."""
        if playbook.keychain:
            from noetl.keychain.check import missing_entries

            stored = self._stored(self._runtime.store.credentials.all)
            if faults := missing_entries(playbook, {one.name: one for one in stored}):
                raise AuthError("; ".join(faults))

    def source(self, digest: str) -> Source:
        """Text and places of a playbook that is known here or in the store."""
        source = self.sources.get(digest)
        if source is None:
            stored = self._stored(lambda: self._runtime.store.playbook(digest))
            if stored is None:
                raise NotFound(f"the playbook {digest[:12]} of this execution is not in the store")
            source = Source(*stored, load(stored[0], stored[1], KINDS))
        self._remember(digest, source)
        return source

    def _remember(self, digest: str, source: Source) -> None:
        self.sources[digest] = source
        self.sources.move_to_end(digest)
        if len(self.sources) > MAX_SOURCES:
            self.sources.popitem(last=False)

    @property
    def _runtime(self) -> Runtime:
        assert self.runtime is not None
        return self.runtime

    def _stored(self, ask: Callable[[], Answer]) -> Answer:
        """The store belongs to the runtime's thread."""
        return self._runtime.thread.submit(ask).result()


def read(file: str) -> Source:
    """Read, check and compile a file; PlaybookInvalid is left to whoever needs the playbook."""
    text = read_file(file)
    name = "<stdin>" if file == STDIN else file.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return Source(name, text, load(name, text, KINDS))


def beside(parent: str, path: str) -> str:
    """The file of that name beside the parent, with or without its ending; FileMissing if there is none."""
    folder = os.path.dirname(os.path.abspath(parent))
    for ending in ENDINGS:
        file = os.path.normpath(os.path.join(folder, path + ending))
        if os.path.isfile(file):
            return file
    raise FileMissing(f"no playbook {path!r}: looked for {os.path.join(folder, path)} and the same with .yaml or .yml")
