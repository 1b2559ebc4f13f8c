"""Arguments and options that several verbs read: payloads, files with `@`, secrets, versions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from noetl.errors import UsageError

SCALAR_HELP = "Set a value in the payload; VALUE is a YAML scalar, dots in KEY lead into maps."
TEXT_HELP = "Set a value in the payload to a text."
PAYLOAD_HELP = "Payload: a JSON object, or a file that contains one."


def payload_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--set`, `--set-string` and `--payload`; the verb gets their `payload`."""

    @click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help=SCALAR_HELP)
    @click.option("--set-string", "strings", multiple=True, metavar="KEY=TEXT", help=TEXT_HELP)
    @click.option("--payload", metavar="JSON|@FILE", help=PAYLOAD_HELP)
    @wraps(function)
    def verb(*args: Any, payload: str | None, sets: tuple[str, ...], strings: tuple[str, ...], **kwargs: Any) -> Any:
        return function(*args, payload=payload_of(payload, sets, strings), **kwargs)

    return verb


def split_version(path: str) -> tuple[str, int | None]:
    """Path and version of `PATH[@VERSION]`."""
    name, at, version = path.rpartition("@")
    if not at:
        return path, None
    if not version.isdecimal():
        raise UsageError(f"{path}: the version must be a number, such as {name}@3")
    return name, int(version)


def json_or_file(text: str | None, option: str) -> Any:
    """JSON, or after `@` the JSON in a file (`@-` is standard input); None if the option is not set."""
    if text is None:
        return None
    from noetl.files import read_file

    data = read_file(text[1:]) if text.startswith("@") else text.encode()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        where = f" in {text[1:]}" if text.startswith("@") else ""
        raise UsageError(f"{option}: invalid JSON{where}: {error}") from None


def secret_text(option: str, value: str, prompt: str, max_bytes: int | None = None) -> str:
    """The text of `@FILE`, or of standard input for `-`; a terminal is asked for it without echo."""
    from noetl.files import STDIN, read_file

    if value == STDIN and sys.stdin is not None and sys.stdin.isatty():
        text: str = click.prompt(prompt, hide_input=True, err=True)
        return text
    content = read_file(value.removeprefix("@"))
    if max_bytes is not None and len(content) > max_bytes:
        raise UsageError(f"{option}: more than {max_bytes:,} bytes")
    try:
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UsageError(f"{option}: the text is not valid UTF-8") from None


# -- the payload ----------------------------------------------------------------------------------------------------


def payload_of(payload: str | None, sets: tuple[str, ...], strings: tuple[str, ...]) -> dict[str, Any]:
    """The value of `--payload`, with single values set in it."""
    values = json_or_file(payload, "--payload")
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise UsageError('--payload must be a JSON object, such as \'{"name": "Ada"}\'')
    for option, texts in (("--set", sets), ("--set-string", strings)):
        for text in texts:
            key, equals, value = text.partition("=")
            if not equals or not all(key.split(".")):
                raise UsageError(f"{option} {text}: write it as KEY=VALUE, for instance a.b=1")
            _put(values, key.split("."), scalar(value) if option == "--set" else value, f"{option} {text}")
    return values


def _put(values: dict[str, Any], path: list[str], value: Any, option: str) -> None:
    *outer, last = path
    for key in outer:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise UsageError(f"{option}: {key!r} is not a map, so no value can be set in it")
    values[last] = value


def scalar(text: str) -> Any:
    """The value of a YAML scalar, read as in a playbook."""
    from noetl.dsl.reader import resolve

    if text[:1] in ("'", '"'):
        return _quoted(text)
    try:
        return resolve(text)
    except ValueError as error:
        raise UsageError(f"--set: {error}; use --set-string for text") from None


def _quoted(text: str) -> Any:
    """The text between quotes; text that only begins with a quote is itself."""
    import yaml

    try:
        events = list(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return text
    scalars = [event for event in events if isinstance(event, yaml.ScalarEvent)]
    return scalars[0].value if len(events) == 5 and len(scalars) == 1 else text
