"""kind: http. One HTTP request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth, Scalar


class Tls(Struct, forbid_unknown_fields=True, kw_only=True):
    verify: Annotated[bool, Meta(description="Check the certificate of the server")] = True
    ca: Annotated[str | None, Meta(description="File with the authorities to trust, in PEM")] = None
    cert: Annotated[str | None, Meta(description="File with the client's certificate, in PEM")] = None
    key: Annotated[str | None, Meta(description="File with the key of that certificate")] = None


class Upload(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str | None, Meta(description="File on the worker to send")] = None
    content: Annotated[
        Any, Meta(description="What to send in place of a file: text, or a result reference")
    ] = None
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
    headers: Annotated[
        dict[str, Scalar | None], Meta(description="Headers to send; null leaves one out")
    ] = {}
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
    follow_redirects: Annotated[
        bool, Meta(description="Follow redirects; credentials never go to another host")
    ] = True
    tls: Annotated[Tls | None, Meta(description="Certificates to trust and to show")] = None


KIND = Kind(
    name="http",
    summary="Sends one HTTP request; the result is `{status, headers, data}`",
    inputs=Inputs,
    timeout=60,
    outcome="http",
    result="data",
)
