from __future__ import annotations

from asyncio import to_thread
from hashlib import blake2b
from typing import Any

import msgspec
from starlette.responses import Response

from noetl.problem_pages import problem_page
from noetl.server.compile_process import LanguagePart
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.etag import is_current, not_modified, weak_tag
from noetl.server.parameters import JSON
from noetl.server.tool_views import ToolKinds

routes = Routes()


@routes.add("GET", "/tools", responses={200: ToolKinds, 304: None})
async def tools(call: ApiCall) -> Response:
    """The tool kinds of this server, with their inputs."""
    return await _described(call, "tools")


@routes.add("GET", "/schema", responses={200: dict[str, Any], 304: None})
async def schema(call: ApiCall) -> Response:
    """The JSON Schema (2020-12) of playbooks, with the tool kinds of this server."""
    return await _described(call, "schema")


class ProblemPage(msgspec.Struct, frozen=True):
    """The documentation of a problem code, in Markdown."""

    code: str
    text: str


@routes.add("GET", "/problems/{code}")
async def problem(call: ApiCall) -> ProblemPage:
    """The meaning of a problem of a playbook, with an example and its fix."""
    code = call.path_params["code"]
    return ProblemPage(code, await to_thread(problem_page, code))


async def _described(call: ApiCall, part: LanguagePart) -> Response:
    content = await call.api.language.get(call.caller.key, part)
    tag = weak_tag(blake2b(content, digest_size=16).hexdigest())
    if is_current(call.headers, tag):
        return not_modified(tag)
    return Response(content, headers={"ETag": tag}, media_type=JSON)
