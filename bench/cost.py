"""What noetl does for a step, an item, a run and a report, counted: `make cost` prints and stores it.

Timings on a shared machine hide a loss of a third; counts do not. Each scenario runs at two sizes in a deterministic
process (`counting.py`), and the difference is divided by the difference in size, so constants cancel. A cold start
counts the modules that a command imports. `tests/test_cost.py` compares the counts with `cost.json`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("cost.json")
Table = dict[str, dict[str, float]]

GROWTH = 0.03
"""A count may grow by this share before it must be accepted."""
OF_INTERPRETER = frozenset(["python_calls", "c_calls", "modules"])
"""Counts that include the standard library; they are compared on the Python they were made with."""
COLD_STARTS = {
    "cold start: noetl validate": ["validate", "hello.yaml"],
    "cold start: noetl run": ["run", "hello.yaml", "--db", "hello.db"],
}
HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: bench/hello}
workflow:
  - {step: start, tool: [{t: {kind: noop, result: hello}}]}
"""
MODULES = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
COMMAND = """\
import contextlib, io, sys
sys.argv[0] = "noetl"
from noetl.cli.start import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


def measure() -> Table:
    """All counts, by scenario."""
    return {**_scenarios(), **_cold_starts()}


def grown(stored: dict[str, Any], counted: Table) -> Iterator[str]:
    """Each count that is larger than it may be, in words. A scenario or count that is not stored has no limit yet."""
    same_python = stored["python"] == python()
    for scenario, counts in counted.items():
        for name, count in counts.items():
            limit = stored["counts"].get(scenario, {}).get(name)
            if limit is None:
                yield f"{scenario}: {name} is not in bench/cost.json"
            elif count > limit * (1 + GROWTH) and (same_python or name not in OF_INTERPRETER):
                yield f"{scenario}: {name} grew from {limit:,} to {count:,} ({count / limit - 1 if limit else 1:+.1%})"


def python() -> str:
    """The Python whose standard library is counted along, such as 3.11."""
    return ".".join(platform.python_version_tuple()[:2])


def stored() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return content


def _scenarios() -> Table:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "bench.scenarios"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    table: Table = json.loads(done.stdout)
    return table


def _cold_starts() -> Table:
    bare = _modules("")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hello.yaml").write_text(HELLO)
        table = {name: _imported(bare, COMMAND, folder, *arguments) for name, arguments in COLD_STARTS.items()}
    return {**table, "import noetl.server.app": _imported(bare, "import noetl.server.app")}


def _imported(bare: set[str], code: str, folder: str | None = None, *arguments: str) -> dict[str, float]:
    modules = _modules(code, folder, *arguments) - bare
    return {"modules": len(modules), "noetl_modules": sum(name.partition(".")[0] == "noetl" for name in modules)}


def _modules(code: str, folder: str | None = None, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", code + MODULES, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    return set(json.loads(done.stdout.splitlines()[-1]))


def _print(counted: Table, before: Table) -> None:
    for scenario, counts in counted.items():
        print(scenario)
        for name, count in counts.items():
            old = before.get(scenario, {}).get(name)
            change = "" if old in (None, 0, count) else f"{count / old - 1:+10.1%}"
            print(f"  {name.replace('_', ' '):<18}{count:>12,.10g}{change}".rstrip())


def main() -> None:
    before = stored()["counts"] if FILE.exists() else {}
    counted = measure()
    _print(counted, before)
    FILE.write_text(json.dumps({"python": python(), "counts": counted}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
