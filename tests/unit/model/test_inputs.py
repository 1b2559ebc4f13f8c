"""Inputs in words, as JSON Schema, and as a check of literals."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Meta
from tests.table import for_each

from noetl.model.inputs import InputField, Misfit, fields, misfit, rows, schema
from noetl.model.kind import Kind
from noetl.testing import run_playbook
from noetl.tools.registry import BUILTIN, builtin


class Size(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    width: Annotated[float, Meta(gt=0, description="How wide")]
    unit: Annotated[Literal["cm", "in"], Meta(description="Unit of measure")] = "cm"


class Inputs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    title: Annotated[str, Meta(description="What to call it")]
    colour: Annotated[Literal["red", "blue"], Meta(description="Its colour")] = "red"
    count: Annotated[int, Meta(ge=1, description="How many")] = 3
    weight: Annotated[float | None, Meta(description="How heavy")] = None
    fragile: Annotated[bool, Meta(description="Whether it breaks")] = False
    labels: Annotated[dict[str, str], Meta(description="Labels")] = {}
    extras: Annotated[dict[str, Any], Meta(description="Anything")] = {}
    cells: Annotated[dict[str, str | int | float | bool | None], Meta(description="Cells")] = {}
    cmds: Annotated[str | list[str | list[str]] | None, Meta(description="Commands")] = None
    in_: Annotated[list[Any], Meta(description="Items")] = msgspec.field(name="in", default_factory=list)
    size: Annotated[Size | None, Meta(description="Its size")] = None
    boxes: Annotated[list[Size | str], Meta(description="Boxes")] = []
    anything: Annotated[Any, Meta(description="Whatever")] = msgspec.UNSET


PARCEL = Kind(name="parcel", summary="Sends a parcel", inputs=Inputs, one_of=(("title", "cmds"),))


def complaint(field: InputField, value: object) -> str | None:
    """The message of a misfit, with the path to the part that it is about."""
    result = misfit(field.type, value)
    if result is None:
        return None
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in result.path).removeprefix(".")
    return f"{path}: {result.message}" if path else result.message


def test_types_in_words() -> None:
    assert {row.name: row.type for row in rows(PARCEL)} == {
        "title": "text",
        "colour": "one of blue, red",
        "count": "whole number",
        "weight": "number",
        "fragile": "yes/no",
        "labels": "map of text",
        "extras": "map",
        "cells": "map of scalars",
        "cmds": "text, or list of text or lists of text",
        "in": "list",
        "size": "map",
        "size.width": "number",
        "size.unit": "one of cm, in",
        "boxes": "list of maps or text",
        "boxes[].width": "number",
        "boxes[].unit": "one of cm, in",
        "anything": "any value",
    }


def test_rows_tell_what_is_required_and_the_defaults() -> None:
    told = {row.name: row for row in rows(PARCEL)}
    assert [name for name, row in told.items() if row.required] == ["title", "size.width", "boxes[].width"]
    defaults = {name: row.default for name, row in told.items() if row.default}
    assert defaults == {
        "colour": "red",
        "count": "3",
        "fragile": "false",
        "size.unit": "cm",
        "boxes[].unit": "cm",
    }
    assert told["size.unit"].description == "Unit of measure"


@for_each(
    ("name", "value", "says"),
    [
        ("title", "a", None),
        ("title", 5, "expected text, found the number 5: put it in quotes"),
        ("title", True, "expected text, found `true`: put it in quotes"),
        ("title", None, "expected text, found nothing"),
        ("title", ["a"], "expected text, found a list"),
        ("colour", "red", None),
        ("colour", "Red", "expected one of blue, red, found the text 'Red'"),
        ("colour", 1, "expected one of blue, red, found the number 1"),
        ("count", 1, None),
        ("count", "{{ n }}", None),
        ("count", "{% if a %}1{% endif %}", None),
        ("count", 0, "expected at least 1, found 0"),
        ("count", 1.5, "expected a whole number, found the number 1.5"),
        ("count", "1", "expected a whole number, found the text '1'"),
        ("count", True, "expected a whole number, found `true`"),
        ("weight", 1, None),
        ("weight", 1.5, None),
        ("weight", None, None),
        ("weight", {}, "expected a number, found a map"),
        ("fragile", False, None),
        ("fragile", "yes", "expected yes/no, found the text 'yes'"),
        ("fragile", 1, "expected yes/no, found the number 1"),
        ("labels", {"a": "b", "c": "{{ d }}"}, None),
        ("labels", "{{ labels }}", None),
        ("labels", 5, "expected a map, found the number 5"),
        ("labels", None, "expected a map, found nothing"),
        ("labels", {"a": 1}, "a: expected text, found the number 1: put it in quotes"),
        ("labels", {1: "a"}, "expected text as a key, found the number 1: put it in quotes"),
        ("extras", {"a": [1, {"b": None}]}, None),
        ("cells", {"a": 1, "b": "x", "c": True, "d": None, "e": 1.5}, None),
        ("cells", {"a": []}, "a: expected text, a number or yes/no, found a list"),
        ("cmds", "ls", None),
        ("cmds", ["ls", ["ls", "-l"], "{{ c }}"], None),
        ("cmds", {"a": 1}, "expected text or a list, found a map"),
        ("cmds", ["ls", {"a": 1}], "[1]: expected text or a list, found a map"),
        ("cmds", [["sleep", 5]], "[0][1]: expected text, found the number 5: put it in quotes"),
        ("in", [1, "a", None], None),
        ("in", {"a": 1}, "expected a list, found a map"),
        ("size", {"width": 1}, None),
        ("size", {"width": "{{ w }}", "unit": "{{ u }}"}, None),
        ("size", {"width": 0}, "width: expected more than 0, found 0"),
        ("size", {"width": 1, "unit": "mm"}, "unit: expected one of cm, in, found the text 'mm'"),
        ("size", {"width": 1, "depth": 2}, "depth: unknown key; the keys are width, unit"),
        ("size", {}, "'width' is missing"),
        ("boxes", ["big", {"width": 2}], None),
        ("boxes", [{"width": "wide"}], "[0].width: expected a number, found the text 'wide'"),
        ("anything", object(), None),
    ],
)
def test_literals(name: str, value: object, says: str | None) -> None:
    assert complaint(fields(Inputs)[name], value) == says


def test_a_misfit_tells_the_way_to_the_part() -> None:
    result = misfit(fields(Inputs)["boxes"].type, ["a", {"width": "wide"}])
    assert result == Misfit((1, "width"), "expected a number, found the text 'wide'")


def test_messages_name_no_python_type() -> None:
    values: list[object] = [None, True, 1, 1.5, "x", [], {}, [None], {"a": None}]
    said = " ".join(complaint(field, value) or "" for field in fields(Inputs).values() for value in values)
    python = {"int", "str", "dict", "bool", "float", "None", "True", "False", "Size"}
    assert not python & set(re.findall(r"\w+", said))


class Plain(msgspec.Struct, tag="plain", forbid_unknown_fields=True):
    a: int = 0


class Fancy(msgspec.Struct, tag="fancy", forbid_unknown_fields=True):
    b: int = 0
    again: Plain | Fancy | None = None


class PlugIn(msgspec.Struct):
    """Shapes that no built-in kind has, but a plug-in's may."""

    one: Plain | Fancy | None = None
    many: dict[int, str] = {}
    raw: bytes = b""


