"""/results: the contents of references."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
from starlette.responses import Response, StreamingResponse

from noetl.errors import NotFound
from noetl.json_errors import NOT_JSON
from noetl.server.endpoint import IMMUTABLE, ApiCall, Routes, download
from noetl.server.etag import is_current
from noetl.server.parameters import BYTES, JSON, Header, Limit, QueryString
from noetl.server.problems import Refused
from noetl.server.stored_values import ValuePage
from noetl.store.store import Store

routes = Routes()

MAX_PARSED_BYTES = 8 << 20  # content up to this size is parsed to find out whether it is JSON
PART_BYTES = 4 << 20  # larger content is read and sent in parts
RANGE = re.compile(r"bytes=(?:(\d{1,15})-(\d{1,15})?|-(\d{1,15}))", re.IGNORECASE)
RANGES = (
    Header("Range", "`bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-LENGTH`: a part of the content."),
    Header("If-Range", "The ETag of the content of which a part is requested."),
)


@routes.add(
    "GET",
    "/results/{hash}",
    headers=RANGES,
    responses={200: BYTES, 206: BYTES, 304: None, 416: None},
    operation="workers_result",
)
async def result(call: ApiCall) -> Response:
    """The content of a reference by its key: JSON, or the bytes of a file."""
    key, do = call.path_params["hash"], call.api.histories.reader.do
    size = await do(lambda store: store.blob_size(key))
    if size is None:
        raise NotFound(f"result {key!r} not found")
    tag = f'"{key}"'
    headers = IMMUTABLE | download(key[:16]) | {"Accept-Ranges": "bytes", "ETag": tag}
    if is_current(call.headers, tag):
        return Response(status_code=304, headers=headers)
    span = _requested(call.headers, tag, size)
    start, end = span or (0, size)
    status = 200 if span is None else 206
    headers["Content-Length"] = str(end - start)
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    if size > MAX_PARSED_BYTES:
        return StreamingResponse(_parts(call, key, start, end), status, headers, BYTES)
    content = await do(lambda store: store.blob(key))
    if content is None:
        raise NotFound(f"result {key!r} not found")
    media = JSON if await do(lambda store: _is_json(content)) else BYTES
    return Response(content[start:end], status, headers, media)


def _requested(headers: Mapping[str, str], tag: str, size: int) -> tuple[int, int] | None:
    """The first byte of a requested range and the one after it; None for all, Refused if there are no such bytes."""
    match = RANGE.fullmatch(headers.get("range", "").replace(" ", ""))
    if match is None or headers.get("if-range", tag) != tag:  # other units and several ranges are ignored
        return None
    first, last, length = (int(number) if number is not None else None for number in match.groups())
    if first is not None and last is not None and last < first:
        return None
    start = first if first is not None else max(0, size - (length or 0))
    if start >= size:
        raise Refused(
            416,
            f"the range is outside the content, which has {size:,} bytes",
            headers={"Content-Range": f"bytes */{size}"},
        )
    return start, size if last is None else min(size, last + 1)


def _is_json(content: bytes) -> bool:
    with suppress(*NOT_JSON):
        msgspec.json.decode(content)
        return True
    return False


async def _parts(call: ApiCall, key: str, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        size = min(PART_BYTES, end - start)
        part = await call.api.histories.reader.do(partial(Store.blob_part, key=key, start=start, size=size))
        if not part:
            raise NotFound(f"the result {key} was removed while it was sent")
        yield part
        start += len(part)


AFTER = "Number of items to skip; of a text, number of characters."


class ValueQuery(QueryString, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description=AFTER)] = 0
    limit: Limit = 100


@routes.add("GET", "/results/{hash}/page", operation="results_page")
async def result_page(call: ApiCall, query: ValueQuery) -> ValuePage:
    """A part of a stored list, map or text. A page has about a megabyte at most, unless its first item is larger."""
    return await call.api.histories.stored_values.page(call.path_params["hash"], query.after, query.limit)
