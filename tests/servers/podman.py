"""Podman's Docker API on a socket of its own, with storage of its own and one small image made of busybox."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

START_SECONDS = 300
IMAGE = "localhost/noetl-test:1"
APPLETS = ("sh", "cat", "dd", "echo", "env", "id", "ls", "pwd", "sleep", "touch", "true")
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class Podman(NamedTuple):
    folder: Path

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/podman.sock"

    def words(self) -> list[str]:
        where = ["--root", f"{self.folder}/root", "--runroot", f"{self.folder}/run"]
        return ["podman", *where, "--storage-driver", "vfs"]

    def run(self, *words: str) -> str:
        """What a podman command prints."""
        command = [*self.words(), *words]
        process = subprocess.run(
            command, env=self.env(), capture_output=True, text=True, timeout=START_SECONDS, check=True
        )
        return process.stdout.strip()

    def env(self) -> dict[str, str]:
        return {**os.environ, "CONTAINERS_CONF": f"{self.folder}/containers.conf"}


def missing() -> str | None:
    """Why there is no podman to test with, if so."""
    for program in ("podman", "runc", "busybox"):
        if shutil.which(program) is None:
            return f"{program} is not on this machine"
    return None if os.getuid() == 0 else "podman with runc needs to be root here"


@contextmanager
def podman() -> Iterator[Podman]:
    """A service with an image, for as long as this lasts."""
    folder = Path(tempfile.mkdtemp(prefix="podman-"))
    (folder / "containers.conf").write_text(CONFIGURATION)
    engine = Podman(folder)
    log = (folder / "log").open("w")
    service = subprocess.Popen(
        [*engine.words(), "system", "service", "--time", "0", engine.url],
        env=engine.env(),
        cwd=folder,  # where conmon tells of memory that ran out
        stdout=log,
        stderr=log,
    )
    try:
        engine.run("import", str(_image(folder)), IMAGE)
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "podman.sock").exists():
            assert service.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield engine
        engine.run("rm", "--all", "--force", "--time", "0")
    finally:
        service.terminate()
        service.wait(START_SECONDS)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _image(folder: Path) -> Path:
    """A file system of one program."""
    root = folder / "image"
    for name in ("bin", "tmp", "etc", "data"):
        (root / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin" / "busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    archive = folder / "image.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], timeout=START_SECONDS, check=True)
    return archive
