"""The process in which a server compiles playbooks: one text after the other, each within its budget of CPU time.

The kernel ends the process when a text has used up its budget, also in the middle of a C call. The process has none of
the server's secrets: variables of noetl are not handed on, and it opens no database.
"""

from __future__ import annotations

import gc
import pickle
import signal
import sys
from multiprocessing.connection import Connection
from typing import NamedTuple

from noetl.dsl.compile import Loaded, load
from noetl.errors import NoetlError
from noetl.tools.registry import KINDS

MAX_BYTES = 32 << 20
"""A process that has compiled so much text ends, and its memory with it; another one takes its place."""


READY = b"ready"
"""Sent when all is imported, before the first request is read."""


class Request(NamedTuple):
    """A text to compile."""

    file: str
    text: bytes
    strict: bool
    seconds: float
    """CPU time that compiling may take."""
    whole: bool
    """Whether the playbook is needed, and not its problems alone."""


class Response(NamedTuple):
    """The compiled text, or why it could not be compiled."""

    loaded: Loaded | None
    error: str = ""
    """Set if an installed tool kind is broken: the text is not at fault."""
    valid: bool = False


def main(connection: Connection) -> None:
    """Answer requests until the server closes its end."""
    gc.disable()  # a text is dealt with as a whole, and nothing of it is needed afterwards
    gc.freeze()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the server may have to answer before it ends
    compiled = 0
    try:
        connection.send_bytes(READY)
        while compiled < MAX_BYTES:
            request = Request(*pickle.loads(connection.recv_bytes()))
            signal.setitimer(signal.ITIMER_PROF, request.seconds)
            answer = pickle.dumps(tuple(_compiled(request)), pickle.HIGHEST_PROTOCOL)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send_bytes(answer)
            compiled += len(request.text)
            gc.collect()
    except (EOFError, OSError):  # the server has gone
        return


def _compiled(request: Request) -> Response:
    try:
        loaded = load(request.file, request.text, KINDS, strict=request.strict)
    except NoetlError as error:
        return Response(None, str(error))
    valid = loaded.playbook is not None
    return Response(loaded if request.whole else loaded._replace(playbook=None, places={}), valid=valid)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
