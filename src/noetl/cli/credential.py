"""noetl credential ...: credentials for playbooks. Their values are never printed."""

from __future__ import annotations

import click
import msgspec

from noetl.cli.options import add_resource, client_and_output, client_option, secret_text
from noetl.cli.output import emit, print_message
from noetl.client.client import Client, NewRun
from noetl.errors import UsageError
from noetl.files import STDIN
from noetl.keychain.kinds import SHAPES, fields_of
from noetl.keychain.safe import check
from noetl.wording import counted

MAX_BYTES = 2**20
KIND_HELP = f"Kind of the credential: {', '.join(SHAPES)}, or PLUGIN.KIND of a plug-in."
DATA_HELP = (
    "Fields as a JSON object, in a file or (-, the default) on standard input; a terminal prompts for them without "
    "echo. JSON on the command line is visible in the process list. Text that is not a JSON object is the token, "
    "key or connection string of the kind."
)


URL_HELP = "Address to request (kinds of HTTP), or a bucket to list: s3://BUCKET or gs://BUCKET."


@click.group("credential")
def command() -> None:
    """Store credentials that playbooks sign in with.

    They are encrypted with a master key: the variable NOETL_MASTER_KEY, or the file that NOETL_MASTER_KEY_FILE names
    (~/.config/noetl/master.key), which is generated with the first credential. Keep a copy of the key: without it no
    credential can be decrypted.
    """


@command.command("set")
@click.argument("name")
@click.option("--kind", required=True, metavar="KIND", help=KIND_HELP)
@click.option("--data", default=STDIN, metavar="JSON, @FILE or -", help=DATA_HELP)
@click.option("--paths", multiple=True, metavar="PATTERN", help="Playbooks that may use it; default all.")
@click.option("--pools", multiple=True, metavar="PATTERN", help="Pools that may use it; default all.")
@client_option
def set_command(
    name: str, kind: str, data: str, paths: tuple[str, ...], pools: tuple[str, ...], client: Client
) -> None:
    """Store a credential, or replace one."""
    if data != STDIN and not data.startswith("@"):
        print_message("noetl: others can read this data in the process list; use --data - or --data @FILE")
        text = data
    else:
        text = secret_text("--data", data, f"Data of {name} ({kind})", MAX_BYTES)
    try:
        fields = msgspec.json.decode(text) if text.startswith("{") else fields_of(kind, text) if text else None
    except msgspec.DecodeError:  # whose message would show a part of the data
        raise UsageError("--data: invalid JSON") from None
    if fields is None:
        raise UsageError("--data must be a JSON object with the fields of the credential")
    check(name, kind, fields)
    client.credentials.put(name, {"kind": kind, "data": fields, "paths": paths, "pools": pools})
    print_message(f"credential {name} ({kind}) stored")


LIST_HELP = "List credentials with their kinds and who may use them, without their values."
add_resource(command, "credentials", LIST_HELP, "Delete a credential.")


@command.command("show")
@click.argument("name")
@client_and_output
def show_command(name: str, client: Client, output: str | None) -> None:
    """Show a credential: its kind, who may use it, and its fields that are not secret."""
    emit(client.credentials.get(name), output or "yaml")


@command.command("test")
@click.argument("name")
@click.option("--url", metavar="URL", help=URL_HELP)
@client_and_output
def test_command(name: str, url: str | None, client: Client, output: str | None) -> int:
    """Sign in with a credential, as a task would.

    A Postgres or Snowflake credential connects and runs `SELECT 1`; a credential for OAuth2 gets a token; credentials
    of HTTP and of object stores need --url. The test is a run of a small playbook, on the server if there is one, so it
    also shows whether a worker can use the credential.
    """
    from noetl.cli.credential_test import print_tested, sign_in_playbook
    from noetl.cli.progress import new_view

    source = sign_in_playbook(client.credentials.get(name), url)
    run = client.runs.run(NewRun({"payload": {}, "ctx": {}, "strict_keys": []}, source), new_view("json"))
    return print_tested(name, run, output)


@command.command("rotate")
@click.option("--forget-old", is_flag=True, help="Remove the old master keys; other databases may still need them.")
@client_and_output
def rotate_command(forget_old: bool, client: Client, output: str | None) -> None:
    """Generate a new master key and wrap every credential with it.

    The old keys stay in the key file, since other databases may use them. Runs can continue meanwhile. If the key is in
    NOETL_MASTER_KEY, put a new one and a comma before it, and run this command.
    """
    rotated = client.credentials.rotate(forget_old)
    key_in_file = rotated.pop("key_in_file")
    if output is not None:
        emit(rotated, output)
    if rotated["credentials"] == 0 and not key_in_file:
        print_message(
            "all credentials are wrapped with the first key of NOETL_MASTER_KEY: put a new key and a comma before it, "
            "and run `noetl credential rotate` again"
        )
        return
    print_message(f"{counted(rotated['credentials'], 'credential')} wrapped with a new master key")
