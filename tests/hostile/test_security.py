"""Everything that the security policy names exists, and every finding of a security test has regression tests."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from tests.test_constructs import names_in

from noetl.server.roles import ALLOWED, ANYBODY, ASSETS, PAGES
from noetl.settings import VARIABLES

ROOT = Path(__file__).parents[2]
POLICY = (ROOT / "SECURITY.md").read_text("utf-8")
FINDINGS: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text("utf-8"))
HIGH, MEDIUM, LOW = 6, 16, 19


def section(title: str) -> str:
    return POLICY.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def named(text: str) -> list[str]:
    """The files, settings and commands in a text."""
    return re.findall(r"`([^`]+)`", text) + re.findall(r"\]\(([^)#]+)", text)


def is_there(name: str) -> bool:
    if name.startswith("NOETL_"):
        return name in VARIABLES
    if name.startswith("make soak-"):
        return f'"{name.removeprefix("make soak-")}"' in (ROOT / "tests/soak.py").read_text("utf-8")
    return "/" not in name or name.startswith(("/", "http://")) or (ROOT / name).is_file()


def test_the_policy_has_every_section() -> None:
    titles = re.findall(r"^## (.+)$", POLICY, re.MULTILINE)
    assert titles == ["Supported versions", "Reporting a vulnerability", "Threat model", "Controls", "Out of scope"]


def test_what_the_policy_names_is_there() -> None:
    assert [name for name in named(POLICY) if not is_there(name)] == []


def test_the_policy_names_every_route_that_anybody_may_reach() -> None:
    (row,) = [line for line in section("Threat model").splitlines() if line.startswith("| unauthenticated client")]
    routes = {path for (_, path), roles in ALLOWED.items() if roles is ANYBODY} - {*PAGES, ASSETS}
    assert sorted(named(row)) == sorted(routes)


def test_every_control_names_its_code_and_its_test() -> None:
    rows = [line.split("|")[1:4] for line in section("Controls").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    wrong = [
        control
        for control, code, tests in rows
        if not all(name.startswith("src/") for name in named(code))
        or not named(code)
        or not named(tests)
        or not all(name.startswith("tests/") for name in named(tests))
    ]
    assert wrong == []


def test_the_policy_is_found() -> None:
    assert "SECURITY.md" in (ROOT / "README.md").read_text("utf-8")
    assert "SECURITY.md" in (ROOT / "docs/index.md").read_text("utf-8")


def test_every_finding_has_tests_that_exist() -> None:
    numbers = [name.split()[0] for name in FINDINGS]
    assert numbers == [
        f"{letter}{i + 1}" for letter, count in zip("HML", (HIGH, MEDIUM, LOW), strict=True) for i in range(count)
    ]
    missing = []
    for tests in FINDINGS.values():
        for test in tests:
            file, _, name = test.partition("::")
            if not (ROOT / file).is_file() or name not in names_in(file):
                missing.append(test)
    assert missing == []