def test_the_models_of_plug_ins_are_read_without_being_stricter() -> None:
    known = fields(PlugIn)
    assert complaint(known["one"], {"type": "fancy", "b": 1}) is None
    assert complaint(known["many"], {1: "a"}) is None
    assert complaint(known["raw"], "YQ==") is None
    plug_in = Kind(name="plug", summary="", inputs=PlugIn)
    assert [row.name for row in rows(plug_in)][:3] == ["one", "one.a", "one.b"]
    Draft202012Validator.check_schema(schema(plug_in))


@pytest.mark.parametrize("name", BUILTIN)
def test_schemas_are_schemas_and_stand_alone(name: str) -> None:
    kind = builtin(name)
    assert kind is not None
    whole = schema(kind)
    Draft202012Validator.check_schema(whole)
    assert "$ref" not in json.dumps(whole)
    assert list(whole["properties"]) == list(fields(kind.inputs))
    assert all(part["description"] for part in whole["properties"].values())
    assert whole["additionalProperties"] is False


@pytest.mark.parametrize(
    ("inputs", "valid"),
    [
        ({"title": "a", "count": 2}, True),
        ({"title": "a", "count": "{{ n }}", "fragile": "{% if x %}true{% endif %}"}, True),
        ({"title": "a", "count": "2"}, False),
        ({"title": "a", "labels": "{{ labels }}", "size": "{{ size }}"}, True),
        ({"title": "a", "size": {"width": "{{ w }}"}}, True),
        ({"title": "a", "size": {"width": "wide"}}, False),
        ({"title": "a", "boxes": [{"width": 1}, "{{ box }}"]}, True),
        ({"title": "a", "colour": "green"}, False),
        ({"title": "a", "nope": 1}, False),
        ({"title": "a", "cmds": "ls"}, False),
        ({}, False),
    ],
)
def test_the_schema_takes_templates_where_values_go(inputs: dict[str, Any], valid: bool) -> None:
    assert Draft202012Validator(schema(PARCEL)).is_valid(inputs) is valid


TYPES = get_type_hints(Inputs, include_extras=True)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-2, 2, allow_nan=False)
    | st.sampled_from(["", "red", "cm", "1", "true"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["width", "unit", "a"]) | st.integers(0, 1), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(TYPES)), VALUES)
def test_a_literal_is_refused_exactly_when_the_tool_would_refuse_it(attribute: str, value: object) -> None:
    try:
        msgspec.convert(value, TYPES[attribute])
        taken = True
    except msgspec.ValidationError:
        taken = False
    assert (complaint(fields(Inputs)[attribute.rstrip("_")], value) is None) is taken


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            {"rows": [], "row_count": 0},
            "`rows`: expected a list, found a map with rows, row_count; write `{{ ... .rows }}` for its list",
        ),
        ("secret", "`rows`: expected a list, found text"),
        ({"id": 1}, '`rows`: expected a list, found a map with id; for one value write `rows: ["{{ ... }}"]`'),
        ([{"id": 1}, 5], "`rows[1]`: expected a map or a list, found a number"),
    ],
)
def test_a_rendered_input_of_another_shape_is_described_without_its_values(rows: object, words: str) -> None:
    playbook = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, path: shop/load}
workload: {rows: null}
workflow:
  - step: load
    tool: {kind: duckdb, database: shop.db, table: t, rows: "{{ workload.rows }}"}
"""
    error = run_playbook(playbook, {"rows": rows}).error
    assert error is not None
    assert (error["kind"], error["message"]) == ("input", f"duckdb: {words}")
