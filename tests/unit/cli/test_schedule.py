"""noetl schedule and noetl hook, on a database and on a server."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from command import GOOD, Done, file, noetl
from tests.acceptance.modes.stage import Process, until
from tests.servers.patience import PATIENCE_SECONDS

from noetl.client.database import local_actor
from noetl.store.sqlite import SqliteStore


@pytest.fixture
def home(tmp_path: Path) -> Path:
    registered = noetl("register", file(tmp_path, GOOD), "--db", str(tmp_path / "noetl.db"), cwd=tmp_path)
    assert registered.code == 0, registered.err
    return tmp_path


def run_noetl(home: Path, *args: str, stdin: str = "", code: int = 0, **env: str) -> Done:
    """The command on the database of the folder, or on the server that the environment names."""
    place = () if "NOETL_SERVER" in env else ("--db", str(home / "noetl.db"))
    keys = {"NOETL_MASTER_KEY": "ab" * 32, "NO_PROXY": "*"}
    done = noetl(*args, *place, stdin=stdin, cwd=home, **(keys | env))
    assert done.code == code, done.err
    return done


def data(done: Done) -> Any:
    return msgspec.json.decode(done.out)


def test_a_schedule_is_added_listed_shown_paused_and_deleted(home: Path) -> None:
    added = run_noetl(
        home, "schedule", "add", "nightly", "tests/good@1", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin"
    )
    assert (added.out, "nightly (0 3 * * * Europe/Berlin): next at" in added.err) == ("", True)
    listed = run_noetl(home, "schedule", "list").out
    assert listed.split()[:6] == ["name", "path", "when", "status", "next", "last"]
    assert "tests/good@1" in listed
    assert run_noetl(home, "schedule", "show", "nightly").out.startswith("name: nightly\n")
    assert data(run_noetl(home, "schedule", "pause", "nightly", "-o", "json"))["status"] == "paused"
    assert data(run_noetl(home, "schedule", "resume", "nightly", "-o", "json"))["status"] == "active"
    run_noetl(home, "schedule", "delete", "nightly")
    for verb in ("delete", "show", "pause", "resume", "trigger"):
        run_noetl(home, "schedule", verb, "nightly", code=4)


def test_the_next_firings_are_shown(home: Path) -> None:
    run_noetl(home, "schedule", "add", "hourly", "tests/good", "--every", "3600")
    shown = data(run_noetl(home, "schedule", "show", "hourly", "-o", "json"))
    assert (shown["every"], shown["upcoming"][0], len(shown["upcoming"])) == (3600.0, shown["next"], 5)
    assert shown["upcoming"] == sorted(set(shown["upcoming"]))
    paused = data(run_noetl(home, "schedule", "pause", "hourly", "-o", "json"))
    assert (paused["next"], paused["upcoming"]) == (None, [])


def test_the_firings_of_a_schedule_are_previewed_before_it_is_added(tmp_path: Path) -> None:
    options = ("--cron", "30 9 1 1 *", "--timezone", "Europe/Berlin", "--count", "2")
    preview = noetl("schedule", "preview", *options, cwd=tmp_path)
    assert preview.code == 0
    assert [line.partition("-")[2] for line in preview.out.splitlines()] == ["01-01 09:30:00 CET"] * 2
    wrong = noetl("schedule", "preview", "--cron", "61 * * * *", cwd=tmp_path)
    assert (wrong.code, "minute '61' must be 0 to 59" in wrong.err) == (2, True)
    assert noetl("schedule", "preview", cwd=tmp_path).code == 2
    assert not (tmp_path / ".noetl").exists()


READS = GOOD.replace("tests/good", "tests/reads").replace("{kind: noop}", "{kind: noop, result: '{{ workload.a }}'}", 1)


def test_a_payload_and_a_ctx_are_kept(home: Path) -> None:
    run_noetl(home, "register", file(home, READS, "reads.yaml"))
    args = ("--every", "15m", "--payload", '{"a": {"b": 1}}', "--set", "a.c=2", "--ctx", '{"k": 1}', "--paused")
    event = data(run_noetl(home, "schedule", "add", "s", "tests/reads", *args, "--missed", "all", "-o", "json"))
    assert (event["payload"], event["ctx"], event["every"]) == ({"a": {"b": 1, "c": 2}}, {"k": 1}, 900.0)
    assert (event["status"], event["missed"], event["overlap"]) == ("paused", "all", "skip")


def test_inputs_of_a_schedule_are_compared_with_its_playbook(home: Path) -> None:
    run_noetl(home, "register", file(home, READS.replace("workload.a", "region"), "needs.yaml"))
    every = ("schedule", "add", "s", "tests/reads", "--every", "1h")
    assert (
        "workload has no 'regoin': did you mean 'region'?" in run_noetl(home, *every, "--set", "regoin=eu", code=2).err
    )
    added = run_noetl(home, *every, "--payload", "regoin: eu", "-o", "json")
    (warning,) = data(added)["warnings"]
    assert "no run can start: tests/reads:6:" in warning
    assert f"noetl: warning: {warning}" in added.err
    assert data(run_noetl(home, *every, "--set", "region=eu", "--replace", "-o", "json"))["warnings"] == []


def test_a_name_is_taken_unless_it_is_replaced(home: Path) -> None:
    run_noetl(home, "schedule", "add", "s", "tests/good", "--every", "1h")
    run_noetl(home, "schedule", "add", "s", "tests/good", "--every", "2h", code=6)
    run_noetl(home, "schedule", "add", "s", "tests/good", "--every", "2h", "--replace")
    assert data(run_noetl(home, "schedule", "show", "s", "-o", "json"))["every"] == 7200.0


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("s", "tests/good"), 2),
        (("s", "tests/good", "--cron", "x"), 2),
        (("s", "tests/good", "--every", "1h", "--at", "2030-01-01"), 2),
        (("s", "tests/good", "--at", "2001-01-01"), 2),
        (("s", "tests/good", "--every", "1h", "--timezone", "Mars"), 2),
        (("s", "tests/good", "--every", "1h", "--ctx", "[1]"), 2),
        (("s", "tests/good@99999999999", "--every", "1h"), 2),
        (("a b", "tests/good", "--every", "1h"), 2),
        (("s", "tests/none", "--every", "1h"), 4),
        (("s", "tests/good@7", "--every", "1h"), 4),
    ],
)
def test_a_schedule_that_cannot_be(home: Path, args: tuple[str, ...], code: int) -> None:
    run_noetl(home, "schedule", "add", *args, code=code)
    empty = run_noetl(home, "schedule", "list")
    assert (empty.out, empty.err) == ("", "no schedules\n")


def test_a_database_that_is_missing_is_not_made(tmp_path: Path) -> None:
    run_noetl(tmp_path, "schedule", "add", "s", "tests/good", "--every", "1h", code=4)
    run_noetl(tmp_path, "hook", "add", "h", "tests/good", code=4)
    assert not (tmp_path / "noetl.db").exists()


def test_a_hook_prints_the_secret_that_was_made_once(home: Path) -> None:
    secret = run_noetl(home, "hook", "add", "deploy", "tests/good").out.strip()
    assert len(secret) >= 43
    assert run_noetl(home, "hook", "add", "deploy", "tests/good@1").out == ""
    assert secret not in run_noetl(home, "hook", "list", "-o", "json").out
    assert run_noetl(home, "hook", "rotate", "deploy").out.strip() not in ("", secret)
    run_noetl(home, "hook", "delete", "deploy")
    run_noetl(home, "hook", "delete", "deploy", code=4)
    run_noetl(home, "hook", "rotate", "deploy", code=4)
    assert secret.encode() not in (home / "noetl.db").read_bytes()


def test_a_secret_is_not_taken_from_the_command_line(home: Path) -> None:
    run_noetl(home, "hook", "add", "deploy", "tests/good", "--secret", "correct-horse-battery", code=2)
    run_noetl(home, "hook", "add", "deploy", "tests/good", "--secret", "-", stdin="short\n", code=2)
    done = run_noetl(home, "hook", "add", "deploy", "tests/good", "--secret", "-", stdin="correct-horse-battery\n")
    assert done.out == ""
    run_noetl(home, "hook", "add", "deploy", "tests/none", code=4)


# -- a server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def dev(home: Path) -> Iterator[dict[str, str]]:
    """`noetl dev` on the database of the folder, with a schedule and a trigger that were there before it."""
    run_noetl(home, "schedule", "add", "before", "tests/good", "--every", "1s")
    process = Process(home, "dev", "dev", "--port", "0", "--db", str(home / "noetl.db"), NOETL_MASTER_KEY="ab" * 32)
    process.start()
    line = process.until_said("export ")
    yield dict(part.split("=", 1) for part in line.split()[1:])
    process.stop()


def test_a_server_fires_what_is_in_its_database(home: Path, dev: dict[str, str]) -> None:
    def fired() -> Any:
        result = data(run_noetl(home, "schedule", "show", "before", "-o", "json", **dev))
        return result["last"] and result["last"]["outcome"] == "started" and result

    assert until(fired)["path"] == "tests/good"
    run_noetl(home, "schedule", "pause", "before", **dev)
    run_noetl(home, "schedule", "add", "later", "tests/good", "--at", "2099-01-01T00:00", **dev)
    run_noetl(home, "schedule", "add", "later", "tests/good", "--at", "2099-01-01T00:00", code=6, **dev)
    for server in (dev, {}):  # the run is started by the server, and beside it in its database
        execution = run_noetl(home, "schedule", "trigger", "later", **server).out.strip()

        def ended(name: str = execution) -> Any:
            done = noetl("runs", "show", name, "-o", "json", cwd=home, NO_PROXY="*", **dev)
            return done.code == 0 and data(done)["status"] == "succeeded"

        until(ended)  # firings do not overlap
    assert [one["name"] for one in data(run_noetl(home, "schedule", "list", "-o", "json", **dev))] == [
        "before",
        "later",
    ]
    run_noetl(home, "schedule", "delete", "before", **dev)


def test_a_server_takes_what_is_signed_with_the_secret_of_a_hook(home: Path, dev: dict[str, str]) -> None:
    secret = run_noetl(home, "hook", "add", "deploy", "tests/good", **dev).out.strip()
    body, timestamp = b"{}", str(int(time.time()))
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-Noetl-Timestamp": timestamp,
        "X-Noetl-Signature": f"sha256={signed}",
    }
    url = f"{dev['NOETL_SERVER']}/api/v1/hooks/deploy"
    with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        assert client.post(url, content=body, headers=headers).status_code == 202
        run_noetl(home, "hook", "rotate", "deploy", **dev)
        assert client.post(url, content=body, headers=headers).status_code == 401
    assert [one["name"] for one in data(run_noetl(home, "hook", "list", "-o", "json", **dev))] == ["deploy"]
    run_noetl(home, "hook", "delete", "deploy", **dev)
    store = SqliteStore(home / "noetl.db")
    assert (store.triggers.hooks(), store.credentials.all()) == ([], [])
    store.close()


def test_a_trigger_on_the_database_names_who_fired_it(home: Path) -> None:
    run_noetl(home, "schedule", "add", "s", "tests/good", "--every", "1h")
    run_noetl(home, "schedule", "trigger", "s")
    store = SqliteStore(home / "noetl.db", mode="read")
    schedule = store.triggers.schedule("s")
    store.close()
    assert schedule is not None
    assert [firing.actor for firing in schedule.starting] == [local_actor()]
