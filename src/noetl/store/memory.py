"""A store in memory: the oracle of the conformance suite, and enough for tests of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import msgspec

from noetl.store.ports import Change, Derived, LogLine, Row, SealedCredential, Snapshot, Summary, check_gapless

Key = TypeVar("Key")
Value = TypeVar("Value")


class MemoryStore:
    """Keeps everything in dicts; durable as long as the process."""

    def __init__(self) -> None:
        self.events: dict[str, list[Row]] = {}
        self.runs: dict[str, Summary] = {}
        self.playbooks: dict[str, tuple[str, bytes]] = {}
        self.blobs: dict[str, bytes] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.lines: list[LogLine] = []
        self.kept: dict[str, Derived] = {}
        self.credentials = MemoryCredentials()

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        check_gapless(changes)
        return [self._commit(change) for change in changes]

    def _commit(self, change: Change) -> bool:
        if self.seq(change.execution) != change.expected:
            return False
        self.events.setdefault(change.execution, []).extend(change.rows)
        self.blobs.update(change.blobs)
        if change.summary is not None:
            self.runs[change.execution] = change.summary
        if change.snapshot is not None and change.rows:
            last = change.rows[-1]
            self.snapshots[change.execution] = Snapshot(last.seq, last.hash, change.snapshot)
        kept = self.derived(change.execution)
        self.kept[change.execution] = Derived(
            _moved(kept.ready, change.ready), _moved(kept.leases, change.leases), _moved(kept.timers, change.timers)
        )
        return True

    def moment(self) -> AbstractContextManager[None]:
        return nullcontext()

    def derived(self, execution: str) -> Derived:
        return self.kept.get(execution, Derived())

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = self.events.get(execution, [])[after:]
        return rows if limit is None else rows[:limit]

    def snapshot(self, execution: str) -> Snapshot | None:
        return self.snapshots.get(execution)

    def seq(self, execution: str) -> int:
        return len(self.events.get(execution, ()))

    def summaries(self, *, status: str | None = None, prefix: str = "", limit: int = 1000) -> list[Summary]:
        found = [
            run
            for run in self.runs.values()
            if run.execution_id.startswith(prefix) and (status is None or run.status == status)
        ]
        return sorted(found, key=lambda run: run.execution_id, reverse=True)[:limit]

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        self.playbooks.setdefault(digest, (file, text))

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        return self.playbooks.get(digest)

    def blob(self, key: str) -> bytes | None:
        return self.blobs.get(key)

    def log(self, lines: Sequence[LogLine]) -> None:
        self.lines.extend(lines)

    def logs(self, execution: str, after: int = 0) -> list[tuple[int, str, float, str, str]]:
        numbered = enumerate(self.lines, start=1)
        return [(n, *line[1:]) for n, line in numbered if line[0] == execution and n > after]

    def changed(self) -> bool:
        return False

    def close(self) -> None:
        pass


def _moved(before: dict[Key, Value], moved: dict[Key, Value | None]) -> dict[Key, Value]:
    after = {**before, **moved}
    return {key: value for key, value in after.items() if value is not None}


class MemoryCredentials:
    """Sealed credentials in a dict."""

    def __init__(self) -> None:
        self.rows: dict[str, SealedCredential] = {}

    def all(self) -> list[SealedCredential]:
        return [self.rows[name] for name in sorted(self.rows)]

    def get(self, name: str) -> SealedCredential | None:
        return self.rows.get(name)

    def put(self, credential: SealedCredential) -> None:
        created = self.rows.get(credential.name, credential).created
        self.rows[credential.name] = msgspec.structs.replace(credential, created=created)

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        row = self.rows.get(name)
        if row is None or row.sealed != before:
            return False
        self.rows[name] = msgspec.structs.replace(row, sealed=after)
        return True

    def delete(self, name: str) -> bool:
        return self.rows.pop(name, None) is not None
