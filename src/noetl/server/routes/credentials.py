"""/credentials: values go in and never come out."""

from __future__ import annotations

from starlette.responses import Response

from noetl.errors import NotFound
from noetl.keychain.safe import Safe
from noetl.server import show
from noetl.server.call import MIB, Call, Routes, json_response
from noetl.server.problems import Refused
from noetl.server.wire import CredentialPage, CredentialRequest, CredentialView
from noetl.store.ports import SealedCredential

routes = Routes()


@routes.add("GET", "/credentials", answers={200: CredentialPage})
async def list_all(call: Call) -> Response:
    """The credentials with their kinds and who may use them."""
    found = await call.in_store(call.api.store.credentials.all)
    return json_response({"items": [_shown(one) for one in found]})


@routes.add("PUT", "/credentials/{path}", body=CredentialRequest, limit=MIB, answers={200: CredentialView})
async def put(call: Call) -> Response:
    """Keep a credential, or put another in its place."""
    request, name, safe = await call.read(CredentialRequest), call.params["path"], _safe(call)
    now = call.api.clock.now()

    def keep() -> SealedCredential | None:
        safe.put(name, request.kind, dict(request.data), paths=request.paths, pools=request.pools, now=now)
        return safe.store.get(name)

    kept = await call.in_store(keep)
    if kept is None:
        raise NotFound(f"credential {name!r} was deleted this very moment")
    return json_response(_shown(kept))


@routes.add("DELETE", "/credentials/{path}", answers={204: None})
async def delete(call: Call) -> Response:
    """Forget a credential."""
    name = call.params["path"]
    if not await call.in_store(call.api.store.credentials.delete, name):
        raise NotFound(f"there is no credential {name!r}")
    return Response(status_code=204)


def _safe(call: Call) -> Safe:
    if call.api.settings.safe is None:
        raise Refused(503, "this server has no master key to seal credentials with")
    return call.api.settings.safe


def _shown(one: SealedCredential) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.kind,
        "paths": list(one.paths),
        "pools": list(one.pools),
        "created": show.stamp(one.created),
        "updated": show.stamp(one.updated),
    }
