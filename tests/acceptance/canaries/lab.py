"""A place to run playbooks in, watched from outside: whatever a run leaves or says is searched for canaries."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import loads
from pathlib import Path
from typing import Any

import yaml
from tests.acceptance.canaries.canary import Canary, Search
from tests.acceptance.command_line import SECONDS, Done, call, call_on_terminal, environment, in_background

DATABASE = ".noetl/noetl.db"
LOOKS = [
    ["runs", "show", "last"],
    ["runs", "show", "last", "-o", "json"],
    ["runs", "events", "last", "-o", "jsonl"],
    ["runs", "logs", "last"],
    ["runs", "watch", "last"],
    ["verify", "-o", "json"],
]
"""Everything that can be asked about a run."""
PAUSE_SECONDS = 0.01


class Lab:
    """Folders of a run and what is known of it.

    `work`, `tmp` and `home` are searched. `vault` holds the secrets themselves, and `away` what a playbook was told to
    write secrets into.
    """

    def __init__(self, folder: Path, canaries: list[Canary], variables: dict[str, str]) -> None:
        self.folder, self.search = folder, Search(canaries)
        self.vault, self.away, self.work = folder / "vault", folder / "away", folder / "work"
        self.searched = [self.work, folder / "tmp", folder / "home"]
        for path in (self.vault, self.away, *self.searched):
            path.mkdir(exist_ok=True)
        self.env = environment(folder, **variables)
        self.said: dict[str, bytes] = {}

    def copy(self, folder: Path) -> Lab:
        """The same, with the credentials that were set, in another folder."""
        folder.mkdir()
        made = object.__new__(Lab)
        made.folder, made.search = folder, self.search
        made.vault, made.away, made.work = self.vault, folder / "away", folder / "work"
        made.searched = [made.work, folder / "tmp", folder / "home"]
        for path in (made.away, *made.searched):
            path.mkdir()
        (made.work / DATABASE).parent.mkdir()
        shutil.copy(self.work / DATABASE, made.work / DATABASE)
        made.env = {**self.env, **environment(folder)}
        made.said = {}
        return made

    # -- acting -------------------------------------------------------------------------------------------------------

    def keep(self, name: str, kind: str, data: str) -> None:
        """Set a credential, its data on standard input."""
        done = self.noetl("credential", "set", name, "--kind", kind, stdin=data.encode())
        assert done.code == 0, done.err

    def noetl(self, *args: str, stdin: bytes = b"") -> Done:
        with self.watched():
            return self._heard(args, call(*args, cwd=self.work, env=self.env, stdin=stdin))

    def write(self, playbook: dict[str, Any]) -> str:
        name = f"{playbook['metadata']['name']}.yaml"
        (self.work / name).write_text(yaml.safe_dump(playbook, sort_keys=False, allow_unicode=True, width=1000))
        return name

    def run(self, playbook: dict[str, Any], *, terminal: bool = False, code: int = 0) -> dict[str, Any]:
        """Run to the end, and ask for all that can be known about it; the outcomes of tasks by their labels."""
        self.start(playbook, terminal=terminal, code=code)
        return self.look()

    def start(self, playbook: dict[str, Any], *, terminal: bool = False, code: int = 0) -> None:
        """Run to the end."""
        args = ("run", self.write(playbook))
        with self.watched():
            done = self._heard(args, (call_on_terminal if terminal else call)(*args, cwd=self.work, env=self.env))
        assert done.code == code, (done.err or done.out).decode()

    def kill(self, playbook: dict[str, Any], ready: Callable[[], None]) -> None:
        """Run until it is ready, then end the process at once."""
        args = ("run", self.write(playbook))
        with self.watched(), in_background(*args, cwd=self.work, env=self.env) as (process, output):
            try:
                ready()
            except AssertionError as error:
                raise AssertionError(f"{error}: {output.read_bytes().decode()}") from None
            assert process.poll() is None, output.read_bytes()
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS)

    def resume(self) -> dict[str, Any]:
        """Carry on what was killed, and ask for all that can be known about it."""
        done = self.noetl("runs", "resume", "last")
        assert done.code == 0, done.err.decode()
        return self.look()

    def look(self) -> dict[str, Any]:
        for args in LOOKS:
            done = self.noetl(*args)
            assert args[:2] == ["runs", "watch"] or done.code == 0, done
        assert loads(self.said["verify -o json"])["violations"] == []
        return self.outcomes()

    def outcomes(self) -> dict[str, Any]:
        events = map(loads, self.said["runs events last -o jsonl"].splitlines())
        return {event["task_label"]: event["data"]["outcome"] for event in events if event["event_type"] == "task.done"}

    def _heard(self, args: tuple[str, ...], done: Done) -> Done:
        name = " ".join(args)
        self.said[name] = done.out
        self.said[f"{name} (errors)"] = done.err
        return done

    # -- searching ----------------------------------------------------------------------------------------------------

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the arguments of all processes of the machine, as often as possible, while this lasts."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, over: threading.Event) -> None:
        seen: set[bytes] = set()
        while not over.wait(PAUSE_SECONDS):
            for process in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{process}/cmdline", "rb") as file:
                        seen.add(file.read())
                except OSError:
                    pass  # it has ended
        self.said["arguments of processes"] = b"\n".join([self.said.get("arguments of processes", b""), *seen])

    def leaks(self) -> dict[str, list[str]]:
        """All canaries in what was said, and in every file that is left."""
        files = {
            str(file.relative_to(self.folder)): file.read_bytes()
            for folder in self.searched
            for file in folder.rglob("*")
            if file.is_file()
        }
        names = "\n".join(map(str, [path for folder in self.searched for path in folder.rglob("*")]))
        return self.search.leaks({**self.said, **files, "names of files": names.encode()})
