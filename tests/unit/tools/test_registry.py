"""The registry, with plug-ins that are really installed: a dist-info folder on sys.path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.model.kind import Kind
from noetl.tools.registry import (
    BUILTIN,
    KINDS,
    Registry,
    ToolKindBroken,
    ToolKindTaken,
    builtin,
)

PIGEON = """
import msgspec
from noetl.model.kind import Kind

class Inputs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    to: str

KIND = Kind(name="pigeon", summary="Sends a pigeon", inputs=Inputs)
"""


class Installer:
    """Puts distributions into a folder on sys.path, as an installer would."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.modules: set[str] = set()

    def __call__(self, distribution: str, entry_point: str, **modules: str) -> None:
        self.modules |= modules.keys()
        for name, code in modules.items():
            (self.site / f"{name}.py").write_text(code, "utf-8")
        info = self.site / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[noetl.tools]\n{entry_point}\n", "utf-8")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    monkeypatch.syspath_prepend(tmp_path)
    installer = Installer(tmp_path)
    yield installer
    for module in installer.modules:
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_built_in_kind_is_called_what_the_table_says(name: str) -> None:
    kind = builtin(name)
    assert kind is not None
    assert kind.name == name


def test_every_module_with_a_kind_is_in_the_table() -> None:
    tools = Path(sys.modules["noetl.tools.registry"].__file__ or "").parent
    modules = {f"noetl.tools.{file.stem}" for file in tools.glob("*.py") if "\nKIND = " in file.read_text("utf-8")}
    assert modules == set(BUILTIN.values())


def test_an_unknown_kind_is_none() -> None:
    assert builtin("pigeon") is None
    assert KINDS.get("pigeon") is None
    assert Registry().get("pigeon") is None


def test_a_kind_is_loaded_once() -> None:
    assert KINDS.get("http") is KINDS.get("http")


def test_all_kinds_are_the_names() -> None:
    kinds = KINDS.all()
    assert list(kinds) == KINDS.names()
    assert set(BUILTIN) <= set(kinds)


def test_asking_for_a_built_in_kind_reads_no_entry_points_and_no_other_kind() -> None:
    code = (
        "import sys, noetl.tools.registry as r; before = set(sys.modules); assert r.KINDS.get('noop');"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["noetl.model.outcome", "noetl.tools.base", "noetl.tools.noop"]


def test_a_plug_in_is_found_by_its_kind(install: Installer) -> None:
    install("noetl_pigeon", "pigeon = pigeon_tool", pigeon_tool=PIGEON)
    registry = Registry()
    kind = registry.get("pigeon")
    assert isinstance(kind, Kind)
    assert kind.summary == "Sends a pigeon"
    assert registry.names() == [*BUILTIN, "pigeon"]
    assert registry.all()["pigeon"] is kind


def test_an_object_with_a_kind_will_do(install: Installer) -> None:
    module = PIGEON + "\nclass Tool:\n    KIND = KIND\n\ndel KIND\n"
    install("noetl_pigeon", "pigeon = pigeon_class:Tool", pigeon_class=module)
    assert Registry().get("pigeon") is not None


def test_names_do_not_import_plug_ins(install: Installer) -> None:
    install("noetl_pigeon", "pigeon = no_such_module")
    assert "pigeon" in Registry().names()


def test_a_plug_in_cannot_take_a_built_in_kind(install: Installer) -> None:
    install("noetl_better_http", "http = pigeon_http", pigeon_http=PIGEON)
    registry = Registry()
    with pytest.raises(ToolKindTaken, match="'http' of noetl_better_http is already taken by noetl itself"):
        registry.names()
    assert registry.get("http") is builtin("http")


def test_two_plug_ins_cannot_share_a_kind(install: Installer) -> None:
    install("noetl_pigeon", "pigeon = pigeon_one", pigeon_one=PIGEON)
    install("noetl_dove", "pigeon = pigeon_two", pigeon_two=PIGEON)
    with pytest.raises(ToolKindTaken, match="pigeon"):
        Registry().get("pigeon")


@pytest.mark.parametrize(
    ("kind", "module", "says"),
    [
        ("pigeon", "raise OSError('no pigeons')", "OSError: no pigeons"),
        ("pigeon", "KIND = 'pigeon'", "has no KIND"),
        ("pigeon", "", "has no KIND"),
        ("dove", PIGEON, "has the name 'pigeon'"),
    ],
)
def test_a_broken_plug_in_is_named(install: Installer, kind: str, module: str, says: str) -> None:
    install("noetl_broken", f"{kind} = broken_tool", broken_tool=module)
    with pytest.raises(ToolKindBroken, match=f"{kind}.*noetl_broken.*{says}"):
        Registry().get(kind)
