"""Compresses large JSON responses for clients that accept gzip.

A response with a secret is never compressed: its size would leak the secret to those who choose a
part of the response (BREACH). Responses to workers are not compressed either: they are many, and carry credentials.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping

from starlette.responses import Response

from noetl.server.endpoint import Endpoint
from noetl.server.parameters import JSON
from noetl.server.roles import ALLOWED, WORK

MIN_BYTES = 16_000  # smaller responses fit into a few packets
LEVEL = 5  # higher levels take twice the time for a few per cent


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    choices = headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    weights = {coding: weight for coding, _, weight in (choice.partition(";q=") for choice in choices)}
    weight = weights.get("gzip", weights.get("*", "0"))
    return not weight or weight.strip("0.") != ""


async def compressed(response: Response, endpoint: Endpoint, headers: Mapping[str, str]) -> Response:
    """The response to a request with these headers, compressed if it is large JSON without a secret."""
    if endpoint.secret or ALLOWED[endpoint.method, endpoint.path] == WORK or response.media_type != JSON:
        return response
    content = bytes(getattr(response, "body", b""))  # a stream has none
    if len(content) < MIN_BYTES or "accept-ranges" in response.headers:  # ranges count plain bytes
        return response
    response.headers.add_vary_header("Accept-Encoding")
    if accepts_gzip(headers):
        response.body = await asyncio.to_thread(gzip.compress, content, LEVEL, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.body))
    return response
