"""/playbooks: register texts, look them up, and check them."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from noetl.server import show
from noetl.server.api import Api
from noetl.server.call import MIB, YAML, Call, Query, Routes, json_response
from noetl.server.playbooks import check_path, unknown
from noetl.server.problems import Refused, shown
from noetl.server.roles import PREFIX
from noetl.server.wire import PlaybookPage, PlaybookText, Registered, Validity
from noetl.store.ports import CatalogVersion

routes = Routes()

TEXT = (YAML, "application/x-yaml", "text/yaml")
LARGEST_VERSION = 2**31 - 1


@routes.add("POST", "/playbooks", body=str, media=TEXT, limit=MIB, answers={201: Registered})
async def register(call: Call) -> Response:
    """Register a playbook under its `metadata.path`. The same content has the same version again."""
    api = call.api
    text = await call.content()
    compiled = await api.playbooks.compiled(call.caller.key, text)
    playbook = compiled.require().playbook
    path, label = playbook.path, playbook.version or ""
    check_path(path)
    digest = await api.playbooks.keep(text, compiled)
    version = await call.in_store(api.store.register, path, digest, str(label), api.clock.now())
    answer = {"playbook_id": digest, "path": path, "version": version, "problems": list(map(shown, compiled.problems))}
    return json_response(answer, 201, {"Location": f"{PREFIX}/playbooks/{quote(path)}?version={version}"})


@routes.add(
    "GET",
    "/playbooks",
    query=(
        Query("prefix", says="Whose path begins so."),
        Query("cursor", says="Where the page before this one ended."),
        Query("limit", "integer", "How many at most.", 1, 1_000),
    ),
    answers={200: PlaybookPage},
)
async def list_all(call: Call) -> Response:
    """Registered playbooks by path, each with the version that its path means at the moment."""
    limit = call.number("limit", 100)
    found = await call.in_store(_page, call.api, call.text("prefix"), call.text("cursor"), limit + 1)
    more = found[limit - 1][0] if len(found) > limit else None
    items = [{"path": path} | _version(one) for path, one in found[:limit]]
    return json_response({"items": items, "next": more})


def _page(api: Api, prefix: str, cursor: str, limit: int) -> list[tuple[str, CatalogVersion]]:
    return [(path, api.store.versions(path, 1)[0]) for path in api.store.paths(prefix, limit, cursor)]


@routes.add(
    "POST",
    "/playbooks/validate",
    body=str,
    media=TEXT,
    limit=MIB,
    query=(Query("strict", "boolean", "Refuse the classic dialect."),),
    answers={200: Validity},
)
async def validate(call: Call) -> Response:
    """Check a playbook: every problem, with its place."""
    text = await call.content()
    compiled = await call.api.playbooks.check(call.caller.key, text, strict=call.flag("strict"))
    return json_response({"valid": compiled.valid, "problems": list(map(shown, compiled.problems))})


@routes.add(
    "GET",
    "/playbooks/{path}",
    query=(Query("version", "integer", "Which version; else the one registered last.", 1, LARGEST_VERSION),),
    answers={200: PlaybookText, 304: None},
)
async def show_one(call: Call) -> Response:
    """The text of a playbook and its versions. With `Accept: application/yaml` the text alone."""
    api, path, version = call.api, call.params["path"], call.number("version", 0)
    versions = await call.in_store(api.store.versions, path)
    found = next((one for one in versions if version in (0, one.version)), None)
    if found is None:
        raise unknown(path, version or None)
    tag = f'"{found.digest}.{len(versions)}"'
    if call.header(b"if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    stored = await call.in_store(api.store.playbook, found.digest)
    if stored is None:
        raise Refused(404, f"the text of {path!r} is not in the store any more")
    text = stored[1]
    if YAML in call.header(b"accept"):
        return Response(text, headers={"ETag": tag}, media_type=YAML)
    answer = {
        "path": path,
        "version": found.version,
        "playbook_id": found.digest,
        "text": text.decode("utf-8", "replace"),
        "versions": list(map(_version, versions)),
    }
    return json_response(answer, headers={"ETag": tag})


def _version(one: CatalogVersion) -> dict[str, object]:
    return {
        "version": one.version,
        "playbook_id": one.digest,
        "label": one.label,
        "registered": show.stamp(one.registered),
    }
