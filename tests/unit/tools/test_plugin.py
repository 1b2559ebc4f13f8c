"""The sample plug-in, installed as its users would: built from source into a folder that Python looks into."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.tools.registry import Registry

PLUGIN = Path(__file__).parents[3] / "examples" / "plugin"
SECONDS = 120
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


class Site:
    """A folder with the plug-in installed, and commands that see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "NO_COLOR": "1", "COLUMNS": "200"}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def noetl(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run("noetl.cli", *args)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    offline = ["--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    command = [*PIP, "install", *offline, "--target", str(folder / "site"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return Site(folder)


def test_kind_is_listed_with_its_inputs(site: Site) -> None:
    listed = json.loads(site.noetl("tools", "-o", "json").stdout)
    assert "sqlite" in [one["kind"] for one in listed]
    schema = json.loads(site.noetl("tools", "schema", "sqlite", "-o", "json").stdout)
    assert list(schema["properties"]) == ["database", "query", "params", "create"]


def test_playbook_is_sound(site: Site) -> None:
    done = site.noetl("validate", "source/orders.yaml", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


def test_input_that_it_does_not_have_is_told_with_its_place(site: Site) -> None:
    wrong = site.folder / "wrong.yaml"
    wrong.write_text((PLUGIN / "orders.yaml").read_text("utf-8").replace("create:", "craete:"), "utf-8")
    done = site.noetl("validate", str(wrong), "-o", "json")
    (problem,) = json.loads(done.stdout)
    assert done.returncode == 3
    assert "craete" in problem["message"]
    assert "create" in problem["hint"]


def test_playbook_runs(site: Site) -> None:
    arguments = ["--db", "runs.db", "--set", "at_least=90", "-o", "json"]
    done = site.noetl("run", "source/orders.yaml", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["result"] == {"rows": [{"id": 3, "total": 99.0}], "row_count": 1, "columns": ["id", "total"]}
    assert site.noetl("verify", "--db", "runs.db").returncode == 0


def test_it_passes_its_own_tests(site: Site) -> None:
    done = site.run("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error", "source/tests")
    assert done.returncode == 0, done.stdout


def test_without_it_the_kind_is_unknown(site: Site) -> None:
    alone = Site(site.folder)
    alone.environment.pop("PYTHONPATH")
    done = alone.noetl("validate", "source/orders.yaml")
    assert done.returncode == 3
    assert "'sqlite'" in done.stdout + done.stderr


PLUGINS = {
    "brittle": "async def close():\n    raise OSError('it was closed already')\n",
    "tidy": "closed = []\nasync def close():\n    closed.append(True)\n",
}
MODULE = """
import msgspec
from noetl.model.kind import Kind

class Inputs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass

KIND = Kind(name="{name}", summary="Is closed", inputs=Inputs)

async def run(inputs, context): ...

"""


def test_close_that_fails_keeps_no_other_tool_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    points = "".join(f"{name} = {name}_tool\n" for name in PLUGINS)
    for name, close in PLUGINS.items():
        (tmp_path / f"{name}_tool.py").write_text(MODULE.format(name=name) + close)
    info = tmp_path / "closing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: closing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[noetl.tools]\n{points}")
    for order in (["brittle", "tidy"], ["tidy", "brittle"]):
        registry = Registry()
        assert all(registry.runner(name) for name in order)
        sys.modules["tidy_tool"].closed.clear()
        with pytest.raises(OSError, match="closed already"):
            asyncio.run(registry.close())
        assert sys.modules["tidy_tool"].closed == [True]
