"""kind: nats. Messages, keys and objects on a NATS server."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[
        Literal[
            "publish",
            "request",
            "kv_get",
            "kv_put",
            "kv_delete",
            "kv_keys",
            "object_get",
            "object_put",
            "object_delete",
            "object_list",
        ],
        Meta(description="What to do"),
    ]
    url: Annotated[
        str | list[str] | None, Meta(description="Servers, if `auth` does not name them: `nats://host:4222`")
    ] = None
    subject: Annotated[str | None, Meta(description="Subject to publish to or to ask")] = None
    stream: Annotated[str | None, Meta(description="JetStream stream that must confirm what is published")] = None
    bucket: Annotated[str | None, Meta(description="Bucket of keys or of objects")] = None
    key: Annotated[str | None, Meta(description="Key, or name of the object")] = None
    data: Annotated[Any, Meta(description="What to send or to store: text as it is, any other value as JSON")] = UNSET
    headers: Annotated[dict[str, str], Meta(description="Headers of the message")] = {}
    revision: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Revision the key must still have for `kv_put` to write; 0 means no such key yet"),
    ] = None
    auth: Auth = None


KIND = Kind(
    name="nats",
    summary="Publishes, asks, and reads or writes keys and objects on NATS",
    inputs=Inputs,
    timeout=60,
    extra="nats",
    outcome="nats",
)
