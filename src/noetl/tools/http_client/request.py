"""The request that the inputs and the credential describe."""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from httpx2 import URL, AsyncClient, InvalidURL, Request, Timeout
from msgspec import UNSET

from noetl.model.identity import traceparent
from noetl.model.outcome import Failure
from noetl.settings import traces_endpoint
from noetl.tools.base import Context
from noetl.tools.fields import Scalar
from noetl.tools.files import open_task_file
from noetl.tools.http import KIND, Inputs, Upload

NOT_IDEMPOTENT = frozenset(["POST", "PUT", "PATCH"])
FRAMING = frozenset(["content-length", "transfer-encoding"])
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
ACCEPTED = "a bearer token {token}, {username, password}, or an API key {value, header} or {value, query}"
FORM_OF_KIND = {"bearer": "bearer", "oauth2_client_credentials": "bearer", "basic": "basic", "api_key": "api_key"}
FORM_OF_FIELD = {"token": "bearer", "access_token": "bearer", "username": "basic", "value": "api_key"}


class InputError(Failure):
    def __init__(self, message: str, kind: str = "input") -> None:
        super().__init__(kind, f"http: {message}")


class HttpAuth(NamedTuple):
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    secrets: tuple[str, ...] = ()


async def credential_for(auth: str | dict[str, Any] | None, context: Context) -> HttpAuth:
    """The credential that the `auth` input names; Failure of kind `auth` if http cannot use it."""
    if not auth:
        return HttpAuth()
    fields = await context.credential(auth)
    of_fields = (form for name, form in FORM_OF_FIELD.items() if name in fields)

    def text(name: str) -> str:
        value = fields.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise Failure("auth", f"http: the credential needs `{name}` as text; it has {', '.join(sorted(fields))}")
        return str(value)

    match FORM_OF_KIND.get(fields.get("kind") or "") or next(of_fields, None):
        case "bearer":
            token = text("token" if "token" in fields else "access_token").strip()
            return HttpAuth({"Authorization": f"Bearer {token}"}, secrets=(token,))
        case "basic":
            username, password = text("username"), text("password")
            if ":" in username:
                raise Failure("auth", "http: a `username` for basic authentication cannot contain a colon")
            packed = b64encode(f"{username}:{password}".encode()).decode()
            return HttpAuth({"Authorization": f"Basic {packed}"}, secrets=(password, packed))
        case "api_key":
            value = text("value").strip()
            if isinstance(header := fields.get("header"), str):
                return HttpAuth({header: value}, secrets=(value,))
            if isinstance(query := fields.get("query"), str):
                return HttpAuth(params={query: value}, secrets=(value,))
            raise Failure("auth", "http: an API key needs `header` or `query`, the name to send it under")
    kind = f" of kind {fields['kind']}" if fields.get("kind") else ""
    raise Failure("auth", f"http cannot sign in with the fields of this credential{kind}: it accepts {ACCEPTED}")


def build(client: AsyncClient, inputs: Inputs, credential: HttpAuth, context: Context, files: ExitStack) -> Request:
    """The request, or InputError. The files that it sends stay open as long as the stack."""
    body, content_type = _body(inputs)
    url = _address(inputs, credential, context)
    headers = _headers(inputs, credential, context, url, content_type)
    fields = parts = None
    if inputs.files is not None:
        fields = {name: _texts(value) for name, value in (inputs.form or {}).items()}
        parts = [(name, _part(name, file, files)) for name, file in inputs.files.items()]
    limits = Timeout(None)  # the worker limits the whole call
    if isinstance(context.timeout, dict):
        connect, read = (context.timeout.get(name, KIND.timeout) for name in ("connect", "read"))
        limits = Timeout(connect=connect, read=read, write=read, pool=connect)
    request = client.build_request(
        inputs.method, url, headers=headers, content=body, data=fields, files=parts, timeout=limits
    )
    for name, value in inputs.headers.items():
        if value is None and name.lower() != "host" and name.lower() not in map(str.lower, credential.headers):
            request.headers.pop(name, None)
    return request


def has_port(url: URL) -> bool:
    return url.port is None or 0 < url.port < 65536


def _address(inputs: Inputs, credential: HttpAuth, context: Context) -> URL:
    text, mark, fragment = inputs.url.strip().partition("#")
    pairs = [(name, text) for name, value in inputs.params.items() if value is not None for text in _texts(value)]
    if twice := next((name for name in credential.params if inputs.params.get(name) is not None), None):
        raise InputError(f"`params` and `auth` both set {twice!r}: leave it to `auth`")
    if pairs := [*pairs, *credential.params.items()]:
        text += "?" if "?" not in text else "" if text.endswith(("?", "&")) else "&"
        text += urlencode(pairs, quote_via=quote)
    # A message must not quote a part of a password.
    secret = "@" in text or credential.params or context.redact(inputs.url) != inputs.url
    try:
        url = URL(text + mark + fragment)
    except InvalidURL as error:
        raise InputError("`url` is not a valid URL" if secret else f"`url` is not a valid URL: {error}") from None
    if url.scheme not in ("http", "https"):
        actual = f" (got {url.scheme}:)" if url.scheme and not secret else ""
        raise InputError(f"`url` must start with http:// or https://{actual}")
    if not url.host:
        raise InputError("`url` has no host")
    if not has_port(url):
        raise InputError(f"`url` has port {url.port}; ports are 1 to 65535")
    return url


