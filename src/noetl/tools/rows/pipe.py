"""Data into and out of DuckDB while it runs: a named pipe, which it reads and writes as if it were a CSV file.

DuckDB takes hold of its end when it runs a statement, which may never happen. So this side never waits for it without
looking whether it is still to come.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import count
from typing import BinaryIO, TypeVar

from noetl.model.outcome import Failure
from noetl.tools.rows.columns import Column
from noetl.tools.rows.duck import literal

T = TypeVar("T")
PIPE_BYTES = 1 << 20
MAX_ROW_BYTES = 16 << 20
"""DuckDB keeps two buffers of that size while it reads."""
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 0.2
NULL = r"\N"
"""What stands for null in CSV. The text of these two characters is told apart by its quotes."""


class Pipe:
    """One named pipe in a folder of ours."""

    _numbers = count(1)

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, f"pipe-{next(self._numbers)}.csv")
        self.over = threading.Event()
        """Set when the other side has ended, or will never begin."""
        os.mkfifo(self.path, 0o600)

    def relation(self, columns: list[Column]) -> str:
        """What DuckDB reads the rows from."""
        types = ", ".join(f"{literal(column.name)}: {literal(column.type)}" for column in columns)
        return (
            f"read_csv({literal(self.path)}, columns = {{{types}}}, auto_detect = false, header = false, delim = ',', "
            f"quote = '\"', escape = '\"', nullstr = {literal(NULL)}, allow_quoted_nulls = false, parallel = false, "
            f"max_line_size = {MAX_ROW_BYTES}, buffer_size = {MAX_ROW_BYTES})"
        )

    def copy(self, query: str, columns: list[Column]) -> str:
        """What DuckDB writes the rows of a query with."""
        quotes = f", force_quote ({columns[0].quoted})" if len(columns) == 1 else ""  # a line must not be `\.`
        form = f"format csv, header false, delim ',', quote '\"', escape '\"', nullstr {literal(NULL)}{quotes}"
        return f"COPY ({query}) TO {literal(self.path)} ({form})"

    def writer(self) -> BinaryIO | None:
        """This side of a pipe that DuckDB reads; None if it does not."""
        while not self.over.is_set():
            with suppress(OSError):  # nobody reads yet
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                os.set_blocking(descriptor, True)
                _widen(descriptor)
                return open(descriptor, "wb", buffering=PIPE_BYTES // 4)
            time.sleep(LOOK_SECONDS / 10)
        return None

    def chunks(self) -> Generator[bytes]:
        """What DuckDB writes, to the end of it."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            _widen(descriptor)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while not poll.poll(LOOK_SECONDS * 1000):
                if self.over.is_set() and not poll.poll(0):
                    return
            os.set_blocking(descriptor, True)
            while chunk := os.read(descriptor, PIPE_BYTES):
                yield chunk
        finally:
            os.close(descriptor)


def _widen(descriptor: int) -> None:
    with suppress(OSError, AttributeError):  # as wide as the system allows
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def alongside(other: Callable[[], object], main: Callable[[], T], abort: Callable[[], object]) -> T:
    """Do both at once, each holding one end of a pipe. What `main` gives counts only if the other went well too.

    When one fails, the other finds its pipe broken or too short: the error of the one that failed is raised. `abort`
    ends the other where it waits for something else than the pipe.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            other()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="noetl-pipe")
    thread.start()
    try:
        result = main()
    except BaseException:
        thread.join(PATIENCE_SECONDS)  # if it failed first, it is about to say so
        failed_first = [error for error in errors if not _is_broken_pipe(error)]
        with suppress(Exception):
            abort()
        thread.join()
        if failed_first:
            raise failed_first[0] from None
        raise
    thread.join()
    if errors:
        raise errors[0]
    return result


def all_taken(sent: int, taken: int) -> int:
    """How many rows were moved. A pipe that loses one must not go unnoticed."""
    if sent != taken:
        raise Failure("internal", f"{sent:,} rows were sent and {taken:,} arrived: nothing was changed")
    return taken


def _is_broken_pipe(error: BaseException) -> bool:
    """Whether it only says that the other side is gone, in Python's words or in DuckDB's."""
    return isinstance(error, (BrokenPipeError, Aborted)) or "Broken pipe" in str(error)


class Aborted(Exception):
    """This side was told to end."""
