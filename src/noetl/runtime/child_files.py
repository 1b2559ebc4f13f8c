"""Files of child playbooks: a child that is not registered is a file beside its parent.

`path` is first the `metadata.path` of a playbook in the folder of the parent, and else the name of a file there, with
or without its ending. A playbook that a server got without its file has no folder, so its children are registered ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from noetl.errors import FileMissing, NoetlError
from noetl.files import load_file, read_file

ENDINGS = (".yaml", ".yml")
MAX_FILES = 1_000


def child_file(parent: str, path: str) -> str:
    """The file of a child; FileMissing if there is none, NoetlError if several have the path."""
    folder = os.path.dirname(os.path.abspath(parent))
    files = list(_files_with_path(folder, path))
    if len(files) > 1:
        raise NoetlError(f"several files have the metadata.path {path!r}: {', '.join(files)}")
    if files:
        return files[0]
    for ending in ("", *ENDINGS):
        file = os.path.normpath(os.path.join(folder, path + ending))
        if os.path.isfile(file):
            return file
    raise FileMissing(
        f"no playbook {path!r}: none is registered under this path, no file in {folder} has this metadata.path, and "
        f"there is no file {os.path.join(folder, path)} (also not with .yaml or .yml)"
    )


def _files_with_path(folder: str, path: str) -> Iterator[str]:
    """Playbooks in the folder with this metadata.path. Only files that contain the path are compiled."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(ENDINGS))
    except OSError:
        return
    for name in names[:MAX_FILES]:
        file = os.path.join(folder, name)
        try:
            text = read_file(file)
        except FileMissing:  # it cannot be read, or is a folder
            continue
        if path.encode() in text and _has_path(file, text, path):
            yield file


def _has_path(file: str, text: bytes, path: str) -> bool:
    playbook = load_file(file).playbook
    if playbook is not None:
        return playbook.path == path
    metadata = re.search(rb"^metadata:(.*?)^(?=\S)", text + b"\n.", re.MULTILINE | re.DOTALL)
    written = rb"\bpath:\s*['\"]?" + re.escape(path.encode()) + rb"['\"]?\s*[,}\n]"
    return metadata is not None and re.search(written, metadata[1]) is not None  # problems are reported on use
