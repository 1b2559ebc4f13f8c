"""The playbook with which `noetl credential test` signs in, and the output of the command."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.cli.output import emit, format_duration, print_message
from noetl.client.client import Json
from noetl.dsl.compile import load
from noetl.errors import UsageError
from noetl.keychain.kinds import WEBHOOK
from noetl.printable import printable
from noetl.runtime.catalog import PlaybookSource
from noetl.tools.registry import KINDS

TITLE, PATH = "credential-test", "noetl/credential-test"
SECONDS = 30
HTTP, OBJECTS = ("bearer", "basic", "api_key"), {"s3_credential": "s3", "gcs_credential": "gs"}
SQL = {"postgres_credential": "postgres", "snowflake_credential": "snowflake"}


def sign_in_playbook(credential: Json, url: str | None) -> PlaybookSource:
    """A playbook that signs in with the credential, under a path and in a pool that may use it."""
    name, kind = credential["name"], credential["kind"]
    spec: Json = {"timeout": SECONDS}
    if credential["pools"]:
        spec["pool"] = _matching(credential["pools"][0])
    task = {"auth": "tested", "spec": {"timeout": SECONDS}} | _task(name, kind, url)
    playbook = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": TITLE, "path": _matching(credential["paths"][0]) if credential["paths"] else PATH},
        "keychain": [{"name": "tested", "kind": kind, "credential": name}],
        "executor": {"spec": spec},
        "workflow": [{"step": "test", "tool": [{"sign_in": task}]}],
    }
    text = msgspec.json.encode(playbook)
    return PlaybookSource(TITLE, text, load(TITLE, text, KINDS))


def _task(name: str, kind: str, url: str | None) -> dict[str, Any]:
    if kind == WEBHOOK:
        raise UsageError(f"credential {name!r} is the secret of a webhook: only senders sign in with it")
    if kind in SQL:
        return {"kind": SQL[kind], "command": "SELECT 1"}
    if kind in OBJECTS:
        if url is None or not url.startswith(f"{OBJECTS[kind]}://"):
            raise UsageError(f"name a bucket to list: `noetl credential test {name} --url {OBJECTS[kind]}://BUCKET`")
        return {"kind": "object", "url": url, "operation": "list", "limit": 1}
    if url is not None:
        return {"kind": "http", "url": url}
    if kind in HTTP:
        raise UsageError(f"name an address to request: `noetl credential test {name} --url https://HOST/PATH`")
    return {"kind": "python", "code": "result = sorted(auth)"}  # opens it, which gets the token of OAuth2


def _matching(pattern: str) -> str:
    """A name that the pattern allows."""
    return pattern.replace("*", "test").replace("?", "t")


def print_tested(name: str, run: Json, output: str | None) -> int:
    works, error = run["status"] == "succeeded", run["error"]
    if output is not None:
        emit({"name": name, "works": works, "error": error, "execution_id": run["execution_id"]}, output)
    elif works:
        print_message(f"credential {name} works ({format_duration(run['duration_ms'] / 1000)})")
    else:
        print_message(printable(f"credential {name} does not work: {error['kind']}: {error['message']}", lines=True))
    return 0 if works else 1
