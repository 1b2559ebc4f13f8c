"""kind: nats. Messages, keys and objects on a NATS server."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind, OperationInputs, doc
from noetl.model.operations import check_operation
from noetl.model.outcome import Failure, Outcome
from noetl.settings import NatsSettings
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth

KEY = r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*"
NAME = r"[-_a-zA-Z0-9]+"
SUBJECT = r"[^\s.*>]+(\.[^\s.*>]+)*"

OPERATIONS = {
    "publish": OperationInputs.of("headers", "stream", needs=("subject", "data")),
    "request": OperationInputs.of("data", "headers", "format", needs=("subject",)),
    "kv_get": OperationInputs.of("format", needs=("bucket", "key")),
    "kv_put": OperationInputs.of("revision", needs=("bucket", "key", "data")),
    "kv_delete": OperationInputs.of("revision", needs=("bucket", "key")),
    "kv_keys": OperationInputs.of(needs=("bucket",)),
    "object_get": OperationInputs.of("file", "format", needs=("bucket", "key")),
    "object_put": OperationInputs.of(needs=("bucket", "key", ("data", "file"))),
    "object_delete": OperationInputs.of(needs=("bucket", "key")),
    "object_list": OperationInputs.of(needs=("bucket",)),
}


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[
        Literal[
            "publish", "request", "kv_get", "kv_put", "kv_delete", "kv_keys",
            "object_get", "object_put", "object_delete", "object_list",
        ],
        doc("Operation to perform")
    ]  # fmt: skip
    url: Annotated[str | list[str] | None, doc("Servers, if `auth` names none: `nats://host:4222`")] = None
    subject: Annotated[str | None, doc("Subject to publish or send a request to")] = None
    stream: Annotated[str | None, doc("JetStream stream that must confirm published messages")] = None
    bucket: Annotated[str | None, doc("Bucket of keys or of objects")] = None
    key: Annotated[str | None, doc("Key, or name of the object")] = None
    data: Annotated[Any, doc("Content: text as it is, a result reference as its bytes, else JSON")] = UNSET
    file: Annotated[str | None, doc("File that `object_put` reads or `object_get` writes")] = None
    headers: Annotated[dict[str, str], doc("Headers of the message")] = {}
    revision: Annotated[
        Annotated[int, Meta(ge=0)] | None, doc("Revision that the key must still have; 0: no such key yet")
    ] = None
    format: Annotated[
        Literal["auto", "json", "text", "bytes"],
        doc("How a response is decoded; `auto` decodes JSON objects and arrays"),
    ] = "auto"
    auth: Auth = None


KIND = Kind(
    name="nats",
    summary="Publishes, sends requests, and reads or writes keys and objects on NATS",
    inputs=Inputs,
    timeout=60,
    extra="nats",
    outcome="nats",
    operations=OPERATIONS,
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    try:
        from noetl.tools.nats_operations import perform
    except ImportError:
        return missing_driver(KIND.name, "nats")
    _check(inputs)
    fields = {} if inputs.auth is None else await context.credential(inputs.auth)
    return await perform(inputs, _login(inputs, fields), context)


async def close() -> None:
    if (client := sys.modules.get("noetl.nats.client")) is not None:
        await client.close_pool()


def _check(inputs: Inputs) -> None:
    check_operation(KIND, inputs)
    is_kv = inputs.operation.startswith("kv_")
    # Names become parts of subjects, where a space or a wildcard would have a meaning.
    patterns = {"subject": SUBJECT, "stream": NAME, "bucket": NAME, "key": KEY if is_kv else r"(?s).*"}
    for name, pattern in patterns.items():
        value = getattr(inputs, name)
        if value is not None and not re.fullmatch(pattern, value):
            raise Failure("input", f"{value!r} cannot be a `{name}`")
    for name, value in inputs.headers.items():
        if not re.fullmatch(r"[!-9;-~]+", name) or re.search(r"[\x00-\x1f\x7f]", value):
            raise Failure("input", f"{name!r} cannot be a header: names are one word, values one line")


def _login(inputs: Inputs, fields: dict[str, Any]) -> NatsSettings:
    servers = fields.get("servers") or fields.get("url") or inputs.url or []
    if isinstance(servers, str):
        servers = [servers]
    if not servers:
        raise Failure("input", "no server to connect to: give `url`, or `servers` in the credential")
    for server in servers:
        if not isinstance(server, str) or not re.fullmatch(r"(nats|tls|ws|wss)://[^\s/]+/?", server):
            raise Failure("input", "a server must be an address such as nats://host:4222")
    login = {name: str(fields[name]) for name in ("user", "password", "token", "creds") if fields.get(name)}
    if "creds" in login and "BEGIN NATS USER JWT" not in login["creds"]:
        raise Failure("auth", "`creds` of the credential must be the text of a .creds file")
    return NatsSettings(tuple(servers), **login)
