"""Results as files: one file per content, named by its hash, so the same content is written once."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from noetl.reference import Reference


def write_file(folder: str, reference: Reference, content: bytes) -> Reference:
    """Store content in a folder and give the reference that leads there. Atomic: a file is whole or not there."""
    path = Path(folder).absolute() / reference.key[:2] / reference.key
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{uuid4().hex}")
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    return Reference("file", str(path), reference.size, reference.checksum, reference.schema_hint, reference.preview)
