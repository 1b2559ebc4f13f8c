"""Values stay what they are; names, views, functions and what a template tells about itself."""

# ruff: noqa: E501 (one case of a table a line reads best)
from __future__ import annotations

from collections import ChainMap, UserDict
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from noetl.errors import TemplateError, TemplateFailed, TemplateSyntax, TemplateUndefined
from noetl.expression import (
    FILTERS,
    FUNCTIONS,
    METHODS,
    NOW_KEY,
    SQL_FILTERS,
    TESTS,
    Comparison,
    Contents,
    Interruption,
    Read,
    Unknown,
    View,
    parse,
    prepare,
    rename,
    render,
)  # fmt: skip


@pytest.mark.parametrize("value", ["42", 42, 4.5, True, None, [1, "a"], {"k": [1]}, "007", "", "{{ x }}"])
def test_single_expression_yields_the_value_untouched(value: Any) -> None:
    for source in ("{{ v }}", "  {{ v }}\n", "{{v}}", "{{- v -}}", "{{ d.v }}"):
        assert parse(source).evaluate({"v": value, "d": {"v": value}}) is value


@pytest.mark.parametrize(
    ("source", "is_expression", "is_constant"),
    [
        ("{{ x }}", True, False), (" {{ x }}\n", True, False), ("{{ '}}' }}", True, False), ("{{ x }}{{ y }}", False, False),
        ("a{{ x }}", False, False), ("plain", False, True), ("", False, True), ("}} %} #}", False, True), ("{ x }", False, True),
        ("{% if x %}{% endif %}", False, False), ("{# c #}", False, False), ("{# c #}{{ x }}", False, False),
        ("{{ x }}{# c #}{{ y }}", False, False), ("{% raw %}{{ x }}{% endraw %}", False, False),
    ],
)  # fmt: skip
def test_kind_of_source(source: str, is_expression: bool, is_constant: bool) -> None:
    template = parse(source)
    assert (template.is_expression, template.is_constant, template.source) == (
        is_expression,
        is_constant,
        source,
    )


def test_constant_is_returned_verbatim_whatever_its_size() -> None:
    text = "no templates\r\nhere }} \n" * 10_000
    assert parse(text).evaluate({}) == text


def test_trailing_newline_is_kept() -> None:
    assert parse("{{ x }}!\n").evaluate({"x": 1}) == "1!\n"


def test_parsing_is_cached() -> None:
    assert parse("{{ cached.name }}") is parse("{{ cached.name }}")


def test_key_of_a_map_wins_over_a_method() -> None:
    scope = {"workload": {"items": [1, 2], "get": 3}, "other": {"a": 1}}
    assert parse("{{ workload.items }}").evaluate(scope) == [1, 2]
    assert parse("{{ workload.get }}").evaluate(scope) == 3
    assert parse("{{ other.items() }}").evaluate(scope) == [("a", 1)]
    assert parse("{{ workload.keys() }}").evaluate(scope) == ["items", "get"]


def test_constant_lists_are_fresh_each_time() -> None:
    template = parse("{{ [1, 2] }}")
    template.evaluate({}).append(3)
    assert template.evaluate({}) == [1, 2]


@pytest.mark.parametrize("scope", [ChainMap({}, {"a": {"b": 1}}), UserDict(a={"b": 1}), {"a": UserDict(b=1)}])
def test_any_mapping_is_a_scope_or_a_value(scope: Any) -> None:
    assert parse("{{ a.b }}").evaluate(scope) == 1
    assert parse("{{ a.c is defined }}").evaluate(scope) is False


class Step(View):
    """As a value the result; its fields first, then its own."""

    def lookup(self, name: str | int, contents: Contents) -> Any:
        return {"status": "succeeded", "result": [{"id": 7}]}[str(name)]

    def value(self, contents: Contents) -> Any:
        return [{"id": 7}]


