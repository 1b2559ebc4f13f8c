"""The process in which a server reads the texts of playbooks: one at a time, each within a CPU budget.

The kernel kills the process when a text exceeds its budget, even during a C call. The process has no secrets of the
server: it does not inherit NOETL_ variables and opens no database.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from noetl.assist import assist
from noetl.assist.loose_reader import NO_CURSOR, read_loosely
from noetl.assist.names import DocumentNames
from noetl.drawing.graph import graph_of
from noetl.dsl.compile import Loaded, load
from noetl.dsl.form import form_of
from noetl.dsl.schema import playbook_schema
from noetl.errors import NoetlError
from noetl.server.tool_views import ToolKinds, tool_kind
from noetl.tools.registry import KINDS

NICENESS = 5  # on a busy machine, the server itself gets CPU time first
MAX_BYTES = 32 << 20  # after compiling this much text the process exits to free its memory; the server starts a new one


Part: TypeAlias = Literal["graph", "run_graph", "names", "form"]
"""The products of a text besides its playbook: its graph, the one whose boxes have a row for runs, its names, and
the form of its inputs."""


LanguagePart: TypeAlias = Literal["tools", "schema"]


class CompileRequest(NamedTuple):
    file: str
    text: bytes
    strict: bool
    seconds: float  # CPU budget
    whole: bool  # whether to return the playbook, not only its problems
    stored: bool  # whether the text was valid when it was stored
    parts: frozenset[Part]


class AssistRequest(NamedTuple):
    text: bytes
    line: int
    column: int
    seconds: float  # CPU budget


class LanguageRequest(NamedTuple):
    part: LanguagePart
    seconds: float  # CPU budget


Request: TypeAlias = CompileRequest | AssistRequest | LanguageRequest
REQUESTS: dict[str, type[Request]] = {kind.__name__: kind for kind in (CompileRequest, AssistRequest, LanguageRequest)}


class CompileResponse(NamedTuple):
    loaded: tuple[Any, ...]  # the fields of a Loaded
    digest: str  # of the playbook; empty if there is none
    path: str


def main(connection: Connection) -> None:
    """Respond to requests until the connection is closed: with the fields of a CompileResponse and a second message for
    its parts, with JSON, or with an error of an installed kind. All messages of a request share its CPU budget."""
    os.nice(NICENESS)
    gc.disable()  # collected after each text instead
    gc.freeze()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # during shutdown the server may still need responses
    compiled = 0
    try:
        connection.send_bytes(b"ready")  # all is imported
        while compiled < MAX_BYTES:
            name, fields = pickle.loads(connection.recv_bytes())
            request = REQUESTS[name](*fields)
            signal.setitimer(signal.ITIMER_PROF, request.seconds)
            for message in _messages(request):
                answer = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
                connection.send_bytes(answer)
            signal.setitimer(signal.ITIMER_PROF, 0)
            compiled += len(answer) if isinstance(request, LanguageRequest) else len(request.text)
            gc.collect()
    except (EOFError, OSError):  # the server has gone
        return


def _messages(request: Request) -> Iterator[tuple[object, ...] | dict[Part, bytes] | bytes | str]:
    try:
        if isinstance(request, CompileRequest):
            loaded = load(request.file, request.text, KINDS, strict=request.strict, stored=request.stored)
            yield tuple(_compiled(request, loaded))
            if request.parts:
                yield dict(_parts(request, loaded))
        elif isinstance(request, AssistRequest):
            yield msgspec.json.encode(assist(_decoded(request.text), request.line, request.column, KINDS))
        elif request.part == "schema":
            yield msgspec.json.encode(playbook_schema(KINDS.all()))
        else:
            yield msgspec.json.encode(ToolKinds([tool_kind(kind) for _, kind in sorted(KINDS.all().items())]))
    except NoetlError as error:
        yield str(error)


def _compiled(request: CompileRequest, loaded: Loaded) -> CompileResponse:
    playbook = loaded.playbook
    if not request.whole:
        loaded = Loaded(None, loaded.problems, loaded.dialect, {})
    identity = ("", "") if playbook is None else (playbook.digest, playbook.path)
    return CompileResponse(tuple(loaded), *identity)


def _parts(request: CompileRequest, loaded: Loaded) -> Iterator[tuple[Part, bytes]]:
    for part in request.parts:
        part_data: object = None
        if part == "names":
            part_data = DocumentNames(read_loosely(_decoded(request.text), NO_CURSOR).root).public()
        elif part == "form":
            part_data = form_of(request.text)
        elif loaded.playbook is not None:
            part_data = graph_of(loaded.playbook, loaded.places, run_row=part == "run_graph")
        yield part, msgspec.json.encode(part_data)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
