"""Any playbook, sound or not, is judged: it compiles or it has problems, each with a place in its text.

Playbooks come from the JSON Schema that the language prints of itself, and from good ones that are damaged at random.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.table import for_each

from noetl.dsl.compile import Loaded, load
from noetl.dsl.reader import read
from noetl.dsl.schema import playbook_schema
from noetl.dsl.tree import plain
from noetl.tools.registry import KINDS

ROOT = Path(__file__).parents[2]
GOOD = sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("tests/checks/*.good.yaml"), *ROOT.glob("tests/kinds/*.yaml")])
SCHEMA = playbook_schema(KINDS.all())
VALIDATOR = Draft202012Validator(SCHEMA)

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
long = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))


def judged(text: str) -> Loaded:
    """What became of a text, having made sure that it was judged properly."""
    loaded = load("any.yaml", text, KINDS)
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    assert (loaded.playbook is None) == bool(errors)
    lines = text.removeprefix("\ufeff").split("\n")
    for problem in loaded.problems:
        assert 1 <= problem.line <= len(lines), problem
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem
        assert problem.message
    return loaded


# -- a strategy from a schema ---------------------------------------------------------------------------------------

NAMES = st.sampled_from(["start", "fetch", "save", "a", "b", "x1", "items", "ctx", "result"])
EXPRESSIONS = st.sampled_from(
    [
        "workload.a", "ctx.a", "steps.start.result", "steps.fetch.status == 'ok'", "outcome.status == 'error'",
        "event.name == 'step.done'", "iter.index", "args.x1 | default(1)", "a", "_prev", "keychain.a", "1 +", "x | no",
        "result", "response.status", "vars.a", "now()", "[1, 2]", "{'a': 1}", "tasks.fetch.result", "loop_index",
    ]
)  # fmt: skip
TEMPLATES = EXPRESSIONS.map("{{{{ {} }}}}".format) | st.sampled_from(["{% if a %}b{% endif %}", "{{", "a {{ a }} b"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | TEMPLATES
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
BY_PATTERN: dict[str, st.SearchStrategy[str]] = {
    "A-Za-z_": NAMES,
    "ms|s|m|h|d": st.sampled_from(["5s", "1h30m", "250ms", "2d"]),
    "v?2": st.sampled_from(["2", "v2", "noetl-runtime/2", "noetl-runtime/2.1"]),
    "KB|MB": st.sampled_from(["512MB", "1GiB"]),
    r"\.[A-Za-z0-9_.-]": st.sampled_from(["acme.key", "acme.sign-in"]),
    r"\{": TEMPLATES,
}
DEEP = 14


class Author:
    """Writes values that a schema of ours allows. Knows the keywords that `noetl schema` prints, and no others."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        if "$ref" in schema:
            return self.value(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], depth + 1)
        if "anyOf" in schema:
            options = schema["anyOf"]
            return self.value(options[0] if depth > DEEP else self.draw(st.sampled_from(options)), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.draw(st.sampled_from(schema["enum"]))
        match schema.get("type"):
            case "object":
                return self.map(schema, depth)
            case "array":
                least = schema.get("minItems", 0)
                count = self.draw(st.integers(least, least if depth > DEEP else max(least, 3)))
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "string":
                return self.draw(strings(schema))
            case "integer":
                least = schema.get("minimum", -5)
                return self.draw(st.integers(least, min(schema.get("maximum", least + 99), least + 99)))
            case "number":
                least = schema.get("minimum", 0)
                return self.draw(
                    st.integers(0, 99).filter(lambda number: number >= least) | st.floats(least, least + 0.5)
                )
            case "boolean":
                return self.draw(st.booleans())
            case "null":
                return None
            case _:
                return self.draw(DATA)

    def map(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """All keys that must be there and some of the others: with all of them a playbook would be endless."""
        properties, needed = schema.get("properties", {}), schema.get("required", [])
        optional = sorted(set(properties) - set(needed))
        some = [] if depth > DEEP or not optional else self.draw(st.lists(st.sampled_from(optional), max_size=3))
        more = schema.get("additionalProperties", True)
        result = {}
        if isinstance(more, dict) or not properties:
            least = schema.get("minProperties", 0)
            most = schema.get("maxProperties", least if depth > DEEP else 2)
            for name in self.draw(st.lists(NAMES, min_size=least, max_size=most, unique=True)):
                result[name] = self.value(more if isinstance(more, dict) else {}, depth + 1)
        return result | {key: self.value(properties[key], depth + 1) for key in (*needed, *some)}


def strings(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    pattern = schema.get("pattern")
    if pattern is None:
        return NAMES | st.text(min_size=schema.get("minLength", 0), max_size=12)
    result = next(strategy for part, strategy in BY_PATTERN.items() if part in pattern)
    return result.filter(lambda text: re.search(pattern, text) is not None)


@st.composite
def playbooks(draw: st.DrawFn) -> Any:
    return Author(draw).value({key: value for key, value in SCHEMA.items() if key != "$defs"})


def from_the_schema(playbook: Any) -> None:
    text = json.dumps(playbook, ensure_ascii=False, indent=1)
    loaded = judged(text)
    if loaded.playbook is not None:
        assert VALIDATOR.is_valid(plain(read("any.yaml", text)[0]))


@quick
@given(playbooks())
def test_a_playbook_from_the_schema_compiles_or_has_problems(playbook: Any) -> None:
    from_the_schema(playbook)


@pytest.mark.slow(part="playbooks")
@long
@given(playbooks())
def test_many_playbooks_from_the_schema_compile_or_have_problems(playbook: Any) -> None:
    from_the_schema(playbook)


def test_the_author_knows_every_keyword_that_the_schema_uses() -> None:
    known = {
        "$ref", "anyOf", "const", "enum", "type", "properties", "required", "additionalProperties", "items", "minItems",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "pattern", "minProperties",
        "maxProperties", "propertyNames", "not", "description", "deprecated", "default", "title", "$schema", "$defs",
    }  # fmt: skip

    def keywords(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(keywords, schema))
        if not isinstance(schema, dict):
            return set()
        result = set(schema)
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                result |= set().union(*map(keywords, value.values()))
            elif key not in ("const", "enum", "default"):
                result |= keywords(value)
        return result

    assert keywords(SCHEMA) <= known


# -- damaged playbooks ----------------------------------------------------------------------------------------------

TOKENS = [
    "{{", "}}", "{%", "%}", "[", "]", "{", "}", ":", ": ", "- ", "? ", "#", "'", '"', "|", ">", "&a ", "*a", "<<: *a",
    "!!str ", "!x ", "\t", "\n", "\r\n", "  ", "---\n", "...\n", "%TAG", "null", "~", "true", "yes", "0x1f", ".nan",
    "\u2028", "\u0085", "\ufeff", "é", "😀", "\\", "\x07", "kind: noop", "tool:", "step: a",
    "next:", "case:", "retry: {}", "spec: {policy: {rules: []}}", "loop: {}", "when: x", "then: {}", "sink: {}",
    "vars: {}", "args: {}", "else: []",
]  # fmt: skip
KEYS = [
    "step", "tool", "next", "arcs", "when", "then", "else", "do", "kind", "spec", "policy", "rules", "loop", "in",
    "iterator", "args", "workflow", "workload", "metadata", "name", "case", "sink", "retry", "vars", "set_ctx", "jump",
]  # fmt: skip

Edit = Callable[[st.DrawFn, str], str]


def _cut(draw: st.DrawFn, text: str) -> str:
    start = draw(st.integers(0, len(text)))
    return text[:start] + text[start + draw(st.integers(1, 30)) :]


def _insert(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(TOKENS) | st.characters()) + text[at:]


def _swap(draw: st.DrawFn, text: str) -> str:
    if len(text) < 2:
        return text
    at = draw(st.integers(0, len(text) - 2))
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _repeat_lines(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    some = lines[at : at + draw(st.integers(1, 6))]
    to = draw(st.integers(0, len(lines)))
    return "\n".join([*lines[:to], *some, *lines[to:]])


def _drop_lines(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    return "\n".join([*lines[:at], *lines[at + draw(st.integers(1, 4)) :]])


def _indent(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at, by = draw(st.integers(0, len(lines) - 1)), draw(st.integers(-4, 4))
    for i in range(at, min(at + draw(st.integers(1, 5)), len(lines))):
        lines[i] = " " * by + lines[i] if by > 0 else lines[i].removeprefix(" " * -by)
    return "\n".join(lines)


def _rename(draw: st.DrawFn, text: str) -> str:
    places = [match.span() for match in re.finditer(r"\b[a-z_]+(?=:)", text)]
    if not places:
        return text
    start, end = draw(st.sampled_from(places))
    return text[:start] + draw(st.sampled_from(KEYS)) + text[end:]


def _other_value(draw: st.DrawFn, text: str) -> str:
    places = [match.span(1) for match in re.finditer(r": ([^\n{\[|>]+)", text)]
    if not places:
        return text
    start, end = draw(st.sampled_from(places))
    return text[:start] + draw(st.sampled_from(TOKENS) | TEMPLATES | st.text(max_size=8)) + text[end:]


EDITS: list[Edit] = [_cut, _insert, _swap, _repeat_lines, _drop_lines, _indent, _rename, _other_value]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(GOOD)).read_text("utf-8")
    for edit in draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=4)):
        text = edit(draw, text)
    return text


@settings(quick, max_examples=250)
@given(damaged())
def test_a_damaged_playbook_compiles_or_has_problems(text: str) -> None:
    judged(text)


@pytest.mark.slow(part="playbooks")
@settings(long, max_examples=20_000)
@given(damaged())
def test_many_damaged_playbooks_compile_or_have_problems(text: str) -> None:
    judged(text)


# -- the schema and the validator agree -----------------------------------------------------------------------------


@for_each("file", GOOD)
def test_what_compiles_is_valid_by_the_schema(file: Path) -> None:
    """Never the other way round: the schema can't know names, templates, limits of time or inputs that are missing."""
    text = file.read_text("utf-8")
    if load(file.name, text, KINDS).playbook is not None:
        errors = [error.message[:200] for error in VALIDATOR.iter_errors(plain(read(file.name, text)[0]))]
        assert not errors


@settings(quick, max_examples=100)
@given(damaged())
def test_what_compiles_after_damage_is_valid_by_the_schema(text: str) -> None:
    if load("any.yaml", text, KINDS).playbook is not None:
        errors = [error.message[:200] for error in VALIDATOR.iter_errors(plain(read("any.yaml", text)[0]))]
        assert not errors, text


# -- the same text, the same answer ---------------------------------------------------------------------------------


@settings(quick, max_examples=40)
@given(damaged())
def test_the_same_text_always_gets_the_same_answer(text: str) -> None:
    one, two = load("any.yaml", text, KINDS), load("any.yaml", text, KINDS)
    assert one.problems == two.problems
    assert one.playbook == two.playbook
    if one.playbook is not None and two.playbook is not None:
        assert one.playbook.digest == two.playbook.digest


STYLES: list[dict[str, Any]] = [
    {"default_flow_style": True},
    {"default_flow_style": False, "indent": 7, "width": 40},
    {"default_style": '"', "width": 20, "allow_unicode": False},
    {"default_flow_style": None, "default_style": "'"},
]


@for_each("file", GOOD)
def test_another_layout_of_a_playbook_has_the_same_digest(file: Path) -> None:
    text = file.read_text("utf-8")
    loaded = load(file.name, text, KINDS)
    if loaded.playbook is None:  # it is good only as a part of another check
        return
    content = plain(read(file.name, text)[0])
    for style in STYLES:
        again = load(file.name, yaml.safe_dump(content, sort_keys=False, **style), KINDS)
        assert again.require().digest == loaded.playbook.digest, style
        assert sorted(problem.code for problem in again.problems) == sorted(
            problem.code for problem in loaded.problems
        ), style
