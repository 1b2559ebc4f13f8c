"""The pages of the problems of playbooks, as a wheel or a checkout has them."""

from __future__ import annotations

from pathlib import Path

from noetl.errors import NotFound

PACKAGE = Path(__file__).parent
FOLDERS = (PACKAGE / "problems", PACKAGE.parents[1] / "docs" / "reference" / "problems")


def problem_page(code: str) -> str:
    """The page of a problem, in Markdown; NotFound if there is none."""
    for file in sorted(page for folder in FOLDERS for page in folder.glob("*.md")):
        _, heading, rest = file.read_text("utf-8").partition(f"\n## {code}\n")
        if heading:
            return f"{code}\n{rest.partition(chr(10) + '## ')[0]}"
    raise NotFound(f"problem {code!r} not found: `noetl validate FILE` prints the codes of a playbook")
