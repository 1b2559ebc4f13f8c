"""The reader: YAML 1.2 and nothing else, with the place of everything it read."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from tests.table import for_each

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.dsl.reader import read
from noetl.dsl.tree import Map, Mark, Text, key_span, plain, span_in
from noetl.tools.registry import KINDS


def tree(text: str) -> Map:
    root, problems = read("t.yaml", text)
    assert root is not None, problems.sorted()
    assert not problems.sorted()
    return root


def values(text: str) -> Any:
    return plain(tree(dedent(text)))


def refused(text: str | bytes) -> list[Problem]:
    _, problems = read("t.yaml", text)
    assert problems.count("error"), "expected to be refused"
    return problems.sorted()


def refused_once(text: str | bytes) -> Problem:
    (problem,) = refused(text)
    return problem


def place(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column


def key_place(text: str, *path: Any) -> Mark:
    """Line and column of the last key on a path."""
    container = tree(text)
    for key in path[:-1]:
        container = container[key]
    return Text("t.yaml", text.removeprefix("\ufeff")).mark(key_span(container, path[-1]).start)


def value_place(text: str, *path: Any) -> Mark:
    container: Any = tree(text)
    for key in path[:-1]:
        container = container[key]
    return Text("t.yaml", text.removeprefix("\ufeff")).mark(span_in(container, path[-1]).start)


class TestScalars:
    @pytest.mark.parametrize(
        "text",
        [
            "on",
            "off",
            "yes",
            "no",
            "Yes",
            "NO",
            "y",
            "n",
            "On",
            "12:30:00",
            "1:20",
            "2024-01-01",
            "2001-12-14T21:59:43Z",
            "nULL",
            "tRUE",
            "1_000",
            "0b11",
            "-0o17",
            "-0x1f",
            "0o8",
            "0xg",
            "1e",
            "e3",
            ".",
            "-",
            "+",
            "..5",
            "1.2.3",
            "<<x",
            "=",
            "NaN",
            "inf",
            "+.nan",
            "infinity",
            "١٢",
            "1,000",
            "12 34",
            "0O17",
            "0X1F",
        ],
    )
    def test_words_of_other_yaml_versions_are_text(self, text: str) -> None:
        if text == "-":
            text = "-x"  # alone it starts a list
        assert tree(f"a: {text}")["a"] == text

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("0", 0),
            ("007", 7),
            ("+5", 5),
            ("-5", -5),
            ("-0", 0),
            ("0o17", 15),
            ("0x1f", 31),
            ("0xFF", 255),
            ("9223372036854775807", 2**63 - 1),
            ("-9223372036854775808", -(2**63)),
            ("00000000000000000000000000000000000000000", 0),
        ],
    )
    def test_whole_numbers(self, text: str, value: int) -> None:
        a = tree(f"a: {text}")["a"]
        assert a == value
        assert type(a) is int

    @pytest.mark.parametrize(
        ("text", "value"),
        [("1e3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5E-3", -0.0015), ("+.5", 0.5), ("1e-999", 0.0), ("-0.0", 0.0)],
    )
    def test_numbers_with_a_point_or_an_exponent(self, text: str, value: float) -> None:
        a = tree(f"a: {text}")["a"]
        assert a == value
        assert type(a) is float

    @pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL", "!!null ~"])
    def test_nothing(self, text: str) -> None:
        assert tree(f"a: {text}")["a"] is None

    @pytest.mark.parametrize("text", ["true", "True", "TRUE"])
    def test_true(self, text: str) -> None:
        assert tree(f"a: {text}")["a"] is True

    @pytest.mark.parametrize("text", ["false", "False", "FALSE"])
    def test_false(self, text: str) -> None:
        assert tree(f"a: {text}")["a"] is False

    @for_each("quoted", ['"{}"', "'{}'", "!!str {}", "! {}", "|-\n  {}", ">-\n  {}"])
    @for_each("text", ["007", "1.5", "true", "null", "~", "0x1f", ".inf", "1e999", "on"])
    def test_what_is_quoted_or_tagged_stays_text(self, quoted: str, text: str) -> None:
        assert tree(f"a: {quoted.format(text)}")["a"] == text

    @pytest.mark.parametrize(
        "text",
        [
            "9223372036854775808",
            "-9223372036854775809",
            "1" * 5000,
            "0x" + "f" * 17,
            "0o" + "7" * 100000,
            "1e999",
            "-1e999",
            "1" * 400 + ".0",
            ".inf",
            "-.inf",
            "+.INF",
            ".nan",
            ".NaN",
        ],
    )
    def test_numbers_without_a_place_in_json_are_refused(self, text: str) -> None:
        problem = refused_once(f"a:\n  b: {text}")
        assert problem.code == "NTL009"
        assert place(problem) == (2, 6)
        assert problem.hint == "quote the value"

    def test_keys_are_text_as_written(self) -> None:
        text = "{5: a, null: b, true: c, ~: d, 007: e, 1.50: f, on: g, '': h, ? 12:30:00 : i}"
        assert list(tree(text)) == ["5", "null", "true", "~", "007", "1.50", "on", "", "12:30:00"]


class TestTags:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("!!int 5", 5),
            ("!!float 5", 5.0),
            ("!!bool true", True),
            ('!!int "7"', 7),
            ("!!map {b: 1}", {"b": 1}),
            ("!!seq [1]", [1]),
            ("!!str 5", "5"),
        ],
    )
    def test_tags_of_json_types_are_understood(self, text: str, value: Any) -> None:
        assert values(f"a: {text}") == {"a": value}

    @pytest.mark.parametrize(
        "text",
        [
            "!!python/object:os.system ls",
            "!!python/name:os.system ''",
            "!local x",
            "!!binary aGk=",
            "!!int x",
            "!!bool 1",
            "!!null x",
            "!!set {a}",
            "!!omap [a: 1]",
            "!!timestamp 2001-01-01",
            "!<tag:x,1:y> z",
            "!x [1]",
        ],
    )
    def test_other_tags_are_refused(self, text: str) -> None:
        problem = refused_once(f"a: {text}")
        assert problem.code == "NTL009"
        assert problem.line == 1

    def test_a_tag_directive_is_refused(self) -> None:
        assert refused_once("%TAG !x! tag:x,1:\n---\na: b").code == "NTL009"

    def test_a_yaml_directive_is_accepted(self) -> None:
        assert values("%YAML 1.2\n---\na: on") == {"a": "on"}


class TestAnchors:
    def test_an_alias_is_what_its_anchor_is(self) -> None:
        text = """
            a: &a {x: [1, 2]}
            b: *a
            c: [*a, &s text, *s]
        """
        assert values(text) == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}, "c": [{"x": [1, 2]}, "text", "text"]}

    def test_the_last_anchor_of_a_name_counts(self) -> None:
        assert values("a: &x 1\nb: *x\nc: &x 2\nd: *x") == {"a": 1, "b": 1, "c": 2, "d": 2}

    def test_an_alias_of_text_may_be_a_key(self) -> None:
        assert values("a: &k name\n*k : 1") == {"a": "name", "name": 1}

    @pytest.mark.parametrize("value", ["5", "null", "", "true", "[1]", "{b: 1}"])
    def test_an_alias_of_anything_else_is_no_key(self, value: str) -> None:
        problem = refused_once(f"a: &k {value}\nb: {{*k : 1}}")
        assert problem.code == "NTL008"
        assert problem.line == 2

    def test_an_unknown_alias_is_refused_with_those_that_exist(self) -> None:
        problem = refused_once("a: &one 1\nb: *two")
        assert (problem.code, place(problem)) == ("NTL005", (2, 4))
        assert problem.hint is not None
        assert "one" in problem.hint

    @pytest.mark.parametrize(
        "text", ["a: &x [*x]", "a: &x {b: *x}", "a: &x\n  b: &y\n    - *x", "&x a: *y", "? &x [*x]\n: b"]
    )
    def test_a_recursive_or_unknown_alias_is_refused(self, text: str) -> None:
        assert refused_once(text).code in ("NTL005", "NTL008")

    def test_a_template_that_should_be_quoted_may_be_anchored(self) -> None:
        (problem,) = refused("a: &x {{ y }}\nb: *x")
        assert problem.code == "NTL006"

    def test_a_problem_in_an_aliased_template_stands_at_the_alias(self) -> None:
        text = playbook("- {kind: noop, result: &t '{{ steps.nope }}'}\n- {kind: noop, result: *t}")
        assert [place(problem) for problem in problems_of(text)] == [mark_of("steps.nope", text), mark_of("*t", text)]


class TestMergeKeys:
    def test_own_keys_win_over_merged_ones_wherever_they_stand(self) -> None:
        assert values("base: &b {x: 1, y: 2}\na: {x: 9, <<: *b}\nb: {<<: *b, x: 9}")["a"] == {"x": 9, "y": 2}
        assert values("base: &b {x: 1, y: 2}\nb: {<<: *b, x: 9}")["b"] == {"x": 9, "y": 2}

    def test_the_first_of_several_maps_wins(self) -> None:
        text = "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b, {y: 3, z: 3}]}"
        assert values(text)["c"] == {"x": 1, "y": 2, "z": 3}

    def test_merged_keys_stand_where_the_merge_stands(self) -> None:
        text = "b: &b {m: 1, n: 2}\nc: {first: 1, <<: *b, last: 2}"
        assert list(values(text)["c"]) == ["first", "m", "n", "last"]

    def test_a_merged_map_may_itself_merge(self) -> None:
        text = "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}"
        assert values(text)["c"] == {"x": 1, "y": 2, "z": 3}

    def test_merged_parts_keep_the_place_where_they_were_written(self) -> None:
        text = "a: &a\n  x: 1\nb:\n  <<: *a\n"
        assert value_place(text, "b", "x") == (2, 6)
        assert key_place(text, "b", "x") == (2, 3)

    def test_a_quoted_merge_key_is_an_ordinary_key(self) -> None:
        assert values("a: {'<<': 1}") == {"a": {"<<": 1}}

    @pytest.mark.parametrize("value", ["1", "text", "[1]", "[[{}]]", "null"])
    def test_only_maps_can_be_merged(self, value: str) -> None:
        assert refused_once(f"a: {{<<: {value}}}").code == "NTL009"

    def test_two_merges_in_one_map_are_a_duplicate_key(self) -> None:
        problem = refused_once("a: &a {x: 1}\nb: &b {y: 1}\nc:\n  <<: *a\n  <<: *b")
        assert (problem.code, place(problem)) == ("NTL004", (5, 3))
        assert problem.hint == "merge a list: `<<: [*one, *two]`"


class TestDuplicateKeys:
    def test_each_is_reported_with_its_own_place(self) -> None:
        text = "a: 1\nb: {c: 1, d: 2, c: 3}\na: 2\ne:\n  - f: 1\n    f: 2\n    f: 3\n"
        problems = refused(text)
        assert {problem.code for problem in problems} == {"NTL004"}
        assert [place(problem) for problem in problems] == [(2, 17), (3, 1), (6, 5), (7, 5)]
        assert problems[0].message == "duplicate key 'c', first used at line 2"

    def test_keys_that_read_alike_are_the_same_however_they_are_quoted(self) -> None:
        assert refused_once("a: 1\n'a': 2\n").code == "NTL004"
        assert refused_once('{5: 1, "5": 2}').code == "NTL004"

    def test_keys_that_differ_are_no_duplicates(self) -> None:
        assert values("{a: 1, A: 2, 'a ': 3, '': 4}") == {"a": 1, "A": 2, "a ": 3, "": 4}

    def test_the_same_key_in_different_maps_is_none(self) -> None:
        assert values("x: [{a: 1}, {a: 2}]\ny: {x: {x: 1}}") == {"x": [{"a": 1}, {"a": 2}], "y": {"x": {"x": 1}}}


class TestPlaces:
    def test_block_and_flow(self) -> None:
        text = "a:\n  bb: 1\n  c: [x, {dd: y}]\n"
        assert key_place(text, "a", "bb") == (2, 3)
        assert value_place(text, "a", "bb") == (2, 7)
        assert value_place(text, "a", "c", 1) == (3, 10)
        assert key_place(text, "a", "c", 1, "dd") == (3, 11)
        assert value_place(text, "a", "c", 1, "dd") == (3, 15)

    @pytest.mark.parametrize("before", ["é", "日本", "😀", "👩‍👩‍👧", "e\u0301", "\u2028", "\u0085", "\ufeff"])
    def test_a_column_counts_characters(self, before: str) -> None:
        text = f"{{x: '{before}', y: z}}"
        assert value_place(text, "y") == (1, text.index("z") + 1)

    @pytest.mark.parametrize("before", ["é", "😀", "\u2028", "\u2029", "\u0085"])
    def test_only_a_newline_starts_a_line(self, before: str) -> None:
        text = f"x: '{before}'\ny: z\n"
        assert value_place(text, "y") == (2, 4)

    def test_windows_line_ends(self) -> None:
        text = "a: 1\r\nb:\r\n  c: x\r\n"
        assert value_place(text, "b", "c") == (3, 6)
        assert plain(tree(text)) == {"a": 1, "b": {"c": "x"}}

    def test_a_problem_shows_its_line_without_the_line_end(self) -> None:
        assert refused_once("a: 1\r\na: 2\r\n").source == "a: 2"

    def test_a_byte_order_mark_takes_no_column(self) -> None:
        assert key_place("\ufeffa: 1", "a") == (1, 1)
        assert values("\ufeffa: 1") == {"a": 1}
        root, _ = read("t.yaml", b"\xef\xbb\xbfa: 1")
        assert root == {"a": 1}


def playbook(tasks: str) -> str:
    body = "".join(f"      {line}\n" for line in tasks.split("\n"))
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
    return f"{head}workflow:\n  - step: s\n    tool:\n{body}"


def mark_of(part: str, text: str) -> tuple[int, int]:
    """Line and column of a part of the text."""
    before = text[: text.index(part)].split("\n")
    return len(before), len(before[-1]) + 1


def problems_of(text: str) -> list[Problem]:
    return load("t.yaml", text, KINDS).problems


class TestPlacesInsideText:
    """A mistake in a template is shown at its own line and column, however the text around it is written."""

    @for_each(
        "result",
        [
            "'a {{ bad }}'",
            "&anchor 'a {{ bad }}'",
            "!!str &anchor\n  'a {{ bad }}'",
            "&anchor a {{ bad }}",
            "&anchor |\n  a {{ bad }}\n",
            "'it''s {{ bad }}'",
            '"a {{ bad }}"',
            '"\\u00e9\\x41\\U0001F600\\t\\" {{ bad }}"',
            '"one\n  two {{ bad }}"',
            '"one\\\n  two {{ bad }}"',
            '"one\\\n  \\ two {{ bad }}"',
            '"one\n\n  two {{ bad }}"',
            '"one\n  \\" {{ bad }}"',
            "'one\n  two {{ bad }}'",
            "'one\n  \\two {{ bad }}'",
            "|\n  one\n    two {{ bad }}\n",
            "|4-\n    one {{ bad }}\n",
            ">\n  one\n  two {{ bad }}\n",
            ">+\n  one\n\n\n  two {{ bad }}\n\n",
            "|  # a comment with {{ braces }}\n  {{ bad }}\n",
            "x {{ bad }}",
            "x\n  y {{ bad }}",
            "'😀é {{ bad }}'",
            "'{{ bad\n  }}'",
            '"{{\n  bad }}"',
            '"\\\n  {{ bad }}"',
        ],
    )
    @for_each("line_end", ["\n", "\r\n"])
    def test_an_unknown_name(self, result: str, line_end: str) -> None:
        indented = result.replace("\n", "\n  ")
        text = playbook(f"- kind: noop\n  result: {indented}").replace("\n", line_end)
        (problem,) = problems_of(text)
        assert problem.code == "NTL502"
        assert place(problem) == mark_of("bad", text)

    def test_several_in_one_text(self) -> None:
        text = playbook("- kind: noop\n  result: |\n    {{ one }}\n    {{ two }} {{ three }}")
        assert [place(problem) for problem in problems_of(text)] == [
            mark_of(name, text) for name in ("one", "two", "three")
        ]

    def test_every_character_of_a_plain_text_is_found(self) -> None:
        source = "a: 'x''y z'"
        span = span_in(tree(source), "a")
        assert [Text("t", source).offset_in(span, "x'y z", i) for i in range(6)] == [4, 5, 7, 8, 9, 10]


class TestUnquotedTemplates:
    @pytest.mark.parametrize(
        ("text", "line", "column"),
        [
            ("a: {{ x }}", 1, 4),
            ("a:\n  b: {{ x.y }}\n", 2, 6),
            ("a:\n  - {{ x }}\n", 2, 5),
            ("a: [{{ x }}]", 1, 5),
            ("a: [1, {{ x }}, 2]", 1, 8),
            ("a: [1,{{ x }}]", 1, 7),
            ("a: {b: {{ x }}}", 1, 8),
            ("a: {{ x }}/path", 1, 4),
            ("- {{ x }}/path", 1, 3),
            ("a: [{{ x }}/path]", 1, 5),
            ("a: {{ x }} and {{ y }}", 1, 4),
            ("a: {{ f('x') | default([]) }}", 1, 4),
            ("a: {{ x if y == 1 else z }}", 1, 4),
            ("a: {{ 'x: y' }}", 1, 4),
            ("a: {% if x %}b{% endif %}", 1, 4),
            ("a:\n  - {% for x in y %}\n", 2, 5),
            ("a: {{ {'x': 1} }}", 1, 4),
            ("a:\n  {{ x }}\n", 2, 3),
            ("{{ x }}: 1", 1, 1),
            ("a: {{ x }} # comment", 1, 4),
            ("a: {{x}}", 1, 4),
        ],
    )
    def test_has_a_message_of_its_own(self, text: str, line: int, column: int) -> None:
        problem = refused(text)[0]
        assert (problem.code, problem.message) == ("NTL006", "a template must be quoted")
        assert place(problem) == (line, column)

    def test_the_hint_shows_the_quoted_text(self) -> None:
        assert refused("url: {{ host }}/a  # here")[0].hint == 'write "{{ host }}/a"'
        assert refused("url: {{ host['a'] }}")[0].hint == "write \"{{ host['a'] }}\""
        assert refused('url: {{ host["a"] }}')[0].hint == "write '{{ host[\"a\"] }}'"

    def test_all_of_them_are_reported(self) -> None:
        text = "a: {{ x }}\nb: [{{ y }}, {{ z }}]\n"
        assert [place(problem) for problem in refused(text)] == [(1, 4), (2, 5), (2, 14)]

    def test_a_map_in_a_map_is_not_one(self) -> None:
        assert refused("a: { {b: 1}: 2 }")[0].code == "NTL008"

    def test_another_mistake_near_a_quoted_template_is_not_one(self) -> None:
        assert refused("a: '- {{ x }}'\nb: c: d\n")[0].code == "NTL002"
        assert refused('a: "echo, {{ x }}\nb: 1\n')[0].code == "NTL002"


class TestSyntax:
    @pytest.mark.parametrize(
        ("text", "line", "says"),
        [
            ("a:\n\tb: 1", 2, "tab"),
            ("a: 'open\nb: 1\n", 1, "quote is never closed"),
            ('a: "open\nb: 1\n', 1, "quote is never closed"),
            ("a: [1, 2\nb: 1\n", 2, ""),
            ("a: {b: 1\n", 2, ""),
            ("a: b: c\n", 1, "`:`"),
            ("a:\n  b: 1\n c: 2\n", 3, ""),
            ("a: 1\n  b: 2\n", 2, ""),
            ("a: ]", 1, ""),
            ("a: @b", 1, ""),
            ("a: `b`", 1, ""),
            ("a: %b", 1, ""),
            ('a: "\\q"', 1, ""),
            ('a: "\\ud800"', 1, ""),
            ("%YAML 3.0\n---\na: 1", 1, ""),
            ("a: &\n", 1, ""),
            ("a: |x\n  b", 1, ""),
        ],
    )
    def test_is_refused_at_its_line(self, text: str, line: int, says: str) -> None:
        problem = refused_once(text)
        assert problem.code == "NTL002"
        assert problem.line in (line, line + 1)
        assert says in problem.message

    @pytest.mark.parametrize("text", ["", "   \n", "# only a comment\n", "---\n", "---\n...\n", "null", "~"])
    def test_an_empty_document_is_refused(self, text: str) -> None:
        assert refused_once(text).message == "the document is empty"

    @pytest.mark.parametrize("text", ["text", "5", "[a]", "- a", "'{{ x }}'", "true"])
    def test_a_document_that_is_no_map_is_refused(self, text: str) -> None:
        assert refused_once(text).code == "NTL007"

    def test_a_second_document_is_refused_where_it_starts(self) -> None:
        problem = refused_once("a: 1\n---\nb: 2\n")
        assert (problem.code, place(problem)) == ("NTL007", (2, 1))

    def test_the_marks_of_one_document_are_fine(self) -> None:
        assert values("---\na: 1\n...\n") == {"a": 1}
