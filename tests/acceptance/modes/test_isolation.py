"""What code of a task can reach of the server and the worker that run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.modes.stage import (
    SECONDS,
    Client,
    FreshProcess,
    Process,
    environment,
    make_token,
    noetl,
)
from tests.servers.ports import reserved_port
from tests.verifying import check_databases

NOBODY = 65534
MASTER_KEY, OTHER, NATS = "d5" * 32, "canary-of-postgres", "canary-of-nats"
SECRETS = {"NOETL_MASTER_KEY": MASTER_KEY, "NOETL_NATS_PASSWORD": NATS, "PGPASSWORD": OTHER, "SHOP": "not-noetls"}
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")

LOOK = """
import os
def above(pid):
    while pid > 1:
        yield pid
        pid = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
def read(path):
    try:
        with open(path, 'rb') as file:
            return file.read(1 << 20).decode('utf-8', 'replace')
    except OSError as error:
        return error
def shut(path):
    return isinstance(read(path), OSError)
pids = [pid for pid in above(os.getppid())]
seen = {pid: read(f'/proc/{pid}/environ') for pid in pids}
mine = dict(os.environ)
"""


def playbook(code: str) -> str:
    task = {"kind": "python", "code": LOOK + code}
    head = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "look", "path": "look"}}
    return json.dumps({**head, "workflow": [{"step": "start", "tool": task}]})


# -- starting processes as other users --------------------------------------------------------------------------------


def closed_folder() -> Path | None:
    """The folder above Python that others may not enter, if there is one."""
    return next(
        (parent for parent in Path(sys.base_prefix).resolve().parents if not parent.stat().st_mode & 0o001), None
    )


def reachable() -> list[str]:
    """What stands before a command so that any user can start Python: in a mount namespace of its own, the folder that
    is closed to others is laid over with one that is not, and Python is put back into it."""
    folder = closed_folder()
    if folder is None:
        return []
    python = Path(sys.base_prefix).resolve()
    steps = [
        "d=$(mktemp -d)",
        f"mount --bind {python} $d",
        f"mount -t tmpfs -o mode=0755 tmpfs {folder}",
        f"mkdir -p {python}",
        f"mount --bind $d {python}",
        "umount $d",
        'rmdir "$d"',
        'exec "$@"',
    ]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(steps), "sh"]


class Anywhere(Process):
    """A process of noetl in which other users can start Python; or which is itself of another user."""

    uid: int | None = None

    def start(self) -> Process:
        user = [] if self.uid is None else ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(
                [*reachable(), *user, sys.executable, "-m", "noetl.cli", *self.args],
                cwd=self.folder,
                env=environment(self.folder, **self.env),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        return self


@pytest.fixture
def site() -> Iterator[Path]:
    """A folder that every user can enter. Each pytest that starts on the machine closes the one above `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="noetl-site-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)
        check_databases(Path(folder))


def owned_by(uid: int, folder: Path) -> None:
    """Give a folder and everything in it to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)


@contextmanager
def server(folder: Path, process: Process, port: int, token: str) -> Iterator[Client]:
    process.start()
    try:
        process.until_said("noetl server at")
        client = Client([f"http://127.0.0.1:{port}"], token)
        with client.http:
            yield client
    finally:
        process.stop()


def result_of(client: Client, code: str) -> Any:
    result = client.ended(client.start({"playbook": playbook(code)}), SECONDS)
    assert result["status"] == "succeeded", str(result["error"])
    return result["result"]


# -- tests ------------------------------------------------------------------------------------------------------------


def test_workers_of_a_server_do_not_show_its_secrets(tmp_path: Path) -> None:
    """H5: code of a task read the master key and the password of the database from the environment of its worker."""
    db, port = str(tmp_path / "data" / "noetl.db"), reserved_port()
    token = make_token(tmp_path, db, "admin")
    process = FreshProcess(tmp_path, "server", "server", "--port", str(port), "--db", db, "--workers", "1", **SECRETS)
    with server(tmp_path, process, port, token) as client:
        code = f"""
everywhere = [*map(str, seen.values()), *mine.values()]
result = dict(
    found=[word for word in {[MASTER_KEY, NATS, "noetl_"]!r} for text in everywhere if word in text],
    of_the_worker={OTHER!r} in str(seen[pids[1]]),
    looked=len([text for text in seen.values() if not isinstance(text, OSError) and 'PATH=' in text]),
    mine=sorted(name for name in mine if name.startswith(('NOETL', 'PG', 'SHOP'))),
)
"""
        result = result_of(client, code)
        assert (result["found"], result["of_the_worker"]) == ([], False)
        assert result["looked"] >= (2 if os.geteuid() == 0 else 0), "the worker and its server were looked at"
        assert result["mine"] == ["NOETL_ACTION_ID"]
        # what is not noetl's own goes on to workers: secrets of `provider: env` live there
        secret = {"name": "s", "kind": "secret_manager", "provider": "env", "key": "SHOP"}
        text = json.loads(playbook("result = auth['value'][::-1]"))
        text["keychain"] = [secret]
        text["workflow"][0]["tool"]["auth"] = "s"
        ended = client.ended(client.start({"playbook": json.dumps(text)}))
        assert ended["result"] == "not-noetls"[::-1], ended


def test_processes_of_a_worker_get_their_token_by_a_pipe(tmp_path: Path) -> None:
    db, port = str(tmp_path / "data" / "noetl.db"), reserved_port()
    token, own = make_token(tmp_path, db, "admin"), make_token(tmp_path, db, "worker")
    process = FreshProcess(tmp_path, "server", "server", "--port", str(port), "--db", db)
    with server(tmp_path, process, port, token) as client:
        words = ("worker", "--server", client.urls[0], "--processes", "2")
        worker = FreshProcess(tmp_path, "worker", *words, NOETL_TOKEN=own, **SECRETS).start()
        try:
            code = f"result = [word for word in {[own, MASTER_KEY, NATS]!r} if word in str(seen) + str(mine)]"
            assert result_of(client, code) == []
        finally:
            assert worker.stop() == 0, worker.output_text()


def test_dev_does_not_show_its_secrets(tmp_path: Path) -> None:
    process = FreshProcess(
        tmp_path, "dev", "dev", "--port", "0", "--db", str(tmp_path / "data" / "noetl.db"), **SECRETS
    )
    process.start()
    try:
        url, token = (word.partition("=")[2] for word in process.until_said("export ").split()[1:])
        client = Client([url], token)
        with client.http:
            code = f"result = [word for word in {[MASTER_KEY, NATS]!r} if word in str(seen) + str(mine)]"
            assert result_of(client, code) == []
    finally:
        assert process.stop() == 0, process.output_text()


@ROOT
def test_workers_of_another_user_cannot_read_database_and_keys(site: Path) -> None:
    """H5: with one user for both, three lines of Python made an author an admin."""
    db, port = site / "data" / "noetl.db", reserved_port()
    token = make_token(site, str(db), "admin")
    done = noetl(site, "credential", "set", "c", "--kind", "bearer", "--db", str(db), stdin='{"token": "the-s3cret"}')
    assert done.returncode == 0, done.stderr
    key = site / "home" / "noetl" / "master.key"
    assert key.exists()
    args = ("server", "--port", str(port), "--db", str(db), "--workers", "1", "--workers-user", str(NOBODY))
    with server(site, Anywhere(site, "server", *args), port, token) as client:
        code = f"""
result = dict(
    uid=[os.getuid(), os.geteuid(), os.getgid(), os.getgroups()],
    shut=[shut({str(db)!r}), shut({str(db) + "-wal"!r}), shut({str(key)!r})],
    environ=shut(f'/proc/{{pids[-2]}}/environ'),
    worker=[shut(f'/proc/{{pid}}/environ') and shut(f'/proc/{{pid}}/mem') for pid in pids[1:3]],
    home=os.environ['HOME'],
)
"""
        worker = result_of(client, code)
        assert worker["uid"] == [NOBODY, NOBODY, NOBODY, [NOBODY]] or worker["uid"][:3] == [NOBODY] * 3
        assert 0 not in worker["uid"][3]
        assert worker["shut"] == [True, True, True]
        assert worker["worker"] == [True, True], "neither the worker nor its server lets itself be read"
        assert worker["home"] != str(site / "home")
        # the server itself opens credentials for its workers
        text = json.loads(playbook("result = len(auth['token'])"))
        text["keychain"] = [{"name": "c", "kind": "bearer"}]
        text["workflow"][0]["tool"]["auth"] = "c"
        ended = client.ended(client.start({"playbook": json.dumps(text)}))
        assert ended["result"] == len("the-s3cret"), ended


@ROOT
def test_a_server_and_its_workers_of_one_user_cannot_be_looked_into(site: Path) -> None:
    """Without root the memory and environment of both are shut, and everything that they do works all the same."""
    db, port = site / "data" / "noetl.db", reserved_port()
    token = make_token(site, str(db), "admin")
    (site / "tmp").mkdir(exist_ok=True)
    (site / "mine").touch(0o600)
    owned_by(NOBODY, site)
    process = Anywhere(site, "server", "server", "--port", str(port), "--db", str(db), "--workers", "1", **SECRETS)
    process.uid = NOBODY
    process.output.touch()
    with server(site, process, port, token) as client:
        code = """
result = dict(
    uid=os.getuid(),
    shut=[[shut(f'/proc/{pid}/environ'), shut(f'/proc/{pid}/mem')] for pid in pids[1:3]],
)
"""
        result = result_of(client, code)
        assert result == {"uid": NOBODY, "shut": [[True, True], [True, True]]}
        shell = json.loads(playbook(""))
        shell["workflow"][0]["tool"] = {"kind": "shell", "command": "id -u; ulimit -c"}
        ended = client.ended(client.start({"playbook": json.dumps(shell)}))
        assert ended["result"]["stdout"].split() == [str(NOBODY), "0"], ended
        shell["workflow"][0]["tool"] |= {
            "command": f"cat {site}/mine 2>/dev/null || echo shut; chmod 644 {site}/mine 2>/dev/null || echo no",
            "spec": {"sandbox": "landlock"},
        }
        ended = client.ended(client.start({"playbook": json.dumps(shell)}))
        assert ended["result"]["stdout"].split() == ["shut", "no"], "a sandbox needs no root"
        assert client.http.get(f"{client.urls[0]}/metrics").status_code == 200


@ROOT
def test_without_root_there_is_no_other_user(site: Path) -> None:
    owned_by(NOBODY, site)
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-m", "noetl.cli"]
    done = subprocess.run(
        [*reachable(), *words, "server", "--port", "0", "--workers", "1", "--workers-user", "1"],
        cwd=site, env=environment(site), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--workers-user 1 needs root" in done.stderr


@ROOT
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--workers", "1", "--workers-user", "root"], "is root, who can read everything"),
        (["--workers", "1", "--workers-user", "nobody-at-all"], "user 'nobody-at-all' does not exist"),
        (["--workers", "1", "--workers-user", "99999999999"], "is not a valid user id"),
        (["--workers-user", "nobody"], "requires --workers N"),
    ],
)
def test_users_that_workers_cannot_be(args: list[str], message: str, tmp_path: Path) -> None:
    done = noetl(tmp_path, "server", "--port", "0", *args)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / ".noetl").exists()
