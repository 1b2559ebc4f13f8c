"""Shared by `server`, `dev` and `worker`: log options, signals, and the protection of secrets from task code.

Task code runs as a child process of the same user. The environment contains the master key, passwords and tokens, and
`/proc/PID/environ` shows the initial one: its values are overwritten. A process that is dumpable shows its memory to
others of the same user, and to a core dump: it is made not dumpable. Child programs are dumpable again, and have none
of its secrets. None of this restricts root, and none of it protects files: with `--workers-user`, workers run as
another user.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, get_args

import click

from noetl.client.embedded import SIGNALS
from noetl.log import Log, capture_warnings
from noetl.settings import LogForm, LogLevel, log_settings

FORM_HELP = "Format of log lines; default NOETL_LOG_FORMAT, then text on a terminal and json elsewhere."
LEVEL_HELP = "Lowest level to log; default NOETL_LOG_LEVEL, then info."
PR_SET_DUMPABLE = 4


def log_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The verb gets `log`."""

    @click.option("--log-format", type=click.Choice(get_args(LogForm)), help=FORM_HELP)
    @click.option("--log-level", type=click.Choice(get_args(LogLevel)), help=LEVEL_HELP)
    @wraps(function)
    def verb(*args: Any, log_format: LogForm | None, log_level: LogLevel | None, **kwargs: Any) -> Any:
        log = Log(*log_settings(sys.stderr.isatty(), log_format, log_level))
        capture_warnings(log)
        return function(*args, log=log, **kwargs)

    return verb


def flags_of(log: Log) -> list[str]:
    """The options for a child process that logs in the same way."""
    return ["--log-format", log.form, "--log-level", log.level]


def on_signal(act: Callable[[], object]) -> None:
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, act)


def harden() -> None:
    """Protect this process from others of the same user. Call it after the last NOETL_ variable is set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return  # there is no /proc to close
    blank_environment()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_DUMPABLE): {os.strerror(number)}")


def blank_environment() -> None:
    """Overwrite the values of NOETL_ variables in `/proc/PID/environ`. `os.environ` still has them."""
    strings = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    place = 0
    while strings and (address := strings[place]) is not None:
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name.startswith(b"NOETL_"):
            ctypes.memset(address + len(name) + 1, 0, len(value))
        place += 1
