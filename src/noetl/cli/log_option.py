"""`--log-format` and `--log-level`: how servers and workers speak of themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, get_args

import click

from noetl.log import Log, hear_libraries
from noetl.settings import LogForm, LogLevel, log_settings

FORM_HELP = "Lines of the log; else NOETL_LOG_FORMAT, else text on a terminal and json elsewhere."
LEVEL_HELP = "The lowest level that is written; else NOETL_LOG_LEVEL, else info."


def log_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The verb gets `log`."""

    @click.option("--log-format", type=click.Choice(get_args(LogForm)), help=FORM_HELP)
    @click.option("--log-level", type=click.Choice(get_args(LogLevel)), help=LEVEL_HELP)
    @wraps(function)
    def verb(*args: Any, log_format: str | None, log_level: str | None, **kwargs: Any) -> Any:
        chosen = log_settings(sys.stderr.isatty(), log_format, log_level)
        log = Log(chosen.form, chosen.level)
        hear_libraries(log)
        return function(*args, log=log, **kwargs)

    return verb


def flags_of(log: Log) -> list[str]:
    """What to give to a process of ours, so that it speaks in the same way."""
    return ["--log-format", log.form, "--log-level", log.level]