def _headers(
    inputs: Inputs, credential: HttpAuth, context: Context, url: URL, content_type: str | None
) -> list[tuple[bytes, bytes]]:
    headers: dict[str, str] = {}
    named = {name.lower() for name in inputs.headers}
    own = {name.lower() for name, value in inputs.headers.items() if value is not None}
    for name, value in inputs.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise InputError(f"{name!r} cannot be the name of a header")
        if name.lower() in FRAMING:
            raise InputError(f"header {name!r} is computed from the body and cannot be set")
        # The author's own content type of a multipart form would lack the boundary, which is not known yet.
        if value is not None and (inputs.files is None or name.lower() != "content-type"):
            headers[name] = _clean(_text(value), f"the value of header {name!r}")
    if content_type is not None and "content-type" not in named:
        headers["Content-Type"] = content_type
    if inputs.method in NOT_IDEMPOTENT and "idempotency-key" not in named:
        headers["Idempotency-Key"] = context.idempotency_key
    if "traceparent" not in named and traces_endpoint() is not None:
        headers["traceparent"] = traceparent(context.execution, context.action, context.attempt)
    for name, text in credential.headers.items():
        if name.lower() in own:
            raise InputError(f"`headers` and `auth` both set {name!r}: leave it to `auth`")
        if name.lower() == "authorization" and url.userinfo:
            raise InputError("`url` and `auth` both sign in: remove user and password from the URL")
        if not HEADER_NAME.fullmatch(name) or name.lower() in FRAMING:
            raise InputError(f"the credential cannot be sent in a header {name!r}", "auth")
        if CONTROL.search(text):
            raise InputError("the credential has a control character, perhaps a line break: remove it", "auth")
        headers[name] = text
    return [(name.encode(), text.encode()) for name, text in headers.items()]


def _clean(text: str, field: str) -> str:
    """The text as a header value; InputError if it has a line break, which would start another header."""
    text = text.strip(" \t")
    if control := CONTROL.search(text):
        raise InputError(f"{field} has a control character, {control[0]!r}: remove it")
    return text


def _body(inputs: Inputs) -> tuple[bytes | None, str | None]:
    bodies = {
        "body": inputs.body is not None,
        "json": inputs.json is not UNSET,
        "form": inputs.form is not None and inputs.files is None,
        "files": inputs.files is not None,
    }
    if len(bodies_set := [f"`{name}`" for name, is_set in bodies.items() if is_set]) > 1:
        raise InputError(f"{', '.join(bodies_set[:-1])} and {bodies_set[-1]} cannot all be the body: give one of them")
    if inputs.form is not None and inputs.files is None:
        pairs = [(name, text) for name, value in inputs.form.items() for text in _texts(value)]
        return urlencode(pairs).encode(), "application/x-www-form-urlencoded"
    if inputs.json is not UNSET:
        return _json(inputs.json, "json"), "application/json"
    return (None, None) if inputs.body is None else _content(inputs.body, "body")


def _content(value: Any, field: str) -> tuple[bytes, str]:
    if isinstance(value, bytes):
        return value, "application/octet-stream"
    if isinstance(value, str):
        return value.encode(), "text/plain; charset=utf-8"
    return _json(value, field), "application/json"


def _json(value: Any, field: str) -> bytes:
    if isinstance(value, bytes):
        raise InputError(f"`{field}` is binary content, which JSON cannot represent: use `body`")
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"`{field}` cannot be written as JSON: {error}") from None


def _part(name: str, source: str | Upload, files: ExitStack) -> tuple[str, Any, str | None]:
    upload = Upload(path=source) if isinstance(source, str) else source
    content_type = None if upload.content_type is None else _clean(upload.content_type, f"`files.{name}.content_type`")
    if (upload.path is None) == (upload.content is None):
        raise InputError(f"`files.{name}` needs either `path` or `content`")
    if upload.path is None:
        content, own_type = _content(upload.content, f"files.{name}.content")
        return upload.filename or name, content, content_type or own_type
    file = files.enter_context(open_task_file(upload.path, f"files.{name}"))
    return upload.filename or Path(upload.path).name, file, content_type


def _texts(value: Scalar | list[Scalar]) -> list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else [_text(value)]


def _text(value: Scalar) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
