"""The page of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from docs._markdown import code, fence, page, sentence, table
from noetl.cli.main import EXIT_CODES, VERBS, noetl_command


def pages() -> Iterator[tuple[str, str]]:
    verbs = [(f"[`noetl {verb}`](#noetl-{verb})", sentence(about)) for verb, about in VERBS.items()]
    yield (
        "cli.md",
        page(
            "The command line",
            "`noetl` has one verb for each thing it does. Data goes to standard output and everything else to standard "
            "error, so the output of a verb can be piped. `-o` chooses a format for programs where a verb has one.",
            "Verbs that work with runs use one database: the file that `--db` names, else the variable `NOETL_DB`, "
            "else `.noetl/noetl.db` in the current folder. `NOETL_SYNCHRONOUS` is `full` or `normal`; see "
            "[the store](../explanation/the-store.md). `NO_COLOR` turns colours off.",
            table(["Verb", "What it does"], verbs),
            "## Exit codes",
            table(["Code", "Meaning"], _exit_codes()),
            *_sections(),
        ),
    )


def _exit_codes() -> Iterator[tuple[str, str]]:
    yield "0", "It worked. A run that succeeded; a playbook that is sound, perhaps with warnings."
    yield "1", "A run failed or was cancelled, an invariant does not hold, or something else went wrong."
    for number in sorted(set(EXIT_CODES.values())):
        words = [(error.__doc__ or "").split("\n")[0] for error, code in EXIT_CODES.items() if code == number]
        yield str(number), " ".join(words)


def _sections() -> Iterator[str]:
    settings = noetl_command.context_settings
    root = click.Context(noetl_command, info_name="noetl", terminal_width=100, **settings)
    for verb in VERBS:
        command = noetl_command.get_command(root, verb)
        assert command is not None
        yield from _command(command, click.Context(command, root, verb, terminal_width=100), 2)


def _command(command: click.Command, ctx: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} {ctx.command_path}"
    yield _prose(command)
    yield fence(command.get_usage(ctx).removeprefix("Usage: "), "text")
    options = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
    records = [record for option in options if (record := option.get_help_record(ctx))]
    yield table(["Option", "Meaning"], [(code(option), about) for option, about in records])
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, ctx, name, terminal_width=100), level + 1)


def _prose(command: click.Command) -> str:
    return cleandoc(command.help or "").replace("\b\n", "")
