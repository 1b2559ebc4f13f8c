"""A mutant: the source with one rule broken, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import yaml

import noetl

ROOT = Path(__file__).parents[2]
SOURCE = Path(noetl.__file__).parent
TABLE = Path(__file__).with_name("table.yaml")
MAX_SECONDS = 300


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replace: str
    with_: str = msgspec.field(name="with")


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    rule: str
    file: str  # below src/noetl
    edits: tuple[Edit, ...]
    killed_by: str  # the test that fails

    def mutated(self, text: str) -> str:
        """The text of the file with the rule broken; ValueError if an edit does not fit it exactly once."""
        for edit in self.edits:
            if text.count(edit.replace) != 1:
                raise ValueError(f"{self.file} has {text.count(edit.replace)} times {edit.replace!r}")
            text = text.replace(edit.replace, edit.with_)
        return text

    def write(self, folder: Path) -> None:
        """Copy the source with its compiled modules, which stay valid, and change the one file."""
        package = folder / "noetl"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("page"))
        file = package / self.file
        file.write_text(self.mutated(file.read_text()))

    def run_test(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the test that should fail against the source in a folder."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", self.killed_by]
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": ""}
        environment.pop("PYTEST_XDIST_WORKER", None)
        return subprocess.run(
            command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=MAX_SECONDS
        )


@cache
def mutants() -> list[Mutant]:
    return msgspec.convert(yaml.safe_load(TABLE.read_text()), list[Mutant])
