"""The inputs of a playbook as a form."""

from __future__ import annotations

from typing import Any

from noetl.dsl.form import MAX_FIELDS, FormField, form_of

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: a}\n"
WORKLOAD = """\
workload:
  # First day of the orders.
  # Inclusive.
  since: 2026-11-01
  limit: 500  # not above
  ratio: 0.5
  dry_run: false

  # The database.
  db:
    # Its name.
    host: localhost
    tags: [a, b]
    more: {}
  nothing:
  started: "{{ execution_id }}"
"""


def fields(text: str) -> dict[str, FormField]:
    form = form_of(HEAD + text)
    assert form is not None
    return {field.path: field for field in form}


def described(text: str) -> dict[str, tuple[str, Any, str]]:
    return {path: (field.type, field.default, field.help) for path, field in fields(text).items()}


def test_each_leaf_has_its_default_its_type_and_the_comment_above_it() -> None:
    assert described(WORKLOAD) == {
        "since": ("string", "2026-11-01", "First day of the orders.\nInclusive."),
        "limit": ("number", 500, ""),
        "ratio": ("number", 0.5, ""),
        "dry_run": ("boolean", False, ""),
        "db.host": ("string", "localhost", "Its name."),
        "db.tags": ("array", ["a", "b"], ""),
        "db.more": ("object", {}, ""),
        "nothing": ("any", None, ""),
        "started": ("any", "{{ execution_id }}", ""),
    }
    assert [path for path, field in fields(WORKLOAD).items() if field.template] == ["started"]


SCHEMA = """\
executor:
  spec:
    schema:
      workload:
        type: object
        required: [region, since]
        $defs: {day: {type: string, description: A day.}}
        properties:
          since: {$ref: "#/$defs/day"}
          region: {enum: [north, south], description: Where.}
          limit: {type: [integer, "null"]}
          loop: {$ref: "#/properties/loop"}
          db: {type: object, properties: {port: {type: integer}}}
workload:
  # not this
  since: 2026-11-01
  limit:
"""


def test_a_schema_gives_types_values_and_descriptions_and_adds_inputs_without_a_default() -> None:
    form = fields(SCHEMA)
    assert described(SCHEMA) == {
        "since": ("string", "2026-11-01", "A day."),
        "limit": ("integer", None, ""),
        "region": ("string", None, "Where."),
        "loop": ("any", None, ""),
        "db.port": ("integer", None, ""),
    }
    assert form["region"].enum == ["north", "south"]
    assert [path for path, field in form.items() if field.required] == ["region"]


def test_a_list_with_a_template_is_computed_when_a_run_starts() -> None:
    form = fields('workload: {plain: [1, {a: b}], computed: [1, {a: "{{ execution_id }}"}]}\n')
    assert [path for path, field in form.items() if field.template] == ["computed"]


def test_a_comment_above_a_line_of_several_keys_belongs_to_none() -> None:
    assert described("# all\nworkload: {a: 1, b: 2}\n") == {"a": ("number", 1, ""), "b": ("number", 2, "")}


def test_a_text_that_cannot_be_read_has_no_form_and_one_without_workload_an_empty_one() -> None:
    assert form_of("a: [") is None
    assert form_of(HEAD) == []
    assert form_of(HEAD + "workload: 5\nexecutor: {spec: {schema: {workload: {properties: [1]}}}}\n") == []


def test_a_form_is_bounded() -> None:
    text = HEAD + "workload: {" + ", ".join(f"k{number}: 1" for number in range(MAX_FIELDS + 5)) + "}\n"
    form = form_of(text)
    assert form is not None
    assert len(form) == MAX_FIELDS
