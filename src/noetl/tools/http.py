"""kind: http. One HTTP request.

Everything that costs time to import (httpx2, asyncio, ssl) is imported when a request is made: this module is also
read by `noetl validate`, which makes none. A call goes through five steps, each a section below: the request is built
from the inputs, sent through a pooled client, redirects are followed, the body is read, and all that happened becomes
one outcome. Whatever a person may later read in a message or in `error.details` carries neither the query of the
address nor a credential that was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Outcome, failed
from noetl.tools.base import Context
from noetl.tools.fields import Auth, Scalar

if TYPE_CHECKING:
    import ssl
    from asyncio import AbstractEventLoop

    from httpx2 import URL, AsyncClient, Cookies, Request, RequestError, Response
    from httpx2 import Timeout as Limits

MAX_BODY_BYTES = 50 * 2**20
MAX_ERROR_BYTES = 4 * 2**10
"""What is kept of the body of a 4xx or 5xx."""
GLANCE_BYTES = 64 * 2**10
"""What is read at most of a body that is not the result: of an error, of a redirect."""
MAX_REDIRECTS = 20
KEEP_ALIVE_SECONDS = 4.0
"""Below the 5 seconds after which many servers close an idle connection, so that no request meets its end."""
KEEP_ALIVE_CONNECTIONS = 256
MAX_BACKOFF_SECONDS = 2.0
SHORTEST_SECRET = 6
HIDDEN = "***"
BOM = b"\xef\xbb\xbf"

RETRYABLE = frozenset([408, 425, 429, 500, 502, 503, 504])
WITH_EFFECT = frozenset(["POST", "PUT", "PATCH"])
FRAMING = frozenset(["content-length", "transfer-encoding"])
CROSSES_HOSTS = (
    r"accept(-encoding|-language)?|cache-control|connection|content-(length|type)|host|idempotency-key|if-[a-z-]+"
    r"|range|transfer-encoding|user-agent"
)
"""Headers that follow a redirect to another host. Any other may be a credential: an API key has no fixed name."""
REQUEST_IDS = ("x-request-id", "request-id", "x-correlation-id", "x-amzn-requestid", "x-ms-request-id")
TEXT_TYPE = (
    r"text/.+|.+\+xml|application/((x-)?(javascript|ndjson|yaml)|graphql|jsonl|sql|toml|x-www-form-urlencoded|xml)"
)
# Patterns are compiled when they are first used, not when the module is read.
HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
CONTROL = r"[\x00-\x08\x0a-\x1f\x7f]"
SECRET_NAME = r"(?i)auth|cookie|token|secret|api.?key|passw|credential|session|signature"
CHARSET = r"(?i)charset\s*=\s*[\"']?([^\s;\"']+)"


class Tls(Struct, forbid_unknown_fields=True, kw_only=True):
    verify: Annotated[bool, Meta(description="Check the certificate of the server")] = True
    ca: Annotated[str | None, Meta(description="File with the authorities to trust, in PEM")] = None
    cert: Annotated[str | None, Meta(description="File with the client's certificate, in PEM")] = None
    key: Annotated[str | None, Meta(description="File with the key of that certificate")] = None


class Upload(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str | None, Meta(description="File on the worker to send")] = None
    content: Annotated[Any, Meta(description="What to send in place of a file: text, or a result reference")] = None
    filename: Annotated[str | None, Meta(description="Name the server is told")] = None
    content_type: Annotated[str | None, Meta(description="Media type of the part")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"],
        Meta(description="Method of the request"),
    ] = "GET"
    url: Annotated[str, Meta(description="Address, with its scheme")]
    params: Annotated[
        dict[str, Scalar | list[Scalar] | None],
        Meta(description="Query of the address; a list repeats its key, null leaves it out"),
    ] = {}
    headers: Annotated[dict[str, Scalar | None], Meta(description="Headers to send; null leaves one out")] = {}
    body: Annotated[
        Any,
        Meta(description="Body: text goes as it is, a map or list as JSON, a result reference as its bytes"),
    ] = None
    json: Annotated[Any, Meta(description="Body that always goes as JSON, text and null included")] = UNSET
    form: Annotated[
        dict[str, Scalar | list[Scalar]] | None,
        Meta(description="Fields of a form; a list repeats its field"),
    ] = None
    files: Annotated[
        dict[str, str | Upload] | None,
        Meta(description="Files of a multipart form by field: a path on the worker, or a map"),
    ] = None
    auth: Auth = None
    follow_redirects: Annotated[bool, Meta(description="Follow redirects; credentials never go to another host")] = True
    tls: Annotated[Tls | None, Meta(description="Certificates to trust and to show")] = None


KIND = Kind(
    name="http",
    summary="Sends one HTTP request; the result is `{status, headers, data}`",
    inputs=Inputs,
    timeout=60,
    outcome="http",
    result="data",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """One request, its redirects included."""
    if inputs.auth:
        return failed("auth", "http: `auth` can't be used yet: credentials arrive with the keychain")
    with ExitStack() as files:
        try:
            client = _client(inputs.tls)
            request = _request(client, inputs, context, files)
        except Refused as refused:
            return failed(refused.kind, f"http: {refused}", extra=_no_answer(None))
        except UnicodeEncodeError as error:
            return failed("input", f"http: a text that can't be encoded: {error.reason}", extra=_no_answer(None))
        return await _call(client, request, inputs.follow_redirects, context)


async def close() -> None:
    """Close the connections of the running event loop. A worker does so when it stops."""
    import asyncio

    for client in _CLIENTS.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()


class Refused(Exception):
    """The inputs can't be made into a request."""

    def __init__(self, message: str, kind: str = "input") -> None:
        super().__init__(message)
        self.kind = kind


