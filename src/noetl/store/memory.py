"""A store in memory: the oracle of the conformance suite, and enough for tests of the runtime."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.store.ports import Change, LogLine, Row, Snapshot, Summary, check_gapless


class MemoryStore:
    """Keeps everything in dicts; durable as long as the process."""

    def __init__(self) -> None:
        self.events: dict[str, list[Row]] = {}
        self.runs: dict[str, Summary] = {}
        self.playbooks: dict[str, tuple[str, bytes]] = {}
        self.blobs: dict[str, bytes] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.lines: list[LogLine] = []

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
        return True

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
