"""Servers and workers as processes, and a client of theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.servers import forked, in_process
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.ports import reserved_port
from tests.servers.postgres import PostgresServer

SECONDS = PATIENCE_SECONDS
OVER = ("succeeded", "failed", "cancelled")
UP = ("noetl server at", "takes work of pool")
"""Output of a server and of a worker that have started."""
PROGRAM = ("-m", "noetl.cli")
"""What Python runs for `noetl`."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Little of this process, and a place for everything in the folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH", "SSL_CERT_FILE") if name in os.environ}
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "NO_PROXY": "*"}
    return {**kept, **own, "XDG_CONFIG_HOME": str(folder / "home"), **more}


def noetl(folder: Path, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """The command to its end, in this process."""
    done = in_process.run(args, cwd=folder, env=environment(folder, **env), stdin=stdin.encode(), timeout=SECONDS)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def noetl_process(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The command to its end, in a process of its own."""
    done = forked.run(args, cwd=folder, env=environment(folder), timeout=SECONDS)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class Process:
    """`noetl ...` in the background; what it says goes into a file."""

    program: tuple[str, ...] = ()
    """What an interpreter of its own runs; without one it is a fork of a process that has imported noetl."""
    code = ""
    """Python that the fork runs instead of `noetl`."""

    def __init__(self, folder: Path, name: str, *args: str, **env: str) -> None:
        self.folder, self.name, self.args, self.env = folder, name, args, env
        self.output = folder / f"{name}.out"
        self.output.unlink(missing_ok=True)
        self.began = 0
        """Where the output of the process begins that runs now."""
        self.process: subprocess.Popen[bytes] | forked.Process | None = None

    def start(self) -> Process:
        with self.output.open("ab") as file:
            self.began = file.tell()
            env = environment(self.folder, **self.env)
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            if self.program:
                command = [sys.executable, *self.program, *self.args]
                self.process = subprocess.Popen(command, cwd=self.folder, env=env, **streams)
            else:
                self.process = forked.Process(self.args, cwd=self.folder, env=env, code=self.code, **streams)
        return self

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and wait; whoever does not end is killed."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS)
        finally:
            self.kill()

    def output_text(self) -> str:
        return self.output.read_text("utf-8", "replace")

    def is_up(self) -> bool:
        """Whether the process that runs now serves or claims."""
        with self.output.open("rb") as file:
            file.seek(self.began)
            text = file.read()
        return any(word.encode() in text for word in UP)

    def until_said(self, word: str) -> str:
        """The first line that has the word."""

        def look() -> str | None:
            assert self.process is not None
            assert self.process.poll() is None, self.output_text()
            return next((line for line in self.output_text().splitlines() if word in line), None)

        return until(look)


class FreshProcess(Process):
    """The same, with an interpreter and memory of its own."""

    program = PROGRAM


def until(look: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """What is found at last."""
    give_up = time.monotonic() + seconds
    while not (result := look()):
        assert time.monotonic() < give_up, "it did not come in time"
        time.sleep(0.05)
    return result


class Client:
    """Asks servers, each in turn. One that is away is asked again."""

    def __init__(self, urls: list[str], token: str, response_seconds: float = 90.0) -> None:
        self.urls, self.token, self.turn = urls, token, 0
        limits = httpx2.Timeout(response_seconds)
        self.http = httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=limits)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer, as soon as there is one."""
        give_up = time.monotonic() + SECONDS
        while True:
            self.turn += 1
            url = f"{self.urls[self.turn % len(self.urls)]}/api/v1{path}"
            try:
                content = None if body is None else json.dumps(body).encode()
                kind = {"Content-Type": "application/json"} if body is not None else {}
                answer = self.http.request(method, url, content=content, headers={**kind, **headers})
                if answer.status_code not in (502, 503, 507):
                    assert answer.is_success, answer.text
                    return answer.json() if answer.content else None
            except httpx2.TransportError:
                pass
            assert time.monotonic() < give_up, "no server answers"
            time.sleep(0.1)

    def start(self, request: dict[str, Any]) -> str:
        key = {"Idempotency-Key": os.urandom(8).hex()}
        return str(self.ask("POST", "/executions", request, **key)["execution_id"])

    def show(self, execution: str) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("GET", f"/executions/{execution}")
        return result

    def ended(self, execution: str, seconds: float = SECONDS) -> dict[str, Any]:
        """The execution when it has ended."""

        def look() -> dict[str, Any] | None:
            result = self.show(execution)
            return result if result["status"] in OVER else None

        result: dict[str, Any] = until(look, seconds)
        return result

    def events(self, execution: str) -> list[dict[str, Any]]:
        """The whole log, page by page."""
        result: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.ask("GET", f"/executions/{execution}/events?limit=1000&after={after}")
            result, after = result + page["items"], page["next"]
        return result

    def register(self, text: str) -> None:
        answer = self.http.post(
            f"{self.urls[0]}/api/v1/playbooks", content=text.encode(), headers={"Content-Type": "application/yaml"}
        )
        assert answer.status_code == 201, answer.text


class Mode:
    """A way in which noetl runs: what it takes to run a playbook in it, and to prove that it was run well."""

    def __init__(self, folder: Path, db: str) -> None:
        self.folder, self.db = folder, db

    def run(self, text: str, payload: dict[str, Any]) -> dict[str, Any]:
        """A playbook to its end: what `noetl run -o json` prints."""
        file = self.folder / "playbook.yaml"
        file.write_text(text, "utf-8")
        done = noetl_process(
            self.folder, "run", str(file), "--db", self.db, "-o", "json", "--payload", json.dumps(payload)
        )
        assert done.returncode in (0, 1), done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def register(self, text: str) -> None:
        done = noetl(self.folder, "register", "-", "--db", self.db, stdin=text)
        assert done.returncode == 0, done.stderr

    def logs(self, execution: str) -> list[dict[str, Any]]:
        done = noetl(self.folder, "runs", "logs", execution, "--db", self.db, "-o", "json")
        assert done.returncode == 0, done.stderr
        result: list[dict[str, Any]] = json.loads(done.stdout)
        return result

    def set_credential(self, name: str, kind: str, data: dict[str, Any]) -> None:
        args = ("credential", "set", name, "--kind", kind, "--db", self.db)
        done = noetl(self.folder, *args, stdin=json.dumps(data))
        assert done.returncode == 0, done.stderr

    def verify(self) -> int:
        """Every invariant of every execution holds; returns their number."""
        done = noetl(self.folder, "verify", "--db", self.db, "-o", "json")
        assert done.stdout, done.stderr
        result = json.loads(done.stdout)
        assert (done.returncode, result["violations"]) == (0, []), done.stdout + done.stderr
        assert result["executions"]
        return int(result["executions"])


class Served(Mode):
    """Servers, and workers beside them."""

    def __init__(self, folder: Path, db: str, client: Client, servers: list[Process], workers: list[Process]) -> None:
        super().__init__(folder, db)
        self.client, self.servers, self.workers = client, servers, workers

    def run(self, text: str, payload: dict[str, Any]) -> dict[str, Any]:
        return self.client.ended(self.client.start({"playbook": text, "payload": payload}))

    def register(self, text: str) -> None:
        self.client.register(text)

    def logs(self, execution: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.client.ask("GET", f"/executions/{execution}/logs")["items"]
        return items


Opened = AbstractContextManager[Mode]


@contextmanager
def embedded(folder: Path) -> Iterator[Mode]:
    yield Mode(folder, str(folder / "data" / "noetl.db"))


@contextmanager
def dev(folder: Path, process_type: type[Process] = Process) -> Iterator[Served]:
    db = str(folder / "data" / "noetl.db")
    process = process_type(folder, "dev", "dev", "--port", "0", "--db", db).start()
    try:
        words = process.until_said("export ").split()
        url, token = (word.partition("=")[2] for word in words[1:])
        client = Client([url], token)
        with client.http:
            yield Served(folder, db, client, [process], [])
    finally:
        assert process.stop() == 0, process.output_text()


@contextmanager
def served(folder: Path, db: str, servers: int = 1, workers: int = 2, *more: str) -> Iterator[Served]:
    """Servers and workers as processes of their own; worker N works for server N, as far as there are that many.
    `more` are further arguments of the servers.

    A worker that is started again has the same name, so its server knows at once that the old one is gone.
    """
    token = make_token(folder, db, "admin")
    with ExitStack() as stack:
        ports = [reserved_port() for _ in range(servers)]
        listening = [server(folder, db, port, *more).start() for port in ports]
        for one in listening:
            stack.callback(_end, one)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        for one in listening:
            one.until_said("noetl server at")
        names = [f"worker{n}" for n in range(workers)]
        working = [worker(folder, db, name, urls[n % servers], "--name", name).start() for n, name in enumerate(names)]
        for one in working:
            stack.callback(_end, one)
        client = Client(urls, token)
        stack.enter_context(client.http)
        yield Served(folder, db, client, listening, working)


def server(folder: Path, db: str, port: int, *more: str) -> Process:
    return Process(folder, f"server{port}", "server", "--port", str(port), "--db", db, *more)


def worker(folder: Path, db: str, name: str, url: str, *more: str, **environment: str) -> Process:
    token = make_token(folder, db, "worker")
    return Process(folder, name, "worker", "--server", url, "--slots", "4", *more, NOETL_TOKEN=token, **environment)


def make_token(folder: Path, db: str, role: str) -> str:
    done = noetl(folder, "token", "create", "--role", role, "--db", db, "-o", "json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])


def _end(one: Process) -> None:
    if one.process is not None and one.process.poll() is None:
        assert one.stop() == 0, one.output_text()


def database(postgres: PostgresServer, name: str) -> str:
    """The address of a store of its own in a Postgres server."""
    fields = postgres.fields()
    login = f"{fields['user']}:{fields['password']}@{fields['host']}:{fields['port']}"
    return f"postgresql://{login}/{fields['database']}?schema={name}"
