"""The request that the inputs ask for."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from httpx2 import URL, AsyncClient, InvalidURL, Request
from httpx2 import Timeout as Limits
from msgspec import UNSET

from noetl.file_access import FileRefused, open_checked
from noetl.model.identity import traceparent
from noetl.settings import traces_endpoint
from noetl.tools.base import Context
from noetl.tools.fields import Scalar
from noetl.tools.http import KIND, Inputs, Upload
from noetl.tools.http_client.credential import Proof
from noetl.tools.http_client.refused import Refused

WITH_EFFECT = frozenset(["POST", "PUT", "PATCH"])
FRAMING = frozenset(["content-length", "transfer-encoding"])
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def build(client: AsyncClient, inputs: Inputs, proof: Proof, context: Context, files: ExitStack) -> Request:
    """The request; files that it sends stay open as long as the stack. Refused if it can't be made."""
    body, content_type = _body(inputs)
    headers = _headers(inputs.headers)
    named = {name.lower() for name in inputs.headers}
    if inputs.files is not None:
        # The boundary is not known before the form is written: a content type of the author's would lack it.
        headers = [(name, value) for name, value in headers if name.lower() != b"content-type"]
    elif content_type is not None and "content-type" not in named:
        headers.append((b"Content-Type", content_type))
    if inputs.method in WITH_EFFECT and "idempotency-key" not in named:
        headers.append((b"Idempotency-Key", context.idempotency_key.encode()))
    if "traceparent" not in named and traces_endpoint() is not None:
        headers.append((b"traceparent", traceparent(context.execution, context.action, context.attempt).encode()))
    url = _address(inputs, proof, context)
    request = client.build_request(
        inputs.method,
        url,
        headers=headers + _signed(inputs, proof, url),
        content=body,
        data=None if inputs.files is None else {name: _texts(value) for name, value in (inputs.form or {}).items()},
        files=None if inputs.files is None else [(name, _part(name, one, files)) for name, one in inputs.files.items()],
        timeout=_limits(context.timeout),
    )
    for name, value in inputs.headers.items():
        if value is None and name.lower() != "host" and name.lower() not in map(str.lower, proof.headers):
            request.headers.pop(name, None)
    return request


def has_port(url: URL) -> bool:
    """Whether the port is left out or one that can be; the client does not look."""
    return url.port is None or 0 < url.port < 65536


def _address(inputs: Inputs, proof: Proof, context: Context) -> URL:
    text, mark, fragment = inputs.url.strip().partition("#")
    pairs = [(name, one) for name, value in inputs.params.items() if value is not None for one in _texts(value)]
    if twice := next((name for name in proof.params if inputs.params.get(name) is not None), None):
        raise Refused(f"`params` and `auth` both set {twice!r}: leave it to `auth`")
    if pairs := [*pairs, *proof.params.items()]:
        text += "?" if "?" not in text else "" if text.endswith(("?", "&")) else "&"
        text += urlencode(pairs, quote_via=quote)
    # What a message would quote of it may be a part of a password.
    secret = "@" in text or proof.params or context.redact(inputs.url) != inputs.url
    try:
        url = URL(text + mark + fragment)
    except InvalidURL as error:
        raise Refused("`url` is not an address" if secret else f"`url` is not an address: {error}") from None
    if url.scheme not in ("http", "https"):
        shown = f", not {url.scheme}:" if url.scheme and not secret else ""
        raise Refused(f"`url` must begin with http:// or https://{shown}")
    if not url.host:
        raise Refused("`url` names no host")
    if not has_port(url):
        raise Refused(f"`url` names port {url.port}; ports are 1 to 65535")
    return url


def _headers(given: dict[str, Scalar | None]) -> list[tuple[bytes, bytes]]:
    headers = []
    for name, value in given.items():
        if not HEADER_NAME.fullmatch(name):
            raise Refused(f"{name!r} can't be the name of a header")
        if name.lower() in FRAMING:
            raise Refused(f"header {name!r} follows from the body and can't be set")
        if value is not None:
            headers.append((name.encode(), _clean(_text(value), f"the value of header {name!r}").encode()))
    return headers


