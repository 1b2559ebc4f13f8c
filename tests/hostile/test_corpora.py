"""Known attacks by class, as data: each test lists those that get through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from tests.table import for_each

from noetl import file_access
from noetl.addresses import forbid_addresses, is_forbidden
from noetl.drawing import draw
from noetl.dsl.compile import load
from noetl.errors import NoetlError, TemplateError
from noetl.expression import Budget, render
from noetl.expression.budget import Allowance
from noetl.server.app import path_params, path_pattern
from noetl.server.problems import Refused
from noetl.shell_text import prepare_shell
from noetl.sql import prepare_sql
from noetl.sql.lexing import tokens
from noetl.sql.statements import write
from noetl.tools.registry import KINDS

CORPORA = Path(__file__).parent / "corpora"
SCOPE: dict[str, Any] = {
    "x": 1,
    "s": "text",
    "items": [1, 2],
    "m": {"a": {"b": 1}},
    "evil": "{0.__class__}",
    "template": "{{ 7 * 7 }}",
}
BUDGET_SECONDS = 0.05
SQL_PLACES = ["SELECT {{ v }}", "SELECT '{{ v }}'", "SELECT '%{{ v }}%'", 'SELECT "{{ v }}"', "SELECT 1 IN ({{ v }})"]
SHELL_PLACES = [
    "echo {{ v }}",
    "echo '{{ v }}'",
    'echo "{{ v }}"',
    "cat <<E\n{{ v }}\nE",
    "a={{ v }}",
    "echo > {{ v }}",
]
SHAPES = {"svg", "g", "path", "rect", "text", "tspan", "defs", "marker", "title", "style", "circle", "polygon"}


def corpus(name: str) -> Any:
    return yaml.safe_load((CORPORA / f"{name}.yaml").read_text("utf-8"))


def rendered(template: str, budget: Budget) -> Any:
    return render(template, SCOPE, budget)


def test_there_is_nothing_else_in_the_folder() -> None:
    names = sorted(file.stem for file in CORPORA.iterdir())
    assert names == ["bombs", "escapes", "injection", "ssrf", "traversal", "xss"]
    assert [name for name in names if len(corpus(name)) < 3] == []


@for_each("template", corpus("escapes"))
def test_no_template_reaches_python(template: str) -> None:
    before = json.dumps(SCOPE)
    try:
        text = json.dumps(rendered(template, Budget()))
    except TemplateError:
        return
    finally:
        assert json.dumps(SCOPE) == before, "the scope has changed"
    assert not any(
        part in text for part in ("<class", "<function", "object at 0x", "__globals__': ", "<built-in", "49")
    )


@for_each("template", corpus("bombs"))
def test_no_template_takes_more_than_its_budget(template: str) -> None:
    with pytest.raises(TemplateError):
        rendered(template, Budget(Allowance(BUDGET_SECONDS)))


def shape(sql: Any) -> list[str]:
    """The statement as the database reads it, without its data."""
    text = write(sql, lambda value: "?")
    return [token.kind for token in tokens(text, sql.dialect) if not token.insignificant]


@for_each("value", corpus("injection"))
def test_a_value_does_not_change_a_statement(value: str) -> None:
    for place in SQL_PLACES:
        bind = prepare_sql(place)
        assert shape(bind({"v": value})) == shape(bind({"v": "a"})), place


@for_each("value", corpus("injection"))
def test_a_value_is_no_part_of_a_command(value: str) -> None:
    for place in SHELL_PLACES:
        prepared, harmless = (prepare_shell(place)({"v": text}) for text in (value, "a"))
        assert prepared.text == harmless.text, place
        assert list(prepared.env.values()) == [value], place


@pytest.fixture
def protected(tmp_path: Path) -> Path:
    file = tmp_path / "folder" / "noetl.db"
    file.parent.mkdir()
    file.write_bytes(b"secret")
    return file


@for_each("name", corpus("traversal")["files"])
def test_no_name_of_a_file_leads_to_those_of_noetl_or_the_kernel(protected: Path, name: str) -> None:
    environment = {"NOETL_PROTECTED_FILES": str(protected)}
    words = {
        "FOLDER_UP": f"..{protected.parent}",
        "FOLDER_NAME": protected.parent.name,
        "FOLDER": str(protected.parent),
        "PROTECTED_NAME": protected.name,
        "PROTECTED": str(protected),
    }
    for word, path in words.items():
        name = name.replace(word, path)
    with pytest.raises((NoetlError, OSError)):
        file_access.open_checked(name, environment=environment).close()


@for_each("segment", corpus("traversal")["segments"])
def test_no_encoded_name_in_a_path_hides_another(segment: str) -> None:
    match = path_pattern("/api/v1/playbooks/{path}").fullmatch(f"/api/v1/playbooks/{segment}")
    if match is not None:
        with pytest.raises(Refused):
            path_params(match)


@pytest.fixture
def guarded() -> Iterator[None]:
    forbid_addresses()
    yield
    forbid_addresses([])


@for_each("address", corpus("ssrf"))
@pytest.mark.usefixtures("guarded")
def test_no_notation_hides_an_address(address: str) -> None:
    assert is_forbidden(address)


@for_each("text", corpus("xss"))
def test_no_text_is_markup_in_a_drawing(text: str) -> None:
    quoted = json.dumps(text)
    guard = json.dumps(f"{{{{ ctx.a == {quoted} }}}}")
    playbook = load(
        "a.yaml",
        "apiVersion: noetl.io/v2\nkind: Playbook\n"
        f"metadata: {{name: {quoted}, path: a, description: {quoted}}}\nworkflow:\n"
        f"- {{step: s, desc: {quoted}, tool: {{kind: noop}}, next: {{arcs: [{{step: e, when: {guard}}}]}}}}\n"
        "- {step: e, tool: {kind: noop}}\n",
        KINDS,
    ).require()
    for element in ElementTree.fromstring(draw(playbook, "svg")).iter():
        tag = element.tag.rpartition("}")[2]
        assert tag in SHAPES, tag
        assert not [name for name in element.attrib if name.startswith(("on", "{http://www.w3.org/1999/xlink}"))]
    assert "<script" not in draw(playbook, "mermaid")  # a page would take it for markup
