"""The page of the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc

import click

from noetl.cli.main import EXIT_CODES, VERBS, noetl_command
from tools.docs.markdown import code, fence, page, sentence, table

SHARED_BY = 10
"""An option that this many commands have is described once."""


def pages() -> Iterator[tuple[str, str]]:
    verbs = [(f"[`noetl {verb}`](#noetl-{verb})", sentence(about)) for verb, about in VERBS.items()]
    yield (
        "reference/cli.md",
        page(
            "The command line",
            "Results go to standard output, everything else to standard error, so the output of a verb can be piped. "
            "`NO_COLOR` turns colours off.",
            table(["Verb", "What it does"], verbs),
            "## Shared options",
            "Every command has `-h, --help`. Most have some of these options, too, and list them by name.",
            table(["Option", "Meaning"], ((code(option), about) for option, about in _shared())),
            "The database is the file that `--db` names, else `NOETL_DB`, else `.noetl/noetl.db` in the project "
            "folder: the nearest folder upwards with a `noetl.toml`, else the current one. `NOETL_SYNCHRONOUS` is "
            "`full` or `normal`; see [the store](../explanation/the-store.md).",
            "## Exit codes",
            table(["Code", "Meaning"], _exit_codes()),
            *_sections(),
        ),
    )


def _exit_codes() -> Iterator[tuple[str, str]]:
    yield "0", "Success. The run succeeded, or the playbook has no errors."
    yield "1", "The run failed or was cancelled, an invariant is violated, or an unexpected error occurred."
    for number in sorted(set(EXIT_CODES.values())):
        words = [(error.__doc__ or "").split("\n")[0] for error, code in EXIT_CODES.items() if code == number]
        yield str(number), " ".join(words)


def _sections() -> Iterator[str]:
    shared = set(_shared())
    for command, context, level in _commands():
        yield f"{'#' * level} {context.command_path}"
        yield _prose(command)
        yield fence(command.get_usage(context).removeprefix("Usage: "), "text")
        options = [option for option in _options(command, context) if option not in shared]
        if options:
            yield table(["Option", "Meaning"], [(code(option), about) for option, about in options])
        names = [option for option in _options(command, context) if option in shared]
        if names:
            yield f"Shared options: {', '.join(code(_name(option)) for option, _ in names)}."


@cache
def _shared() -> tuple[tuple[str, str], ...]:
    """Options that many commands have in the same words, the most frequent first."""
    counts = Counter(option for command, context, _ in _commands() for option in _options(command, context))
    return tuple(option for option, count in counts.most_common() if count >= SHARED_BY)


def _options(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """The options of a command with their meanings, without `--help`."""
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context))]
    return [record for record in records if not record[0].endswith("--help")]


def _name(option: str) -> str:
    """`-o` of `-o, --output [json|yaml]`."""
    return option.split()[0].rstrip(",")


def _commands() -> Iterator[tuple[click.Command, click.Context, int]]:
    """Every command with its context and the level of its heading."""
    settings = noetl_command.context_settings
    root = click.Context(noetl_command, info_name="noetl", terminal_width=100, **settings)
    for verb in VERBS:
        yield from _below(noetl_command, root, verb, 2)


def _below(
    group: click.Group, above: click.Context, name: str, level: int
) -> Iterator[tuple[click.Command, click.Context, int]]:
    command = group.get_command(above, name)
    assert command is not None
    context = click.Context(command, above, name, terminal_width=100)
    yield command, context, level
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _below(command, context, inner, level + 1)


def _prose(command: click.Command) -> str:
    return cleandoc(command.help or "").replace("\b\n", "")
