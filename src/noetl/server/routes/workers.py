"""/workers and /results: who works, and what large values are."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from noetl.errors import NotFound
from noetl.server import show
from noetl.server.call import BYTES, JSON, Call, Routes, json_response
from noetl.server.wire import WorkerPage

routes = Routes()

LOOKED_AT = 8 << 20
"""Up to that size it is found out whether content is JSON."""


@routes.add("GET", "/workers", answers={200: WorkerPage})
async def workers(call: Call) -> Response:
    """The workers, as they were last heard."""
    found = await call.in_store(call.api.store.workers)
    items = [
        {
            "worker": one.worker,
            "pool": one.pool,
            "slots": one.slots,
            "busy": one.busy,
            "host": one.host,
            "version": one.version,
            "started": show.stamp(one.started),
            "last_heard": show.stamp(one.beat),
        }
        for one in found
    ]
    return json_response({"items": items})


@routes.add("GET", "/results/{hash}", answers={200: BYTES})
async def result(call: Call) -> Response:
    """The content of a reference by its key: JSON, or the bytes of a file."""
    content = await call.in_store(call.api.store.blob, call.params["hash"])
    if content is None:
        raise NotFound(f"there is no result {call.params['hash']}")
    headers = {
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": f'attachment; filename="{call.params["hash"][:16]}"',
    }
    return Response(content, headers=headers, media_type=JSON if _is_json(content) else BYTES)


def _is_json(content: bytes) -> bool:
    if len(content) > LOOKED_AT:
        return False
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