class Steps(View):
    def lookup(self, name: str | int, contents: Contents) -> Any:
        if name == "broken":
            raise RuntimeError("boom")
        if name == "stored":
            raise Needed
        return {"fetch": Step()}[str(name)]


class Needed(Interruption):
    """The value is not loaded yet."""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("steps.fetch.status", "succeeded"), ("steps['fetch'].result[0].id", 7), ("steps.fetch", [{"id": 7}]),
        ("steps.fetch | length", 1), ("steps.fetch[0].id", 7), ("steps[n].status", "succeeded"), ("steps.nope is defined", False),
        ("steps.fetch.nope is defined", False), ("steps.fetch == [{'id': 7}]", True), ("steps.fetch | tojson", '[{"id": 7}]'),
        ("steps.fetch | map(attribute='id') | first", 7), ("(steps.fetch | first).id", 7), ("steps.fetch and 1", 1),
        ("[steps.fetch]", [[{"id": 7}]]), ("{'id': 7} in steps.fetch", True),
    ],
)  # fmt: skip
def test_views_are_looked_into_lazily(expression: str, expected: Any) -> None:
    assert parse("{{ " + expression + " }}").evaluate({"steps": Steps(), "n": "fetch"}) == expected


def test_interruption_passes_through_and_other_errors_do_not() -> None:
    with pytest.raises(Needed):
        parse("{{ steps.stored.result | default(1) | upper }}").evaluate({"steps": Steps()})
    with pytest.raises(Needed):
        parse("{{ steps.stored == 1 }}").test({"steps": Steps()})
    with pytest.raises(TemplateFailed):
        parse("{{ steps.broken.result }}").evaluate({"steps": Steps()})


def test_view_without_a_value_has_no_text() -> None:
    assert isinstance(parse("{{ steps }}").evaluate({"steps": Steps()}), Steps)
    with pytest.raises(TemplateFailed, match="cannot be used as text"):
        parse("a {{ steps }}").evaluate({"steps": Steps()})


def test_now_is_the_injected_time_in_utc() -> None:
    moment = datetime(2026, 3, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    assert parse("{{ now() }}").evaluate({NOW_KEY: moment}) == "2026-03-01T12:00:00Z"
    assert parse("{{ now() }}").evaluate({NOW_KEY: datetime(2026, 3, 1, tzinfo=UTC)}) == "2026-03-01T00:00:00Z"
    with pytest.raises(TemplateFailed, match="not available here"):
        parse("{{ now() }}").evaluate({})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'aGk=' | b64decode", "hi"), ("'hé' | b64encode | b64decode", "hé"), ("'{\"a\": [1, null]}' | fromjson", {"a": [1, None]}),
        ("{'b': 1, 'a': 'é<'} | tojson", '{"a": "é<", "b": 1}'), ("'a,b' | split(',')", ["a", "b"]), ("'a\\nb' | splitlines", ["a", "b"]),
        ("'abc' | startswith('ab')", True), ("'abc' | endswith('x')", False), ("'abc' | removeprefix('a')", "bc"),
        ("'abc' | removesuffix('c')", "ab"), ("'nan' | float(1.0)", 1.0), ("'inf' | int(3)", 3), ("7 is sameas 7", True), ("1 is sameas true", False),
        ("[{'a': 1}, {'a': 1}] | unique | list", [{"a": 1}]), ("-3 ** 2", 9), ("'\\d+'", "\\d+"),
    ],
)  # fmt: skip
def test_what_jinja_does_not_have_or_does_otherwise(expression: str, expected: Any) -> None:
    assert parse("{{ " + expression + " }}").evaluate({}) == expected


def test_loop_may_be_hidden_without_harm() -> None:
    assert parse("{% for loop in [1] %}{{ loop }}{% endfor %}").evaluate({}) == "1"
    with pytest.raises(TemplateFailed, match="not the loop"):
        parse("{% for i in [1] %}{% set loop = 1 %}{{ loop.cycle(1, 2) }}{% endfor %}").evaluate({})


