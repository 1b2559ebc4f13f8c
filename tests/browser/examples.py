"""Example runs in several states, started when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.acceptance.modes.stage import Client, until

PLAYBOOKS = Path(__file__).parent / "playbooks"


SETTINGS = {
    "/schedules/nightly": {"path": "shop/nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin"},
    "/hooks/orders": {"path": "shop/orders"},
    "/credentials/warehouse": {"kind": "bearer", "data": {"token": "secret"}, "paths": ["shop/*"]},
}
"""A schedule, a hook and a credential, by the route that stores them."""


class ExampleRuns(Mapping[str, str]):
    """Execution ids by the name of the example. A run that has left the state of its example is started again."""

    def __init__(self, client: Client, ids: dict[str, str] | None = None) -> None:
        self.client, self.ids = client, ids or {}
        if not self.ids.keys() & EXAMPLES.keys():
            for path in sorted(PLAYBOOKS.glob("*.yaml")):
                self.client.register(path.read_text("utf-8"))

    def __getitem__(self, name: str) -> str:
        if name not in self.ids or not self._is_usable(name):
            self.ids[name] = EXAMPLES[name](self)
        return self.ids[name]

    def __iter__(self) -> Iterator[str]:
        return iter(EXAMPLES)

    def __len__(self) -> int:
        return len(EXAMPLES)

    def start(self, path: str) -> str:
        return self.client.start({"path": path})

    def ended(self, path: str) -> str:
        execution = self.start(path)
        self.client.ended(execution)
        return execution

    def act(self, execution: str, verb: str, **body: object) -> dict[str, str]:
        answer: dict[str, str] = self.client.ask("POST", f"/executions/{execution}/{verb}", body) or {}
        return answer

    def until_waiting(self, execution: str) -> str:
        until(lambda: self.client.show(execution)["waits"])
        return execution

    def _is_usable(self, name: str) -> bool:
        return name not in ONGOING or self.client.show(self.ids[name])["status"] == ONGOING[name]


def add_settings(client: Client) -> None:
    """Store the schedule, the hook and the credential."""
    for route, body in SETTINGS.items():
        client.ask("PUT", route, body)


def _fork(runs: ExampleRuns) -> str:
    source = runs["failed"]
    at = next(event["seq"] for event in runs.client.events(source) if event["event_type"] == "next.evaluated")
    execution = runs.act(source, "fork", at=at, ctx={"note": "forked"})["execution_id"]
    runs.client.ended(execution)
    return execution


def _cancelled(runs: ExampleRuns) -> str:
    execution = runs.until_waiting(runs.start("shop/release"))
    runs.act(execution, "cancel", reason="not this week")
    runs.client.ended(execution)
    return execution


def _paused(runs: ExampleRuns) -> str:
    execution = runs.start("shop/import")
    runs.act(execution, "pause")
    until(lambda: runs.client.show(execution)["status"] == "paused")
    return execution


EXAMPLES: dict[str, Callable[[ExampleRuns], str]] = {
    "finished": lambda runs: runs.ended("shop/orders"),
    "failed": lambda runs: runs.ended("shop/stock"),
    "loop": lambda runs: runs.ended("shop/images"),
    "parent": lambda runs: runs.ended("shop/nightly"),
    "fork": _fork,
    "cancelled": _cancelled,
    "waiting": lambda runs: runs.until_waiting(runs.start("shop/release")),
    "queued": lambda runs: runs.start("shop/train"),
    "paused": _paused,
    "running": lambda runs: runs.start("shop/import"),
}
ONGOING = {"waiting": "waiting", "queued": "running", "paused": "paused", "running": "running"}
"""The status of the examples that can change."""
