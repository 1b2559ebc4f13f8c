"""Conditional requests: a client that has the current version gets 304 without the content.

An ETag is weak: it names the content, whose bytes may be compressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from starlette.responses import Response

from noetl.reference import encode_json
from noetl.server.parameters import JSON


def weak_tag(version: object) -> str:
    """The ETag of a version, such as the seq of a log, or several parts of one."""
    return f'W/"{version}"'


def is_current(headers: Mapping[str, str], tag: str) -> bool:
    """Whether a request has this version already (If-None-Match)."""
    tags = [candidate.strip().removeprefix("W/") for candidate in headers.get("if-none-match", "").split(",")]
    return tag.removeprefix("W/") in tags or tags == ["*"]


def not_modified(tag: str) -> Response:
    return Response(status_code=304, headers={"ETag": tag})


def content_tag(content: Any) -> str:
    """The ETag of content that can be JSON."""
    return _tag_of(encode_json(content))


def _tag_of(content: bytes) -> str:
    return weak_tag(blake2b(content, digest_size=16).hexdigest())


def tagged(headers: Mapping[str, str], result: Any) -> Response:
    """A JSON response with an ETag of its content, or 304. Where the version is known beforehand, compare it first
    (`is_current`): that saves the work."""
    content = encode_json(result)
    tag = _tag_of(content)
    return not_modified(tag) if is_current(headers, tag) else Response(content, 200, {"ETag": tag}, JSON)
