"""kind: http. One HTTP request."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Auth, Scalar


class Tls(Struct, forbid_unknown_fields=True, kw_only=True):
    verify: Annotated[bool, doc("Check the certificate of the server")] = True
    ca: Annotated[str | None, doc("File with the authorities to trust, in PEM")] = None
    cert: Annotated[str | None, doc("File with the client's certificate, in PEM")] = None
    key: Annotated[str | None, doc("File with the key of that certificate")] = None


class Upload(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str | None, doc("File on the worker to send")] = None
    content: Annotated[Any, doc("Content to send in place of a file, encoded as `body` is")] = None
    filename: Annotated[str | None, doc("Name to send with the content")] = None
    content_type: Annotated[str | None, doc("Media type of the part")] = None


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], doc("Method of the request")
    ] = "GET"
    url: Annotated[str, doc("Full URL, including the scheme")]
    params: Annotated[
        dict[str, Scalar | list[Scalar] | None], doc("Query parameters; a list repeats its key, null leaves it out")
    ] = {}
    headers: Annotated[dict[str, Scalar | None], doc("Headers to send; null leaves one out")] = {}
    body: Annotated[Any, doc("Body: text and binary content as they are, a map or list as JSON")] = None
    json: Annotated[Any, doc("Body that is always sent as JSON, also text and null")] = UNSET
    form: Annotated[dict[str, Scalar | list[Scalar]] | None, doc("Fields of a form; a list repeats its field")] = None
    files: Annotated[
        dict[str, str | Upload] | None, doc("Files of a multipart form by field: a path on the worker, or a map")
    ] = None
    auth: Auth = None
    follow_redirects: Annotated[bool, doc("Follow redirects; credentials never go to another host")] = True
    tls: Annotated[Tls | None, doc("Certificates to trust and to present")] = None


KIND = Kind(
    name="http",
    summary="Sends one HTTP request; the result is `{status, headers, data}`",
    inputs=Inputs,
    timeout=60,
    outcome="http",
    result="data",
    credentials=(
        *("bearer", "basic", "api_key", "oauth2_client_credentials"),
        *("gcs_credential", "snowflake_credential"),  # with a token
    ),
    exclusive=(("body", "json"), ("body", "form"), ("body", "files"), ("json", "form"), ("json", "files")),
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    from noetl.tools.http_client.call import call

    return await call(inputs, context)


async def close() -> None:
    if (call := sys.modules.get("noetl.tools.http_client.call")) is not None:
        await call.close_clients()
