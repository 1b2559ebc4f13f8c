"""Every rule of the engine has a test that fails when the rule is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.mutants.mutant import ROOT, SOURCE, Mutant, mutants


def test_every_mutant_breaks_the_source_as_it_is_today() -> None:
    for mutant in mutants():
        text = (SOURCE / mutant.file).read_text()
        compile(mutant.mutated(text), mutant.file, "exec")


def test_every_mutant_has_a_name_of_its_own_and_a_test() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(names) == len(set(names)) >= 25
    missing = [mutant.killed_by for mutant in mutants() if not _exists(mutant.killed_by)]
    assert not missing


def _exists(test: str) -> bool:
    file, *_, function = test.split("::")
    if not (ROOT / file).is_file():
        return False
    sources = [ROOT / file, ROOT / "tests/conformance/suites.py"]  # the suites of a store are classes to inherit from
    return any(re.search(rf"def {function.partition('[')[0]}\(", source.read_text()) for source in sources)


@pytest.mark.slow(part="mutants")
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_dies(mutant: Mutant, tmp_path: Path) -> None:
    mutant.write(tmp_path)
    run = mutant.run_test(tmp_path)
    assert re.search(r"^FAILED ", run.stdout, re.MULTILINE), f"{mutant.name} lives: {run.stdout}{run.stderr}"
