"""Content of objects, and the files it is read from and written to.

Text is stored as it is, bytes too, every other value as JSON. The media type is the author's, else the one that the
suffix of the key stands for, else that of the value. Content is read by its media type: JSON as a value, text as text,
anything else as bytes, which the worker stores by reference. A file is never loaded into memory as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mimetypes import MimeTypes
from pathlib import Path
from posixpath import splitext
from typing import Any, BinaryIO
from uuid import uuid4

import msgspec

from noetl.json_errors import NOT_JSON
from noetl.model.outcome import Failure
from noetl.tools.files import open_task_file, task_file
from noetl.tools.media import is_json, media_of

MAX_BYTES = 50 * 2**20  # the most that `get` loads into memory
EXTRA_TYPES = {
    ".avro": "application/avro",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
TEXT_TYPE = r"text/.+|.+\+xml|application/((x-)?(javascript|ndjson|yaml)|graphql|jsonl|sql|toml|xml)"
CHARSET = r"(?i)charset\s*=\s*[\"']?([^\s;\"']+)"


def encode(value: Any) -> tuple[bytes, str]:
    if isinstance(value, bytes):
        return value, "application/octet-stream"
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
    try:
        return msgspec.json.encode(value), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise Failure("input", f"`data` cannot be written as JSON: {error}") from None


def decode(content: bytes, content_type: str, key: str, encoding: str | None = None) -> Any:
    media = media_of(content_type)
    if media in ("", "application/octet-stream", "binary/octet-stream"):  # it does not describe the content
        media = guess_type(key)
    if encoding and encoding != "identity":
        return content
    if is_json(media):
        with suppress(*NOT_JSON):
            return msgspec.json.decode(content)
    elif not re.fullmatch(TEXT_TYPE, media):
        return content
    charset = re.search(CHARSET, content_type)
    try:
        return content.decode(charset[1] if charset else "utf-8")
    except (LookupError, UnicodeDecodeError):
        return content


def guess_type(key: str) -> str:
    # A fresh table: that of the module also has the entries of the machine's own files.
    media, compression = MimeTypes().guess_type(f"/{key}", strict=False)
    if compression is not None:
        return COMPRESSED.get(compression, "application/octet-stream")
    return media or EXTRA_TYPES.get(splitext(key)[1].lower(), "")


def readable(name: str) -> tuple[Path, int]:
    """The path and size of a file that a task reads; Failure if it may not."""
    with open_task_file(name, "file") as file:
        return Path(file.name), os.fstat(file.fileno()).st_size


@contextmanager
def incoming(name: str) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete, and is removed if anything fails before."""
    path = Path(name)
    if not path.name or "\0" in name:
        raise Failure("input", f"`file`: {name!r} cannot be the name of a file")
    task_file(name, "file")
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        if error.errno is None:  # not the system's: drivers use this class for errors of their own
            raise
        if isinstance(error, FileNotFoundError):
            raise Failure("not_found", f"`file`: this worker has no folder {str(path.parent)!r}") from None
        raise Failure("input", f"`file`: {name!r} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def too_large(key: str, size: int) -> Failure:
    message = (
        f"{key!r} has {size:,} bytes, more than the {MAX_BYTES >> 20} MiB that a result may have: "
        "give `file` to write it to a file on the worker"
    )
    return Failure("too_large", message, size=size)
