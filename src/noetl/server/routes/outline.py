from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from noetl.errors import NotFound
from noetl.runtime.past import PastReader
from noetl.server.endpoint import ApiCall, Routes, json_response
from noetl.server.etag import is_current, not_modified, weak_tag
from noetl.server.frames import NOWHERE, Frame
from noetl.server.outline_views import OutlineView, outline_view, shown_status
from noetl.server.parameters import STREAM, QueryString
from noetl.server.record_views import stored_summary
from noetl.server.sse import EventStream, last_event_id

routes = Routes()


@routes.add("GET", "/executions/{id}/outline", responses={200: OutlineView, 304: None})
async def outline(call: ApiCall) -> Response:
    """The outline of an execution: its step runs, tokens, arcs and loops, without its events."""
    execution, outlines = call.path_params["id"], call.api.histories.outlines
    seq = await call.in_store(call.api.store.seq, execution)
    if not seq:
        raise NotFound(f"execution {execution!r} not found")
    if is_current(call.headers, weak_tag(seq)):
        return not_modified(weak_tag(seq))

    def read(past: PastReader) -> OutlineView:
        fold = outlines.fold(past.store, execution)
        return outline_view(execution, fold, shown_status(fold, stored_summary(past.store, execution)))

    view = await call.until_disconnect(call.api.host.runtime.past.do(read))
    return json_response(view, headers={"ETag": weak_tag(view.seq)})


class LiveQuery(QueryString, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="The seq that the client has.")] = 0


@routes.add("GET", "/executions/{id}/live", responses={200: Frame, 204: None}, also=STREAM)
async def live(call: ApiCall, query: LiveQuery) -> Response:
    """A stream of frames, at most ten a second: what has changed in an execution; `Last-Event-ID` resumes it. It ends
    with the event `end`."""
    execution, api = call.path_params["id"], call.api
    last = last_event_id(call.headers)
    after = query.after if last is None else last
    state, _ = await api.load(execution)
    if last == state.seq and state.over:
        return Response(status_code=204)  # tells a browser not to reconnect
    after = NOWHERE if after > state.seq else after
    return EventStream(
        api.streams, call.caller.key, api.histories.feeds.stream(execution, after, call.is_still_authorized)
    )
