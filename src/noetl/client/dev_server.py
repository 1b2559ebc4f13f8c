"""The file beside a database that tells commands about the `noetl dev` which serves it: its address and its token.

`noetl dev` locks the file while it runs, so commands ignore the file of one that was killed. The token stays in it for
the next start.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import msgspec

from noetl.json_errors import NOT_JSON
from noetl.settings import ServerAddress, default_db

SUFFIX = ".dev"


class DevServer(msgspec.Struct, frozen=True):
    token: str
    url: str = ""


def dev_file(db: str) -> str:
    return f"{db}{SUFFIX}"


def stored_token(file: str) -> str:
    """The token of the last start; empty if there is none."""
    with suppress(OSError, *NOT_JSON), open(file, "rb") as opened:
        return msgspec.json.decode(opened.read(), type=DevServer).token
    return ""


@contextmanager
def announced(file: str, token: str, url: str) -> Iterator[None]:
    """Publish the address and the token to commands until the block ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.fchmod(descriptor, 0o600)
        _write(descriptor, DevServer(token, url))
        yield
        _write(descriptor, DevServer(token))
    finally:
        os.close(descriptor)


def _write(descriptor: int, server: DevServer) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, msgspec.json.encode(server), 0)


def running_dev() -> ServerAddress | None:
    """The `noetl dev` of this folder or project; None if none runs."""
    try:
        opened = open(dev_file(default_db()), "rb")  # noqa: SIM115  # closed below
    except OSError:
        return None
    with closing(opened):
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # it runs
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                server = msgspec.json.decode(opened.read(), type=DevServer)
                return ServerAddress(server.url, server.token) if server.url else None
        return None
