"""Inputs whose templates are bound and never spliced: SQL and commands for a shell.

A kind names them by their paths, such as `command` or `source.query`. The tool gets the bound values in
`context.bound`; the input itself keeps the text of its author.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.expression import prepare
from noetl.model.kind import Kind

Bind = Callable[[Mapping[str, Any]], Any]


def bound_inputs(kind: Kind, inputs: Mapping[str, Any]) -> dict[str, Bind]:
    """Functions of a scope that bind each such input, by path. TemplateSyntax if a template is invalid."""
    return dict(_bound(kind, inputs)) if kind.sql or kind.shell else {}


def _bound(kind: Kind, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Bind]]:
    for path in kind.sql:
        if isinstance(text := _at(inputs, path), str):
            from noetl.sql import prepare_sql
            from noetl.sql.lexing import SNOWFLAKE, STANDARD

            end, dot, _ = path.rpartition(".")  # the database of one end of a transfer is in `source.kind`
            database = _at(inputs, f"{end}.kind") if dot else kind.name
            yield path, prepare_sql(text, SNOWFLAKE if database == "snowflake" else STANDARD)
    for path in kind.shell:
        text = _at(inputs, path)
        is_one_command = isinstance(text, list) and not any(isinstance(word, list) for word in text) and path != "cmds"
        if is_one_command:
            from noetl.shell_text import check_words

            check_words(text)  # a command as words is rendered like any other input
        elif isinstance(text, str | list):
            yield path, _commands(text)


def _commands(text: str | list[Any]) -> Bind:
    """A command, or several. One that is written as words has no shell and needs no binding."""
    from noetl.shell_text import check_words, prepare_shell

    if isinstance(text, str):
        return prepare_shell(text)
    for command in text:
        if isinstance(command, list):
            check_words(command)
    commands = [prepare_shell(command) if isinstance(command, str) else None for command in text]
    return lambda scope: [None if command is None else command(scope) for command in commands]


def _at(inputs: Mapping[str, Any], path: str) -> Any:
    for part in path.split("."):
        if not isinstance(inputs, Mapping):
            return None
        inputs = inputs.get(part, {})
    return inputs


def rendered_inputs(kind: Kind, inputs: Mapping[str, Any], bound: Mapping[str, Bind]) -> Bind:
    """The other inputs as a function of a scope. Bound inputs and program code stay as they are written."""
    verbatim = {*kind.verbatim, *bound}
    return _partly_rendered(inputs, verbatim, "") if verbatim else prepare(dict(inputs))


def _partly_rendered(inputs: Mapping[str, Any], verbatim: set[str], prefix: str) -> Bind:
    parts: dict[str, Bind] = {}
    for key, value in inputs.items():
        path = prefix + key
        if path in verbatim:
            parts[key] = _verbatim(value)
        elif isinstance(value, Mapping) and any(name.startswith(f"{path}.") for name in verbatim):
            parts[key] = _partly_rendered(value, verbatim, f"{path}.")
        else:
            parts[key] = prepare(value)
    return lambda scope: {key: part(scope) for key, part in parts.items()}


def _verbatim(value: Any) -> Bind:
    """The value as it is written. Of a list of commands, those that are written as words are rendered."""
    if not isinstance(value, list):
        return lambda scope: value
    parts = [prepare(command) if isinstance(command, list) else None for command in value]
    return lambda scope: [command if part is None else part(scope) for command, part in zip(value, parts, strict=True)]
