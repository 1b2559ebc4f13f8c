"""kind: http. One HTTP request.

A text body is `data` as text, JSON as a value, and any other body as binary content, which is kept by reference;
`outcome.http.encoding` says which of the three it was: `text`, `json` or `binary`. What a person may later read in a
message or in `error.details` carries neither the query of the address nor a credential that was sent.

How a call is made is in `http_client`, which only a call imports: `noetl validate` reads this module and makes none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Auth, Scalar


class Tls(Struct, forbid_unknown_fields=True, kw_only=True):
    verify: Annotated[bool, Meta(description="Check the certificate of the server")] = True
    ca: Annotated[str | None, Meta(description="File with the authorities to trust, in PEM")] = None
    cert: Annotated[str | None, Meta(description="File with the client's certificate, in PEM")] = None
    key: Annotated[str | None, Meta(description="File with the key of that certificate")] = None


class Upload(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str | None, Meta(description="File on the worker to send")] = None
    content: Annotated[Any, Meta(description="What to send in place of a file: as `body` goes")] = None
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
        Meta(description="Body: text and binary content go as they are, a map or list as JSON"),
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
    from noetl.tools.http_client.call import call

    return await call(inputs, context)


async def close() -> None:
    """Close the connections of the running event loop. A worker does so when it stops."""
    import sys

    if "noetl.tools.http_client.client" in sys.modules:  # else no request was made, and to import it would take time
        from noetl.tools.http_client.client import close_clients

        await close_clients()
