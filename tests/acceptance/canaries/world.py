"""The servers that canaries are used at, and the credentials for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from json import dumps
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import quote

from psycopg import sql
from tests.acceptance.canaries.canary import Canary, single, values
from tests.acceptance.canaries.lab import Lab
from tests.acceptance.canaries.silence import Silence
from tests.servers.echo import Echo, echo_server
from tests.servers.gate import Gate, gate
from tests.servers.gcs import gcs_server
from tests.servers.nats import nats_server
from tests.servers.postgres import PostgresServer
from tests.servers.s3 import REGION, s3_server
from tests.servers.snowflake import PASSWORD as SNOWFLAKE_PASSWORD
from tests.servers.snowflake import Snowflake

ROLE = "canary"
NOBODY = "127.0.0.1:9"
"""Where nothing listens: the port of the discard service."""
SHAPES = {
    "bearer": "bearer-@",
    "basic": "pass:@ word",
    "key_header": "@",
    "key_query": "a&b=@/%",
    "client": "client '@'",
    "token": "token.@",
    "dsn": "p:w/@%?",
    "role": "@",
    "wrong_dsn": "wrong @",
    "gone": "gone/@",
    "broken": "broken-@",
    "s3": "s3/@+",
    "gcs": "ya29.@",
    "nats": "nats-@",
    "wrong_nats": "wrong-nats-@",
    "wrong_snowflake": "wrong-snow-@",
    "refused": "refused-@",
}
"""Canaries that sign in somewhere."""


class World(NamedTuple):
    lab: Lab
    """Where the credentials are kept; tests work in copies of it."""
    echo: Echo
    postgres: PostgresServer
    silence: Silence
    """Who is asked over NATS and does not answer."""
    snowflake: Snowflake
    texts: list[Canary]
    secrets: dict[str, str]
    """What signs in, by its purpose."""
    buckets: dict[str, str]
    endpoints: dict[str, str]
    gates: dict[str, Gate]
    """Before stores, for each kind that is to be held there."""
    keychain: list[dict[str, Any]]


@contextmanager
def world(folder: Path, postgres: PostgresServer) -> Iterator[World]:
    """Servers that know the canaries, and a database with their credentials."""
    texts = values()
    signing = {name: single(name, shape) for name, shape in SHAPES.items()}
    fixed = Canary("snowflake", SNOWFLAKE_PASSWORD, "")
    word = {name: one.value for name, one in signing.items()}
    with ExitStack() as stack:
        echo = stack.enter_context(echo_server())
        snowflake = Snowflake()
        stack.callback(snowflake.close)
        nats = stack.enter_context(nats_server(_accounts(word["nats"])))
        gcs, s3 = stack.enter_context(gcs_server()), stack.enter_context(s3_server())
        _role(postgres, word)
        echo.answers["/token"] = {"access_token": word["token"], "token_type": "Bearer", "expires_in": 3600}
        endpoints = {"gcs": gcs.endpoint, "s3": s3.endpoint, "nats": nats.url}
        silence = stack.enter_context(Silence(nats.url))
        stored, variables, files = _credentials(word, texts, echo, postgres, snowflake, endpoints)
        master = single("master", "@", token_hex(32))
        lab = Lab(folder, [*texts, *signing.values(), fixed, master], {"NOETL_MASTER_KEY": master.value, **variables})
        for name, (kind, data) in stored.items():
            lab.keep(name, kind, data)
        for name, (_, data) in files.items():
            (lab.vault / name).write_text(data)
        keychain: list[dict[str, Any]] = [{"name": name, "kind": kind} for name, (kind, _) in stored.items()]
        for name in variables:
            kind = KINDS.get(name, "secret_manager")
            keychain.append({"name": name, "kind": kind, "provider": "env", "key": name})
        for name, (kind, _) in files.items():
            keychain.append({"name": name, "kind": kind, "provider": "file", "key": str(lab.vault / name)})
        buckets = {"gcs": gcs.bucket(), "s3": s3.bucket(), "kv": nats.keys(), "objects": nats.objects()}
        stores = {"gcs": gcs.endpoint, "s3": s3.endpoint, "object": s3.endpoint}
        gates = {kind: stack.enter_context(gate(endpoint)) for kind, endpoint in stores.items()}
        yield World(lab, echo, postgres, silence, snowflake, texts, word, buckets, endpoints, gates, keychain)


KINDS = {"key_header": "api_key", "gcs": "gcs_credential", "pg_role": "postgres_credential"}
"""Of what comes from variables; the rest are secrets of a manager."""

Credentials = dict[str, tuple[str, str]]


def _credentials(
    word: dict[str, str],
    texts: list[Canary],
    echo: Echo,
    postgres: PostgresServer,
    snowflake: Snowflake,
    endpoints: dict[str, str],
) -> tuple[Credentials, dict[str, str], Credentials]:
    """What is kept in the store, what in variables, and what in files."""
    value = {text.name: text.value for text in texts}
    there = f"127.0.0.1:{postgres.port}/postgres?connect_timeout=300"
    client = {"client_id": "me", "client_secret": word["client"]}
    keys = {"access_key_id": "AKIACANARY", "secret_access_key": word["s3"], "region": REGION}
    refused = {"token_url": f"{echo.url}/reject/token", "client_id": "me", "client_secret": word["refused"]}
    stored = {
        "texts": ("secret_manager", dumps(value)),
        "bearer": ("bearer", dumps({"token": word["bearer"]})),
        "basic": ("basic", dumps({"username": "me", "password": word["basic"]})),
        "key_query": ("api_key", dumps({"value": word["key_query"], "query": "key"})),
        "oauth": ("oauth2_client_credentials", dumps({"token_url": f"{echo.url}/token", **client})),
        "pg": ("postgres_credential", f"postgresql://{ROLE}_dsn:{quote(word['dsn'], safe='')}@{there}"),
        "snow": ("snowflake_credential", dumps(snowflake.fields(database="CANARY"))),
        "s3": ("s3_credential", dumps({**keys, "endpoint": endpoints["s3"]})),
    }
    variables = {
        "from_env": value["from_env"],
        "key_header": word["key_header"],
        "pg_role": dumps(postgres.fields(user=ROLE, password=word["role"])),
        "nats": dumps({"servers": endpoints["nats"], "user": "canary", "password": word["nats"]}),
        "gcs": dumps({"token": word["gcs"], "endpoint": endpoints["gcs"]}),
    }
    files = {
        "from_file": ("secret_manager", value["from_file"]),
        "pg_wrong": ("postgres_credential", f"postgresql://{ROLE}:{quote(word['wrong_dsn'])}@{there}"),
        "pg_gone": ("postgres_credential", f"postgresql://{ROLE}:{quote(word['gone'], safe='')}@{NOBODY}/postgres"),
        "pg_broken": ("postgres_credential", f"host=127.0.0.1 user={ROLE} {word['broken']}"),
        "nats_wrong": ("secret_manager", dumps({"user": "canary", "password": word["wrong_nats"]})),
        "snow_wrong": ("snowflake_credential", dumps(snowflake.fields(password=word["wrong_snowflake"]))),
        "oauth_refused": ("oauth2_client_credentials", dumps(refused)),
    }
    return stored, variables, files


def _accounts(password: str) -> str:
    return f"""
accounts {{ TEST: {{ jetstream: enabled, users: [
  {{user: anybody, password: anybody}}, {{user: canary, password: "{password}"}}
] }} }}
no_auth_user: anybody
"""


def _role(postgres: PostgresServer, word: dict[str, str]) -> None:
    """Users who sign in with canaries."""
    with postgres.connect() as connection:
        for name, password in ((ROLE, word["role"]), (f"{ROLE}_dsn", word["dsn"])):
            names = {"name": sql.Identifier(name), "password": sql.Literal(password)}
            connection.execute(sql.SQL("CREATE ROLE {name} LOGIN PASSWORD {password}").format(**names))
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {ROLE}, {ROLE}_dsn")
