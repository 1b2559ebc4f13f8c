"""The documentation is true: generated pages are fresh, examples validate, and links lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

import pytest
import yaml
from tools.docs import generate
from tools.docs.events import ALIASES, ENVELOPE
from tools.docs.fields import fields
from tools.docs.markdown import slug
from tools.docs.outcomes import ERRORS
from tools.docs.templates import NAMES
from tools.docs.tools import EXAMPLES as KIND_EXAMPLES

from noetl.classic.document_parts import ClassicSiteFinder
from noetl.classic.language import ROOT
from noetl.cli.main import EXIT_CODES, VERBS
from noetl.dsl.compile import load
from noetl.dsl.migrate import migrate
from noetl.dsl.problem import CHECKS
from noetl.dsl.shape import Fields, ListOf, MapOf, OneOf, Shape
from noetl.engine.envelope import envelope
from noetl.engine.events import EVENTS, PlaybookStarted
from noetl.engine.history.verify import INVARIANTS
from noetl.expression import FILTERS, FUNCTIONS, METHODS, SQL_FILTERS, TESTS
from noetl.server.telemetry import METRICS
from noetl.settings import VARIABLES
from noetl.tools.registry import BUILTIN, KINDS

HOME = Path(__file__).parents[1]
PAGES = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").rglob("*.md"))]
PROBLEMS = HOME / "docs" / "reference" / "problems"
FENCE = re.compile(r"^( *)(```+|~~~+)(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate.pages()


def test_generated_files_are_not_stale() -> None:
    fresh = generate.files()
    stale = sorted(name for name in fresh.keys() | generate.existing() if fresh.get(name) != _on_disk(name))
    assert not stale, "run `make docs`"


def _on_disk(name: str) -> str | None:
    path = HOME / name
    return path.read_text("utf-8") if path.exists() else None


def test_pages_come_out_the_same_every_time(generated: dict[str, str]) -> None:
    assert generate.pages() == generated


def test_every_check_has_a_section_that_the_index_links_to(generated: dict[str, str]) -> None:
    index = generated["reference/problems/index.md"]
    for code in CHECKS:
        (page,) = re.findall(rf"\[{code}\]\((\w+\.md)#{code.lower()}\)", index)
        assert f"\n## {code}\n" in generated[f"reference/problems/{page}"]


def test_every_kind_has_a_page(generated: dict[str, str]) -> None:
    for kind in BUILTIN:
        assert f"reference/tools/{kind}.md" in generated
        assert f"({kind}.md)" in generated["reference/tools/index.md"]


def test_every_verb_is_described(generated: dict[str, str]) -> None:
    for verb in VERBS:
        assert f"## noetl {verb}\n" in generated["reference/cli.md"]


def test_every_exit_code_is_reported(generated: dict[str, str]) -> None:
    told = set(re.findall(r"^\| (\d+) \|", generated["reference/cli.md"], re.MULTILINE))
    assert told == {"0", "1", *map(str, EXIT_CODES.values())}


def test_every_event_is_described_with_its_fields(generated: dict[str, str]) -> None:
    for name, kind in EVENTS.items():
        if not name:
            continue  # the base of all
        assert f"](#{slug(name)})" in generated["reference/events.md"]
        _, _, section = generated["reference/events.md"].partition(f"\n### {name}\n")
        section = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
        assert [field.name for field in fields(kind)] == re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE), name


def test_every_field_of_the_envelope_is_explained() -> None:
    shown = list(envelope("", 1, 0.0, PlaybookStarted()))
    assert sorted(shown) == sorted([*ENVELOPE, *ALIASES])


def test_every_variable_that_is_read_is_listed(generated: dict[str, str]) -> None:
    source = (HOME / "src" / "noetl" / "settings.py").read_text("utf-8")
    read = set(re.findall(r"\bNOETL_[A-Z_]+\b", source.partition("VARIABLES:")[0]))
    assert read <= VARIABLES.keys()
    assert re.findall(r"^\| `(\w+)` \|", generated["reference/settings.md"], re.MULTILINE) == list(VARIABLES)


def test_every_metric_is_listed(generated: dict[str, str]) -> None:
    assert re.findall(r"^\| `(\w+)` \|", generated["reference/metrics.md"], re.MULTILINE) == list(METRICS)


def test_every_invariant_is_listed(generated: dict[str, str]) -> None:
    assert re.findall(r"^\| `(\w+)` \|", generated["reference/invariants.md"], re.MULTILINE) == list(INVARIANTS)


def test_every_kind_of_error_in_the_source_is_explained(generated: dict[str, str]) -> None:
    made = set(_error_kinds())
    assert made == set(ERRORS)
    for kind in made:
        assert f"| `{kind}` |" in generated["reference/outcomes.md"]


MAKERS = {"failed": 0, "_failed": 0, "Failure": 0, "Error": 0, "as_fault": 0, "Refused": 1}
"""What makes an error, and which of its arguments is the kind."""


def _error_kinds() -> Iterator[str]:
    """The kinds that stand in calls, in defaults of `Refused`, and in maps that are errors."""
    for file in sorted((HOME / "src" / "noetl").rglob("*.py")):
        if file.is_relative_to(HOME / "src" / "noetl" / "server"):
            continue  # answers to requests have words, not kinds
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=args) if name in MAKERS:
                    result = args[MAKERS[name] : MAKERS[name] + 1]
                case ast.Dict(keys=keys, values=values):
                    named = {key.value: value for key, value in zip(keys, values, strict=True) if _is_text(key)}
                    result = [named["kind"]] if {"kind", "message"} <= named.keys() else []
                case _:
                    continue
            yield from (str(one.value) for one in result if _is_text(one))


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


INTERPRETED = {"iterator", "workbook"}
"""Kinds without a runner: the pipeline runs the one, and the compiler replaces the other."""


def test_every_kind_can_be_run() -> None:
    assert {kind for kind in BUILTIN if KINDS.runner(kind) is None} == INTERPRETED


@pytest.mark.parametrize("entries", [FILTERS, SQL_FILTERS, TESTS, FUNCTIONS, *METHODS.values()])
def test_everything_a_template_can_use_is_listed(generated: dict[str, str], entries: dict[str, object]) -> None:
    rows = [line for line in generated["reference/templates.md"].split("\n") if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    assert set(entries) <= listed


def test_every_name_and_place_of_templates_is_explained() -> None:
    assert set(NAMES) == {name for place in ClassicSiteFinder.places.values() for name in place.roots}


def test_every_key_of_the_language_is_listed(generated: dict[str, str]) -> None:
    for key in _keys(ROOT, set()):
        assert re.search(rf"^\| `(?:[\w.\[\]]+\.)?{key}` \|", generated["reference/language.md"], re.MULTILINE), key


def _keys(shape: Shape, seen: set[int]) -> set[str]:
    """Every key of every map below a shape."""
    if id(shape) in seen:
        return set()
    seen.add(id(shape))
    inside: list[Shape] = []
    match shape:
        case Fields():
            inside = [field.shape for field in shape.fields.values()]
        case ListOf(item=item):
            inside = [item]
        case MapOf(value=value):
            inside = [value]
        case OneOf(forms=forms):
            inside = [form.shape for form in forms]
        case _:
            inside = [part for part in vars(shape).values() if isinstance(part, Shape)]
            inside += [part for part in vars(type(shape)).values() if isinstance(part, Shape)]
    own = set(shape.fields) if isinstance(shape, Fields) else set()
    return own.union(*(_keys(part, seen) for part in inside))


@pytest.mark.parametrize("kind", BUILTIN)
def test_the_example_of_a_kind_uses_it_and_has_no_problems(kind: str) -> None:
    path = KIND_EXAMPLES / f"{kind}.yaml"
    loaded = load(path.name, path.read_bytes(), KINDS)
    assert loaded.problems == []
    assert f"kind: {kind}\n" in path.read_text("utf-8") or f"kind: {kind}," in path.read_text("utf-8")


def test_there_is_no_example_without_a_kind() -> None:
    assert {path.name for path in KIND_EXAMPLES.iterdir()} == {f"{kind}.yaml" for kind in BUILTIN}


def test_playbooks_shown_in_the_docs_have_no_errors() -> None:
    pages = [path for path in PAGES if PROBLEMS not in path.parents]
    assert [error for path in pages for error in _errors(path)] == []


def _errors(path: Path) -> Iterator[str]:
    """The errors of the playbooks that a page shows; one of another generation has those that `migrate` leaves."""
    for match in FENCE.finditer(path.read_text("utf-8")):
        text = dedent(match.group(4))
        if match.group(3) == "yaml" and re.search(r"^apiVersion:", text, re.MULTILINE):
            if "apiVersion: noetl.io/v2" not in text:
                text = migrate(path.name, text, KINDS).text
            problems = load(path.name, text, KINDS).problems
            yield from (f"{path}: {problem}" for problem in problems if problem.severity == "error")


ELSEWHERE = ("NTL213", "NTL304", "NTL401", "NTL513")  # names that the rest of a playbook declares
PLAYBOOK = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: part, path: docs/part}\n"
STEP = "workflow:\n  - step: part\n"


def test_parts_of_playbooks_shown_in_the_docs_have_no_errors() -> None:
    parts = [(path, part) for path in PAGES if PROBLEMS not in path.parents for part in _parts_of_playbooks(path)]
    assert len(parts) > 15
    problems = [(path, problem) for path, part in parts for problem in load(path.name, part, KINDS).problems]
    errors = [
        f"{path}: {problem}"
        for path, problem in problems
        if problem.severity == "error" and problem.code not in ELSEWHERE
    ]
    assert errors == []


def _parts_of_playbooks(path: Path) -> Iterator[str]:
    """The blocks of a page that are a part of a playbook, each inside of one."""
    for match in FENCE.finditer(path.read_text("utf-8")):
        text = dedent(match.group(4))
        if match.group(3) != "yaml" or "apiVersion:" in text:
            continue
        match yaml.safe_load(text):
            case {"keychain": _} | {"executor": _} | {"workflow": _}:
                yield PLAYBOOK + text + ("" if "workflow:" in text else f"{STEP}    tool: {{kind: noop}}\n")
            case [{"step": _}, *_]:
                yield f"{PLAYBOOK}workflow:\n{text}"
            case {"loop": _} | {"next": _}:
                yield f"{PLAYBOOK}{STEP}    tool: {{kind: noop}}\n{indent(text, ' ' * 4)}"
            case {"tool": _}:
                yield f"{PLAYBOOK}{STEP}{indent(text, ' ' * 4)}"
            case {"case": _}:
                yield f"{PLAYBOOK}{STEP}    tool: {{kind: http, url: http://x}}\n{indent(text, ' ' * 4)}"
            case [{**task}, *_] if all(isinstance(value, dict) and "kind" in value for value in task.values()):
                yield f"{PLAYBOOK}{STEP}    tool:\n{indent(text, ' ' * 6)}"
            case {"spec": _}:
                yield f"{PLAYBOOK}{STEP}    tool:\n      kind: http\n      url: http://x\n{indent(text, ' ' * 6)}"
            case {"requirements": _}:
                yield f"{PLAYBOOK}{STEP}    tool:\n      kind: python\n      code: x\n{indent(text, ' ' * 6)}"


def test_links_lead_somewhere() -> None:
    assert [f"{path}: {target}" for path in PAGES for target in _broken_links(path)] == []


def _broken_links(path: Path) -> Iterator[str]:
    for target in LINK.findall(_prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        goal = (path.parent / name).resolve() if name else path
        if not goal.exists() or (anchor and goal.suffix == ".md" and anchor not in _anchors(goal)):
            yield target


def _prose(path: Path) -> str:
    return INLINE_CODE.sub("", FENCE.sub("", path.read_text("utf-8")))


@cache
def _anchors(path: Path) -> set[str]:
    """Anchors as GitHub makes them; a heading that comes twice gets a number."""
    result: set[str] = set()
    for title in HEADING.findall(FENCE.sub("", path.read_text("utf-8"))):
        anchor, count = slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)), 1
        while anchor in result:
            anchor, count = f"{slug(title)}-{count}", count + 1
        result.add(anchor)
    return result


def test_the_glossary_for_contributors_names_only_what_is_in_the_code() -> None:
    text = (HOME / "docs" / "glossary.md").read_text("utf-8").partition("\n## For contributors\n")[2]
    names = re.findall(r"^\*\*[^*]+\*\* \(`(\w+)`\)\.", text, re.MULTILINE)
    source = "\n".join(file.read_text("utf-8") for file in (HOME / "src" / "noetl").rglob("*.py"))
    defined = {name for pair in re.findall(r"\b(?:class|def) (\w+)|\b(\w+): ", source) for name in pair}
    assert names
    assert [name for name in names if name not in defined] == []


def test_files_named_in_contributing_exist() -> None:
    text = FENCE.sub("", (HOME / "CONTRIBUTING.md").read_text("utf-8"))
    paths = [path for path in re.findall(r"`([\w./]+/[\w./]*|\w+\.py)`", text) if not re.search(r"[A-Z]{4}", path)]
    roots = (HOME, HOME / "src" / "noetl", HOME / "src" / "noetl" / "store" / "sqlite")
    missing = [path for path in paths if not any((root / path).exists() for root in roots)]
    assert paths
    assert missing == []
