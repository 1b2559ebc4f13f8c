"""Reads the queries by name: those that all databases share, and those of one database.

The files lie beside the code and are not read through `importlib.resources`, whose import takes 10 ms: longer than
opening a store.
"""

from __future__ import annotations

from pathlib import Path

FILE = "queries.sql"
HEAD = "-- name: "


def load_queries(folder: Path, parameter: str = "?") -> dict[str, str]:
    """The shared queries, with `parameter` as the placeholder, and those in the folder of a database."""
    shared = (Path(__file__).parent / FILE).read_text("utf-8").replace("?", parameter)
    return _parse(shared) | _parse((folder / FILE).read_text("utf-8"))


def _parse(text: str) -> dict[str, str]:
    queries: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(HEAD):
            lines = queries[line.removeprefix(HEAD)] = []
        elif line and not line.startswith("--"):
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in queries.items()}