class Misled(Exception):
    """The redirects lead nowhere."""

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response


# -- the request ------------------------------------------------------------------------------------------------------


def _request(client: AsyncClient, inputs: Inputs, context: Context, files: ExitStack) -> Request:
    body, content_type = _body(inputs)
    headers = _headers(inputs.headers)
    named = {name.lower() for name in inputs.headers}
    if inputs.files is not None:
        # The boundary is not known before the form is written: a content type of the author's would lack it.
        headers = [(name, value) for name, value in headers if name.lower() != b"content-type"]
    elif content_type is not None and "content-type" not in named:
        headers.append((b"Content-Type", content_type))
    if inputs.method in WITH_EFFECT and "idempotency-key" not in named:
        headers.append((b"Idempotency-Key", context.action.encode()))
    request = client.build_request(
        inputs.method,
        _address(inputs),
        headers=headers,
        content=body,
        data=None if inputs.files is None else {name: _texts(value) for name, value in (inputs.form or {}).items()},
        files=None if inputs.files is None else [(name, _part(name, one, files)) for name, one in inputs.files.items()],
        timeout=_limits(context.timeout),
    )
    for name, value in inputs.headers.items():
        if value is None and name.lower() != "host":
            request.headers.pop(name, None)
    return request


def _address(inputs: Inputs) -> URL:
    from urllib.parse import quote, urlencode

    from httpx2 import URL, InvalidURL

    text, mark, fragment = inputs.url.strip().partition("#")
    pairs = [(name, one) for name, value in inputs.params.items() if value is not None for one in _texts(value)]
    if pairs:
        text += "?" if "?" not in text else "" if text.endswith(("?", "&")) else "&"
        text += urlencode(pairs, quote_via=quote)
    try:
        url = URL(text + mark + fragment)
    except InvalidURL as error:
        # What the parser quotes may be a part of a password.
        raise Refused("`url` is not an address" if "@" in text else f"`url` is not an address: {error}") from None
    if url.scheme not in ("http", "https"):
        raise Refused("`url` must begin with http:// or https://" + (f", not {url.scheme}:" if url.scheme else ""))
    if not url.host:
        raise Refused("`url` names no host")
    if not _has_port(url):
        raise Refused(f"`url` names port {url.port}; ports are 1 to 65535")
    return url


