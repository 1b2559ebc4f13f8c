"""The page of settings, made from the table of variables."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.settings import VARIABLES
from tools.docs.markdown import code, page, table

INTRO = """A flag overrides an environment variable, and a variable overrides the default. An empty variable counts as
unset. A secret can be read from a file: set the variable with the suffix `_FILE` to its path."""

TOOLS = """Processes of tasks get `NOETL_EXECUTION_ID`, `NOETL_ACTION_ID` and `NOETL_ATTEMPT`, and none of the
above."""


def pages() -> Iterator[tuple[str, str]]:
    rows = [(code(name), flag, says) for name, (flag, says) in VARIABLES.items()]
    yield "reference/settings.md", page("Settings", INTRO, table(["Variable", "Flag", "Meaning"], rows), TOOLS)
