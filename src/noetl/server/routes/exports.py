"""An execution as a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from msgspec.structs import asdict
from starlette.responses import Response, StreamingResponse

from noetl.runtime.export import exported
from noetl.server.endpoint import ApiCall, Routes, download
from noetl.server.parameters import JSON
from noetl.server.routes.executions import execution_view

routes = Routes()


@routes.add("GET", "/executions/{id}/export", responses={200: JSON}, operation="executions_export")
async def export(call: ApiCall) -> Response:
    """Everything that is stored of an execution, as a file: the execution, its playbook if that is registered, its
    events, the output of its tasks, and the contents of its references."""
    state, summary = await call.api.load(call.path_params["id"])
    related = await call.in_store(call.api.store.count_related, state.id)
    view = asdict(await execution_view(call, state, summary, related))
    parts = await call.api.histories.reader.do(lambda store: exported(store, view, registered_only=True))
    return StreamingResponse(_read(call, parts), 200, download(f"{state.id}.json"), JSON)


async def _read(call: ApiCall, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    while part := await call.api.histories.reader.do(lambda store: next(parts, b"")):
        yield part
