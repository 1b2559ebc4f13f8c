"""One call of `kind: http` from its inputs to its outcome."""

from __future__ import annotations

from contextlib import ExitStack
from errno import ECONNREFUSED

import httpx2
from httpx2 import Cookies, InvalidURL, Request, RequestError
from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.http import Inputs
from noetl.tools.http_client.client import client_for
from noetl.tools.http_client.credential import credential_for
from noetl.tools.http_client.network import causes, is_forbidden_address
from noetl.tools.http_client.redaction import Redaction
from noetl.tools.http_client.request import build
from noetl.tools.http_client.response import http_extra, no_response, outcome_of
from noetl.tools.http_client.send import RedirectError, Sender, tls_failure


async def call(inputs: Inputs, context: Context) -> Outcome:
    with ExitStack() as files:
        try:
            credential = await credential_for(inputs.auth, context)
            client = client_for(inputs.tls)
            request = build(client, inputs, credential, context, files)
        except Failure as failure:
            return replace(failure.outcome, extra=no_response(None))
        except UnicodeEncodeError as error:
            return failed("input", f"http: text that can't be encoded: {error.reason}", extra=no_response(None))
        redaction = Redaction(context.redact, credential.secrets)
        cookies = Cookies() if inputs.follow_redirects else None
        return await _send(Sender(client, credential, redaction, cookies, context.retries), request, context.now)


async def _send(sender: Sender, request: Request, now: float) -> Outcome:
    redaction = sender.redaction
    try:
        response = await sender.run(request)
        try:
            return await outcome_of(response, redaction, now)
        finally:
            await response.aclose()
    except RedirectError as error:
        status = error.response.status_code
        message = f"{request.method} {redaction.url(request.url)}: {error}"
        return failed("http_status", message, extra=http_extra(error.response, redaction), status=status)
    except InvalidURL:  # the client parses `Location` even if it does not follow it
        message = f"{request.method} {redaction.url(request.url)}: redirected to an invalid URL"
        return failed("http_status", message, extra=no_response(redaction.url(request.url)))
    except RequestError as error:
        return _transport_failure(error, request, redaction)


def _transport_failure(error: RequestError, first: Request, redaction: Redaction) -> Outcome:
    """The outcome of an error, which names the failed request: the first, or one that it was redirected to."""
    request = error.request if error._request is not None else first
    extra, call = no_response(redaction.url(request.url)), f"{request.method} {redaction.url(request.url)}"
    limits = request.extensions.get("timeout", {})
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            message = f"{call}: no connection within {limits.get('connect')} s"
            return failed("timeout", message, retryable=True, extra=extra)
        case httpx2.TimeoutException():
            return failed("timeout", f"{call}: no data for {limits.get('read')} s", retryable=True, extra=extra)
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return failed("input", f"{call}: the request is not valid HTTP", extra=extra)
        case httpx2.DecodingError():
            return failed("connect", f"{call}: the body can't be decompressed", retryable=True, extra=extra)
    if is_forbidden_address(error):
        return failed("connect", f"{call}: {error}", extra=extra)
    if (tls := tls_failure(error)) is not None:
        hint = ": is it a server without TLS, at http:// rather than https://?"
        hint = hint if "WRONG_VERSION_NUMBER" in str(tls) else ""
        return failed("connect", f"{call}: TLS failed: {tls}{hint}", extra=extra)
    return failed("connect", f"{call}: {_reason(error)}", retryable=True, extra=extra)


def _reason(error: BaseException) -> str:
    """The error of the operating system, which says more than those of the layers above."""
    system_errors = [cause for cause in causes(error) if isinstance(cause, OSError) and cause.errno]
    if system_errors and system_errors[-1].errno == ECONNREFUSED:
        return "the connection was refused: nothing listens there, or a firewall rejects it"
    return str(system_errors[-1] if system_errors else error) or type(error).__name__
