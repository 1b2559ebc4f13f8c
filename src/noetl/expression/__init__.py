"""Templates: Jinja's language, evaluated by closures of our own.

    parse("{{ outcome.status == 'error' }}").test(scope)           a guard
    parse("Hello {{ ctx.name }}").evaluate(scope)                  a string
    render({"url": "{{ api }}/users", "n": 5}, scope)              a playbook value, deeply

Playbooks are written in Jinja's language, by people and by other systems, and some of those are hostile. Jinja
itself is not used: the syntax tree (`lexer.py`, `parser.py`, `template_parser.py`) is compiled into Python
closures (`compile.py`), for four reasons.

*Escapes.* Every escape from Jinja's sandbox goes through attribute access on Python objects, through str.format, or
through generated code. There is no generated code here; `a.b` is a key of a map or a field of a View and never a Python
attribute (`values.lookup` is the only place that looks things up); methods are a short list of our own functions and
can be called but not held; str.format and `%` are parsed by us (`text.py`). A node, filter, test, function or method
without an entry does not exist.

*Bombs.* A sandbox does not stop `2 ** 10 ** 10` or a loop that doubles a list. Every operator and filter asks a Budget
before it makes something, loops are counted, and the clock is checked between bounded pieces of work (`budget.py`).

*Speed.* Jinja takes 0.4 to 1.1 ms to compile a template, and 11 to 23 us for a guard. A closure is made in
microseconds, and a guard takes about one.

*Meaning.* A missing value chains, makes comparisons false and lets `default` work; where it is printed, stored or
passed on it is an error that names the expression and its place. "42" stays a string. On a map `a.items` is the key,
`a.items()` the method. Data is never parsed as a template.

Offsets are characters into the template's source, exact for every error and every name that is read. Everything that
goes wrong is a TemplateError: TemplateSyntax from `parse`; TemplateUndefined, TemplateFailed or BudgetExceeded from an
evaluation. An Interruption raised by a View passes through.
"""

from __future__ import annotations

from noetl.expression.budget import BUDGET_KEY, Budget, decision_budget
from noetl.expression.entries import Entry
from noetl.expression.functions import FILTERS, FUNCTIONS, METHODS, NOW_KEY, SQL_FILTERS, TESTS
from noetl.expression.lexer import template_offsets
from noetl.expression.nodes import Absence, Assumptions, Comparison, NameState, Read, Unknown, Use
from noetl.expression.rename import rename
from noetl.expression.static_checks import (
    always_holds,
    changed_secrets,
    doubled_quotes,
    may_take_error,
    some_error_passes,
)
from noetl.expression.template import Template, parse, prepare, render
from noetl.expression.typed_reads import TypedRead, ValueType, is_path, path_text, typed_reads
from noetl.expression.values import (
    CONTENTS_KEY,
    Contents,
    Interruption,
    Missing,
    Sealed,
    View,
    kind_of,
    lookup,
    revealed,
    unwrapped,
)

__all__ = [
    "BUDGET_KEY",
    "CONTENTS_KEY",
    "FILTERS",
    "FUNCTIONS",
    "METHODS",
    "NOW_KEY",
    "SQL_FILTERS",
    "TESTS",
    "Absence",
    "Assumptions",
    "Budget",
    "Comparison",
    "Contents",
    "Entry",
    "Interruption",
    "Missing",
    "NameState",
    "Read",
    "Sealed",
    "Template",
    "TypedRead",
    "Unknown",
    "Use",
    "ValueType",
    "View",
    "always_holds",
    "changed_secrets",
    "decision_budget",
    "doubled_quotes",
    "is_path",
    "kind_of",
    "lookup",
    "may_take_error",
    "parse",
    "path_text",
    "prepare",
    "rename",
    "render",
    "revealed",
    "some_error_passes",
    "template_offsets",
    "typed_reads",
    "unwrapped",
]
