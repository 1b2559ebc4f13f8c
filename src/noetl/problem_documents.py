"""Problem documents (RFC 9457) in the responses of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from noetl.json_errors import NOT_JSON

if TYPE_CHECKING:
    import httpx2


def problem_document(response: httpx2.Response) -> tuple[dict[str, Any], str]:
    """The document, and its detail or title. Without a document it is empty, and the detail is the response text."""
    try:
        body = msgspec.json.decode(response.content)
    except NOT_JSON:
        body = None
    problem = body if isinstance(body, dict) else {}
    detail = problem.get("detail") or problem.get("title") or response.text[:200] or response.reason_phrase
    return problem, str(detail)
