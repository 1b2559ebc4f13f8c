"""Results as files: one file per content, named by its hash, so the same content is written once."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from noetl.durable import replace_file
from noetl.reference import Reference


def write_file(folder: str, reference: Reference, content: bytes) -> Reference:
    """Store content in a folder, atomically; the reference to the file."""
    path = Path(folder).absolute() / reference.key[:2] / reference.key
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, path.with_name(f"{path.name}.{uuid4().hex}"))
    return reference.moved("file", str(path))