def _signed(inputs: Inputs, proof: Proof, url: URL) -> list[tuple[bytes, bytes]]:
    """The headers of the credential. Two answers to the question who asks are none."""
    given = {name.lower() for name, value in inputs.headers.items() if value is not None}
    for name, value in proof.headers.items():
        if name.lower() in given:
            raise Refused(f"`headers` and `auth` both set {name!r}: leave it to `auth`")
        if name.lower() == "authorization" and url.userinfo:
            raise Refused("`url` and `auth` both sign in: take user and password out of the address")
        if not HEADER_NAME.fullmatch(name) or name.lower() in FRAMING:
            raise Refused(f"the credential can't be sent in a header {name!r}", "auth")
        if CONTROL.search(value):
            raise Refused("the credential has a control character; is there a line break too many?", "auth")
    return [(name.encode(), value.encode()) for name, value in proof.headers.items()]


def _clean(text: str, what: str) -> str:
    """The text, fit for a header: a line break would begin another one."""
    text = text.strip(" \t")
    if found := CONTROL.search(text):
        raise Refused(f"{what} has a control character, {found[0]!r}; is there a line break too many?")
    return text


def _body(inputs: Inputs) -> tuple[bytes | None, bytes | None]:
    """The bytes to send and their type; a multipart form aside."""
    given = {
        "body": inputs.body is not None,
        "json": inputs.json is not UNSET,
        "form": inputs.form is not None and inputs.files is None,
        "files": inputs.files is not None,
    }
    if len(chosen := [f"`{name}`" for name, there in given.items() if there]) > 1:
        raise Refused(f"{', '.join(chosen[:-1])} and {chosen[-1]} can't all be the body: give one of them")
    if inputs.form is not None and inputs.files is None:
        pairs = [(name, text) for name, value in inputs.form.items() for text in _texts(value)]
        return urlencode(pairs).encode(), b"application/x-www-form-urlencoded"
    if inputs.json is not UNSET:
        return _json(inputs.json, "json"), b"application/json"
    return (None, None) if inputs.body is None else _content(inputs.body, "body")


def _content(value: Any, what: str) -> tuple[bytes, bytes]:
    """A value as bytes, and their type: bytes and text go as they are, everything else as JSON."""
    if isinstance(value, bytes):
        return value, b"application/octet-stream"
    if isinstance(value, str):
        return value.encode(), b"text/plain; charset=utf-8"
    return _json(value, what), b"application/json"


def _json(value: Any, what: str) -> bytes:
    if isinstance(value, bytes):
        raise Refused(f"`{what}` is binary content, which JSON can't hold: give it as `body`")
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"`{what}` can't be written as JSON: {error}") from None


def _part(name: str, given: str | Upload, files: ExitStack) -> tuple[str, Any, str | None]:
    """One file of a multipart form, open until the call is over."""
    upload = Upload(path=given) if isinstance(given, str) else given
    content_type = None if upload.content_type is None else _clean(upload.content_type, f"`files.{name}.content_type`")
    if (upload.path is None) == (upload.content is None):
        raise Refused(f"`files.{name}` needs either `path` or `content`")
    if upload.path is None:
        content, kind = _content(upload.content, f"files.{name}.content")
        return upload.filename or name, content, content_type or kind.decode()
    try:
        file = files.enter_context(open_checked(upload.path))
    except FileRefused as error:
        raise Refused(f"`files.{name}`: {error}") from None
    except FileNotFoundError:
        raise Refused(f"`files.{name}`: this worker has no file {upload.path!r}", "not_found") from None
    except (OSError, ValueError) as error:
        raise Refused(f"`files.{name}`: {upload.path!r} can't be read: {error}") from None
    return upload.filename or Path(upload.path).name, file, content_type


def _texts(value: Scalar | list[Scalar]) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)]


def _text(value: Scalar) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _limits(timeout: Any) -> Limits:
    """The limits of connecting and of each read; a limit of the whole call is the worker's to keep."""
    if not isinstance(timeout, dict):
        return Limits(None)
    connect, read = timeout.get("connect", KIND.timeout), timeout.get("read", KIND.timeout)
    return Limits(connect=connect, read=read, write=read, pool=connect)
