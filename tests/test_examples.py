"""Every example is sound, without a warning, can be drawn, and runs to the end that is written here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from tests.servers import in_process
from tests.servers.patience import PATIENCE_SECONDS, until
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture  # noqa: F401

from noetl.drawing import Format, draw
from noetl.files import load_file

HOME = Path(__file__).parent.parent
EXAMPLES = sorted((HOME / "examples").glob("*.yaml"))
SECONDS = PATIENCE_SECONDS
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)


def test_there_are_examples_of_both_dialects() -> None:
    assert {load_file(str(example)).dialect for example in EXAMPLES} == {"canonical", "classic"}


def test_no_example_has_a_problem() -> None:
    loaded = [load_file(str(example)) for example in EXAMPLES]
    assert [str(problem) for one in loaded for problem in one.problems] == []
    assert all(one.playbook is not None for one in loaded)


@pytest.mark.parametrize("form", get_args(Format))
def test_every_example_is_drawn_with_all_its_steps(form: Format) -> None:
    drawn = {example.name: _missing_in_drawing(example, form) for example in EXAMPLES}
    assert {name: missing for name, missing in drawn.items() if missing} == {}


def _missing_in_drawing(example: Path, form: Format) -> list[str]:
    playbook = load_file(str(example)).require()
    drawing = draw(playbook, form)
    missing = [step.name for step in playbook.steps if step.name not in drawing]
    return missing if drawing.endswith("\n") else [*missing, "the end of the last line"]


def test_every_example_is_filed_by_its_name_and_described() -> None:
    playbooks = {example.stem: load_file(str(example)).require() for example in EXAMPLES}
    assert {name: (one.name, one.path) for name, one in playbooks.items()} == {
        name: (name, f"examples/{name}") for name in playbooks
    }
    assert [name for name, one in playbooks.items() if not one.description] == []


def test_every_example_begins_with_a_comment_that_explains_it() -> None:
    assert [example.name for example in EXAMPLES if not example.read_text("utf-8").startswith("# ")] == []


def test_child_playbooks_stand_beside_their_parent() -> None:
    called = [
        example.parent / task.inputs["path"]
        for example in EXAMPLES
        for step in load_file(str(example)).require().steps
        for task in step.tasks
        if task.kind == "playbook"
    ]
    assert [path for path in called if not path.is_file()] == []


# -- running them ---------------------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """What an example is started with, and what it gives."""

    result: Any
    args: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None
    """The steps that ran, where that says something the result does not."""


API = "http://127.0.0.1:8000"
LAST = {"sensor": "s1", "at": 4999, "degrees": 32}
ENDINGS: dict[str, list[Ending]] = {
    "classic_onboarding": [Ending("Welcome, ada@example.org", steps=("start", "add_groups", "welcome"))],
    "cycle": [
        Ending({"number": 27, "rounds": 111}),
        Ending({"number": 6, "rounds": 8}, ("--set", "number=6")),
    ],
    "duckdb_report": [
        Ending([{"city": "Ulm", "orders": 1, "total": "30.00"}, {"city": "Bremen", "orders": 2, "total": "20.00"}]),
        Ending([{"city": "Graz", "orders": 1, "total": "5.00"}], ("--set", "country=AT")),
    ],
    "fan_out_join": [
        Ending({"text": "Thank you for order 1001: 45.5 in all", "missing": ["B7"]}),
        Ending(
            {"text": "Thank you for order 1001: 45.5 in all", "missing": []},
            ("--set", "order.to_ship=false"),
            ("start", "total", "greet", "report"),
        ),
    ],
    "hello": [Ending("HELLO, WORLD!"), Ending("HELLO, ADA!", ("--set", "name=Ada"))],
    "large_result": [Ending({"hottest": 100, "count": 5000, "last": LAST})],
    "nested_loops": [
        Ending({"letters": 50, "by_city": [{"city": "Bremen", "letters": 30}, {"city": "Graz", "letters": 20}]})
    ],
    "paging": [Ending("120 rows")],
    "retries": [
        Ending("answered request 3, without the extras", steps=("start", "celebrate")),
        Ending(
            f"no answer today: GET {API}/flaky?... returned 503 Service Unavailable (after 5 attempts)",
            ("--set", "failures=9"),
            ("start", "apologise"),
        ),
    ],
    "shell_words": [
        Ending({"found": True, "first": "$HOME"}),
        Ending({"found": False, "first": "$HOME"}, ("--set", "wanted=cherry")),
        Ending({"found": False, "first": "$HOME"}, ("--set", "wanted=; rm -rf /")),
    ],
    "purchase_notice": [Ending("told ada: hello", ("--set", "to=ada", "--set", "text=hello"))],
    "sub_playbook": [Ending("Good morning, Ada; Good morning, Grace; Good morning, Edsger")],
    "transfer_files": [Ending({"loaded": 1000, "exported": 475})],
    "sub_playbook_child": [Ending("Good morning, Ada", ("--set", "name=Ada"))],
}
"""How each example ends. Those that need a person, a server or a picture have tests of their own."""
WAITS = "approval"
ALONE = {WAITS, "ingest", "many_files", "postgres_orders", "purchase", "quantum_sweep"}
CALLS_API = {"classic_onboarding", "ingest", "paging", "retries"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with a copy of the examples, where nothing was ever run."""
    shutil.copytree(HOME / "examples", tmp_path / "examples")
    return tmp_path


