"""All generated files: the reference, and the tables of the web page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.docs import (
    cli,
    constructs,
    events,
    invariants,
    language,
    metrics,
    mutants,
    outcomes,
    page_figures,
    problems,
    settings,
    templates,
    tools,
    typescript,
)
from tools.docs.markdown import page

MODULES = (
    *(language, templates, tools, problems, cli, settings, metrics, events, outcomes, invariants, constructs),
    *(mutants, page_figures),
)
HOME = Path(__file__).parents[2]
DOCS = HOME / "docs"
GENERATED_FOLDERS = ("reference",)
"""Folders of `docs` in which every file is generated."""
OPENAPI = "reference/openapi.json"


def pages() -> dict[str, str]:
    """Every generated page of the documentation by its path below docs."""
    texts = {"reference/index.md": _index()}
    for module in MODULES:
        texts |= dict(module.pages())
    return texts


def openapi() -> str:
    """The OpenAPI document of the server."""
    command = [sys.executable, "-m", "noetl.server.openapi"]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def files() -> dict[str, str]:
    """Every generated file by its path in the repository."""
    documentation = {**pages(), OPENAPI: openapi()}
    return {f"docs/{name}": text for name, text in documentation.items()} | dict(typescript.files())


def existing() -> set[str]:
    """The files in the repository that are generated, or were once."""
    folders = [DOCS / name for name in GENERATED_FOLDERS]
    result = [file for folder in folders for file in folder.rglob("*.*")]
    return {file.relative_to(HOME).as_posix() for file in (*result, *(HOME / typescript.FOLDER).glob("*.gen.ts"))}


def write() -> None:
    """Write all generated files, and remove those that are not generated any more."""
    texts = files()
    for name in existing() - texts.keys():
        (HOME / name).unlink()
    for name, text in texts.items():
        target = HOME / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _index() -> str:
    return page(
        "Reference",
        "\n".join(
            [
                "- [The language](language.md): every key of a playbook",
                "- [Templates](templates.md): names, filters, tests, functions and limits",
                "- [Tool kinds](tools/index.md): the kinds of tasks and their inputs",
                "- [Outcomes and errors](outcomes.md): the outcome of a call, and the kinds of errors",
                "- [Problems](problems/index.md): errors and warnings of the validator, with examples",
                "- [The command line](cli.md): verbs, options and exit codes",
                "- [Settings](settings.md): environment variables",
                "- [HTTP API](openapi.json): the OpenAPI document of a server",
                "- [Events](events.md): the event types of the log",
                "- [Invariants](invariants.md): what `noetl verify` checks",
                "- [Metrics](metrics.md): what a server exports to Prometheus",
                "- [Figures of the web page](page-figures.md): how fast its views open and move",
            ]
        ),
        "These pages are generated from the code by `make docs`. `noetl schema` prints the language as JSON Schema "
        "for editors.",
    )