def _has_port(url: URL) -> bool:
    """Whether the port is left out or one that can be; the client does not look."""
    return url.port is None or 0 < url.port < 65536


def _headers(given: dict[str, Scalar | None]) -> list[tuple[bytes, bytes]]:
    headers = []
    for name, value in given.items():
        if not re.fullmatch(HEADER_NAME, name):
            raise Refused(f"{name!r} can't be the name of a header")
        if name.lower() in FRAMING:
            raise Refused(f"header {name!r} follows from the body and can't be set")
        if value is not None:
            headers.append((name.encode(), _clean(_text(value), f"the value of header {name!r}").encode()))
    return headers


def _clean(text: str, what: str) -> str:
    """The text, fit for a header: a line break would begin another one."""
    text = text.strip(" \t")
    if found := re.search(CONTROL, text):
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
    if len(chosen := [name for name, there in given.items() if there]) > 1:
        raise Refused(f"{' and '.join(f'`{name}`' for name in chosen)} can't both be the body")
    if inputs.form is not None and inputs.files is None:
        from urllib.parse import urlencode

        pairs = [(name, text) for name, value in inputs.form.items() for text in _texts(value)]
        return urlencode(pairs).encode(), b"application/x-www-form-urlencoded"
    if inputs.json is not UNSET:
        return _json(inputs.json, "json"), b"application/json"
    return (None, None) if inputs.body is None else _content(inputs.body, "body")


def _content(value: Any, what: str) -> tuple[bytes, bytes]:
    """A value as bytes, and their type: text goes as it is, everything else as JSON."""
    if isinstance(value, bytes):
        return value, b"application/octet-stream"
    if isinstance(value, str):
        return value.encode(), b"text/plain; charset=utf-8"
    return _json(value, what), b"application/json"


def _json(value: Any, what: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"`{what}` can't be written as JSON: {error}") from None


def _part(name: str, given: str | Upload, files: ExitStack) -> tuple[str, Any, str | None]:
    """One file of a multipart form, open until the call is over."""
    from pathlib import Path

    upload = Upload(path=given) if isinstance(given, str) else given
    content_type = None if upload.content_type is None else _clean(upload.content_type, f"`files.{name}.content_type`")
    if (upload.path is None) == (upload.content is None):
        raise Refused(f"`files.{name}` needs either `path` or `content`")
    if upload.path is None:
        content, kind = _content(upload.content, f"files.{name}.content")
        return upload.filename or name, content, content_type or kind.decode()
    try:
        file = files.enter_context(Path(upload.path).open("rb"))  # noqa: SIM115 - the stack closes it
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
    from httpx2 import Timeout as Limits

    if not isinstance(timeout, dict):
        return Limits(None)
    connect, read = timeout.get("connect", KIND.timeout), timeout.get("read", KIND.timeout)
    return Limits(connect=connect, read=read, write=read, pool=connect)


# -- clients ----------------------------------------------------------------------------------------------------------

_CLIENTS: WeakKeyDictionary[AbstractEventLoop, dict[Any, AsyncClient]] = WeakKeyDictionary()
"""A client holds the connections of one event loop that share their TLS options."""


def _client(tls: Tls | None) -> AsyncClient:
    import asyncio

    clients = _CLIENTS.setdefault(asyncio.get_running_loop(), {})
    key = None if tls is None else _identity(tls)
    if key not in clients:
        clients[key] = _new_client(tls)
    return clients[key]


def _identity(tls: Tls) -> tuple[Any, ...]:
    """The options and the age of their files: a renewed certificate takes effect at once."""
    import os

    ages: list[tuple[str, int] | None] = []
    for file in (tls.ca, tls.cert, tls.key):
        try:
            ages.append(None if file is None else (file, os.stat(file).st_mtime_ns))
        except (OSError, ValueError):
            raise Refused(f"`tls`: this worker has no file {file!r}", "not_found") from None
    return tls.verify, *ages


