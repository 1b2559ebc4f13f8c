"""What a template in SQL becomes, by where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError, TemplateFailed, TemplateSyntax, TemplateUndefined
from noetl.expression import Contents, View
from noetl.sql import prepare_sql
from noetl.sql.lexing import SNOWFLAKE
from noetl.sql.statements import Empty, Identifier, InList, Part, Value, quoted, write

SCOPE: dict[str, Any] = {
    "x": "o'b",
    "n": 5,
    "none": None,
    "list": [1, 2],
    "empty": [],
    "map": {"a": 1},
    "table": "shop.orders",
    "flag": True,
    "bytes": b"\x00\xff",
    "where": "a = 'b",
}


def parts(source: str, **scope: Any) -> tuple[Part, ...]:
    return prepare_sql(source)(SCOPE | scope).parts


def only(source: str, **scope: Any) -> Part:
    (part,) = (part for part in parts(source, **scope) if not isinstance(part, str))
    return part


def refusal(source: str) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        prepare_sql(source)(SCOPE)
    assert caught.value.source == source
    return caught.value


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "n", "none", "list", "map", "flag", "bytes"])
def test_a_template_outside_quotes_is_the_value_itself(name: str) -> None:
    assert parts(f"SELECT {{{{ {name} }}}}") == ("SELECT ", Value(SCOPE[name]))


def test_text_without_templates_is_kept_as_it_is() -> None:
    source = "SELECT 'a%', 5 ? 'k', :name, %s -- it's"
    assert parts(source) == (source,)
    assert parts("") == ()


def test_a_whole_number_may_be_of_any_size() -> None:
    assert only("SELECT {{ n }}", n=10**30) == Value(10**30)


def test_a_view_is_opened() -> None:
    class Stored(View):
        def value(self, contents: Contents) -> Any:
            return {"deep": [1]}

    assert only("SELECT {{ x }}", x=Stored()) == Value({"deep": [1]})


def test_what_is_missing_is_an_error_with_its_place() -> None:
    for source in ("SELECT {{ nope.deep }}", "SELECT {{ [nope] }}", "SELECT 'a{{ nope }}'", 'SELECT "{{ nope }}"'):
        error = refusal(source)
        assert isinstance(error, TemplateUndefined)
        assert error.offset == source.index("nope")


def test_braces_and_quotes_inside_an_expression_are_its_own() -> None:
    assert parts("""SELECT {{ "}}'" ~ x }}, {{ {'a': {'b': n}} }}""") == (
        "SELECT ",
        Value("}}'o'b"),
        ", ",
        Value({"a": {"b": 5}}),
    )


# --- strings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("'{{ x }}'", "o'b"),
        ("'%{{ x }}%'", "%o'b%"),
        ("'it''s {{ x }}'", "it's o'b"),
        ("'{{ x }}{{ n }}'", "o'b5"),
        ("'{{ n }}'", "5"),
        ("'{{ flag }}'", "True"),
        ("'a {{ none }} b'", "a  b"),
        ("'{{ map }}'", '{"a": 1}'),
        ("'{{ list }}'", "[1, 2]"),
        ("'a\\n{{ x }}'", "a\\no'b"),
        ("E'a\\n\\t\\\\\\'{{ x }}'", "a\n\t\\'o'b"),
        ("e'\\101\\x42\\u0043\\U00000044{{ n }}'", "ABCD5"),
        ("E'\\303\\251{{ n }}'", "é5"),
        ("N'{{ x }}'", "o'b"),
        ("'a'\n  'b{{ x }}'", "abo'b"),
        ("'{{ x }}' -- it's\n -- two\n 'b'", "o'bb"),
        ("'a''\n''{{ n }}'", "a'\n'5"),
        ("E'a'\n'b\\'{{ n }}'", "ab'5"),
        ("'{{ x | replace(\"'\", '\"') }}'", 'o"b'),
        ("date'{{ n }}'", "5"),
        ("'-- {{ n }}'", "-- 5"),
        ("'/* {{ n }}'", "/* 5"),
        ("'$$ {{ n }}'", "$$ 5"),
        ("'\"{{ n }}\"'", '"5"'),
    ],
)
def test_a_string_with_templates_is_one_value_as_a_whole(source: str, text: str) -> None:
    assert only(f"SELECT {source}") == Value(text)


def test_a_string_that_is_one_template_keeps_null() -> None:
    assert only("SELECT '{{ none }}'") == Value(None)


def test_a_string_without_templates_stays_text() -> None:
    assert parts("SELECT 'a''b', {{ n }}, 'c'") == ("SELECT 'a''b', ", Value(5), ", 'c'")


def test_backslashes_are_escapes_in_every_string_of_snowflake() -> None:
    bound = prepare_sql(r"SELECT 'it\'s {{ x }}' // {{ nope }}", SNOWFLAKE)(SCOPE)
    assert bound.parts == ("SELECT ", Value("it's o'b"), " // {{ nope }}")


@pytest.mark.parametrize("source", ["X'{{ n }}'", "b'{{ n }}'", "U&'{{ n }}'", 'U&"{{ n }}"', "'{{ table | ident }}'"])
def test_strings_that_take_no_template(source: str) -> None:
    assert isinstance(refusal(f"SELECT {source}"), TemplateSyntax)


def test_a_quote_that_is_never_closed_is_an_error_where_templates_are_in_it() -> None:
    assert refusal("SELECT 'a {{ x }}").message == "the quote before this template is never closed"
    assert parts("SELECT {{ n }}, 'a") == ("SELECT ", Value(5), ", 'a")


def test_binary_content_is_no_text() -> None:
    assert "binary" in refusal("SELECT 'a{{ bytes }}'").message


# --- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("{{ table | ident }}", ("shop", "orders")),
        ("{{ [table] | ident }}", ("shop.orders",)),
        ("{{ ['a', x] | ident }}", ("a", "o'b")),
        ("{{ ('t_' ~ n) | ident }}", ("t_5",)),
        ('"{{ table }}"', ("shop.orders",)),
        ('"t_{{ n }}_""{{ x }}"', ("t_5_\"o'b",)),
        ('"{{ x | ident }}"', ("o'b",)),
    ],
)
def test_a_name(source: str, names: tuple[str, ...]) -> None:
    assert only(f"SELECT * FROM {source}") == Identifier(names)


def test_a_name_may_stand_beside_a_dot_and_another_name() -> None:
    result = parts("SELECT {{ x | ident }}.{{ x | ident }} {{ x | ident }}, {{ n }} {{ x | ident }}")
    assert [part for part in result if part == Identifier(("o'b",))] == [Identifier(("o'b",))] * 4


@pytest.mark.parametrize("value", [5, None, [], ["a", 1], "", "a..b", "a\0b", {"a": 1}])
def test_what_is_no_name(value: Any) -> None:
    with pytest.raises(TemplateFailed):
        parts("SELECT {{ v | ident }}", v=value)


def test_a_quoted_name_is_quoted_whatever_it_holds() -> None:
    assert quoted('a"b', "c") == '"a""b"."c"'


# --- IN ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("a IN ({{ list }})", InList((1, 2), False)),
        ("a in {{ list }}", InList((1, 2), False)),
        ("a NOT IN ( {{ list }} )", InList((1, 2), True)),
        ("a not /* c */ in {{ empty }}", InList((), True)),
        ("a IN ({{ n }}, {{ list }}, {{ none }})", InList((5, 1, 2, None), False)),
        ("a IN ({{ x }})", InList(("o'b",), False)),
        ("(a, b) IN ({{ [list, list] }})", InList(([1, 2], [1, 2]), False)),
    ],
)
def test_a_list_in_brackets(source: str, part: InList) -> None:
    assert only(source) == part


@pytest.mark.parametrize("source", ["a IN (1, {{ n }})", "a IN (SELECT {{ n }})", "a IN ('{{ n }}')", "f({{ n }})"])
def test_other_brackets_hold_values(source: str) -> None:
    assert isinstance(only(source), Value)


def test_lists_are_written_with_their_brackets() -> None:
    def written(source: str, **options: Any) -> str:
        return write(prepare_sql(source)(SCOPE), repr, **options)

    assert written("a IN {{ list }}") == "a IN (1, 2)"
    assert written("(a, b) NOT IN ({{ [list] }})") == "(a, b) NOT IN ((1, 2))"
    assert written("a IN ({{ empty }})") == "a IN (SELECT NULL WHERE FALSE)"
    assert written("a NOT IN {{ empty }}", empty=Empty("no", "yes")) == "a yes"


# --- comments and code -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "-- {{ nope }}",
        "-- it's {{ broken",
        "-- {% if %} {# ",
        "/* {{ nope }} */",
        "/* a /* {{ nope' }} */ {{ nope }} */",
        '/* " {{ " */',
    ],
)
def test_templates_in_comments_are_text(comment: str) -> None:
    assert parts(f"SELECT {{{{ n }}}} {comment}\n, {{{{ n }}}}") == ("SELECT ", Value(5), f" {comment}\n, ", Value(5))


def test_comments_of_the_template_are_gone() -> None:
    assert parts("SELECT {# 'a -- #}{{ n }}") == ("SELECT ", Value(5))


def test_a_template_that_slips_into_a_comment_is_refused() -> None:
    for source in ("SELECT 1 -- {{ a }}\n{{- n }}", "SELECT -{{ '-' | raw_sql }} {{ n }}"):
        assert refusal(source).message == "this template is inside a comment of the SQL"


@pytest.mark.parametrize("quote", ["$$", "$body$", "$é$"])
def test_a_dollar_quoted_string_is_one_value(quote: str) -> None:
    assert parts(f"INSERT INTO t VALUES ({quote}{{{{ x }}}}{quote}, {{{{ n }}}})") == (
        "INSERT INTO t VALUES (",
        Value("o'b"),
        ", ",
        Value(5),
        ")",
    )
    assert only(f"SELECT {quote}a '' \\ {{{{ x }}}}-{{{{ n }}}}{quote}") == Value("a '' \\ o'b-5")
    assert only(f"SELECT {quote}{{{{ none }}}}{quote}") == Value(None)
    assert only(f"UPDATE t SET task = {quote}{{{{ x }}}}{quote}") == Value("o'b")


@pytest.mark.parametrize(
    "before", ["DO", "CREATE OR REPLACE FUNCTION f() RETURNS int AS", "SELECT 1; DO", "EXECUTE IMMEDIATE"]
)
def test_a_dollar_quoted_string_behind_words_for_code_is_code(before: str) -> None:
    assert "dollar-quoted" in refusal(f"{before} $$ {{{{ x }}}} $$").message


def test_code_in_another_statement_is_no_matter() -> None:
    assert only("DO $$ BEGIN END $$; SELECT $${{ x }}$$") == Value("o'b")


def test_an_open_dollar_quote_takes_no_value() -> None:
    assert refusal("SELECT $$ {{ x }}").message == "the quote before this template is never closed"


@pytest.mark.parametrize("source", ["{{ x }}", " {{ x }} ; ", "SELECT 1; {{ x }}", "-- all\n{{ x }}"])
def test_a_template_is_no_statement(source: str) -> None:
    error = refusal(source)
    assert (error.message, source[error.offset :].startswith("x }}")) == (
        "a template is one value and cannot be a whole statement",
        True,
    )
    assert error.hint == "splice the text: {{ ... | raw_sql }}"
    assert prepare_sql("{{ x | raw_sql }}")({"x": "SELECT 1"}).parts == ("SELECT 1",)


@pytest.mark.parametrize("quote", ["$$", "$body$", "$é$"])
def test_code_bodies_take_no_values(quote: str) -> None:
    error = refusal(f"DO {quote} BEGIN RAISE NOTICE '{{{{ x }}}}'; END {quote}")
    assert isinstance(error, TemplateSyntax)
    assert "dollar-quoted" in error.message
    assert "set_config" in str(error.hint)


def test_a_dollar_inside_a_word_opens_nothing() -> None:
    assert only("SELECT a$$ + {{ n }} + b$$") == Value(5)


# --- splicing and control flow -----------------------------------------------------------------------


def test_raw_sql_is_text_before_anything_is_checked() -> None:
    assert parts("SELECT {{ n }} WHERE {{ where | raw_sql }} {{ x }}'") == (
        "SELECT ",
        Value(5),
        " WHERE a = ",
        Value("b o'b"),
    )


def test_raw_sql_may_be_a_part_of_a_code_body() -> None:
    assert parts("DO $$ {{ where | raw_sql }} $$") == ("DO $$ a = 'b $$",)


def test_raw_sql_is_text_only() -> None:
    assert refusal("SELECT {{ n | raw_sql }}").message == "`raw_sql` splices text, not an integer"


@pytest.mark.parametrize(
    "source", ["{{ x | ident | upper }}", "{{ 'a' ~ x | ident }}", "{{ x | raw_sql if n else 1 }}"]
)
def test_the_filters_of_sql_stand_last_and_for_the_whole(source: str) -> None:
    assert "must be the last one" in refusal(source).message


def test_control_flow_chooses_text_and_values_stay_bound() -> None:
    source = (
        "INSERT INTO t VALUES {% for v in list %}{% set w = v * 2 %}({{ v }}, '{{ w }}'){% if not loop.last %}, "
        "{% endif %}{% endfor %}{% if none %} {{ nope }}{% endif %}{% with q = x %} RETURNING {{ q }}{% endwith %}"
    )
    assert parts(source) == (
        "INSERT INTO t VALUES (",
        *(Value(1), ", ", Value("2"), "), ("),
        *(Value(2), ", ", Value("4"), ") RETURNING "),
        Value("o'b"),
    )


@pytest.mark.parametrize("source", ["{% set a %}x{% endset %}", "{% filter upper %}x{% endfilter %}"])
def test_blocks_that_make_text_are_refused(source: str) -> None:
    assert isinstance(refusal(source), TemplateSyntax)


# --- neighbours --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("SELECT * FROM t_{{ x }}", "there is no space between a template and 't_'"),
        ("SELECT {{ n }}days", "there is no space between a template and 'days'"),
        ("SELECT 1{{ n }}", "there is no space between a template and '1'"),
        ("SELECT E{{ x }}", "there is no space between a template and 'E'"),
        ("SELECT shop.{{ x }}", "a template next to a dot is a name"),
        ("SELECT {{ x }}.id", "a template next to a dot is a name"),
        ("SELECT 'a'{{ x }}", "a template is directly next to a string"),
        ("SELECT {{ x }}\n-- c\n'a'", "a template is directly next to a string"),
        ("SELECT {{ x }} {{ x }}", "a template is directly next to another"),
        ("SELECT '{{ x }}' {{ x }}", "a template is directly next to a string"),
    ],
)
def test_a_template_that_would_not_be_read_as_one_value(source: str, message: str) -> None:
    assert refusal(source).message == message


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("a={{ n }}", "a= 5"),
        ("a=-{{ -n }}", "a=- -5"),
        ("{{ -n }}::text", "(-5)::text"),
        ("({{ -n }})", "(-5)"),
        ("{{ n }}+{{ n }}", "5 + 5"),
        ("a<{{ n }}OR", None),
        ("LIKE'{{ x }}'", 'LIKE "o\'b"'),
        ("{{ x | ident }}.{{ x | ident }}", '"o\'b" . "o\'b"'),
    ],
)
def test_values_are_written_apart_from_what_is_beside_them(source: str, written: str | None) -> None:
    if written is None:
        refusal(source)
    else:
        assert write(prepare_sql(source)(SCOPE), repr) == written


def test_each_value_is_written_as_a_placeholder() -> None:
    values: list[Any] = []

    def placeholder(value: Any) -> str:
        values.append(value)
        return "%s"

    sql = prepare_sql("SELECT 5 % 3, a LIKE 'a%' AND b LIKE '{{ x }}%' AND {{ '%' | ident }} IN {{ list }}")(SCOPE)
    assert write(sql, placeholder) == "SELECT 5 % 3, a LIKE 'a%' AND b LIKE %s AND \"%\" IN (%s, %s)"
    assert values == ["o'b%", 1, 2]


def test_a_text_that_holds_control_characters_is_read_as_well() -> None:
    assert parts("SELECT '\x01{{ n }}\x02', {{ n }}, E'\\x03{{ n }}'") == (
        "SELECT ", Value("\x015\x02"), ", ", Value(5), ", ", Value("\x035")
    )  # fmt: skip


def test_a_binding_is_made_once_and_used_often() -> None:
    bind = prepare_sql("SELECT {{ x }}")
    assert [bind({"x": value}).parts for value in (1, 2)] == [("SELECT ", Value(1)), ("SELECT ", Value(2))]
