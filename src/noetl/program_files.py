"""Files of programs that tasks name: `file: transform.py` of `kind: python`.

They are read together with the file of the playbook, and their text becomes part of its text: the path becomes
`{path: transform.py, text: "..."}`, on the same line. So an execution is pinned to the program that it started with,
and a registered playbook runs on any worker.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from noetl.dsl.reader import MAX_BYTES, read
from noetl.dsl.tree import Map, Span, span_in
from noetl.errors import FileMissing, NoetlError
from noetl.file_access import FileRefused, open_checked

DATA = frozenset(["args", "result", "rows", "json", "params", "set_ctx", "set_iter"])
"""Keys whose values are data of the author, which may look like a task."""
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def with_programs(file: str, text: bytes, folder: str) -> bytes:
    """The text with the programs in it. FileMissing with the place if a file cannot be read."""
    root, problems = read(file, text)
    if root is None:
        return text
    whole = problems.text.text
    tasks = {span_in(task, "file"): task["file"] for task in _tasks([root.get("workflow"), root.get("workbook")])}
    for span, path in sorted(tasks.items(), reverse=True):
        mark = problems.text.mark(span.start)
        try:
            program = _program(os.path.join(folder, path))
        except (OSError, NoetlError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FileMissing(f"{file}:{mark.line}:{mark.column}: cannot read {path!r}: {reason}") from None
        embedded = f"{{path: {_quoted(path)}, text: {_quoted(program)}}}"
        whole = whole[: span.start] + embedded + whole[span.end :]
    return whole.encode() if tasks else text


def _tasks(node: Any) -> Iterator[Map]:
    """Tasks of kind python with the path of a file, in document order."""
    if isinstance(node, Map) and node.get("kind") == "python" and _is_path(node):
        yield node
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key not in DATA:
            yield from _tasks(value)


def _is_path(task: Map) -> bool:
    span: Span = span_in(task, "file")
    return isinstance(task.get("file"), str) and span.style in ("", "'", '"')


def _program(path: str) -> str:
    with open_checked(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FileRefused(f"it has more than {MAX_BYTES:,} bytes")
    return content.decode("utf-8-sig")


def _quoted(text: str) -> str:
    """A double-quoted scalar of YAML on one line."""
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
