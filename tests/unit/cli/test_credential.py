"""noetl credential: values go in and never come out."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from command import GOOD, SECONDS, Done, environment, file, noetl

from noetl.keychain.master import MasterKeySource
from noetl.keychain.safe import Safe
from noetl.settings import MasterKeySettings
from noetl.store.sqlite import SqliteStore

TOKEN = "t0ken-of-the-shop"
KEY = "ab" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def credential(home: Path, *args: str, stdin: str = "", **env: str) -> Done:
    done = noetl(
        "credential", *args, stdin=stdin, cwd=home / "work", **({"XDG_CONFIG_HOME": str(home / "config")} | env)
    )
    assert TOKEN not in done.out + done.err
    return done


def stored(home: Path, name: str, key: str | None = None) -> dict[str, Any]:
    """The fields of a credential, opened with the key of the test."""
    store = SqliteStore(home / "work" / ".noetl" / "noetl.db", mode="read")
    try:
        settings = MasterKeySettings(key, str(home / "config" / "noetl" / "master.key"))
        return Safe(store.credentials, MasterKeySource(settings, store.path)).open(name).fields
    finally:
        store.close()


def test_set_from_standard_input(home: Path) -> None:
    done = credential(home, "set", "api", "--kind", "bearer", "--data", "-", stdin=f'{{"token": "{TOKEN}"}}\n')
    assert (done.code, done.out, done.err) == (0, "", "credential api (bearer) stored\n")
    assert stored(home, "api") == {"token": TOKEN}
    key = home / "config" / "noetl" / "master.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert TOKEN.encode() not in (home / "work" / ".noetl" / "noetl.db").read_bytes()


def test_set_from_a_file_an_option_or_a_plain_text(home: Path) -> None:
    name = file(home, f'{{"token": "{TOKEN}"}}', "data.json")
    assert credential(home, "set", "a", "--kind", "bearer", "--data", f"@{name}").code == 0
    assert credential(home, "set", "b", "--kind", "bearer", "--data", f'{{"token": "{TOKEN}"}}').code == 0
    assert credential(home, "set", "c", "--kind", "bearer", stdin=f"{TOKEN}\n").code == 0
    assert [stored(home, name) for name in "abc"] == [{"token": TOKEN}] * 3


def test_a_terminal_asks_unseen(home: Path) -> None:
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "noetl.cli", "credential", "set", "api", "--kind", "bearer"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=home / "work",
        env=environment(XDG_CONFIG_HOME=str(home / "config"), TERM="dumb"),
        start_new_session=True,
    )
    os.close(follower)
    try:
        seen = read_until(leader, b"Data of api (bearer):")
        os.write(leader, f"{TOKEN}\n".encode())
        seen += read_until(leader, b"stored")
        assert child.wait(SECONDS) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        os.close(leader)
    assert TOKEN.encode() not in seen
    assert stored(home, "api") == {"token": TOKEN}


def read_until(descriptor: int, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen:
        try:
            more = os.read(descriptor, 4096)
        except OSError:  # the other side is closed
            break
        seen += more
    assert mark in seen
    return seen


def test_list_shows_no_values(home: Path) -> None:
    rules = ["--paths", "shop/*", "--paths", "till", "--pools", "eu-*"]
    credential(home, "set", "b", "--kind", "bearer", *rules, stdin=TOKEN)
    credential(home, "set", "a", "--kind", "acme.login", stdin=f'{{"word": "{TOKEN}"}}')
    value = msgspec.json.decode(credential(home, "list", "-o", "json").out)
    assert [list(one) for one in value] == [["name", "kind", "paths", "pools", "created", "updated"]] * 2
    assert [(one["name"], one["kind"], one["paths"], one["pools"]) for one in value] == [
        ("a", "acme.login", [], []),
        ("b", "bearer", ["shop/*", "till"], ["eu-*"]),
    ]
    shown = credential(home, "list")
    assert shown.code == 0
    assert shown.out.splitlines()[2].startswith('b     bearer      ["shop/*","till"]  ["eu-*"]')


def test_delete(home: Path) -> None:
    credential(home, "set", "api", "--kind", "bearer", stdin=TOKEN)
    assert credential(home, "delete", "api").code == 0
    assert msgspec.json.decode(credential(home, "list", "-o", "json").out) == []
    done = credential(home, "delete", "api")
    message = "noetl: credential 'api' not found: `noetl credential list` lists all credentials\n"
    assert (done.code, done.err) == (4, message)


def test_rotate(home: Path) -> None:
    credential(home, "set", "api", "--kind", "bearer", stdin=TOKEN)
    file = home / "config" / "noetl" / "master.key"
    before = file.read_text()
    done = credential(home, "rotate", "-o", "json")
    assert msgspec.json.decode(done.out).items() >= {"credentials": 1, "forgotten": 0}.items()
    assert file.read_text().endswith(f"\n{before}")
    assert stored(home, "api") == {"token": TOKEN}
    done = credential(home, "rotate", "--forget-old")
    assert (done.code, done.out, done.err) == (0, "", "1 credential wrapped with a new master key\n")
    assert len(file.read_text().splitlines()) == 1
    assert stored(home, "api") == {"token": TOKEN}


def test_a_key_in_the_environment(home: Path) -> None:
    credential(home, "set", "api", "--kind", "bearer", stdin=TOKEN, NOETL_MASTER_KEY=KEY)
    assert not (home / "config").exists()
    assert stored(home, "api", KEY) == {"token": TOKEN}
    done = credential(home, "rotate", NOETL_MASTER_KEY=KEY)
    assert (done.code, "put a new key and a comma before it" in done.err) == (0, True)
    done = credential(home, "rotate", NOETL_MASTER_KEY=f"{'cd' * 32},{KEY}")
    assert done.err == "1 credential wrapped with a new master key\n"
    assert stored(home, "api", "cd" * 32) == {"token": TOKEN}


def test_another_database(home: Path) -> None:
    db = str(home / "elsewhere" / "my.db")
    assert credential(home, "set", "api", "--kind", "bearer", "--db", db, stdin=TOKEN).code == 0
    assert msgspec.json.decode(credential(home, "list", "--db", db, "-o", "json").out)[0]["name"] == "api"
    assert credential(home, "list").code == 4


@pytest.mark.parametrize(
    ("args", "stdin", "code", "message"),
    [
        (["--kind", "bearer", "--data", "{'token'}"], "", 2, "invalid JSON"),
        (["--kind", "bearer"], "[1]" * 400_000, 2, "more than 1,048,576 bytes"),
        (["--kind", "basic"], TOKEN, 2, "a JSON object with the fields"),
        (["--kind", "bearer"], "", 2, "a JSON object with the fields"),
        (["--kind", "bearer"], "abc", 2, "token is shorter than 6 characters"),
        (["--kind", "baerer"], TOKEN, 2, "did you mean 'bearer'"),
        (["--kind", "basic"], f'{{"password": "{TOKEN}"}}', 2, "it needs {username, password}"),
        (["--kind", "bearer", "--data", "@none.json"], "", 4, "no such file: none.json"),
        ([], TOKEN, 2, "Missing option '--kind'"),
    ],
    ids=["json", "large", "plain", "nothing", "short", "kind", "fields", "file", "no-kind"],
)
def test_what_cannot_be_set(home: Path, args: list[str], stdin: str, code: int, message: str) -> None:
    done = credential(home, "set", "api", *args, stdin=stdin)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert list((home / "work").iterdir()) == []  # nothing was made


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"NOETL_MASTER_KEY": "short"}, "a master key is 32 random bytes"),
        ({"NOETL_MASTER_KEY_FILE": ".noetl/master.key"}, "is in the folder of the database"),
    ],
    ids=["short", "place"],
)
def test_a_master_key_that_cannot_be_used(home: Path, env: dict[str, str], message: str) -> None:
    done = credential(home, "set", "api", "--kind", "bearer", stdin=TOKEN, **env)
    assert done.code == 5
    assert message in done.err


def test_a_key_that_others_can_read(home: Path) -> None:
    credential(home, "set", "api", "--kind", "bearer", stdin=TOKEN)
    (home / "config" / "noetl" / "master.key").chmod(0o644)
    done = credential(home, "rotate")
    assert done.code == 5
    assert "chmod 600" in done.err


def test_show_has_no_secrets(home: Path) -> None:
    fields = f'{{"host": "db", "port": 5432, "user": "app", "database": "shop", "password": "{TOKEN}"}}'
    credential(home, "set", "db", "--kind", "postgres_credential", "--paths", "shop/*", stdin=fields)
    value = msgspec.json.decode(credential(home, "show", "db", "-o", "json").out)
    assert (value["name"], value["kind"], value["paths"]) == ("db", "postgres_credential", ["shop/*"])
    public = {"host": "db", "port": 5432, "user": "app", "database": "shop"}
    assert value["fields"] == public | {"password": "(secret)"}
    credential(home, "set", "dsn", "--kind", "postgres_credential", stdin=f"postgresql://app:{TOKEN}@db/shop")
    assert "dsn: (secret)" in credential(home, "show", "dsn").out
    assert credential(home, "show", "none").code == 4


def test_test_requests_the_address_with_the_credential(home: Path) -> None:
    answered: list[str | None] = []

    class Shop(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answered.append(self.headers["Authorization"])
            self.send_response(200 if self.path == "/ok" else 401)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    credential(home, "set", "api", "--kind", "bearer", "--paths", "shop/*", stdin=TOKEN)
    with HTTPServer(("127.0.0.1", 0), Shop) as shop:
        Thread(target=shop.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{shop.server_port}"
        good = credential(home, "test", "api", "--url", f"{url}/ok")
        bad = credential(home, "test", "api", "--url", f"{url}/no")
        shop.shutdown()
    assert (good.code, good.err.startswith("credential api works (")) == (0, True)
    assert (bad.code, "credential api does not work: http_status:" in bad.err) == (1, True)
    assert answered == [f"Bearer {TOKEN}"] * 2


@pytest.mark.parametrize(
    ("kind", "data", "code", "message"),
    [
        ("bearer", TOKEN, 2, "`noetl credential test it --url https://HOST/PATH`"),
        ("s3_credential", f'{{"access_key_id": "a", "secret_access_key": "{TOKEN}"}}', 2, "--url s3://BUCKET`"),
        ("webhook", TOKEN, 2, "only senders sign in with it"),
        ("secret_manager", TOKEN, 0, "credential it works"),
        ("postgres_credential", f"postgresql://app:{TOKEN}@127.0.0.1:1/shop", 1, "does not work: connect:"),
    ],
)
def test_test_of_each_kind(home: Path, kind: str, data: str, code: int, message: str) -> None:
    credential(home, "set", "it", "--kind", kind, stdin=data)
    done = credential(home, "test", "it")
    assert (done.code, message in done.err) == (code, True), done.err


def test_a_missing_credential_is_created_with_the_command_of_the_message(home: Path) -> None:
    text = GOOD.replace("workflow:", "keychain: [{name: shop_db, kind: bearer}]\nworkflow:")
    done = noetl("run", file(home, text), cwd=home / "work", XDG_CONFIG_HOME=str(home / "config"))
    (command,) = re.findall("`noetl credential (set .*)`", done.err)
    assert (done.code, command) == (5, "set shop_db --kind bearer")
    assert credential(home, *command.split(), stdin=TOKEN).code == 0
