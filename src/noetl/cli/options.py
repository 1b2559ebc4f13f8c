"""Options and arguments that several verbs share: the target (`--db`, `--server`), payloads, files with `@`, secrets,
versions; and the verbs that all resources share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.output import emit, output_option, print_message
from noetl.errors import UsageError
from noetl.model.duration import seconds
from noetl.model.status import STATUSES
from noetl.settings import ServerAddress, names_db, server_address

if TYPE_CHECKING:
    from noetl.client.client import Client, Items

DB_HELP = "Database file or Postgres URL; default NOETL_DB, then .noetl/noetl.db in the project folder."
SERVER_HELP = (
    "Server to use instead of a database; default NOETL_SERVER, then the `noetl dev` of this folder. Its token is read "
    "from NOETL_TOKEN."
)
INSECURE_HELP = "Allow http:// to another machine, which exposes the token; default NOETL_INSECURE."
SET_HELP = "Set a value in the payload; VALUE is YAML, such as 5 or [a, b]; dots in KEY lead into maps."

timeout_option = click.option(
    "--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Maximum time to wait; then exit 124."
)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--db PATH` and `--server URL`; the verb gets `db` and `address`, of which at most one is set."""

    @click.option("--db", metavar="PATH", help=DB_HELP)
    @click.option("--server", metavar="URL", help=SERVER_HELP)
    @click.option("--insecure", is_flag=True, help=INSECURE_HELP)
    @wraps(function)
    def verb(*args: Any, db: str | None, server: str | None, insecure: bool, **kwargs: Any) -> Any:
        if db and server:
            raise UsageError("--db and --server exclude each other: use one of them")
        address = None if db else server_address(server, insecure=insecure)
        return function(*args, db=db, address=address, **kwargs)

    return verb


def server_option(function: Callable[..., int | None]) -> Callable[..., None]:
    """`--server URL` for a verb that needs a server, not only its database; the verb gets `client`."""

    @click.option("--server", metavar="URL", help=SERVER_HELP)
    @click.option("--insecure", is_flag=True, help=INSECURE_HELP)
    @wraps(function)
    def verb(*args: Any, server: str | None, insecure: bool, **kwargs: Any) -> None:
        from noetl.client.dev_server import running_dev
        from noetl.client.http import HttpClient

        address = server_address(server, insecure=insecure) or running_dev()
        if address is None:
            raise UsageError("name a server: use --server URL, or set NOETL_SERVER")
        with closing(HttpClient(address, print_message)) as client:
            function(*args, client=client, **kwargs)

    return verb


def client_option(function: Callable[..., int | None], *, dev: bool = True) -> Callable[..., None]:
    """The same options; the verb gets `client`, and may return an exit code. Without a target the client is that of the
    `noetl dev` which runs in this folder, unless `dev` is False."""

    @target_options
    @wraps(function)
    def verb(*args: Any, db: str | None, address: ServerAddress | None, **kwargs: Any) -> None:
        client: Client
        if address is None and dev and db is None and not names_db():
            from noetl.client.dev_server import running_dev

            address = running_dev()
        if address is None:
            from noetl.client.local import LocalClient

            client = LocalClient(db, print_message)
        else:
            from noetl.client.http import HttpClient

            client = HttpClient(address, print_message)
        with closing(client):
            code = function(*args, client=client, **kwargs)
        if code:
            click.get_current_context().exit(code)

    return verb


def embedded_client_and_output(function: Callable[..., int | None]) -> Callable[..., None]:
    """The same for a verb that runs in this process unless a server is named."""
    return client_option(output_option()(function), dev=False)


def client_and_output(function: Callable[..., int | None]) -> Callable[..., None]:
    """`--db`, `--server` and `-o`; the verb gets `client` and `output`."""
    return client_option(output_option()(function))


def add_resource(
    group: click.Group,
    resource: str,
    list_help: str,
    removal_help: str,
    verb: str = "delete",
    metavar: str = "NAME",
    show: Callable[[Items], None] | None = None,
) -> None:
    """Add `list`, which prints all items of a resource of the client, and `delete`, which removes one."""

    @group.command("list", help=list_help)
    @client_and_output
    def list_command(client: Client, output: str | None) -> None:
        items = getattr(client, resource).list()
        emit(items, output, show)
        if not items and output is None:
            print_message(f"no {resource}")

    @group.command(verb, help=removal_help)
    @click.argument("name", metavar=metavar)
    @client_option
    def removal_command(name: str, client: Client) -> None:
        getattr(client, resource).delete(name)
        print_message(f"{group.name} {name} {verb}d")


def since_option(items: str) -> Callable[..., Any]:
    """`--since`; the verb gets the time in seconds, 0 if the option is not set."""
    help = f"List only {items} since this time: an age such as 2h or 7d, or a date with or without a time."
    return click.option("--since", default=0.0, type=SinceType(), metavar="AGE|TIME", help=help)


