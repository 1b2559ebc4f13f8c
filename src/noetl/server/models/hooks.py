"""Requests and responses of /hooks."""

from __future__ import annotations

import msgspec

from noetl.server.models.base import RequestBody, VersionNumber
from noetl.store.triggers import Hook
from noetl.timestamps import rfc3339


class HookRequest(RequestBody, frozen=True):
    """The playbook that a hook starts. Without `secret` a new hook gets a random one, and an existing one keeps its."""

    path: str
    version: VersionNumber | None = None
    secret: str | None = None


class HookView(msgspec.Struct, frozen=True):
    """A hook without its secret."""

    name: str
    path: str
    version: int | None
    created: str
    updated: str

    @classmethod
    def of(cls, hook: Hook) -> HookView:
        return cls(hook.name, hook.path, hook.version, rfc3339(hook.created), rfc3339(hook.updated))


class HookPage(msgspec.Struct, frozen=True):
    items: list[HookView]


class HookSecret(HookView, frozen=True):
    """A hook. `secret` is a generated secret, which is sent only once; else null."""

    secret: str | None

    @classmethod
    def with_secret(cls, hook: Hook, secret: str | None) -> HookSecret:
        return cls(**msgspec.structs.asdict(HookView.of(hook)), secret=secret)


class Delivered(msgspec.Struct, frozen=True):
    """The execution that a delivery has started; `duplicate` if the delivery was received before."""

    execution_id: str
    duplicate: bool
