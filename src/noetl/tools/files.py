"""Checks and opens files that task inputs name, by the rules of `noetl/file_access.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from noetl.file_access import FileRefused, check, check_folder, open_checked
from noetl.model.outcome import Failure


def task_file(path: str, where: str, check: Callable[[str], str] = check) -> str:
    """The real path of a file that a task reads or writes; Failure if it is refused. `where` names the input."""
    try:
        return check(path)
    except (FileRefused, ValueError) as error:
        raise Failure("input", f"`{where}`: {error}") from None


def task_folder(path: str, where: str) -> str:
    return task_file(path, where, check_folder)


def open_task_file(path: str, where: str) -> BinaryIO:
    try:
        return open_checked(path)
    except FileRefused as error:
        raise Failure("input", f"`{where}`: {error}") from None
    except FileNotFoundError:
        raise Failure("not_found", f"`{where}`: this worker has no file {path!r}") from None
    except (OSError, ValueError) as error:
        raise Failure("input", f"`{where}`: {path!r} cannot be read: {error}") from None
