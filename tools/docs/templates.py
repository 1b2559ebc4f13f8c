"""The page of templates: names, filters, functions and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.classic.document_parts import CLASSIC_PLACES
from noetl.dsl.checks.scopes import PLACES, TemplatePlace
from noetl.dsl.root_names import NAMES
from noetl.expression import FILTERS, FUNCTIONS, METHODS, SQL_FILTERS, TESTS, Entry, budget
from tools.docs.markdown import code, codes, page, sentence, table
from tools.docs.problems import link

WHOLE = """A template is text with `{{ expression }}` in it, in the syntax of Jinja. A value that is one expression
and nothing else keeps its type: `"{{ workload.limit }}"` is a number if the limit is one. With other text, or with
statements, the value is text. `"42"` stays text and never becomes a number by itself."""

CONDITIONS = f"""A condition (`when`) is `true`, `false`, or exactly one `{{{{ expression }}}}`. Text without braces
would always be true, so it is an error ({link("NTL504")})."""

STATEMENTS = """The statements are `{% if %}`, `{% for %}`, `{% set %}`, `{% with %}` and `{% filter %}`. Macros,
imports and inheritance do not exist. The result of a template is never parsed as a template again."""

BARE = f"""A name without a namespace is a convenience. It is looked up in this order: `args`, `ctx`, `iter`, keys of
`workload`, task labels, step names. The first match wins, and the validator warns where one shadows another
({link("NTL408")}). A bare step or task name is that step's or task's result. Nothing can shadow a
namespace. A name that nothing in the playbook provides is a warning ({link("NTL502")}), since a payload may provide it;
a run whose payload and `ctx` do not have it does not start if its template would fail without it."""

MISSING = """A name, key or index that does not exist is *missing*.

- It chains: `ctx.a.b.c` is missing if any part of it is.
- It is false, and every comparison with it is false, except `!=`. A guard over data that does not exist yet
  does not match.
- `default` replaces it: `{{ ctx.page | default(1) }}`. `is defined` tests for it.
- Other filters pass it on.
- Where a value is needed, it is an error that names the expression and its place: in text, in an input, in
  arithmetic, in a patch.

`null` is a value and not missing."""

NUMBERS = """Text is no number: `"5" + 1` is an error, and `"5" * 2` is `"55"`. Convert with `| int` or `| float`.

A comparison is the exception, because SQL results have DECIMAL and NUMERIC values as text, which keeps every digit.
`==`, `!=`, `<`, `<=`, `>` and `>=` compare the text of a decimal number with a number, exactly: `"12.50" == 12.5` and
`"12345678901234567890.01" > 12345678901234567890` are true. Only text like `-12.50` is compared as a number; `"007"`,
`"1e3"` and `" 5"` are not, and `<` between them and a number is an error. `<`, `<=`, `>` and `>=` compare two such
texts as numbers, too: `"9.50" < "10.00"` is true. `==` and `!=` compare two texts as text: `"12.50" == "12.5"` is
false. `in` and filters such as `unique` and `sort` do not convert."""

SQL = """In the SQL of a task, a template is always one value: it is bound as a parameter or quoted by the driver, and
never spliced into the text, in `'...'` and `$$...$$` too. Two filters exist only there."""

BUDGETS = [
    ("CPU time", f"{budget.SECONDS * 1000:g} ms"),
    ("CPU time of all templates of one decision on the server", f"{budget.DECISION_SECONDS * 1000:g} ms"),
    ("Characters in one text", f"{budget.CHARACTERS:,}"),
    ("Elements in one list", f"{budget.ELEMENTS:,}"),
    ("Iterations of all loops together", f"{budget.STEPS:,}"),
    ("All values that one evaluation creates", f"about {budget.MEMORY >> 20} MiB"),
    ("The result, when it is stored", f"about {budget.VALUE_BYTES >> 20} MiB"),
    ("The values of all templates of one decision", f"about {budget.DECISION_BYTES >> 20} MiB"),
    ("Bits of a whole number", f"{budget.INTEGER_BITS:,}, and 64 where it is stored"),
    ("Depth of nested lists and maps", f"{budget.DEPTH}"),
]


def pages() -> Iterator[tuple[str, str]]:
    kinds = {"str": "text", "dict": "maps", "list": "lists"}
    methods = [
        part
        for kind, entries in METHODS.items()
        for part in (f"### Methods of {kinds[kind]}", _entries(entries, "Method"))
    ]
    yield (
        "reference/templates.md",
        page(
            "Templates",
            WHOLE,
            CONDITIONS,
            STATEMENTS,
            "## Names",
            table(["Name", "Content"], [(code(name), NAMES[name]) for name in NAMES if name in _canonical()]),
            "### Names by place",
            table(["Place", "Names"], _places(PLACES)),
            f"A secret can be read in the inputs of a tool only ({link('NTL507')}); any other name in the wrong place "
            f"is {link('NTL505')}.",
            "### Bare names",
            BARE,
            "### In the classic dialect",
            "These names exist in classic playbooks only, beside `vars`, which can be read everywhere but in "
            "`workload`.",
            table(["Name", "Content"], [(code(name), NAMES[name]) for name in NAMES if name not in _canonical()]),
            table(["Place", "Names"], _places(CLASSIC_PLACES)),
            "## Missing values",
            MISSING,
            "## Text and numbers",
            NUMBERS,
            "## Filters",
            "A filter takes the value to its left: `{{ workload.city | lower }}`.",
            _entries(FILTERS, "Filter"),
            "### In SQL",
            SQL,
            _entries(SQL_FILTERS, "Filter"),
            "## Tests",
            "A test follows `is`: `{{ ctx.total is defined }}`.",
            _entries(TESTS, "Test"),
            "## Functions",
            _entries(FUNCTIONS, "Function"),
            "## Methods",
            "On a map, `order.items` is the key `items` and `order.items()` is the method. Methods can be called but "
            "not stored.",
            *methods,
            "## Limits",
            "Each evaluation has these limits. Heavy work belongs in a `python` or SQL task, and loops "
            "over large data in a step.",
            table(["What", "Limit"], BUDGETS),
        ),
    )


def _canonical() -> set[str]:
    return {name for place in PLACES.values() for name in place.roots}


def _places(places: Mapping[str, TemplatePlace]) -> Iterator[tuple[str, str]]:
    for place in places.values():
        listed = [name for name in NAMES if name in place.roots]
        yield place.words.removeprefix("in ").removeprefix("on ").capitalize(), codes(listed)


def _entries(entries: Mapping[str, Entry], head: str) -> str:
    """A table of entries; aliases share a row."""
    names: dict[object, list[str]] = {}
    for name, entry in entries.items():
        names.setdefault((entry.call, entry.doc), []).append(name)
    rows = []
    for alike in names.values():
        alike.sort(key=lambda name: (not name[0].isalpha(), -len(name), name))
        entry = entries[alike[0]]
        rows.append((", ".join(map(code, alike)), _arguments(entry), sentence(entry.doc)))
    return table([head, "Arguments", "Result"], sorted(rows))


def _arguments(entry: Entry) -> str:
    inner = "…" if entry.signature == "(...)" else entry.signature[1:-1]
    for python, jinja in (("None", "none"), ("True", "true"), ("False", "false")):
        inner = inner.replace(f"={python}", f"={jinja}")
    return code(inner) if inner else ""
