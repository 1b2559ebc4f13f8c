"""A NATS server with JetStream on loopback: the one of the wheel, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nats
from nats.js import JetStreamContext
from tests.servers.ports import reserved_port

SERVER = Path(sys.executable).parent / "nats-server"
START_SECONDS = 300
USER = {"user": "ada", "password": "s3cret-password"}
LIMITED = {"user": "bob", "password": "s3cret-password"}
"""May use subjects under `open` and nothing else."""
ACCOUNTS = """
accounts {
  TEST: {
    jetstream: enabled
    users: [
      {user: anybody, password: anybody}
      {user: ada, password: s3cret-password}
      {user: bob, password: s3cret-password, permissions: {publish: ["open.>"], subscribe: ["_INBOX.>", "open.>"]}}
    ]
  }
}
no_auth_user: anybody
"""
TOKEN = "authorization {token: s3cret-token}"


class NatsServer(NamedTuple):
    url: str
    process: subprocess.Popen[bytes]

    def name(self) -> str:
        """A name that no other test uses, for a stream, a bucket or a subject."""
        return f"t{uuid.uuid4().hex}"

    def prepare(self, work: Any) -> Any:
        """Run `work(connection, jetstream)` with a connection of the test's own."""

        async def main() -> Any:
            connection = await nats.connect(self.url)
            try:
                return await work(connection, connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(main())

    def stream(self) -> str:
        """A new stream, for all subjects below its name."""
        name = self.name()

        async def work(_: Any, store: JetStreamContext) -> None:
            await store.add_stream(name=name, subjects=[f"{name}.>"])

        self.prepare(work)
        return name

    def keys(self) -> str:
        """A new bucket of keys."""
        name = self.name()
        self.prepare(lambda _, store: store.create_key_value(bucket=name, history=5))
        return name

    def objects(self) -> str:
        """A new bucket of objects."""
        name = self.name()
        self.prepare(lambda _, store: store.create_object_store(bucket=name))
        return name


@contextmanager
def nats_server(more: str = ACCOUNTS, port: int = -1) -> Iterator[NatsServer]:
    """A server of its own, on any free port unless one is given."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "nats.conf")
        config.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{store_dir: "{folder}/data"}}\n{more}\n')
        command = [str(SERVER), "-c", str(config), "--ports_file_dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield NatsServer(_address(Path(folder), process), process)
        finally:
            process.kill()
            process.wait()


class RestartedNats:
    """A server that is stopped and started again, with its data and at its address."""

    def __init__(self, folder: Path, more: str = ACCOUNTS) -> None:
        self.folder, self.more, self.port = folder, more, reserved_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> RestartedNats:
        for file in self.folder.glob("*.ports"):
            file.unlink()
        config = self.folder / "nats.conf"
        store = self.folder / "data"
        config.write_text(f'listen: "127.0.0.1:{self.port}"\njetstream {{store_dir: "{store}"}}\n{self.more}\n')
        command = [str(SERVER), "-c", str(config), "--ports_file_dir", str(self.folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = _address(self.folder, self.process)
        return self

    def stop(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def wipe(self) -> None:
        """Delete all streams and buckets of the stopped server."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)


@contextmanager
def restarted_nats(folder: Path, more: str = ACCOUNTS) -> Iterator[RestartedNats]:
    """Such a server, stopped at the end."""
    server = RestartedNats(folder, more)
    try:
        yield server.start()
    finally:
        server.stop()


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the server listens, when it does."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        assert process.poll() is None, "the NATS server did not start"
        for file in folder.glob("*.ports"):
            try:
                return str(json.loads(file.read_text())["nats"][0])
            except (ValueError, KeyError, IndexError):
                pass  # it is just being written
        time.sleep(0.01)
    raise AssertionError("the NATS server did not start in time")
