"""Inputs whose templates are bound and never spliced: SQL and commands for a shell.

A kind names them by their paths, such as `command` or `source.query`. The tool finds what was made of them in
`context.bound`; the input itself keeps the text as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.expression import prepare
from noetl.model.kind import Kind

Bind = Callable[[Mapping[str, Any]], Any]


def bound_inputs(kind: Kind, inputs: Mapping[str, Any]) -> dict[str, Bind]:
    """How each bound input is made from a scope, by its path. TemplateSyntax for one that can't be."""
    return dict(_bound(kind, inputs)) if kind.sql or kind.shell else {}


def _bound(kind: Kind, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Bind]]:
    for path in kind.sql:
        if isinstance(text := _at(inputs, path), str):
            yield path, _statements(text, _database(kind, inputs, path))
    for path in kind.shell:
        text = _at(inputs, path)
        if isinstance(text, list) and not any(isinstance(one, list) for one in text) and path != "cmds":
            _check_words(text)  # one command as words: rendered like any other input
        elif isinstance(text, str | list):
            yield path, _commands(text)


def _database(kind: Kind, inputs: Mapping[str, Any], path: str) -> str:
    """Whose SQL it is: that of the kind, or of the end of a transfer (`source.kind`)."""
    outer, dot, _ = path.rpartition(".")
    return str(_at(inputs, f"{outer}.kind")) if dot else kind.name


def _statements(text: str, database: str) -> Bind:
    from noetl.sql import SNOWFLAKE, STANDARD, prepare_sql

    return prepare_sql(text, SNOWFLAKE if database == "snowflake" else STANDARD)


def _commands(written: str | list[Any]) -> Bind:
    """A command, or several: each that is given as words has no shell and needs no binding."""
    from noetl.shell_text import check_words, prepare_shell

    if isinstance(written, str):
        return prepare_shell(written)
    for command in written:
        if isinstance(command, list):
            check_words(command)
    each = [prepare_shell(command) if isinstance(command, str) else None for command in written]
    return lambda scope: [None if command is None else command(scope) for command in each]


def _check_words(words: list[Any]) -> None:
    from noetl.shell_text import check_words

    check_words(words)


def _at(inputs: Mapping[str, Any], path: str) -> Any:
    for part in path.split("."):
        if not isinstance(inputs, Mapping):
            return None
        inputs = inputs.get(part, {})
    return inputs


def rendered_inputs(kind: Kind, inputs: Mapping[str, Any], bound: Mapping[str, Bind]) -> Bind:
    """The other inputs as a function of a scope; what is bound, and program code, stays as it was written."""
    kept = {*kind.verbatim, *bound}
    if not kept:
        return prepare(dict(inputs))
    return _partly(inputs, kept, "")


def _partly(inputs: Mapping[str, Any], kept: set[str], prefix: str) -> Bind:
    parts: dict[str, Bind] = {}
    for key, value in inputs.items():
        path = prefix + key
        if path in kept:
            parts[key] = _words(value) if isinstance(value, list) else _same(value)
        elif isinstance(value, Mapping) and any(one.startswith(f"{path}.") for one in kept):
            parts[key] = _partly(value, kept, f"{path}.")
        else:
            parts[key] = prepare(value)
    return lambda scope: {key: part(scope) for key, part in parts.items()}


def _words(commands: list[Any]) -> Bind:
    """Commands given as words are rendered word by word; those for a shell stay."""
    parts = [prepare(command) if isinstance(command, list) else _same(command) for command in commands]
    return lambda scope: [part(scope) for part in parts]


def _same(value: Any) -> Bind:
    return lambda scope: value
