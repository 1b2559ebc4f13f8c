"""A payload against the playbook that it starts: needed names, keys that nobody reads, values of another type."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import msgspec
import pytest

from noetl.dsl.compile import load
from noetl.dsl.payload import check_args, check_payload
from noetl.errors import PlaybookInvalid, UsageError
from noetl.reference import Reference
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: tests/p}\n"


def playbook(template: str, workload: str = "", more: str = "") -> str:
    """A playbook whose only task has this template as its result."""
    root = f"workload:\n{indent(workload, '  ')}\n" if workload else ""
    return f"{HEAD}{root}workflow:\n  - step: start\n    tool: {{kind: noop, result: '{template}'}}\n{more}"


def warnings(text: str, payload: dict[str, Any], ctx: dict[str, Any] | None = None, *strict: str) -> list[str]:
    loaded = load("p.yaml", text, KINDS)
    return check_payload(loaded.require(), loaded.inputs, "p.yaml", payload, ctx or {}, strict)


def refusal(text: str, payload: dict[str, Any], *strict: str) -> str:
    with pytest.raises((PlaybookInvalid, UsageError)) as error:
        warnings(text, payload, None, *strict)
    return str(error.value)


# -- names that only a request can provide --------------------------------------------------------------------------

NAME = playbook("{{ api_url }}")


def test_a_name_that_nothing_provides_is_a_warning_of_the_validator() -> None:
    (problem,) = load("p.yaml", NAME, KINDS).problems
    assert (problem.code, problem.severity) == ("NTL502", "warning")
    assert "--set api_url=" in (problem.hint or "")


@pytest.mark.parametrize(("payload", "ctx"), [({"api_url": 1}, {}), ({}, {"api_url": 1}), ({"api_url": None}, {})])
def test_payload_or_ctx_provides_a_name(payload: dict[str, Any], ctx: dict[str, Any]) -> None:
    assert warnings(NAME, payload, ctx) == []


def test_a_run_without_a_needed_name_is_refused_with_the_place() -> None:
    with pytest.raises(PlaybookInvalid) as error:
        warnings(NAME, {})
    (problem,) = error.value.problems
    assert (problem.file, problem.line, problem.column, problem.code) == ("p.yaml", 6, 36, "NTL502")
    assert "'api_url'" in problem.message


@pytest.mark.parametrize(
    ("payload", "hint"),
    [
        ({}, "did you mean 'limit'?"),
        ({"limmit": 1}, "did you mean 'limmit' of the payload?"),
    ],
)
def test_a_refusal_says_what_was_probably_meant(payload: dict[str, Any], hint: str) -> None:
    with pytest.raises(PlaybookInvalid) as error:
        warnings(playbook("{{ limits }}", "limit: 5"), payload)
    assert error.value.problems[0].hint == hint


@pytest.mark.parametrize(
    "template",
    ["{{ api_url | default(1) }}", "{{ api_url is defined }}", "{{ api_url or 1 }}", "{{ workload.api_url }}"],
)
def test_a_name_with_a_default_is_optional(template: str) -> None:
    text = playbook(template)
    assert load("p.yaml", text, KINDS).problems == []
    assert warnings(text, {}) == []
    assert warnings(text, {"api_url": 1}) == []


def test_a_guard_on_a_missing_name_is_false_and_a_warning() -> None:
    arcs = "    next: {arcs: [{step: b, when: '{{ flag }}'}]}\n  - step: b\n    tool: {kind: noop}\n"
    text = playbook("x", more=arcs)
    (warning,) = warnings(text, {})
    assert warning.startswith("p.yaml:7:39: nothing provides 'flag': it counts as false")
    assert warnings(text, {"flag": True}) == []


def test_a_default_that_needs_a_name_can_be_replaced_by_the_payload() -> None:
    text = playbook("{{ workload }}", "db: {url: 'http://{{ host }}', port: 1}\nlist: ['{{ host }}']")
    assert "'host'" in refusal(text, {})
    assert "'host'" in refusal(text, {"db": {"port": 2}, "list": []})
    assert "'host'" in refusal(text, {"db": {"url": "x"}})
    assert warnings(text, {"db": {"url": "x"}, "list": []}) == []
    assert warnings(text, {"host": "x"}) == []


def test_the_ctx_of_a_request_is_not_visible_in_defaults() -> None:
    text = playbook("{{ workload }}", "url: '{{ host }}'")
    with pytest.raises(PlaybookInvalid):
        warnings(text, {}, {"host": "x"})


def test_names_of_loops_and_classic_steps_are_checked_alike() -> None:
    loop = f"{HEAD}workflow:\n  - step: a\n    loop: {{in: '{{{{ items }}}}', iterator: item}}\n"
    loop += "    tool: {kind: noop, result: '{{ item }}'}\n"
    assert "'items'" in refusal(loop, {"item": 1})
    assert warnings(loop, {"items": [1]}) == []
    classic = f"{HEAD}workflow:\n  - step: start\n    tool: {{kind: noop, result: '{{{{ city }}}}'}}\n    next: end\n"
    classic += "  - step: end\n    tool: {kind: noop}\n"
    assert "'city'" in refusal(classic, {})
    assert warnings(classic, {"city": 1}) == []


# -- keys that nobody reads -----------------------------------------------------------------------------------------

KEYS = playbook(
    "{{ workload.endpoints }} {{ workload.user.name }} {{ limit | default(3) }}", "endpoints: [a]\ndb: {host: h}"
)


def test_a_key_that_nothing_reads_is_refused_where_it_was_set_by_hand() -> None:
    assert refusal(KEYS, {"endpoint": 1}, "endpoint") == "workload has no 'endpoint': did you mean 'endpoints'?"
    assert refusal(KEYS, {"db": {"hots": 1}}, "db.hots") == "workload has no 'db.hots': did you mean 'db.host'?"
    assert refusal(KEYS, {"user": {"nmae": 1}}, "user.nmae") == "workload has no 'user.nmae': did you mean 'user.name'?"
    assert refusal(KEYS, {"limits": 1}, "limits") == "workload has no 'limits': did you mean 'limit'?"


def test_it_is_a_warning_in_any_other_payload() -> None:
    assert warnings(KEYS, {"endpoint": 1, "db": {"hots": 1}}) == [
        "workload has no 'endpoint': did you mean 'endpoints'?",
        "workload has no 'db.hots': did you mean 'db.host'?",
    ]
    (warning,) = warnings(KEYS, {"zzz": 1})
    assert warning == "workload has no 'zzz': declare it in `workload`, or read it as `workload.zzz`"


@pytest.mark.parametrize(
    "payload", [{"limit": 1}, {"user": {"name": 1, "age": 2}}, {"db": {"host": "x"}}, {"schedule": {"name": "s"}}]
)
def test_keys_that_are_declared_or_read_are_fine(payload: dict[str, Any]) -> None:
    assert warnings(KEYS, payload) == []


@pytest.mark.parametrize(
    "template", ["{{ workload }}", "{{ workload | tojson }}", "{{ workload[ctx.k | default(1)] }}"]
)
def test_who_reads_the_whole_workload_reads_every_key(template: str) -> None:
    assert warnings(playbook(template), {"a": {"b": 1}}, None, "a.b") == []


def test_an_iterator_does_not_read_a_key_of_its_name() -> None:
    text = f"{HEAD}workflow:\n  - step: a\n    loop: {{in: [1], iterator: item}}\n"
    text += "    tool: {kind: noop, result: '{{ item }}'}\n"
    assert warnings(text, {"item": 1}) != []


def test_a_declared_empty_map_takes_any_key() -> None:
    assert warnings(playbook("x", "options: {}\nother: null"), {"options": {"a": 1}, "other": {"b": 1}}) == []


def test_few_warnings_are_shown_of_many() -> None:
    shown = warnings(KEYS, {f"k{i}": 1 for i in range(50)})
    assert len(shown) == 11
    assert shown[-1] == "and 40 more warnings"


# -- values of another type -----------------------------------------------------------------------------------------

TYPES = "list: [a]\nmap: {a: 1}\nnumber: 5\nflag: true\ntext: a\nany: null\nmade: '{{ 1 + 1 }}'"
VALUES = {"a list": ["b"], "a map": {"a": 2}, "a number": 2.5, "a boolean": False, "text": "b"}


@pytest.mark.parametrize("actual", VALUES)
@pytest.mark.parametrize(
    ("key", "expected"),
    [("list", "a list"), ("map", "a map"), ("number", "a number"), ("flag", "a boolean"), ("text", "text")],
)
def test_a_value_has_the_type_of_its_default(key: str, expected: str, actual: str) -> None:
    text, payload = playbook("{{ workload }}", TYPES), {key: VALUES[actual]}
    if expected == actual:
        assert warnings(text, payload, None, key) == []
        return
    message = refusal(text, payload, key)
    assert f"{key!r} must be {expected}" in message
    assert f"is {actual}" in message
    assert warnings(text, payload) == [message]


@pytest.mark.parametrize("payload", [{"list": None}, {"any": [1]}, {"any": "x"}, {"made": "x"}, {"number": 1}])
def test_null_and_computed_defaults_take_any_type(payload: dict[str, Any]) -> None:
    assert warnings(playbook("{{ workload }}", TYPES), payload, None, *payload) == []


# -- the schema of the workload -------------------------------------------------------------------------------------

SCHEMA = """\
executor:
  spec:
    schema:
      workload:
        type: object
        properties:
          region: {$ref: "#/$defs/region"}
          limit: {type: integer, minimum: 1}
          day: {type: string, format: date}
          tags: {type: array, items: {type: string, pattern: "^[a-z]+$"}}
        required: [region]
        additionalProperties: false
        $defs:
          region: {enum: [eu, us]}
