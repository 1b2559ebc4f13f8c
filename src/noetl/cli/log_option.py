"""`--log-format` and `--log-level` of servers and workers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, get_args

import click

from noetl.log import Log, capture_warnings
from noetl.settings import LogForm, LogLevel, log_settings

FORM_HELP = "Format of log lines; default NOETL_LOG_FORMAT, then text on a terminal and json elsewhere."
LEVEL_HELP = "Lowest level to log; default NOETL_LOG_LEVEL, then info."


def log_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The verb gets `log`."""

    @click.option("--log-format", type=click.Choice(get_args(LogForm)), help=FORM_HELP)
    @click.option("--log-level", type=click.Choice(get_args(LogLevel)), help=LEVEL_HELP)
    @wraps(function)
    def verb(*args: Any, log_format: str | None, log_level: str | None, **kwargs: Any) -> Any:
        chosen = log_settings(sys.stderr.isatty(), log_format, log_level)
        log = Log(chosen.form, chosen.level)
        capture_warnings(log)
        return function(*args, log=log, **kwargs)

    return verb


def flags_of(log: Log) -> list[str]:
    """The options for a child process that logs in the same way."""
    return ["--log-format", log.form, "--log-level", log.level]
