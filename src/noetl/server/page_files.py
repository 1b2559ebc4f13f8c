"""The files of the web page, read from the folder of a build.

The build manifest (`manifest.json`, in the format of Vite) names the assets. They are served from a table of their
names, so that no path of a request ever reaches the file system.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from noetl.errors import NoetlError

FOLDER = Path(__file__).parent.parent / "page"  # where a build of the page is, in a checkout and in a wheel
MANIFEST, INDEX = "manifest.json", "index.html"
ASSET = re.compile(r"assets/([A-Za-z0-9_-][A-Za-z0-9._-]*)")
MEDIA = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
COMPRESSED_ALREADY = frozenset([".png", ".woff2"])


class ManifestChunk(msgspec.Struct, frozen=True):
    """An entry of the manifest: a script, and the styles and files it needs."""

    file: str
    css: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()


class PageFile(NamedTuple):
    media: str
    content: bytes
    gzipped: bytes | None = None  # None: it does not get smaller

    @property
    def digest(self) -> str:
        return blake2b(self.content, digest_size=16).hexdigest()


class PageFiles(NamedTuple):
    document: PageFile
    assets: Mapping[str, PageFile]  # by the last part of their URL


class PageFolder:
    """The page in a folder. A new build takes the place of the one before as soon as it is complete.

    NoetlError if the build at the start is incomplete.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times, self._files = self._build_times(), read_page(folder)

    def files(self) -> PageFiles | None:
        """None if there is no build."""
        if (times := self._build_times()) != self._times:
            with suppress(NoetlError):  # the build is being written
                self._times, self._files = times, read_page(self._folder) or self._files
        return self._files

    def _build_times(self) -> tuple[int, ...]:
        files = [self._folder / name for name in (MANIFEST, INDEX)]
        return tuple(file.stat().st_mtime_ns for file in files if file.exists())


def page_file(name: str, content: bytes, gzipped: bytes | None = None) -> PageFile:
    suffix = Path(name).suffix
    if gzipped is None and suffix not in COMPRESSED_ALREADY:
        gzipped = gzip.compress(content, mtime=0)
    is_smaller = gzipped is not None and len(gzipped) < len(content)
    return PageFile(MEDIA[suffix], content, gzipped if is_smaller else None)


def read_page(folder: Path) -> PageFiles | None:
    """The page in a folder, None if there is no build; NoetlError if the build is incomplete."""
    try:
        manifest = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
    try:
        chunks = msgspec.json.decode(manifest, type=dict[str, ManifestChunk])
        return PageFiles(_read(folder, INDEX), dict(_assets(folder, chunks)))
    except (msgspec.DecodeError, OSError, ValueError) as error:
        raise NoetlError(f"the web page in {folder} cannot be served: {error}; build it again") from error


def _assets(folder: Path, chunks: Mapping[str, ManifestChunk]) -> Iterator[tuple[str, PageFile]]:
    for path in {path for chunk in chunks.values() for path in (chunk.file, *chunk.css, *chunk.assets)}:
        match = ASSET.fullmatch(path)
        if match is None or Path(path).suffix not in MEDIA:
            raise ValueError(f"{MANIFEST} names {path!r}, which is not an asset")
        yield match[1], _read(folder, path)


def _read(folder: Path, path: str) -> PageFile:
    compressed = folder / f"{path}.gz"
    gzipped = compressed.read_bytes() if compressed.exists() else None
    return page_file(path, (folder / path).read_bytes(), gzipped)
