"""A response as an outcome."""

from __future__ import annotations

import re
from contextlib import aclosing, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any

import msgspec
from httpx2 import RequestError, Response

from noetl.model.outcome import Outcome, failed
from noetl.tools.base import RETRYABLE_STATUSES
from noetl.tools.http_client.redaction import HIDDEN, Redaction

MAX_BODY_BYTES = 50 * 2**20
MAX_ERROR_BYTES = 4 * 2**10
"""The most that an outcome has of the body of a 4xx or 5xx."""
DISCARD_BYTES = 64 * 2**10
"""The most that is read of a body that is not the result: of an error, of a redirect."""
BOM = b"\xef\xbb\xbf"

REQUEST_IDS = ("x-request-id", "request-id", "x-correlation-id", "x-amzn-requestid", "x-ms-request-id")
TEXT_TYPE = re.compile(
    r"text/.+|.+\+xml|application/((x-)?(javascript|ndjson|yaml)|graphql|jsonl|sql|toml|x-www-form-urlencoded|xml)"
)
CHARSET = re.compile(r"(?i)charset\s*=\s*[\"']?([^\s;\"']+)")


async def outcome_of(response: Response, redaction: Redaction, now: float) -> Outcome:
    """The outcome of a response whose body is not read yet."""
    status, extra = response.status_code, http_extra(response, redaction)
    if status >= 400:
        return await _status_error(response, extra, redaction, now)
    bodiless = response.request.method == "HEAD" or status in (204, 304)
    if not bodiless and int(response.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        return _too_large(response, extra, redaction)
    body, whole = await read(response, MAX_BODY_BYTES)
    if not whole:
        return _too_large(response, extra, redaction)
    data, extra["http"]["encoding"] = _data(body, response.headers.get("content-type", ""))
    return Outcome(result={"status": status, "headers": dict(response.headers), "data": data}, extra=extra)


async def read(response: Response, limit: int) -> tuple[bytes, bool]:
    """The decompressed body up to the limit, and whether it is complete."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(response.aiter_bytes()) as stream:
        async for part in stream:
            parts.append(part)
            size += len(part)
            if max(size, response.num_bytes_downloaded) > limit:
                return b"".join(parts)[:limit], False
    return b"".join(parts), True


def http_extra(response: Response, redaction: Redaction) -> dict[str, Any]:
    """`outcome.http` of a response, without cookies, which only the result has."""
    headers = dict(response.headers)
    if "set-cookie" in headers:
        headers["set-cookie"] = HIDDEN
    if redaction.reveals_secret(headers.get("location", "")):
        headers["location"] = HIDDEN
    return {
        "http": {
            "status": response.status_code,
            "headers": headers,
            "request_id": next((headers[name] for name in REQUEST_IDS if name in headers), None),
            "url": redaction.url(response.request.url),
            "version": response.http_version,
            "encoding": None,
        }
    }


def no_response(url: str | None) -> dict[str, Any]:
    return {"http": {"status": None, "headers": {}, "request_id": None, "url": url, "version": None, "encoding": None}}


# -- the body ---------------------------------------------------------------------------------------------------------


def _data(body: bytes, content_type: str) -> tuple[Any, str | None]:
    """The decoded body and its encoding: `json`, `text`, `binary`, or None if it is empty."""
    if not body:
        return None, None
    if _is_json(content_type):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(body.removeprefix(BOM)), "json"
    if _is_json(content_type) or _is_text(body, content_type):
        return _decode_text(body, content_type), "text"
    return body, "binary"


def _is_json(content_type: str) -> bool:
    media = _media(content_type)
    return media in ("application/json", "text/json") or media.endswith("+json")


def _is_text(body: bytes, content_type: str) -> bool:
    media = _media(content_type)
    if media:
        return TEXT_TYPE.fullmatch(media) is not None
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _decode_text(body: bytes, content_type: str) -> str:
    """The text by its charset; without one UTF-8, or else Latin-1."""
    charset = CHARSET.search(content_type)
    try:
        return body.decode(charset[1] if charset else "utf-8-sig")
    except (LookupError, UnicodeDecodeError):
        return body.decode("utf-8", "replace") if charset else body.decode("latin-1")


# -- errors -----------------------------------------------------------------------------------------------------------


async def _status_error(response: Response, extra: dict[str, Any], redaction: Redaction, now: float) -> Outcome:
    """The outcome of a 4xx or 5xx, also if its body breaks off."""
    status, sent = response.status_code, response.request
    try:
        body, whole = await read(response, DISCARD_BYTES)
    except RequestError:
        body, whole = b"", False
    details: dict[str, Any] = {"status": status}
    if (wait := _retry_after(response.headers.get("retry-after"), now)) is not None:
        details["retry_after"] = wait
    if (excerpt := _excerpt(response, body, whole, redaction)) is not None:
        details["body"] = excerpt
    reason = redaction.redact(response.reason_phrase, sent)[:80]
    message = f"{sent.method} {redaction.url(sent.url)} answered {status} {reason}".rstrip()
    return failed("http_status", message, retryable=status in RETRYABLE_STATUSES, extra=extra, **details)


def _excerpt(response: Response, body: bytes, whole: bool, redaction: Redaction) -> Any:
    """The body of an error: small JSON as a value, or else the beginning of the text."""
    content_type = response.headers.get("content-type", "")
    if not body or not (_is_json(content_type) or _is_text(body, content_type)):
        return None
    text = redaction.redact(_decode_text(body, content_type), response.request)
    raw = text.encode("utf-8", "replace")
    if len(raw) > MAX_ERROR_BYTES:
        return raw[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
    if not whole:
        return None  # nearly all of it was secret, and it may end with half of a secret
    return _data(raw, content_type)[0] if _is_json(content_type) else text


def _retry_after(value: str | None, now: float) -> int | None:
    """Seconds to wait, from a number of them or a date."""
    if value is None:
        return None
    if value.isdecimal():
        return int(value) if len(value) < 10 else None
    try:
        date = parsedate_to_datetime(value)
        return max(0, ceil((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now))
    except (ValueError, OverflowError):
        return None


def _too_large(response: Response, extra: dict[str, Any], redaction: Redaction) -> Outcome:
    call = f"{response.request.method} {redaction.url(response.request.url)}"
    message = f"{call}: the body is above {MAX_BODY_BYTES >> 20} MiB"
    return failed("too_large", message, extra=extra, status=response.status_code, limit=MAX_BODY_BYTES)
