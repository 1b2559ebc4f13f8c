"""Writes docs/reference from the code: `python -m docs.generate`, or `make docs`.

Everything on these pages comes from the tables that the program itself works with, or from examples that the tests
run, so a page can't say what the program does not do. tests/test_docs.py fails when a page on disk is out of date.
"""

from __future__ import annotations

from pathlib import Path

from docs import (
    _cli,
    _constructs,
    _events,
    _invariants,
    _language,
    _metrics,
    _outcomes,
    _problems,
    _settings,
    _templates,
    _tools,
)
from docs._markdown import page

MODULES = (
    _language,
    _templates,
    _tools,
    _problems,
    _cli,
    _settings,
    _metrics,
    _events,
    _outcomes,
    _invariants,
    _constructs,
)
REFERENCE = Path(__file__).parent / "reference"


def pages() -> dict[str, str]:
    """Every page by its path below docs/reference."""
    found = {"index.md": _index()}
    for module in MODULES:
        found |= dict(module.pages())
    return found


def _index() -> str:
    return page(
        "Reference",
        "\n".join(
            [
                "- [The language](language.md): every key of a playbook",
                "- [Templates](templates.md): names, filters, tests, functions and limits",
                "- [Tool kinds](tools/index.md): what a task can call, and its inputs",
                "- [Outcomes and errors](outcomes.md): what a call comes to, and the kinds of errors",
                "- [Events](events.md): everything the log of a run can say",
                "- [Constructs of the specifications](constructs.md): what they ask for, and the test that shows it",
                "- [Invariants](invariants.md): what `noetl verify` proves",
                "- [Problems](problems/index.md): every error and warning, with an example and its remedy",
                "- [The command line](cli.md): verbs, options and exit codes",
                "- [Settings](settings.md): the variables of the environment",
                "- [Metrics](metrics.md): the numbers that a server has for Prometheus",
            ]
        ),
        "These pages are made from the code by `make docs`. `noetl schema` prints the language as JSON Schema, for "
        "editors.",
    )


def write(folder: Path = REFERENCE) -> None:
    """Write all pages, and remove those that nothing generates any more."""
    wanted = pages()
    for old in folder.rglob("*.md"):
        if old.relative_to(folder).as_posix() not in wanted:
            old.unlink()
    for name, text in wanted.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
