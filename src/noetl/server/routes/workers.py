from __future__ import annotations

from contextlib import suppress

import msgspec
from starlette.responses import Response

from noetl.errors import NotFound
from noetl.server.endpoint import BYTES, IMMUTABLE, JSON, ApiCall, Routes
from noetl.server.record_views import RecordView
from noetl.server.schema import ItemList
from noetl.timestamps import rfc3339

routes = Routes()

MAX_PARSED_BYTES = 8 << 20  # content up to this size is parsed to find out whether it is JSON


class WorkerView(RecordView, frozen=True):
    """A worker at its last heartbeat."""

    worker: str
    pool: str
    slots: int
    busy: int
    host: str
    version: str
    started: str | None
    last_heard: str | None


class WorkerPage(ItemList[WorkerView], frozen=True):
    pass


@routes.add("GET", "/workers")
async def workers(call: ApiCall) -> WorkerPage:
    """The workers at their last heartbeats."""
    sessions = await call.in_store(call.api.store.workers)
    return WorkerPage([WorkerView.of(session, last_heard=rfc3339(session.beat)) for session in sessions])


@routes.add("GET", "/results/{hash}", answers={200: BYTES})
async def result(call: ApiCall) -> Response:
    """The content of a reference by its key: JSON, or the bytes of a file."""
    key = call.path_params["hash"]
    content = await call.in_store(call.api.store.blob, key)
    if content is None:
        raise NotFound(f"there is no result {key}")
    media = BYTES
    if len(content) <= MAX_PARSED_BYTES:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            msgspec.json.decode(content)
            media = JSON
    headers = IMMUTABLE | {"Content-Disposition": f'attachment; filename="{key[:16]}"'}
    return Response(content, headers=headers, media_type=media)