def test_maybe_bound_name_falls_back_to_the_scope() -> None:
    template = parse("{% if c %}{% set x = 1 %}{% endif %}{{ x }}")
    assert template.evaluate({"c": True, "x": 2}) == "1"
    assert template.evaluate({"c": False, "x": 2}) == "2"
    assert parse("{% set x = x + 1 %}{{ x }}").evaluate({"x": 2}) == "3"


# --- what a template tells about itself --------------------------------------------------------------


def reads(source: str) -> list[tuple[tuple[str | int, ...], bool]]:
    return [(read.path, read.guarded) for read in parse(source).reads]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ steps.fetch.result.rows[0] }}", [(("steps", "fetch", "result", "rows", 0), False)]),
        ("{{ a['b'].c[-1] }}", [(("a", "b", "c", -1), False)]),
        ("{{ a[b.c].d }}", [(("a",), False), (("b", "c"), False)]),
        ("{{ a.b | default(c.d) }}", [(("a", "b"), True), (("c", "d"), False)]),
        ("{{ a.b | upper | d('') }}", [(("a", "b"), True)]),
        ("{{ a is defined and b is undefined }}", [(("a",), True), (("b",), True)]),
        ("{{ a.b or c }}", [(("a", "b"), True), (("c",), False)]),
        ("{{ a == 1 or c }}", [(("a",), False), (("c",), False)]),
        ("{{ a.items() }}", [(("a",), False)]),
        ("{{ range(n) }}", [(("n",), False)]),
        ("{{ dict(k=v) }}", [(("v",), False)]),
        (
            "{% for x in xs if x.ok %}{{ x.y }}{{ loop.index }}{% endfor %}{{ x }}",
            [(("xs",), False), (("x",), False)],
        ),
        ("{% set y = z %}{{ y.k }}", [(("z",), False)]),
        ("{% set y = y %}{{ y }}", [(("y",), False)]),
        ("{% with q = w %}{{ q }}{% endwith %}{{ q }}", [(("w",), False), (("q",), False)]),
        ("{% if c %}{% set x = 1 %}{% endif %}{{ x.y }}", [(("c",), False), (("x", "y"), True)]),
        ("{% if c %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}", [(("c",), False)]),
        ("{% set ns = namespace(n=0) %}{{ ns.n }}", []),
        ("plain", []),
        ("{{ 'a.b' }}", []),
    ],
)
def test_reads(source: str, expected: Any) -> None:
    assert reads(source) == expected


def test_read_has_an_offset() -> None:
    assert parse("x {{ a.b }}").reads == (Read(("a", "b"), 5, False),)


def test_unknown_things_are_reported_together() -> None:
    template = parse(
        "{{ a | uper }} {{ b is defnied }} {{ nwo() }} {{ c.push(1) }} {{ d | map('uper') }} {{ d | select('od') }}"
    )
    assert [(u.kind, u.name) for u in template.unknown] == [
        ("filter", "uper"), ("test", "defnied"), ("function", "nwo"), ("method", "push"), ("filter", "uper"), ("test", "od"),
    ]  # fmt: skip
    assert template.unknown[0] == Unknown("filter", "uper", 7)
    assert [name for name, _ in template.filters] == ["uper", "map", "uper", "select"]


