"""The web page: one document for all its paths, and its assets. They have no data, so they need no token."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Scope

from noetl.errors import NotFound
from noetl.server.compression import accepts_gzip
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.etag import is_current, not_modified, weak_tag
from noetl.server.page_files import PageFile, PageFiles
from noetl.server.parameters import BYTES, HTML, TEXT
from noetl.server.roles import ASSETS, PAGES

routes = Routes(prefix="")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
REVALIDATED = "no-cache"
IMMUTABLE = "public, max-age=31536000, immutable"
NOT_BUILT = "The web page of this checkout is not built: run `make page`, then load it again.\n"


async def page(call: ApiCall) -> Response:
    """The web page, which reads its path itself."""
    built = call.api.page.files()
    if built is None:
        return Response(NOT_BUILT, 200, SECURITY, TEXT)
    return _response(built.document, call.headers, REVALIDATED)


def is_navigation(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether a browser requests a document, at a path outside of the API and the assets."""
    is_data = scope["path"].startswith(("/api/", "/assets/"))
    return scope["method"] == "GET" and not is_data and HTML in headers.get("accept", "")


def unknown_page(files: PageFiles | None, headers: Mapping[str, str]) -> Response:
    """The web page with status 404: it shows that the path does not exist, and links to the runs."""
    if files is None:
        return Response(NOT_BUILT, 404, SECURITY, TEXT)
    return _response(files.document, headers, REVALIDATED, status=404)


for path in PAGES:
    routes.add("GET", path, responses={200: HTML, 304: None}, operation=f"page {path}")(page)


@routes.add("GET", ASSETS, responses={200: BYTES, 304: None})
async def asset(call: ApiCall) -> Response:
    """A script, a style or a font of the page. Its name changes with its content."""
    name, built = call.path_params["asset"], call.api.page.files()
    file = None if built is None else built.assets.get(name)
    if file is None:
        raise NotFound(f"asset {name!r} not found: reload the page")
    return _response(file, call.headers, IMMUTABLE)


def _response(file: PageFile, headers: Mapping[str, str], caching: str, status: int = 200) -> Response:
    tag = weak_tag(file.digest)
    described = SECURITY | {"Cache-Control": caching, "ETag": tag, "Vary": "Accept-Encoding"}
    if status == 200 and is_current(headers, tag):
        response = not_modified(tag)
        response.headers.update(described)
        return response
    if file.gzipped is not None and accepts_gzip(headers):
        return Response(file.gzipped, status, described | {"Content-Encoding": "gzip"}, file.media)
    return Response(file.content, status, described, file.media)
