"""The public names: all there, none more, and none of them paid for before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import noetl

PUBLIC = ["NoetlError", "Playbook", "PlaybookInvalid", "Problem", "__version__", "load_playbook"]
HEAVY = ["click", "msgspec", "rich", "ruamel", "yaml"]


def imported_after(code: str) -> set[str]:
    """The names of all top-level packages that a fresh interpreter has imported after running the code."""
    script = f"import sys; {code}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_public_names_are_these() -> None:
    assert sorted(noetl.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_exists(name: str) -> None:
    assert getattr(noetl, name) is not None


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'noetl' has no attribute 'nothing'"):
        noetl.nothing  # noqa: B018


def test_importing_noetl_imports_nothing_heavy() -> None:
    assert imported_after("import noetl") & set(HEAVY) == set()


def test_a_public_name_brings_only_what_it_needs() -> None:
    assert imported_after("from noetl import NoetlError") & set(HEAVY) == set()
    assert "yaml" in imported_after("from noetl import load_playbook")


def test_help_needs_no_playbook_machinery() -> None:
    code = "from click.testing import CliRunner; from noetl.cli.main import noetl_command as c; "
    result = imported_after(f"{code}assert CliRunner().invoke(c, ['--help']).exit_code == 0")
    assert result & {"yaml", "ruamel", "rich"} == set()


def test_version_is_that_of_the_distribution() -> None:
    assert noetl.__version__ == metadata.version("noetl-engine")
