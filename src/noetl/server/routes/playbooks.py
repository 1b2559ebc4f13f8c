from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from noetl.assist import Assist
from noetl.assist.names import Names
from noetl.drawing.graph import Graph
from noetl.dsl.form import FormField
from noetl.errors import NotFound
from noetl.keychain.keychain import KeychainFault
from noetl.server.compile_process import Part
from noetl.server.compiler import Compiled
from noetl.server.endpoint import IMMUTABLE, ApiCall, Routes, created, json_response
from noetl.server.etag import is_current, not_modified, weak_tag
from noetl.server.parameters import BYTES, JSON, YAML, ItemPage, PageQuery, QueryString, VersionNumber, text
from noetl.server.playbooks import unknown
from noetl.server.problems import Finding
from noetl.server.record_views import LastRun, PlaybookItem, PlaybookVersion, last_run, playbook_item, version_view
from noetl.server.roles import OPERATE
from noetl.store.store import Store

routes = Routes()

TEXT = (YAML, "application/x-yaml", "text/yaml", BYTES)  # bytes, because client generators know no YAML


class Registered(msgspec.Struct, frozen=True):
    """The version of a registered text, and its warnings."""

    playbook_id: str
    path: str
    version: int
    problems: list[Finding]


@routes.add("POST", "/playbooks", raw=TEXT, responses={201: Registered})
async def register(call: ApiCall) -> Response:
    """Register a playbook under its `metadata.path`. The same text keeps its version."""
    api = call.api
    source = await call.body()
    compiled = await api.playbooks.compiler.compile(call.caller.key, source)
    digest = await api.playbooks.save(source, compiled)
    playbook = compiled.require().playbook
    path, label = playbook.path, str(playbook.version or "")
    version = await call.in_store(api.store.register, path, digest, label, api.clock.now())
    registered = {"playbook_id": digest, "path": path, "version": version, "problems": msgspec.Raw(compiled.findings)}
    return created(registered, f"/playbooks/{quote(path)}?version={version}")


class PlaybookQuery(PageQuery, frozen=True):
    prefix: Annotated[str, text("Start of their paths.")] = ""
    q: Annotated[str, text("Part of their paths, in upper or lower case.")] = ""


class PlaybookPage(ItemPage[PlaybookItem, str], frozen=True):
    """Playbooks by path; `next` is the cursor of the next page."""


@routes.add("GET", "/playbooks")
async def list_all(call: ApiCall, query: PlaybookQuery) -> PlaybookPage:
    """Registered playbooks by path, each with its current version and its latest execution."""

    def read(store: Store) -> list[PlaybookItem]:
        paths = store.paths(query.prefix, query.limit + 1, query.cursor, query.q)
        return [playbook_item(store, path) for path in paths]

    items = await call.in_store(read, call.api.store)
    return PlaybookPage(items[: query.limit], items[query.limit - 1].path if len(items) > query.limit else None)


PARTS: tuple[Part, ...] = ("graph", "names", "form")


class ValidateQuery(QueryString, frozen=True):
    strict: Annotated[bool, msgspec.Meta(description="Reject the classic dialect.")] = False
    parts: Annotated[
        str,
        msgspec.Meta(
            pattern=f"^({'|'.join(PARTS)})(,({'|'.join(PARTS)}))*$|^$",
            description="What to add, separated by commas: `graph`, `names`, `form`.",
        ),
    ] = msgspec.field(name="with", default="")


class Validity(msgspec.Struct, frozen=True):
    """Whether a playbook is valid, and all its problems. `next_version` is the version that it would be registered as,
    null if it is invalid. Without a valid playbook `graph` is null, without a readable one `form`."""

    valid: bool
    problems: list[Finding]
    next_version: int | None
    graph: Graph | msgspec.UnsetType | None = msgspec.UNSET
    names: Names | msgspec.UnsetType | None = msgspec.UNSET
    form: list[FormField] | msgspec.UnsetType | None = msgspec.UNSET


@routes.add("POST", "/playbooks/validate", raw=TEXT, responses={200: Validity})
async def validate(call: ApiCall, query: ValidateQuery) -> Response:
    """Check a playbook: every problem, with its place. `with` adds data that an editor shows beside the text."""
    compiler, source = call.api.playbooks.compiler, await call.body()
    parts = [part for part in PARTS if part in query.parts.split(",")]
    compiled = await compiler.compile(call.caller.key, source, strict=query.strict, whole=False, parts=parts)
    version = await _next_version(call, compiled) if compiled.valid else None
    validity = {"valid": compiled.valid, "problems": msgspec.Raw(compiled.findings), "next_version": version}
    return json_response(validity | {part: msgspec.Raw(compiled.parts.get(part, b"null")) for part in parts})


async def _next_version(call: ApiCall, compiled: Compiled) -> int:
    versions = await call.in_store(call.api.store.versions, compiled.path)
    numbers = {version.digest: version.version for version in versions}
    return numbers.get(compiled.digest) or max(numbers.values(), default=0) + 1


