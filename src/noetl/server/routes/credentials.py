from __future__ import annotations

from typing import Any

from noetl.errors import NotFound
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.record_views import CredentialView
from noetl.server.schema import ItemList, RequestBody
from noetl.store.credentials import SealedCredential

routes = Routes()


class CredentialPage(ItemList[CredentialView], frozen=True):
    pass


@routes.add("GET", "/credentials")
async def list_all(call: ApiCall) -> CredentialPage:
    """The credentials, their kinds and restrictions."""
    return CredentialPage(list(map(CredentialView.of, await call.in_store(call.api.store.credentials.all))))


class CredentialRequest(RequestBody, frozen=True):
    """A credential: its fields, and the playbooks and pools that may use it (default: all)."""

    kind: str
    data: dict[str, Any]
    paths: list[str] = []
    pools: list[str] = []


@routes.add("PUT", "/credentials/{path}")
async def put(call: ApiCall, body: CredentialRequest) -> CredentialView:
    """Store a credential, or replace it."""
    name, safe, now = call.path_params["path"], call.api.safe(), call.api.clock.now()

    def store() -> SealedCredential | None:
        safe.put(name, body.kind, dict(body.data), paths=body.paths, pools=body.pools, now=now)
        return safe.store.get(name)

    sealed = await call.in_store(store)
    if sealed is None:
        raise NotFound(f"credential {name!r} was deleted at the same time")
    return CredentialView.of(sealed)


@routes.add("DELETE", "/credentials/{path}")
async def delete(call: ApiCall) -> None:
    """Delete a credential."""
    name = call.path_params["path"]
    if not await call.in_store(call.api.store.credentials.delete, name):
        raise NotFound(f"there is no credential {name!r}")
