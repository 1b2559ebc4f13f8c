"""The help of every verb works without any extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from command import noetl
from tests.servers.patience import PATIENCE_SECONDS

PROGRAM = """
import sys, tomllib

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

EXTRAS = set(sys.argv[1:])
sys.meta_path.insert(0, Missing())

import click
from click.testing import CliRunner
from noetl.cli.main import noetl_command

def check(command, words):
    done = CliRunner().invoke(noetl_command, [*words, "--help"])
    if done.exit_code or done.exception:
        print("noetl", *words, "--help:", repr(done.exception))
    elif isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            check(command.get_command(context, name), [*words, name])

check(noetl_command, [])
"""
EXTRAS = (
    *("argon2", "cronsim", "starlette", "tzdata", "uvicorn", "psycopg", "psycopg_pool", "duckdb", "pytz", "snowflake"),
    *("obstore", "nats", "qiskit", "qiskit_aer", "opentelemetry"),
)


def test_a_verb_of_a_group_is_found_without_its_group(tmp_path: Path) -> None:
    hints = {
        "retry": "did you mean `noetl runs retry`?",
        "drain": "did you mean `noetl workers drain`?",
        "stop": "did you mean `noetl server stop` or `noetl workers stop`?",
        "rns": "did you mean 'runs'?",
        "frobnicate": "`noetl --help` lists all verbs",
    }
    for word, hint in hints.items():
        done = noetl(word, "last", cwd=tmp_path)
        assert (done.code, done.err.splitlines()[-1]) == (2, f"Error: unknown verb {word!r}: {hint}")


def test_an_option_before_the_verb_says_where_options_belong(tmp_path: Path) -> None:
    done = noetl("--server", "http://127.0.0.1:1", "runs", "list", cwd=tmp_path)
    hint = "No such option '--server'. Options follow the verb: `noetl runs list --server http://127.0.0.1:1`."
    assert (done.code, done.err.splitlines()[-1]) == (2, f"Error: {hint}")


def test_help_of_every_verb_works_without_any_extra() -> None:
    command = [sys.executable, "-c", PROGRAM, *EXTRAS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