class SinceType(click.ParamType[float]):
    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        age = seconds(value)
        if age is not None:
            return time.time() - age
        try:
            return datetime.fromisoformat(value).timestamp()  # local time, if it does not name a zone
        except ValueError:
            raise UsageError(
                f"{param.opts[0]} {value}: write an age such as 2h, or a time such as 2026-03-01T12:00"
            ) from None


class StatusesType(click.ParamType[tuple[str, ...]]):
    """Statuses of runs, separated by commas."""

    name = "statuses"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        statuses = tuple(status.strip() for status in value.split(",")) if isinstance(value, str) else value
        if unknown := [status for status in statuses if status not in STATUSES]:
            raise UsageError(f"{param.opts[0]} {unknown[0]}: write one or more of {', '.join(STATUSES)}")
        return statuses


def split_version(path: str) -> tuple[str, int | None]:
    name, at, version = path.rpartition("@")
    if not at:
        return path, None
    if not version.isdecimal():
        raise UsageError(f"{path}: the version must be a number, such as {name}@3")
    return name, int(version)


def data_or_file(text: str | None, option: str) -> Any:
    """JSON or YAML, or after `@` that of a file (`@-` is standard input); None if the option is not set."""
    if text is None:
        return None
    from noetl.dsl.reader import read_data
    from noetl.files import read_file

    data = read_file(text[1:]) if text.startswith("@") else text.encode()
    try:
        return read_data(data)
    except UsageError as error:
        where = f"{text[1:]} is " if text.startswith("@") else ""
        raise UsageError(f"{option}: {where}{error}") from None


def map_or_file(text: str | None, option: str, example: str) -> dict[str, Any]:
    """The same for a map; empty if the option is not set."""
    value = data_or_file(text, option)
    if value is not None and not isinstance(value, dict):
        is_file = isinstance(value, str) and value.endswith((".yaml", ".yml", ".json"))
        hint = f"to read a file write `{option} @{value}`" if is_file else f"such as '{example}'"
        raise UsageError(f"{option} must be a map, {hint}")
    return value or {}


def secret_text(option: str, value: str, prompt: str, max_bytes: int | None = None) -> str:
    """The text of `@FILE`, or of standard input for `-`; a terminal prompts for it without echo."""
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


def payload_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--set`, `--set-string` and `--payload`; the verb gets `inputs`, keys of the body of a request."""

    @click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help=SET_HELP)
    @click.option(
        "--set-string", "strings", multiple=True, metavar="KEY=TEXT", help="Set a value in the payload to a text."
    )
    @click.option("--payload", metavar="DATA|@FILE", help="Payload: a map in JSON or YAML, or a file with one.")
    @wraps(function)
    def verb(*args: Any, payload: str | None, sets: tuple[str, ...], strings: tuple[str, ...], **kwargs: Any) -> Any:
        values, strict_keys = map_or_file(payload, "--payload", '{"name": "Ada"}'), []
        for option, texts in (("--set", sets), ("--set-string", strings)):
            for text in texts:
                key, equals, value = text.partition("=")
                *outer, last = key.split(".")
                if not equals or not last or not all(outer):
                    raise UsageError(f"{option} {text}: write it as KEY=VALUE, for instance a.b=1")
                inner = values
                for name in outer:
                    inner = inner.setdefault(name, {})
                    if not isinstance(inner, dict):
                        raise UsageError(f"{option} {text}: {name!r} is not a map, so no value can be set in it")
                inner[last] = yaml_value(key, value, option) if option == "--set" else value
                strict_keys.append(key)
        return function(*args, inputs={"payload": values, "strict_keys": strict_keys}, **kwargs)

    return verb


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, and `--ctx`."""

    @payload_options
    @click.option("--ctx", metavar="DATA|@FILE", help="Initial ctx: a map in JSON or YAML, or a file with one.")
    @wraps(function)
    def verb(*args: Any, ctx: str | None, inputs: dict[str, Any], **kwargs: Any) -> Any:
        return function(*args, inputs=inputs | {"ctx": map_or_file(ctx, "--ctx", '{"limit": 5}')}, **kwargs)

    return verb


def yaml_value(key: str, text: str, option: str) -> Any:
    """The value of a YAML scalar, list or map on one line, read as in a playbook. A template is text, and so is what
    only begins with a quote. UsageError for an empty text, which is often an unset variable of the shell."""
    remedy = "; use --set-string for text" if option == "--set" else ""
    if not text.strip():
        raise UsageError(f"{option} {key}= has no value: write {key}=null, or {key}='\"\"' for an empty text")
    if text[:1] in ("[", "{") and text[:2] not in ("{{", "{%", "{#"):
        from noetl.dsl.reader import read_data

        try:
            return read_data(text)
        except UsageError as error:
            raise UsageError(f"{option} {key}={text}: {error}{remedy}") from None
    if text[:1] in ("'", '"'):
        import yaml

        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            return text
        return value if isinstance(value, str) else text
    from noetl.dsl.reader import resolve

    try:
        return resolve(text)
    except ValueError as error:
        raise UsageError(f"{option} {key}={text}: {error}{remedy}") from None
