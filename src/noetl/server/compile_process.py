"""The process in which a server reads the texts of playbooks: one at a time, each within a CPU budget.

The kernel kills the process when a text exceeds its budget, even during a C call. The process has no secrets of the
server: it does not inherit NOETL_ variables and opens no database.
"""

from __future__ import annotations

import gc
import pickle
import signal
import sys
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from noetl.drawing.graph import graph_of
from noetl.dsl.compile import Loaded, load
from noetl.errors import NoetlError
from noetl.tools.registry import KINDS

MAX_BYTES = 32 << 20  # after compiling this much text the process exits to free its memory; the server starts a new one


Part: TypeAlias = Literal["graph", "run_graph"]
"""What may be made of a text besides its playbook: its graph, and the one whose boxes have a row for runs."""


class CompileRequest(NamedTuple):
    file: str
    text: bytes
    strict: bool
    seconds: float  # CPU budget
    whole: bool  # whether to return the playbook, not only its problems
    stored: bool  # whether the text was valid when it was stored
    parts: frozenset[Part]


class CompileResponse(NamedTuple):
    loaded: tuple[Any, ...]  # the fields of a Loaded
    digest: str  # of the playbook; empty if there is none
    path: str
    parts: dict[Part, bytes]  # as JSON


def main(connection: Connection) -> None:
    """Serve requests with the fields of a CompileResponse, or an error of an installed kind, until the connection is
    closed."""
    gc.disable()  # collected after each text instead
    gc.freeze()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # during shutdown the server may still need responses
    compiled = 0
    response: tuple[object, ...] | str
    try:
        connection.send_bytes(b"ready")  # all is imported
        while compiled < MAX_BYTES:
            request = CompileRequest(*pickle.loads(connection.recv_bytes()))
            signal.setitimer(signal.ITIMER_PROF, request.seconds)
            try:
                response = tuple(_compiled(request))
            except NoetlError as error:
                response = str(error)
            answer = pickle.dumps(response, pickle.HIGHEST_PROTOCOL)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send_bytes(answer)
            compiled += len(request.text)
            gc.collect()
    except (EOFError, OSError):  # the server has gone
        return


def _compiled(request: CompileRequest) -> CompileResponse:
    loaded = load(request.file, request.text, KINDS, strict=request.strict, stored=request.stored)
    playbook, parts = loaded.playbook, dict(_parts(request.parts, loaded))
    if not request.whole:
        loaded = Loaded(None, loaded.problems, loaded.dialect, {})
    identity = ("", "") if playbook is None else (playbook.digest, playbook.path)
    return CompileResponse(tuple(loaded), *identity, parts)


def _parts(parts: Iterable[Part], loaded: Loaded) -> Iterable[tuple[Part, bytes]]:
    for part in parts:
        if loaded.playbook is not None:
            graph = graph_of(loaded.playbook, loaded.places, run_row=part == "run_graph")
            yield part, msgspec.json.encode(graph)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
