"""One class name for one concept over the whole source."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "noetl"
SHARED = {"Inputs"}
"""One class for each tool kind, by contract."""


def test_no_two_modules_define_a_class_of_the_same_name() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name not in SHARED:
                modules[node.name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in modules.items() if len(files) > 1} == {}