def test_sql_filters_are_known_but_only_work_in_sql() -> None:
    template = parse("{{ t | ident }} {{ s | raw_sql }}")
    assert template.unknown == ()
    assert [name for name, _ in template.filters] == ["ident", "raw_sql"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("event.name == 'step.done'", [(("event", "name"), "==", ("step.done",))]),
        ("'x' == event.name", [(("event", "name"), "==", ("x",))]),
        ("event.name != 'x'", [(("event", "name"), "!=", ("x",))]),
        ("event.name in ['a', 'b']", [(("event", "name"), "in", ("a", "b"))]),
        ("event['name'] not in ('a',)", [(("event", "name"), "not in", ("a",))]),
        ("not (e == 'a' and f == 'b')", [(("e",), "==", ("a",)), (("f",), "==", ("b",))]),
        ("a == 1", []), ("a < 'x'", []), ("'a' in b", []), ("a in [1, 'x']", []), ("a == b", []),
    ],
)  # fmt: skip
def test_string_comparisons(expression: str, expected: Any) -> None:
    template = parse("{{ " + expression + " }}")
    assert [(c.path, c.op, c.values) for c in template.string_comparisons] == expected


def test_string_comparison_has_an_offset() -> None:
    assert parse("{{ a and b == 'x' }}").string_comparisons == (Comparison(("b",), "==", ("x",), 9),)


def test_every_entry_is_documented() -> None:
    for table in (FILTERS, TESTS, FUNCTIONS, SQL_FILTERS, *METHODS.values()):
        for name, entry in table.items():
            assert entry.doc.endswith((".", "]")) or ":" in entry.doc, name
            assert entry.signature.startswith("(")


# --- rename ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "names", "expected"),
    [
        ("{{ result[0].id }}", {"result": "outcome.result.rows"}, "{{ outcome.result.rows[0].id }}"),
        ("{{  result  }} result", {"result": "r"}, "{{  r  }} result"),
        ("{{ a.result }} {{ {'result': result} }}", {"result": "r"}, "{{ a.result }} {{ {'result': r} }}"),
        ("{{ dict(result=result) }}", {"result": "r"}, "{{ dict(result=r) }}"),
        ("{{ x | default(result) | map(attribute='result') }}", {"result": "r"}, "{{ x | default(r) | map(attribute='result') }}"),
        ("{{ response.status_code }} {{ response.body }}", {"response": "o.result", "response.status_code": "o.http.status"},
         "{{ o.http.status }} {{ o.result.body }}"),
        ("{{ response['status_code'] }}{{ response . status_code }}", {"response.status_code": "s"}, "{{ s }}{{ s }}"),
        ("{% for result in result %}{{ result }}{% endfor %}{{ result }}", {"result": "r"}, "{% for result in r %}{{ result }}{% endfor %}{{ r }}"),
        ("{% set x = x %}{{ x }}", {"x": "y.z"}, "{% set x = y.z %}{{ x }}"),
        ("{{ not ok }}", {"ok": "status == 'ok'"}, "{{ not (status == 'ok') }}"),
        ("{{ 'result' }} {# result #} {% raw %}{{ result }}{% endraw %}", {"result": "r"}, "{{ 'result' }} {# result #} {% raw %}{{ result }}{% endraw %}"),
        ("{{ event.name == 'x' }}{{ event.names }}", {"event.name": "e"}, "{{ e == 'x' }}{{ event.names }}"),
        ("{{ result.items() }} {{ result(1) }}", {"result": "r"}, "{{ r.items() }} {{ result(1) }}"),
        ("a\r\n{{ x }}\r\n {{ x }}", {"x": "yy"}, "a\r\n{{ yy }}\r\n {{ yy }}"),
        ("plain x", {"x": "y"}, "plain x"),
    ],
)  # fmt: skip
def test_rename(source: str, names: dict[str, str], expected: str) -> None:
    assert rename(source, names) == expected
    parse(expected)


# --- render ------------------------------------------------------------------------------------------

VALUE: dict[str, Any] = {
    "url": "{{ base }}/users",
    "n": 5,
    "list": ["{{ ids }}", None, True],
    "{{ key }}": {"x": "plain"},
}


def test_render_goes_deep_and_leaves_keys_alone() -> None:
    assert render(VALUE, {"base": "http://x", "ids": [1]}) == {
        "url": "http://x/users", "n": 5, "list": [[1], None, True], "{{ key }}": {"x": "plain"},
    }  # fmt: skip


