"""SQL with templates in it, where a template is always one value and never text.

    bind = prepare_sql("SELECT * FROM {{ table | ident }} WHERE name LIKE '{{ start }}%' AND id IN ({{ ids }})")
    sql = bind(scope)            Sql: texts, and between them Value, Identifier and InList
    statements(sql)              one Sql for each statement
    write(sql, placeholder)      the text for a driver

The position of a template decides what it becomes, before any value is known:

    {{ x }}                      one value: text, number, list (an array), map (JSON), null
    'a {{ x }} b'                one value as a whole, the text of the string; '{{ x }}' with null is null
    "a {{ x }} b"                one name as a whole
    {{ x | ident }}              a name; `schema.table` and lists are names of several parts
    IN ({{ x }}), IN {{ x }}     a list is the list; an empty one holds nothing
    {{ x | raw_sql }}            text, spliced before anything else is looked at
    -- {{ x }}  /* {{ x }} */    nothing: comments are never rendered
    $$ {{ x }} $$                an error

`if`, `for`, `set` and `with` choose text; the values inside are bound as well. A template without a space between it
and a word, or directly beside a string, is an error: the server would read something else than the author wrote.
"""

from __future__ import annotations

from noetl.sql.lexing import SNOWFLAKE, STANDARD, Dialect
from noetl.sql.prepare import prepare_sql
from noetl.sql.statements import (
    Empty,
    Identifier,
    InList,
    Part,
    Sql,
    Value,
    WrittenSql,
    first_words,
    is_quoted,
    quoted,
    simple_literal,
    statements,
    write,
    written,
)  # fmt: skip

__all__ = [
    "SNOWFLAKE", "STANDARD", "Dialect", "Empty", "Identifier", "InList", "Part", "Sql", "Value", "WrittenSql",
    "first_words", "is_quoted", "prepare_sql", "quoted", "simple_literal", "statements", "write", "written",
]  # fmt: skip
