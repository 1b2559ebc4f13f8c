"""noetl runs export: write a run to a file."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from noetl.cli.output import emit
from noetl.cli.report import RESULT
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json
from noetl.reference import KEYCHAIN, SECRET

EXPORTED = (*RESULT, "name", "path", "parent", "started", "ended")


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option("-f", "--file", "path", required=True, metavar="FILE", help="File to write; `-` is standard output.")
@client_option
def export_command(run: str, path: str, client: Client) -> None:
    """Write everything that is stored of a run to a JSON file: the run, its playbook, its events, the output of its
    tasks, and the contents of its references. A server exports only texts of registered playbooks."""
    record = client.runs.get(run)
    execution = record["execution_id"]
    events = [event for page in client.runs.events(execution) for event in page]
    exported = {
        "execution": {key: record[key] for key in EXPORTED},
        "playbook": client.runs.playbook(record),
        "events": events,
        "logs": client.runs.output(execution),
        "results": _contents(client, events),
    }
    if path == "-":
        emit(exported, "json")
        return
    with open(path, "wb", opener=_private) as file:
        file.write(msgspec.json.format(msgspec.json.encode(exported), indent=2) + b"\n")
    click.echo(f"{execution}: {len(events):,} events written to {path}", err=True)


def _private(path: str, flags: int) -> int:
    """Open a file with mode 0600, also if the file exists."""
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor


def _contents(client: Client, data: Any) -> Json:
    """The contents of references in the data and, in turn, in their contents; base64 for content that is not JSON."""
    contents: Json = {}
    keys = set(_keys(data))
    while keys:
        decoded = {key: _decoded(content) for key, content in client.runs.contents(sorted(keys)).items()}
        contents |= decoded
        keys = set(_keys(list(decoded.values()))) - contents.keys()
    return contents


def _keys(value: Any) -> Iterator[str]:
    """The keys of references, except to secrets."""
    if isinstance(value, dict):
        is_reference = {"store", "key", "size", "checksum"} <= value.keys() and isinstance(value["key"], str)
        if is_reference and value["store"] not in (SECRET, KEYCHAIN):
            yield value["key"]
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(item)


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"base64": base64.b64encode(content).decode()}