def test_prepared_value_can_be_rendered_again() -> None:
    rendered = prepare(VALUE)
    assert rendered({"base": "a", "ids": 1})["url"] == "a/users"
    assert rendered({"base": "b", "ids": 1})["url"] == "b/users"
    assert prepare({"a": [1]})({}) == {"a": [1]}
    assert prepare("{{ x }}")({"x": 3}) == 3


def test_error_carries_its_place_in_the_value() -> None:
    with pytest.raises(TemplateUndefined) as caught:
        render({"headers": {"x": ["ok {{ y }}"]}}, {})
    assert caught.value.path == ("headers", "x", 0)
    with pytest.raises(TemplateSyntax) as refused:
        prepare({"a": ["", "{{ oops"]})
    assert refused.value.path == ("a", 1)


def test_rendered_data_is_not_rendered_again() -> None:
    assert render(["{{ x }}"], {"x": "{{ y }}"}) == ["{{ y }}"]


def test_value_nested_without_end_is_an_error() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(TemplateError):
        render(value, {})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'12.50' == 12.5", True), ("12.5 == '12.50'", True), ("'12.50' != 12.5", False), ("'0.1' == 0.1", True), ("'5' == 5", True),
        ("'5.01' > 5", True), ("5 < '5.01'", True), ("'5' >= 5", True), ("5 > '5.00'", False), ("'-0.5' < 0", True), ("'-0' == 0", True),
        ("'12345678901234567890.01' > 12345678901234567890", True), ("'9007199254740993' == 9007199254740993", True),
        ("'9007199254740993' == 9007199254740992", False), ("0 < '3.20' < 4", True), ("'1e3' == 1000", False), ("'007' == 7", False),
        ("' 5' == 5", False), ("'1' == true", False), ("'' == 0", False), ("'5.0' == '5'", False), ("'10' < '9'", False), ("5 in ['5']", False),
        ("'100.00' > '99.50'", True), ("'99.50' > '100.00'", False), ("'-2' < '-1.5'", True), ("'5.0' <= '5'", True), ("'5.0' < '5'", False),
        ("'12345678901234567890.01' > '12345678901234567890'", True), ("'9' < '10a'", False), ("'007' < '1'", True), ("'1e3' < '9'", True),
        ("'5' is eq 5", True), ("[{'v': '7.5'}, {'v': '3.0'}] | selectattr('v', 'gt', 5) | list", [{"v": "7.5"}]), ("['5'] == [5]", True),
    ],
)  # fmt: skip
def test_text_of_a_decimal_compares_as_a_number_exactly(expression: str, expected: Any) -> None:
    assert parse("{{ " + expression + " }}").evaluate({}) == expected


def test_a_value_compares_with_a_constant_and_with_another_value_alike() -> None:
    scope = {"total": "12.50", "limit": 12.5, "none": None, "name": "x"}
    for expression in ("total == 12.5", "12.5 == total", "total == limit", "limit == '12.50'", "not total != limit"):
        assert parse("{{ " + expression + " }}").evaluate(scope) is True, expression
    for expression in ("none == 12.5", "name == 12.5", "limit == '12.51'", "missing == 5", "missing == '5'"):
        assert parse("{{ " + expression + " }}").evaluate(scope) is False, expression
        assert parse("{{ " + expression.replace("==", "!=") + " }}").evaluate(scope) is True, expression


@pytest.mark.parametrize("text", ["007", "1e3", " 5", "5 ", "+5", "5.", ".5", "x", "", "1_0", "٣", "0x1", "NaN", "5\n"])
def test_other_text_has_no_order_with_a_number(text: str) -> None:
    with pytest.raises(TemplateFailed, match="cannot compare a string with an integer by '<'"):
        parse("{{ text < 5 }}").evaluate({"text": text})
    assert parse("{{ text == 5 }}").evaluate({"text": text}) is False