@pytest.fixture
def api(folder: Path) -> Iterator[str]:
    """The address of the API of the examples, which the copies are made to use."""
    server = subprocess.Popen([sys.executable, "examples/api.py", "0"], cwd=folder, stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        for copy in (folder / "examples").glob("*.yaml"):
            copy.write_text(copy.read_text("utf-8").replace(API, address), "utf-8")
        yield address
        server.terminate()


def noetl(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    done = in_process.run(args, cwd=folder, timeout=SECONDS)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_every_example_has_an_ending() -> None:
    assert {example.stem for example in EXAMPLES} == {*ENDINGS, *ALONE}


@every_example
def test_example_says_how_to_run_it(example: Path) -> None:
    head = example.read_text("utf-8").partition("apiVersion")[0]
    assert f"#   noetl run examples/{example.name}" in head
    assert ("#   python examples/api.py &\n" in head) is (example.stem in CALLS_API)
    for options in re.findall(rf"noetl run examples/{example.name} (.+)", head):
        endings = ENDINGS.get(example.stem, ())
        assert example.stem in ALONE or any(shlex.join(ending.args) == options for ending in endings), options


@pytest.mark.parametrize(
    ("name", "ending"),
    [(name, ending) for name, endings in ENDINGS.items() for ending in endings],
    ids=[f"{name}-{number}" for name, endings in ENDINGS.items() for number in range(len(endings))],
)
def test_example_ends_as_it_should(name: str, ending: Ending, folder: Path, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("api") if name in CALLS_API else API
    done = noetl(folder, "run", f"examples/{name}.yaml", *ending.args, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout.replace(address, API))
    assert (result["status"], result["result"]) == ("succeeded", ending.result)
    if ending.steps is not None:
        assert tuple(result["steps"]) == ending.steps
    assert noetl(folder, "verify").returncode == 0


@pytest.mark.parametrize(
    ("data", "result"),
    [
        ('{"approved": true, "by": "ada"}', "paid 1250.00 EUR for 2026-017, approved by ada"),
        ('{"approved": false}', "invoice 2026-017 was not paid"),
    ],
)
def test_the_example_that_waits_continues_with_a_signal(folder: Path, data: str, result: str) -> None:
    command = [sys.executable, "-m", "noetl.cli", "run", f"examples/{WAITS}.yaml", "-o", "json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        _until_it_waits(folder, "last", "ask")
        sent = noetl(folder, "runs", "signal", "last", "decision", "--data", data)
        assert (sent.returncode, sent.stdout) == (0, "accepted\n")
        assert running.stdout is not None
        actual = json.loads(running.stdout.read())
    assert (running.returncode, actual["status"], actual["result"]) == (0, "succeeded", result)
    assert noetl(folder, "verify").returncode == 0


def _until_it_waits(folder: Path, run: str, step: str) -> None:
    def waits() -> bool:
        lines = noetl(folder, "runs", "events", run).stdout.splitlines()
        return any("step.paused" in line and f"{step}#1" in line for line in lines)

    until(waits)


@pytest.fixture
def shop(folder: Path, schema: Schema, monkeypatch: pytest.MonkeyPatch) -> Schema:
    """An empty database that the credential `shop_db` signs in to."""
    monkeypatch.setenv("NOETL_MASTER_KEY_FILE", str(folder.parent / f"{folder.name}.key"))
    (folder / "shop_db.json").write_text(json.dumps(schema.fields()))
    done = noetl(folder, "credential", "set", "shop_db", "--kind", "postgres_credential", "--data", "@shop_db.json")
    assert done.returncode == 0, done.stderr
    return schema


def test_the_orders_are_copied_once_and_reported(folder: Path, shop: Schema) -> None:
    done = noetl(folder, "run", "examples/postgres_orders.yaml", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"] == [
        {"customer": "O'Brien", "orders": 1, "total": 40.0},
        {"customer": "Ada", "orders": 1, "total": 12.5},
    ]
    assert shop.rows("SELECT count(*) FROM shop_orders") == [(4,)]
    assert noetl(folder, "verify").returncode == 0


@contextmanager
def started(folder: Path, example: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process that can be killed."""
    command = [sys.executable, "-m", "noetl.cli", "run", f"examples/{example}.yaml", "-o", "json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


SHOP = {"events": (150, "11400.00"), "orders": (120, "7320.00"), "products": (60, "1860.00"), "users": (90, "4140.00")}
LOADED = {
    "same": True,
    "rows": [{"endpoint": name, "n": rows, "amount": amount} for name, (rows, amount) in SHOP.items()],
}


def test_the_shop_is_loaded_in_spite_of_faults_and_loaded_again_without_duplicates(
    folder: Path, shop: Schema, api: str
) -> None:
    for _ in range(2):
        done = noetl(folder, "run", "examples/ingest.yaml", "-o", "json")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["result"] == LOADED
    assert shop.rows("SELECT count(*) FROM shop_rows") == [(420,)]
    assert noetl(folder, "verify").returncode == 0


def test_a_load_that_is_killed_and_resumed_leaves_no_duplicates(folder: Path, shop: Schema, api: str) -> None:
    with started(folder, "ingest") as running:
        until(lambda: shop.rows("SELECT to_regclass('shop_rows') IS NOT NULL") == [(True,)])
        until(lambda: shop.rows("SELECT count(*) FROM shop_rows") > [(0,)])
        running.kill()
        assert running.wait() == -signal.SIGKILL
    done = noetl(folder, "runs", "resume", "last", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == LOADED
    assert noetl(folder, "verify").returncode == 0


@pytest.mark.parametrize(
    ("data", "result"),
    [
        ('{"approved": true}', "bought a new server for 4200"),
        ('{"approved": false}', "a new server was declined"),
    ],
)
def test_the_purchase_continues_with_the_verdict(folder: Path, data: str, result: str) -> None:
    with started(folder, "purchase") as running:
        _until_it_waits(folder, "last:purchase", "decide")
        assert noetl(folder, "runs", "signal", "last:purchase", "verdict", "--data", data).returncode == 0
        assert running.stdout is not None
        assert json.loads(running.stdout.read())["result"] == result
    assert noetl(folder, "verify").returncode == 0


def test_the_purchase_escalates_when_the_deadline_passed_while_nothing_ran(folder: Path) -> None:
    example = folder / "examples" / "purchase.yaml"
    example.write_text(example.read_text("utf-8").replace("timeout: 2d", "timeout: 1s"), "utf-8")
    with started(folder, "purchase") as running:
        _until_it_waits(folder, "last:purchase", "decide")
        running.kill()
    done = noetl(folder, "runs", "resume", "last:purchase", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "told grace: ada did not decide on a new server"
    assert noetl(folder, "verify").returncode == 0


def test_damaged_files_are_counted_and_only_they_are_read_again(folder: Path) -> None:
    subprocess.run([sys.executable, "examples/readings.py"], cwd=folder, check=True)
    done = noetl(folder, "run", "examples/many_files.yaml", "-o", "json")
    assert done.returncode == 0, done.stderr
    damaged = list(range(7, 2000, 250))
    total = sum(2 * number + 1 for number in range(2000))
    lost = sum(2 * number + 1 for number in damaged)
    result = json.loads(done.stdout)["result"]
    assert result == {"parsed": 1992, "failed": damaged, "total": total - lost}
    subprocess.run([sys.executable, "examples/readings.py", "mend"], cwd=folder, check=True)
    (folder / "readings" / "0000.json").unlink()  # it would fail if it were read again
    done = noetl(folder, "runs", "retry", "last", "--failed-items", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == {"parsed": 2000, "failed": [], "total": total}
    assert noetl(folder, "verify").returncode == 0


def test_a_missing_folder_of_files_is_an_error(folder: Path) -> None:
    done = noetl(folder, "run", "examples/many_files.yaml")
    assert done.returncode == 1
    assert "examples/many_files.yaml:32:51: step list_files, task names" in done.stderr
    assert "No such file or directory: 'readings'" in done.stderr


def test_the_sweep_is_plotted(folder: Path) -> None:
    done = noetl(folder, "run", "examples/quantum_sweep.yaml", "--set", "points=5", "--set", "shots=400", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    picture = (folder / "quantum_sweep.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert noetl(folder, "verify").returncode == 0


def test_the_large_result_is_kept_by_reference(folder: Path) -> None:
    noetl(folder, "run", "examples/large_result.yaml")
    measured = json.loads(noetl(folder, "runs", "show", "last", "-o", "json").stdout)["steps"]["measure"]["result"]
    assert (measured["store"], measured["schema_hint"], measured["preview"]) == ("db", "list", {"count": 5000})
    assert measured["size"] > 64 * 1024