def _new_client(tls: Tls | None) -> AsyncClient:
    import logging
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    from httpx2 import AsyncClient, Limits

    # Both write addresses and headers, and with them what is secret.
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return AsyncClient(
        verify=_tls_context(tls or Tls()),
        # How much runs at once is decided by the slots of the worker.
        limits=Limits(
            max_connections=None,
            max_keepalive_connections=KEEP_ALIVE_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
        ),
        headers={"User-Agent": _user_agent(), "Accept-Encoding": "gzip, deflate"},
        # The client serves executions that have nothing to do with each other: it keeps no cookie.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=None,
    )


def _tls_context(tls: Tls) -> ssl.SSLContext:
    import ssl

    from httpx2 import create_ssl_context

    if tls.key is not None and tls.cert is None:
        raise Refused("`tls.key` needs `tls.cert`")
    try:
        if tls.verify and tls.ca is not None:
            context = ssl.create_default_context(cafile=tls.ca)
        else:
            context = create_ssl_context(verify=tls.verify)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, password="")  # without one OpenSSL would ask on the terminal
    except OSError as error:
        raise Refused(f"`tls`: the files can't be used: {error}") from None
    return context


def _user_agent() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"noetl/{version('noetl-engine')}"
    except PackageNotFoundError:
        return "noetl"


# -- the call ---------------------------------------------------------------------------------------------------------


async def _call(client: AsyncClient, request: Request, follow: bool, context: Context) -> Outcome:
    from httpx2 import InvalidURL, RequestError

    try:
        response = await _exchange(client, request, follow, context.retries)
        try:
            return await _outcome(response, context.now)
        finally:
            await response.aclose()
    except Misled as misled:
        status = misled.response.status_code
        message = f"{request.method} {_shown(request.url)}: {misled}"
        return failed("http_status", message, extra=_answer(misled.response), status=status)
    except InvalidURL:  # the client reads `Location` whether or not it follows it
        message = f"{request.method} {_shown(request.url)}: redirected to what is not an address"
        return failed("http_status", message, extra=_no_answer(_shown(request.url)))
    except RequestError as error:
        return _unanswered(error, request)


async def _exchange(client: AsyncClient, request: Request, follow: bool, retries: int) -> Response:
    """Send the request and follow where it leads; the last response is not read yet."""
    from httpx2 import Cookies

    cookies = Cookies() if follow else None
    for hops in count():
        response = await _send(client, request, retries)
        following = response.next_request
        if cookies is None or following is None:
            return response
        try:
            if following.url.scheme not in ("http", "https") or not _has_port(following.url):
                raise Misled("redirected to what is not an http address", response)
            if hops == MAX_REDIRECTS:
                raise Misled(f"redirected more than {MAX_REDIRECTS} times", response)
            await _read(response, GLANCE_BYTES)  # a connection is free again when all has been read from it
        finally:
            await response.aclose()
        request = _redirected(response, following, cookies)
    raise AssertionError("unreachable")


async def _send(client: AsyncClient, request: Request, retries: int) -> Response:
    """Send one request; one that never reached a server is sent again."""
    import asyncio

    from httpx2 import ConnectError, ConnectTimeout

    for attempt in range(retries):
        try:
            return await client.send(request, stream=True)
        except (ConnectError, ConnectTimeout) as error:
            if _tls_failure(error) is not None:
                raise
        await asyncio.sleep(min(0.1 * 2**attempt, MAX_BACKOFF_SECONDS))
    return await client.send(request, stream=True)


def _redirected(response: Response, request: Request, cookies: Cookies) -> Request:
    """The next request, without what must not leave the host. Cookies set on the way keep to their own rules."""
    sent = response.request
    here, there = sent.url.origin, request.url.origin
    upgrade = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    home = here == there or (upgrade and here.host == there.host)
    if not home:
        for name in [name for name in request.headers if not re.fullmatch(CROSSES_HOSTS, name)]:
            del request.headers[name]
    cookies.extract_cookies(response)
    cookies.set_cookie_header(request)
    if home and "cookie" in sent.headers:
        pairs = [one.strip() for name in (sent, request) for one in name.headers.get("cookie", "").split(";")]
        request.headers["Cookie"] = "; ".join({one.partition("=")[0]: one for one in pairs if one}.values())
    return request


