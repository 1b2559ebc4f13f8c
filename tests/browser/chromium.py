"""Chromium from the npm package `@sparticuz/chromium`, unpacked once per machine, and how it is started.

The arguments of the package itself are not used: they disable web security.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import brotli
from playwright.sync_api import Browser, sync_playwright
from tests.browser.packages import installed, locked

ARCHIVES = ("al2023", "swiftshader", "fonts")
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/font-cache</cachedir></fontconfig>
"""
"""Only the fonts of the package: a screenshot is the same on every machine."""


@contextmanager
def launched(*arguments: str) -> Iterator[Browser]:
    folder = unpacked()
    environment = os.environ | {"FONTCONFIG_PATH": str(folder), "HOME": str(folder)}
    if _lacks_libraries(folder / "chromium"):
        environment["LD_LIBRARY_PATH"] = str(folder / "lib")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=folder / "chromium",
            args=[*QUIET, *arguments],
            chromium_sandbox=os.geteuid() != 0,
            env={name: str(value) for name, value in environment.items()},
        )
        try:
            yield browser
        finally:
            browser.close()


def unpacked() -> Path:
    """The folder with the program, its libraries and its fonts."""
    package = installed() / "@sparticuz" / "chromium"
    folder = _cache() / f"chromium-{_version(package)}"
    if not folder.exists():
        with locked(folder.with_suffix(".lock")):
            if not folder.exists():
                _unpack(package / "bin", folder)
    return folder


def _unpack(archives: Path, folder: Path) -> None:
    """Make the folder; it appears with all its files or not at all."""
    partial = Path(tempfile.mkdtemp(dir=folder.parent))
    for name in ARCHIVES:
        content = brotli.decompress((archives / f"{name}.tar.br").read_bytes())
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not in the first releases of 3.11
            archive.extractall(partial)
    (partial / "fonts.conf").write_text(FONTS.format(folder=folder))
    program = partial / "chromium"
    program.write_bytes(brotli.decompress((archives / "chromium.br").read_bytes()))
    program.chmod(0o755)
    partial.rename(folder)


def _version(package: Path) -> str:
    return str(json.loads((package / "package.json").read_text())["version"])


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "noetl-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lacks_libraries(program: Path) -> bool:
    ldd = shutil.which("ldd")
    return ldd is None or b"not found" in subprocess.run([ldd, program], capture_output=True).stdout
