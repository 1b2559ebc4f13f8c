"""Streams data into and out of DuckDB through a named pipe, which it reads and writes as a CSV file.

DuckDB opens its end when it runs a statement, which may never happen: this end stops waiting when `over` is set.
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

from noetl.tools.rows.columns import Column
from noetl.tools.rows.duckdb_database import literal

T = TypeVar("T")
PIPE_BYTES = 1 << 20
MAX_ROW_BYTES = 16 << 20
"""DuckDB allocates two buffers of that size while it reads."""
POLL_SECONDS = 0.02
FIRST_ERROR_SECONDS = 0.2
"""How long the other end may take to report the error that broke the pipe."""
NULL = r"\N"
"""Null in CSV. The text of these two characters is in quotes."""


class Aborted(Exception):
    """DuckDB will never open its end of the pipe."""


class Pipe:
    _numbers = count(1)

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, f"pipe-{next(self._numbers)}.csv")
        self.over = threading.Event()
        """Set when the other end has ended, or will never start."""
        os.mkfifo(self.path, 0o600)

    def relation(self, columns: list[Column]) -> str:
        types = ", ".join(f"{literal(column.name)}: {literal(column.type)}" for column in columns)
        return (
            f"read_csv({literal(self.path)}, columns = {{{types}}}, auto_detect = false, header = false, delim = ',', "
            f"quote = '\"', escape = '\"', nullstr = {literal(NULL)}, allow_quoted_nulls = false, parallel = false, "
            f"max_line_size = {MAX_ROW_BYTES}, buffer_size = {MAX_ROW_BYTES})"
        )

    def copy(self, query: str, columns: list[Column]) -> str:
        quotes = f", force_quote ({columns[0].quoted})" if len(columns) == 1 else ""  # a line must not be `\.`
        form = f"format csv, header false, delim ',', quote '\"', escape '\"', nullstr {literal(NULL)}{quotes}"
        return f"COPY ({query}) TO {literal(self.path)} ({form})"

    def writer(self) -> BinaryIO:
        """The end to write to; Aborted if DuckDB does not read."""
        while not self.over.is_set():
            with suppress(OSError):  # no reader yet
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                os.set_blocking(descriptor, True)
                _widen(descriptor)
                return open(descriptor, "wb", buffering=PIPE_BYTES // 4)
            time.sleep(POLL_SECONDS / 10)
        raise Aborted

    def chunks(self) -> Generator[bytes]:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            _widen(descriptor)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while not poll.poll(POLL_SECONDS * 1000):
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


def run_both(other: Callable[[], object], main: Callable[[], T], abort: Callable[[], object]) -> T:
    """The result of `main`, which runs together with `other`, each at one end of a pipe.

    When one fails, the other finds its pipe broken: the error of the one that failed first is raised. `abort` ends the
    other if it waits for something else than the pipe.
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
        thread.join(FIRST_ERROR_SECONDS)  # if it failed first, it is about to report it
        failed_first = [  # and not only because the other end was closed
            error
            for error in errors
            if not isinstance(error, (BrokenPipeError, Aborted)) and "Broken pipe" not in str(error)
        ]
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