# -- the answer -------------------------------------------------------------------------------------------------------


async def _outcome(response: Response, now: float) -> Outcome:
    status, extra = response.status_code, _answer(response)
    if status >= 400:
        return await _refusal(response, extra, now)
    bodiless = response.request.method == "HEAD" or status in (204, 304)
    if not bodiless and int(response.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        return _too_large(response, extra)
    body, whole = await _read(response, MAX_BODY_BYTES)
    if not whole:
        return _too_large(response, extra)
    data, extra["http"]["encoding"] = _data(body, response.headers.get("content-type", ""))
    return Outcome(result={"status": status, "headers": dict(response.headers), "data": data}, extra=extra)


async def _read(response: Response, limit: int) -> tuple[bytes, bool]:
    """The body, decompressed, and whether that is all of it; nothing is read beyond the limit."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(response.aiter_bytes()) as stream:
        async for part in stream:
            parts.append(part)
            size += len(part)
            if max(size, response.num_bytes_downloaded) > limit:
                return b"".join(parts)[:limit], False
    return b"".join(parts), True


def _data(body: bytes, content_type: str) -> tuple[Any, str | None]:
    """What the body says and how it is told: `json`, `text` or `base64`, or null if there is none."""
    if not body:
        return None, None
    if _is_json(content_type):
        try:
            return msgspec.json.decode(body.removeprefix(BOM)), "json"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _words(body, content_type), "text"
    if _is_text(body, content_type):
        return _words(body, content_type), "text"
    from base64 import b64encode

    return b64encode(body).decode(), "base64"


def _is_json(content_type: str) -> bool:
    media = _media(content_type)
    return media in ("application/json", "text/json") or media.endswith("+json")


def _is_text(body: bytes, content_type: str) -> bool:
    media = _media(content_type)
    if media:
        return re.fullmatch(TEXT_TYPE, media) is not None
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _words(body: bytes, content_type: str) -> str:
    """The text by its charset. Without one it is UTF-8, or what the web took for granted before that."""
    found = re.search(CHARSET, content_type)
    try:
        return body.decode(found[1] if found else "utf-8-sig")
    except (LookupError, UnicodeDecodeError):
        return body.decode("utf-8", "replace") if found else body.decode("latin-1")


def _answer(response: Response) -> dict[str, Any]:
    """`outcome.http` of a response. Rules need no cookies; they stay in the result."""
    headers = dict(response.headers)
    if "set-cookie" in headers:
        headers["set-cookie"] = HIDDEN
    return {
        "http": {
            "status": response.status_code,
            "headers": headers,
            "request_id": next((headers[name] for name in REQUEST_IDS if name in headers), None),
            "url": _shown(response.request.url),
            "version": response.http_version,
            "encoding": None,
        }
    }


def _no_answer(url: str | None) -> dict[str, Any]:
    """`outcome.http` where there is no response."""
    return {"http": {"status": None, "headers": {}, "request_id": None, "url": url, "version": None, "encoding": None}}


def _shown(url: URL) -> str:
    """An address for people: who signs in and what is asked for is left out."""
    path, mark, _ = url.raw_path.decode("ascii").partition("?")
    return f"{url.scheme}://{url.netloc.decode('ascii')}{path[:500]}{'?...' * bool(mark)}"


# -- errors -----------------------------------------------------------------------------------------------------------


async def _refusal(response: Response, extra: dict[str, Any], now: float) -> Outcome:
    """The outcome of a 4xx or 5xx; the status is known, so a body that breaks off changes nothing."""
    from httpx2 import RequestError

    status, sent = response.status_code, response.request
    try:
        body, whole = await _read(response, GLANCE_BYTES)
    except RequestError:
        body, whole = b"", False
    secrets = _secrets(sent)
    details: dict[str, Any] = {"status": status}
    if (wait := _retry_after(response.headers.get("retry-after"), now)) is not None:
        details["retry_after"] = wait
    if (shown := _excerpt(body, whole, response.headers.get("content-type", ""), secrets)) is not None:
        details["body"] = shown
    reason = _hidden(response.reason_phrase, secrets)[:80]
    message = f"{sent.method} {_shown(sent.url)} answered {status} {reason}".rstrip()
    return failed("http_status", message, retryable=status in RETRYABLE, extra=extra, **details)


def _excerpt(body: bytes, whole: bool, content_type: str, secrets: list[str]) -> Any:
    """What an error says, for people and rules: small JSON as a value, else the beginning of the text."""
    if not body or not (_is_json(content_type) or _is_text(body, content_type)):
        return None
    text = _hidden(_words(body, content_type), secrets)
    raw = text.encode("utf-8", "replace")
    if whole and len(raw) <= MAX_ERROR_BYTES and _is_json(content_type):
        return _data(raw, content_type)[0]
    return raw[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def _retry_after(value: str | None, now: float) -> int | None:
    """Seconds to wait, from a number of them or a date."""
    from datetime import UTC
    from email.utils import parsedate_to_datetime
    from math import ceil

    if value is None:
        return None
    if value.isdecimal():
        return int(value) if len(value) < 10 else None
    try:
        date = parsedate_to_datetime(value)
        return max(0, ceil((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now))
    except (ValueError, OverflowError):
        return None


def _secrets(request: Request) -> list[str]:
    """What was sent to prove who we are, in the forms in which a server may repeat it; the longest first."""
    from base64 import b64decode
    from json import dumps

    found = [request.url.password]
    found += [value for name, value in request.url.params.multi_items() if re.search(SECRET_NAME, name)]
    for name, value in request.headers.items():
        if re.search(SECRET_NAME, name):
            scheme, _, token = value.partition(" ")
            found += [value, token, *(pair.partition("=")[2].strip() for pair in value.split(";"))]
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    found.append(b64decode(token).decode().partition(":")[2])
    long = {one for one in found if len(one) >= SHORTEST_SECRET}
    return sorted(long | {dumps(one)[1:-1] for one in long}, key=len, reverse=True)


def _hidden(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _too_large(response: Response, extra: dict[str, Any]) -> Outcome:
    message = f"{response.request.method} {_shown(response.request.url)}: the body is above {MAX_BODY_BYTES >> 20} MiB"
    return failed("too_large", message, extra=extra, status=response.status_code, limit=MAX_BODY_BYTES)


def _unanswered(error: RequestError, first: Request) -> Outcome:
    """The outcome of a request that got no whole answer."""
    import httpx2

    request = error.request if error._request is not None else first
    extra, call = _no_answer(_shown(request.url)), f"{request.method} {_shown(request.url)}"
    limits = request.extensions.get("timeout", {})
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            message = f"{call}: no connection within {limits.get('connect')} s"
            return failed("timeout", message, retryable=True, extra=extra)
        case httpx2.TimeoutException():
            return failed("timeout", f"{call}: nothing came for {limits.get('read')} s", retryable=True, extra=extra)
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return failed("input", f"{call}: the request is not valid HTTP", extra=extra)
        case httpx2.DecodingError():
            return failed("connect", f"{call}: the body can't be decompressed", retryable=True, extra=extra)
    if (tls := _tls_failure(error)) is not None:
        return failed("connect", f"{call}: TLS failed: {tls}", extra=extra)
    return failed("connect", f"{call}: {_reason(error)}", retryable=True, extra=extra)


def _tls_failure(error: BaseException) -> ssl.SSLError | None:
    import ssl

    return next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)


def _reason(error: BaseException) -> str:
    """What the system said, which is closer to the matter than what the layers above made of it."""
    spoken = [str(cause) for cause in _causes(error) if isinstance(cause, OSError) and cause.errno]
    return (spoken or [str(error)])[-1] or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, the outermost first."""
    while error is not None:
        yield error
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