"""
DEFAULTS = "limit: 5\nday: '{{ now() }}'"
WITH_SCHEMA = playbook("{{ region }} {{ workload.limit }}", DEFAULTS).replace("workload:", f"{SCHEMA}workload:", 1)


def test_a_required_input_is_a_known_name() -> None:
    assert load("p.yaml", WITH_SCHEMA, KINDS).problems == []


@pytest.mark.parametrize("strict", [(), ("limit",)])
@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({}, '"region" is a required property'),
        ({"region": "mars"}, 'region: the value is not one of "eu" or "us"'),
        ({"region": "eu", "limit": 0}, "limit: the value is less than the minimum of 1"),
        ({"region": "eu", "limit": "secret"}, 'limit: the value is not of type "integer"'),
        ({"region": "eu", "limit": None}, 'limit: the value is not of type "integer"'),
        ({"region": "eu", "day": "soon"}, 'day: the value is not a "date"'),
        ({"region": "eu", "tags": ["a", "B"]}, "tags.1: the value does not match"),
        ({"region": "eu", "limt": 3}, "('limt' was unexpected): did you mean 'limit'?"),
    ],
)
def test_a_schema_decides_at_every_entrance(payload: dict[str, Any], message: str, strict: tuple[str, ...]) -> None:
    assert message in refusal(WITH_SCHEMA, payload, *strict)


@pytest.mark.parametrize("payload", [{}, {"limit": 7, "day": "2026-01-31", "tags": ["a"]}, {"schedule": {"name": "s"}}])
def test_inputs_that_satisfy_the_schema_are_accepted(payload: dict[str, Any]) -> None:
    assert warnings(WITH_SCHEMA, {"region": "eu"} | payload) == []


def test_the_schema_permits_what_the_default_would_not() -> None:
    text = WITH_SCHEMA.replace("{type: integer, minimum: 1}", "{type: [integer, string]}")
    assert warnings(text, {"region": "eu", "limit": "all"}, None, "limit") == []
    text = text.replace("        additionalProperties: false\n", "")
    assert warnings(text, {"region": "eu", "limt": 1}, None, "limt") == [
        "workload has no 'limt': did you mean 'limit'?"
    ]


def test_stored_values_are_left_to_the_run() -> None:
    stored = Reference("db", "k", 1, "c")
    assert warnings(WITH_SCHEMA, {"region": "eu", "tags": stored}) == []


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{type: strin}", "at type"),
        ("{properties: {a: {minimum: x}}}", 'at properties/a/minimum: the value is not of type "number"'),
        ("{$ref: 'http://127.0.0.1:9/x'}", "must begin with `#/`"),
        ("{$ref: 'file:///etc/passwd'}", "must begin with `#/`"),
        ("{$ref: '#/$defs/no'}", "leads nowhere"),
        ("{properties: {a: {$ref: '#'}}}", "leads back to itself"),
        ("{$defs: {a: {$ref: '#/$defs/b'}, b: {$ref: '#/$defs/a'}}}", "leads back to itself"),
        ("{$schema: 'http://json-schema.org/draft-07/schema#'}", "2020-12"),
        ("{properties: {a: {pattern: '(('}}}", "at properties/a/pattern"),
    ],
)
def test_an_invalid_schema_is_an_error_with_its_place(schema: str, message: str) -> None:
    text = playbook("x").replace("workflow:", f"executor: {{spec: {{schema: {{workload: {schema}}}}}}}\nworkflow:")
    (problem,) = load("p.yaml", text, KINDS).problems
    assert (problem.code, problem.line) == ("NTL119", 4)
    assert message in problem.message


def test_references_that_double_again_and_again_are_refused() -> None:
    doubled = [f"a{i}: {{allOf: [{{$ref: '#/$defs/a{i - 1}'}}, {{$ref: '#/$defs/a{i - 1}'}}]}}" for i in range(1, 40)]
    schema = f"{{$ref: '#/$defs/a39', $defs: {{a0: {{type: object}}, {', '.join(doubled)}}}}}"
    text = playbook("x").replace("workflow:", f"executor: {{spec: {{schema: {{workload: {schema}}}}}}}\nworkflow:")
    (problem,) = load("p.yaml", text, KINDS).problems
    assert "more than 10,000 parts" in problem.message


def test_the_schema_is_part_of_the_digest_and_nothing_else_changes_it() -> None:
    digests = {
        load("p.yaml", text, KINDS).require().digest for text in (WITH_SCHEMA, WITH_SCHEMA.replace("us]", "uk]"))
    }
    assert len(digests) == 2
    assert b"workload_schema" not in msgspec.json.encode(load("p.yaml", NAME, KINDS).require())


@pytest.mark.parametrize(
    ("args", "count"),
    [({"use": True}, 1), ({"use": False}, 0), ({"use": "{{ ctx.use }}"}, 0), ({"other": "{{ 1 }}"}, 0)],
)
@pytest.mark.parametrize("template", ["{{ token if use else 1 }}", "{{ token if use and use else 1 }}"])
def test_args_that_are_templates_decide_nothing(template: str, args: dict[str, Any], count: int) -> None:
    loaded = load("p.yaml", playbook(template), KINDS)
    reported = check_args(loaded.require(), loaded.inputs, "p.yaml", args)
    assert sum("nothing provides 'token', which" in warning for warning in reported) == count
