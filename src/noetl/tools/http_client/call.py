"""One call of `kind: http` from its inputs to its outcome."""

from __future__ import annotations

from contextlib import ExitStack

from httpx2 import AsyncClient, InvalidURL, Request, RequestError
from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.http import Inputs
from noetl.tools.http_client.client import client_for
from noetl.tools.http_client.credential import HttpAuth, credential_for
from noetl.tools.http_client.redaction import Redaction
from noetl.tools.http_client.request import build
from noetl.tools.http_client.response import http_extra, no_response, outcome_of
from noetl.tools.http_client.send import RedirectError, Sender
from noetl.tools.http_client.transport_errors import transport_failure


async def call(inputs: Inputs, context: Context) -> Outcome:
    """Send the request, and follow its redirects."""
    with ExitStack() as files:
        try:
            credential = await credential_for(inputs.auth, context)
            client = client_for(inputs.tls)
            request = build(client, inputs, credential, context, files)
        except Failure as failure:
            return replace(failure.outcome, extra=no_response(None))
        except UnicodeEncodeError as error:
            return failed("input", f"http: text that can't be encoded: {error.reason}", extra=no_response(None))
        return await _send(client, request, credential, inputs.follow_redirects, context)


async def _send(client: AsyncClient, request: Request, credential: HttpAuth, follow: bool, context: Context) -> Outcome:
    redaction = Redaction(context.redact, credential.secrets)
    try:
        response = await Sender(client, credential, redaction, follow=follow, retries=context.retries).run(request)
        try:
            return await outcome_of(response, redaction, context.now)
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
        return transport_failure(error, request, redaction)