Coordinate = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class AssistQuery(QueryString, frozen=True):
    line: Annotated[Coordinate, msgspec.Meta(description="Line of the cursor, from 1.")]
    column: Annotated[Coordinate, msgspec.Meta(description="Column of the cursor in characters, from 1.")]


@routes.add("POST", "/playbooks/assist", raw=TEXT, responses={200: Assist})
async def assist(call: ApiCall, query: AssistQuery) -> Response:
    """Completions at a position of a playbook's text, and the meaning of the word there. The text may be incomplete."""
    compiler, source = call.api.playbooks.compiler, await call.body()
    return Response(await compiler.assist(call.caller.key, source, query.line, query.column), media_type=JSON)


class VersionQuery(QueryString, frozen=True):
    version: Annotated[VersionNumber | None, msgspec.Meta(description="The version; default: the latest.")] = None
    parts: Annotated[
        str,
        msgspec.Meta(
            pattern="^(form)?$", description="`form` adds the form of its inputs, and the faults of its keychain."
        ),
    ] = msgspec.field(name="with", default="")


class PlaybookText(msgspec.Struct, frozen=True):
    """The text of a version, all versions, the latest first, and the latest execution."""

    path: str
    version: int
    playbook_id: str
    text: str
    versions: list[PlaybookVersion]
    last_run: LastRun | None
    form: list[FormField] | msgspec.UnsetType | None = msgspec.UNSET
    keychain_faults: list[KeychainFault] | msgspec.UnsetType = msgspec.UNSET  # why a start would be refused


@routes.add("GET", "/playbooks/{path}", responses={200: PlaybookText, 304: None}, also=YAML)
async def show_one(call: ApiCall, query: VersionQuery) -> Response:
    """The text of a playbook and its versions. With `Accept: application/yaml` only the text."""
    store, path = call.api.store, call.path_params["path"]
    versions, last = await call.in_store(lambda: (store.versions(path), last_run(store, path)))
    version = next((version for version in versions if query.version in (None, version.version)), None)
    if version is None:
        raise unknown(path, query.version)
    run, is_text = f"{last.execution_id}.{last.status}" if last else "", YAML in call.headers.get("accept", "")
    tag = weak_tag(f"{version.digest}.text" if is_text else f"{version.digest}.{len(versions)}.{run}")
    if not query.parts and is_current(call.headers, tag):
        return not_modified(tag)
    stored = await call.in_store(store.playbook, version.digest)
    if stored is None:
        raise NotFound(f"text of playbook {path!r} not found")
    file, source = stored
    if is_text:
        return Response(source, headers={"ETag": tag}, media_type=YAML)
    views = list(map(version_view, versions))
    body = PlaybookText(path, version.version, version.digest, source.decode("utf-8", "replace"), views, last)
    if not query.parts:
        return json_response(body, headers={"ETag": tag})
    return json_response(msgspec.to_builtins(body) | await _start_form(call, file, source))


async def _start_form(call: ApiCall, file: str, source: bytes) -> dict[str, object]:
    """The content of the form of a start; the faults of a keychain only to those who may read credentials."""
    playbooks = call.api.playbooks
    compiled = await playbooks.compiler.compile(call.caller.key, source, file, stored=True, parts=["form"])
    faults: list[KeychainFault] = []
    if compiled.playbook is not None and call.caller.role in OPERATE:
        faults = await playbooks.keychain_faults(compiled.playbook.playbook)
    return {"form": msgspec.Raw(compiled.parts.get("form", b"null")), "keychain_faults": faults}


class GraphQuery(QueryString, frozen=True):
    run_row: Annotated[int, msgspec.Meta(ge=0, le=1, description="1: the boxes of steps have one more row.")] = 0


@routes.add("GET", "/graphs/{hash}", responses={200: Graph, 304: None})
async def graph(call: ApiCall, query: GraphQuery) -> Response:
    """The graph of a playbook by its `playbook_id`, laid out in the units of `noetl graph --format svg`."""
    digest = call.path_params["hash"]
    tag = weak_tag(f"{digest}.{query.run_row}.{call.api.settings.version}")
    if is_current(call.headers, tag):
        return not_modified(tag)
    drawn = await call.api.graphs.get(call.caller.key, digest, run_row=query.run_row == 1)
    return Response(drawn, headers={"ETag": tag, **IMMUTABLE}, media_type=JSON)


class StoredPlaybook(msgspec.Struct, frozen=True):
    """The text of a playbook, and the name of its file or its path."""

    playbook_id: str
    file: str
    text: str


@routes.add("GET", "/texts/{hash}", responses={200: StoredPlaybook, 304: None})
async def source_text(call: ApiCall) -> Response:
    """The text of a playbook by its `playbook_id`, also of one that is registered under no path."""
    digest = call.path_params["hash"]
    tag = weak_tag(digest)
    if is_current(call.headers, tag):
        return not_modified(tag)
    stored = await call.in_store(call.api.store.playbook, digest)
    if stored is None:
        raise NotFound(f"playbook {digest!r} not found")
    file, source = stored
    body = StoredPlaybook(digest, file, source.decode("utf-8", "replace"))
    return json_response(body, headers={"ETag": tag, **IMMUTABLE})
