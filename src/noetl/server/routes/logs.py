"""The output of the tasks of an execution."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from starlette.responses import Response, StreamingResponse

from noetl.server.endpoint import ApiCall, Routes, download, json_response
from noetl.server.log_pages import LogFilter, LogPage, LogQuery, log_page, log_text
from noetl.server.parameters import TEXT
from noetl.server.problems import Refused
from noetl.server.routes.executions import check_exists

routes = Routes()


@routes.add("GET", "/executions/{id}/logs", responses={200: LogPage}, also=TEXT, operation="executions_logs")
async def logs(call: ApiCall, query: LogQuery) -> Response:
    """The standard output and error of the tasks of an execution. With `Accept: text/plain` all lines that match, as a
    file."""
    execution = call.path_params["id"]
    if query.before is not None and query.after:
        raise Refused(422, "`after` and `before` exclude each other")
    if query.row is not None and (query.selects or query.after or query.before is not None):
        raise Refused(422, "`row` takes no filter, `after` or `before`")
    if TEXT in call.headers.get("accept", ""):
        if query.before is not None:
            raise Refused(422, "`before` is for pages; the whole log is sent from its start")
        await check_exists(call, execution)
        return StreamingResponse(_text(call, execution, query, query.after), 200, download(f"{execution}.log"), TEXT)
    page = await call.api.histories.reader.do(partial(log_page, execution=execution, query=query))
    if not page.items:
        await check_exists(call, execution)
    return json_response(page)


async def _text(call: ApiCall, execution: str, filter: LogFilter, after: int | None) -> AsyncIterator[bytes]:
    while after is not None:
        read = partial(log_text, execution=execution, filter=filter, after=after)
        content, after = await call.api.histories.reader.do(read)
        if content:
            yield content
