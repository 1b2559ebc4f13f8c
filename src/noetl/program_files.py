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
from shlex import quote
from typing import Any, NamedTuple

from noetl.dsl.checks.code import UNREADABLE_FILE
from noetl.dsl.problem import Problem, Problems
from noetl.dsl.reader import MAX_BYTES, read
from noetl.dsl.tree import Map, Span, span_in
from noetl.errors import NoetlError
from noetl.file_access import FileRefused, open_checked

DATA = frozenset(["args", "result", "rows", "json", "params", "set_ctx", "set_iter"])
"""Keys whose values are data of the author, which may look like a task."""
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


class PlaybookWithPrograms(NamedTuple):
    """The text of a playbook with its programs, and a problem for each file that cannot be read."""

    text: bytes
    problems: list[Problem]


def with_programs(file: str, text: bytes, folder: str) -> PlaybookWithPrograms:
    """The text with the programs in it. The path of a file that cannot be read stays as it is."""
    root, problems = read(file, text)
    if root is None:
        return PlaybookWithPrograms(text, [])
    whole, unreadable = problems.text.text, Problems(problems.text)
    tasks = {span_in(task, "file"): task["file"] for task in _tasks([root.get("workflow"), root.get("workbook")])}
    for span, path in sorted(tasks.items(), reverse=True):
        name = os.path.join(folder, path)
        try:
            program = _program(name)
        except (OSError, NoetlError, ValueError) as error:
            unreadable.add(UNREADABLE_FILE, span, f"cannot read {path!r}: {_reason(error, name)}", _advice(error, name))
            continue
        embedded = f"{{path: {_quoted(path)}, text: {_quoted(program)}}}"
        whole = whole[: span.start] + embedded + whole[span.end :]
    return PlaybookWithPrograms(whole.encode() if tasks else text, unreadable.sorted())


def _reason(error: Exception, name: str) -> str:
    match error:
        case UnicodeDecodeError(object=content, start=start):
            line = content.count(b"\n", 0, start) + 1
            return f"byte 0x{content[start]:02x} in line {line} is not valid UTF-8"
        case OSError(strerror=str(reason)):
            return reason
        case FileRefused() if os.path.isdir(name):
            return "it is a folder"
    return str(error)


def _advice(error: Exception, name: str) -> str:
    match error:
        case UnicodeDecodeError():
            return "save the file as UTF-8"
        case PermissionError():
            return f"make it readable: `chmod u+r {quote(name)}`"
        case FileRefused() if os.path.isdir(name):
            return "name a file in this folder, such as `file: FOLDER/program.py`"
        case FileRefused():
            return "name a file beside the playbook, or write the program into `code`"
    return "create the file, or write its path relative to the folder of the playbook"


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
