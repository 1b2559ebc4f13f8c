"""A response as an outcome, without credentials and query strings in its messages."""

from __future__ import annotations

import codecs
import re
from base64 import b64decode
from collections.abc import Iterable
from contextlib import aclosing, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import chain
from json import dumps
from math import ceil
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import msgspec
from httpx2 import URL, Request, RequestError, Response

from noetl.json_errors import NOT_JSON
from noetl.model.outcome import Outcome, failed
from noetl.printable import SECRET_NAME
from noetl.tools.base import RETRYABLE_STATUSES, Redact
from noetl.tools.media import is_json, media_of

MAX_BODY_BYTES = 50 * 2**20
MAX_ERROR_BYTES = 4 * 2**10
"""The most that an outcome has of the body of a 4xx or 5xx."""
DISCARD_BYTES = 64 * 2**10
"""The most that is read of a body that is not the result: of an error, of a redirect."""
HIDDEN = "***"
REQUEST_IDS = ("x-request-id", "request-id", "x-correlation-id", "x-amzn-requestid", "x-ms-request-id")
TEXT_TYPE = re.compile(
    r"text/.+|.+\+xml|application/((x-)?(javascript|ndjson|yaml)|graphql|jsonl|sql|toml|x-www-form-urlencoded|xml)"
)
CHARSET = re.compile(r"(?i)charset\s*=\s*[\"']?([^\s;\"']+)")


class Redaction:
    """Hides the secrets of one call: those of its credential, and others by the names of their headers."""

    def __init__(self, redact: Redact, secrets: Iterable[str] = ()) -> None:
        self._redact, self._secrets = redact, tuple(secrets)

    def redact(self, text: str, request: Request) -> str:
        """The text without the secrets of the request. Redact before truncating: half a secret is not recognised."""
        text = self._redact(text)
        secrets = {secret for secret in (*self._secrets, *_secrets_of(request)) if len(secret) >= 6}
        encodings = [(secret, dumps(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)) for secret in secrets]
        for encoded in sorted(chain.from_iterable(encodings), key=len, reverse=True):
            text = text.replace(encoded, HIDDEN)
        return text

    def url(self, url: URL) -> str:
        path, mark, _ = self._redact(url.raw_path.decode("ascii")).partition("?")
        return f"{url.scheme}://{self._redact(url.netloc.decode('ascii'))}{path[:500]}{'?...' * bool(mark)}"

    def reveals_secret(self, url: str) -> bool:
        decoded = {url, unquote(url), unquote_plus(url)} if url else ()
        return any(self._redact(text) != text or any(secret in text for secret in self._secrets) for text in decoded)


def _secrets_of(request: Request) -> list[str]:
    secrets = [request.url.password]
    secrets += [value for name, value in request.url.params.multi_items() if SECRET_NAME.search(name)]
    for name, value in request.headers.items():
        if SECRET_NAME.search(name):
            scheme, _, token = value.partition(" ")
            secrets += [value, token, *(pair.partition("=")[2].strip() for pair in value.split(";"))]
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    secrets.append(b64decode(token).decode().partition(":")[2])
    return secrets


async def outcome_of(response: Response, redaction: Redaction, now: float) -> Outcome:
    status, extra, request = response.status_code, http_extra(response, redaction), response.request
    if status >= 400:
        return await _status_error(response, extra, redaction, now)
    bodiless = request.method == "HEAD" or status in (204, 304)
    body, whole = b"", bodiless or int(response.headers.get("content-length", 0)) <= MAX_BODY_BYTES
    if whole:
        body, whole = await read(response, MAX_BODY_BYTES)
    if not whole:
        message = f"{request.method} {redaction.url(request.url)}: the body is above {MAX_BODY_BYTES >> 20} MiB"
        return failed("too_large", message, extra=extra, status=status, limit=MAX_BODY_BYTES)
    data, extra["http"]["encoding"] = _data(body, response.headers.get("content-type", ""))
    return Outcome(result={"status": status, "headers": dict(response.headers), "data": data}, extra=extra)


async def read(response: Response, limit: int) -> tuple[bytes, bool]:
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
    http = no_response(redaction.url(response.request.url))["http"]
    http |= {"status": response.status_code, "headers": headers, "version": response.http_version}
    http["request_id"] = next((headers[name] for name in REQUEST_IDS if name in headers), None)
    return {"http": http}


def no_response(url: str | None) -> dict[str, Any]:
    return {"http": {"status": None, "headers": {}, "request_id": None, "url": url, "version": None, "encoding": None}}


def _data(body: bytes, content_type: str) -> tuple[Any, str | None]:
    """The decoded body and its encoding: `json`, `text`, `binary`, or None if it is empty."""
    if not body:
        return None, None
    encoding = _encoding(body, content_type)
    if encoding == "json":
        with suppress(*NOT_JSON):
            return msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8)), "json"
    return (body, "binary") if encoding == "binary" else (_decode_text(body, content_type), "text")


def _encoding(body: bytes, content_type: str) -> str:
    media = media_of(content_type)
    if is_json(media):
        return "json"
    if media:
        return "text" if TEXT_TYPE.fullmatch(media) else "binary"
    try:
        body.decode()
    except UnicodeDecodeError:
        return "binary"
    return "binary" if b"\0" in body else "text"


def _decode_text(body: bytes, content_type: str) -> str:
    charset = CHARSET.search(content_type)
    try:
        return body.decode(charset[1] if charset else "utf-8-sig")
    except (LookupError, UnicodeDecodeError):
        return body.decode("utf-8", "replace") if charset else body.decode("latin-1")


async def _status_error(response: Response, extra: dict[str, Any], redaction: Redaction, now: float) -> Outcome:
    status, request = response.status_code, response.request
    try:
        body, whole = await read(response, DISCARD_BYTES)
    except RequestError:
        body, whole = b"", False
    details: dict[str, Any] = {"status": status}
    if (seconds := _retry_after(response.headers.get("retry-after", ""), now)) is not None:
        details["retry_after"] = seconds
    content_type, excerpt = response.headers.get("content-type", ""), None
    if body and (encoding := _encoding(body, content_type)) != "binary":
        text = redaction.redact(_decode_text(body, content_type), request)
        raw = text.encode("utf-8", "replace")
        if len(raw) > MAX_ERROR_BYTES:
            excerpt = raw[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
        elif whole:  # otherwise nearly all of it was secret, and it may end with half of a secret
            excerpt = _data(raw, content_type)[0] if encoding == "json" else text
    if excerpt is not None:
        details["body"] = excerpt
    reason = redaction.redact(response.reason_phrase, request)[:80]
    message = f"{request.method} {redaction.url(request.url)} returned {status} {reason}".rstrip()
    return failed("http_status", message, retryable=status in RETRYABLE_STATUSES, extra=extra, **details)


def _retry_after(value: str, now: float) -> int | None:
    if value.isdecimal():
        return int(value) if len(value) < 10 else None
    try:
        date = parsedate_to_datetime(value)
        return max(0, ceil((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now))
    except (ValueError, OverflowError):
        return None
