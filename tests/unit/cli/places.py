"""A folder with a database, or a server: where the verbs about runs must do the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from command import Done, file, noetl
from terminal import data


class Place(NamedTuple):
    folder: Path
    env: dict[str, str]

    def __call__(self, *args: str) -> Done:
        return noetl(*args, cwd=self.folder, **self.env)

    def json(self, *args: str) -> Any:
        return data(self(*args, "-o", "json"))

    def run(self, text: str, *args: str) -> Any:
        """Run a playbook to its end; its JSON."""
        done = self("run", file(self.folder, text), *args, "-o", "json")
        return data(done._replace(code=0))
