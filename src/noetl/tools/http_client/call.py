"""One call of `kind: http` from its inputs to its outcome."""

from __future__ import annotations

from contextlib import ExitStack

from httpx2 import AsyncClient, InvalidURL, Request, RequestError
from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.http import Inputs
from noetl.tools.http_client.answer import answer, no_answer, outcome_of
from noetl.tools.http_client.client import client_for
from noetl.tools.http_client.credential import Proof, proof_of
from noetl.tools.http_client.exchange import Exchange, Misled
from noetl.tools.http_client.request import build
from noetl.tools.http_client.unanswered import unanswered
from noetl.tools.http_client.veil import Veil


async def call(inputs: Inputs, context: Context) -> Outcome:
    """Make the request, its redirects included."""
    with ExitStack() as files:
        try:
            proof = await proof_of(inputs.auth, context)
            client = client_for(inputs.tls)
            request = build(client, inputs, proof, context, files)
        except Failure as failure:
            return replace(failure.outcome, extra=no_answer(None))
        except UnicodeEncodeError as error:
            return failed("input", f"http: a text that can't be encoded: {error.reason}", extra=no_answer(None))
        return await _sent(client, request, proof, inputs.follow_redirects, context)


async def _sent(client: AsyncClient, request: Request, proof: Proof, follow: bool, context: Context) -> Outcome:
    veil = Veil(context.redact, proof.secrets)
    try:
        response = await Exchange(client, proof, veil, follow=follow, retries=context.retries).run(request)
        try:
            return await outcome_of(response, veil, context.now)
        finally:
            await response.aclose()
    except Misled as misled:
        status = misled.response.status_code
        message = f"{request.method} {veil.url(request.url)}: {misled}"
        return failed("http_status", message, extra=answer(misled.response, veil), status=status)
    except InvalidURL:  # the client reads `Location` whether or not it follows it
        message = f"{request.method} {veil.url(request.url)}: redirected to what is not an address"
        return failed("http_status", message, extra=no_answer(veil.url(request.url)))
    except RequestError as error:
        return unanswered(error, request, veil)
