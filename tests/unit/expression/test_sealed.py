"""Secrets in templates: passed on, joined and encoded; whatever else is refused, and what comes out is never plain."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.table import for_each

from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import CONTENTS_KEY, FILTERS, METHODS, TESTS, Sealed, changed_secrets, parse, revealed
from noetl.expression.values import ENCODINGS
from noetl.reference import Reference

SECRET = "s3cret/Value+1"
PIN = 4815162342
CONTENTS = {"k.value": SECRET, "k.pin": PIN, "k.map": {"inner": SECRET}}


def handle(name: str) -> Reference:
    return Reference("keychain", f"k.{name}", 0, "", "secret")


SCOPE: dict[str, Any] = {
    "keychain": {"k": {name: handle(name) for name in ("value", "pin", "map")}},
    "_prev": {"value": handle("value"), "n": 1},
    "x": "x",
}


def evaluated(source: str) -> Any:
    return parse(source).evaluate({**SCOPE, CONTENTS_KEY: CONTENTS})


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ keychain.k.value }}", SECRET),
        ("{{ keychain.k.pin }}", PIN),
        ("Bearer {{ keychain.k.value }}", f"Bearer {SECRET}"),
        ("{{ keychain.k.pin }}{{ keychain.k.value }}", f"{PIN}{SECRET}"),
        ("{{ 'Bearer ' ~ keychain.k.value }}", f"Bearer {SECRET}"),
        ("{{ 'a' ~ ('b' ~ keychain.k.pin) ~ 'c' }}", f"ab{PIN}c"),
        ("{{ keychain.k.value | b64encode }}", b64encode(SECRET.encode()).decode()),
        ("{{ ('u:' ~ keychain.k.value) | b64encode }}", b64encode(f"u:{SECRET}".encode()).decode()),
        ("{{ keychain.k.value | urlencode }}", "s3cret/Value%2B1"),
        ("{{ keychain.k.value | tojson }}", f'"{SECRET}"'),
        ("{{ {'a': [keychain.k.value, 1]} | tojson }}", f'{{"a": ["{SECRET}", 1]}}'),
        ("{{ _prev | tojson }}", f'{{"n": 1, "value": "{SECRET}"}}'),
        ("{{ keychain.k.value | default('none') }}", SECRET),
        ("{{ keychain.k.value if x else 'none' }}", SECRET),
        ("{{ x and keychain.k.value }}", SECRET),
        ("{{ keychain.k.map.inner }}", SECRET),
        ("{{ [keychain.k.value][0] }}", SECRET),
        ("{% set y = keychain.k.value %}{{ y }}!", f"{SECRET}!"),
        ("{% set y %}a{{ keychain.k.value }}{% endset %}{{ y }}!", f"a{SECRET}!"),
        ("{% for y in [keychain.k.value] %}{{ y }}{% endfor %}", SECRET),
        ("{% filter b64encode %}{{ keychain.k.value }}{% endfilter %}", b64encode(SECRET.encode()).decode()),
        ("{{ keychain.k.value is defined }}", True),
        ("{{ [keychain.k.value] | length }}", 1),
    ],
)
def test_what_may_be_done_with_a_secret(source: str, value: Any) -> None:
    assert revealed(evaluated(source), CONTENTS) == value
    assert changed_secrets(source) == []


CHANGES = [
    "{{ keychain.k.value | reverse }}",
    "{{ ('' ~ keychain.k.value) | reverse }}",
    "{{ (keychain.k.value | b64encode)[1:] }}",
    "{{ keychain.k.value | b64encode | upper }}",
    "{{ keychain.k.value[0] }}",
    "{{ keychain.k.value[:4] }}",
    "{{ keychain.k.value[x | length] }}",
    "{{ keychain.k.value + 'x' }}",
    "{{ 'x' * keychain.k.pin }}",
    "{{ keychain.k.pin + 1 }}",
    "{{ -keychain.k.pin }}",
    "{{ '%s!' % keychain.k.value }}",
    "{{ keychain.k.value == 'guess' }}",
    "{{ 'guess' != keychain.k.value }}",
    "{{ keychain.k.pin > 5 }}",
    "{{ 's' in keychain.k.value }}",
    "{{ keychain.k.value in ['guess'] }}",
    "{{ keychain.k.value in x }}",
    "{{ keychain.k.value is string }}",
    "{{ keychain.k.pin is even }}",
    "{{ keychain.k.value.upper() }}",
    "{{ keychain.k.value.split('e') }}",
    "{{ '{}'.format(keychain.k.value) }}",
    "{{ x | replace('x', keychain.k.value) }}",
    "{{ range(keychain.k.pin) }}",
    "{% for c in keychain.k.value %}{{ c }} {% endfor %}",
    "{{ (keychain.k.value if x else 'y') | reverse }}",
    "{{ (keychain.k.value | default('y')) | reverse }}",
]
UNSEEN = [
    "{{ [keychain.k.value, 'x'] | join }}",
    "{{ [keychain.k.value] | map('reverse') | list }}",
    "{{ [keychain.k.value] | string }}",
    "{{ [keychain.k.value] ~ '' }}",
    "{{ [keychain.k.value] == ['guess'] }}",
    "{{ [keychain.k.value, keychain.k.pin] | sort }}",
    "{{ {'a': keychain.k.value} | urlencode | reverse }}",
    "{{ {'a': keychain.k.value} | dictsort }}{{ x }}",
    "{{ _prev.value | reverse }}",
    "{{ _prev.value[1:] }}",
    "{{ _prev | string }}",
    "{% set y = keychain.k.value %}{{ y | reverse }}",
    "{% set y %}{{ keychain.k.value }}{% endset %}{{ y | reverse }}",
    "{% set ns = namespace(y=keychain.k.value) %}{{ ns.y | reverse }}",
    "{% filter reverse %}{{ keychain.k.value }}{% endfilter %}",
    "{% for y in [keychain.k.value] %}{{ y[0] }}{% endfor %}",
    "{% with y = keychain.k.value %}{{ y | upper }}{% endwith %}",
    "{{ keychain.k.map.inner | reverse }}",
]
"""What the source alone does not show, or not in every case."""


@for_each("source", CHANGES + UNSEEN)
def test_whatever_else_is_refused(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        evaluated(source)
    assert SECRET not in str(caught.value)
    assert str(PIN) not in str(caught.value)


@pytest.mark.parametrize("source", CHANGES)
def test_the_validator_sees_it(source: str) -> None:
    result = changed_secrets(source)
    assert [error.hint is not None for error in result] == [True], result


@for_each("name", sorted(set(FILTERS) - set(ENCODINGS) - {"default", "d"}))
@for_each("subject", ["keychain.k.value", "keychain.k.pin", "keychain.k.map", "_prev.value"])
def test_no_other_filter_gives_anything_but_the_secret_itself(name: str, subject: str) -> None:
    for arguments in ("", "('x')", "(1)", "(x, x)", "(1, 2)"):
        try:
            result = evaluated(f"{{{{ {subject} | {name}{arguments} }}}}")
        except TemplateError:
            continue
        raise AssertionError(f"{name}{arguments} gave {type(result)}")


@pytest.mark.parametrize("name", sorted(set(TESTS) - {"defined", "undefined", "none"}))
def test_no_test_tells_anything_of_it(name: str) -> None:
    for arguments in ("", "('x')", "(1)"):
        with pytest.raises(TemplateError):
            evaluated(f"{{{{ keychain.k.value is {name}{arguments} }}}}")


@pytest.mark.parametrize("name", sorted({name for names in METHODS.values() for name in names}))
def test_it_has_no_methods(name: str) -> None:
    for arguments in ("()", "('x')", "('x', 'y')"):
        with pytest.raises(TemplateError):
            evaluated(f"{{{{ keychain.k.value.{name}{arguments} }}}}")


def test_the_message_says_what_to_do_and_where() -> None:
    with pytest.raises(TemplateFailed, match="cannot be taken apart") as caught:
        evaluated("{{ x }} {{ keychain.k.value | reverse }}")
    assert caught.value.offset == len("{{ x }} {{ keychain.k.value | ")
    assert "join it to other text with ~" in (caught.value.hint or "")


def test_a_sealed_value_shows_nothing() -> None:
    one = Sealed(SECRET)
    assert SECRET not in f"{one!r} {one}"


def test_values_that_share_their_parts_are_paid_for() -> None:
    with pytest.raises(TemplateError):
        evaluated("{{ [[[[[[[[[[[[1]*9]*9]*9]*9]*9]*9]*9]*9]*9]*9]*9]*9 | tojson }}")
