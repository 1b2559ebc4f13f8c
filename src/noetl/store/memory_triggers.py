"""Schedules and hooks in dicts: the oracle of the conformance suite."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.store.triggers import Hook, Schedule


class MemoryTriggers:
    """What starts executions, as long as the process lives."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._hooks: dict[str, Hook] = {}

    def add_schedule(self, schedule: Schedule) -> bool:
        return self._schedules.setdefault(schedule.name, schedule) is schedule

    def schedule(self, name: str) -> Schedule | None:
        return self._schedules.get(name)

    def schedules(self, after: str = "", limit: int = 1000) -> list[Schedule]:
        return [self._schedules[name] for name in sorted(self._schedules) if name > after][:limit]

    def change_schedule(self, schedule: Schedule) -> bool:
        known = self._schedules.get(schedule.name)
        if known is None or (known.id, known.revision) != (schedule.id, schedule.revision - 1):
            return False
        self._schedules[schedule.name] = schedule
        return True

    def due_schedules(self, now: float, limit: int) -> list[Schedule]:
        due = [(one.look, one.name) for one in self._schedules.values() if one.look is not None and one.look <= now]
        return [self._schedules[name] for _, name in sorted(due)[:limit]]

    def delete_schedule(self, name: str) -> bool:
        return self._schedules.pop(name, None) is not None

    def put_hook(self, hook: Hook) -> None:
        created = self._hooks.get(hook.name, hook).created
        self._hooks[hook.name] = replace(hook, created=created)

    def hook(self, name: str) -> Hook | None:
        return self._hooks.get(name)

    def hooks(self) -> list[Hook]:
        return [self._hooks[name] for name in sorted(self._hooks)]

    def delete_hook(self, name: str) -> bool:
        return self._hooks.pop(name, None) is not None
