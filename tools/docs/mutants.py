"""The page of mutants: rules that are broken on purpose, and the test that fails on each."""

from __future__ import annotations

from collections.abc import Iterator

from tests.mutants.mutant import mutants

from tools.docs.markdown import code, page, table

INTRO = """A mutant is noetl with one rule broken. `make soak-mutants` builds each of them, runs the named test
against it, and fails if the test passes: then nothing would notice that the rule is gone. `tests/mutants/table.yaml`
has the edits."""


def pages() -> Iterator[tuple[str, str]]:
    rows = [(mutant.name, mutant.rule, code(mutant.file), code(mutant.killed_by)) for mutant in mutants()]
    yield "contributing/mutants.md", page("Mutants", INTRO, table(["Mutant", "Rule", "File", "Killed by"], rows))
