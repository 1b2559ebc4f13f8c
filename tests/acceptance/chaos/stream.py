"""A steady stream of runs: as many as there should be are open at any time, and a run that waits gets its signal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import datetime
from itertools import cycle
from typing import Any, NamedTuple

from tests.acceptance.chaos.ledger import Ledger
from tests.acceptance.chaos.playbooks import CHILD, SCRIPTS, Script
from tests.acceptance.modes import stage

from noetl.engine.events import PlaybookProcessed

OPEN_RUNS = 8
POLL_SECONDS = 0.3
GRANTS = frozenset(["step.started", "step.regranted", "step.paused", "step.resumed"])
"""Events that come and go with the leases of a step run. All others are progress of it."""
SIGNAL = {"name": "verdict", "id": "mail-1", "payload": {"by": "ada"}}


class StartedRun(NamedTuple):
    execution: str
    name: str
    at: float

    @property
    def script(self) -> Script:
        return SCRIPTS[self.name]


Event = dict[str, Any]


def moment(event: Event) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()


def last_progress(events: Iterable[Event]) -> float:
    """When a log had an event that is progress. A call alone is none: with `durability: step` the server learns of it
    at the end of its step, and a worker that is lost before then is lost without any progress."""
    return max(moment(event) for event in events if event["event_type"] not in GRANTS)


class Stream:
    """Starts runs in a thread of its own until `finish`. `progress` has when each of them last made progress."""

    def __init__(self, client: stage.Client, book: Ledger, call_seconds: float) -> None:
        self.client, self.book, self.call_seconds = client, book, call_seconds
        self.open: dict[str, StartedRun] = {}
        self.progress: dict[str, float] = {}
        self.ended: list[tuple[StartedRun, dict[str, Any]]] = []
        self.error: BaseException | None = None
        self.finishing = threading.Event()
        self.scripts = cycle(SCRIPTS)
        client.register(CHILD)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def check(self) -> None:
        """Raise the error of the thread, if it has failed."""
        if self.error is not None:
            raise self.error

    def finish(self, seconds: float) -> None:
        """Start no more runs, and wait until all have ended."""
        self.finishing.set()
        self.thread.join(seconds)
        self.check()
        stuck = [f"{run.name} {run.execution}" for run in self.open.values()]
        assert not stuck, f"runs that did not end within {seconds:.0f} s: {stuck}"

    def _run(self) -> None:
        try:
            while self.open or not self.finishing.is_set():
                while len(self.open) < OPEN_RUNS and not self.finishing.is_set():
                    self._start(next(self.scripts))
                for run in list(self.open.values()):
                    self._look_at(run)
                time.sleep(POLL_SECONDS)
        except BaseException as error:
            self.error = error

    def _start(self, name: str) -> None:
        at = time.time()
        payload = {"ledger": self.book.url, "seconds": self.call_seconds}
        execution = self.client.start({"playbook": SCRIPTS[name].text, "payload": payload})
        self.progress[execution] = at
        self.open[execution] = StartedRun(execution, name, at)

    def _look_at(self, run: StartedRun) -> None:
        view = self.client.show(run.execution)
        if view["status"] in stage.OVER:
            del self.open[run.execution]
            self.ended.append((run, view))
            return
        if view["status"] == "waiting" and run.name == "signal":
            for _ in range(2):  # it counts once
                self.client.ask("POST", f"/executions/{run.execution}/signals", SIGNAL)
        family = {run.execution, *(effect.execution for effect in self.book.of_family(run.execution))}
        logs = [self.client.events(execution) for execution in family]
        open_logs = [events for events in logs if events[-1]["event_type"] != PlaybookProcessed.name]
        self.progress[run.execution] = min(map(last_progress, open_logs), default=time.time())
