"""Ways out of template sandboxes, published and guessed: none may reach anything of the interpreter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.table import for_each

from noetl.errors import TemplateError
from noetl.expression import parse


class Opaque:
    """Something of ours that got into a scope by mistake."""

    secret = "s3cr3t"

    def method(self) -> str:
        return self.secret


def generator() -> Any:
    yield 1


SCOPE: dict[str, Any] = {
    "x": 1,
    "s": "text",
    "items": [1, 2],
    "m": {"a": 1, "nested": {"b": [1]}},
    "opaque": Opaque(),
    "function": len,
    "gen": generator(),
    "klass": Opaque,
    "evil": "{0.__class__.__init__.__globals__}",
    "template": "{{ 7 * 7 }}",
}

RAISES = [
    # attribute chains
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__']['__mro__'][1]['__subclasses__']() }}",
    "{{ [].__class__.__base__.__subclasses__() }}",
    "{{ ().__class__.__bases__[0].__subclasses__()[40]('/etc/passwd').read() }}",
    "{{ {}.__class__.__base__ }}",
    "{{ x.__class__ }}",
    "{{ (1).__class__.__base__ }}",
    "{{ x.__add__(1) }}",
    "{{ m.__class__ }}",
    "{{ m.__getattribute__('__class__') }}",
    "{{ m.__init__.__globals__ }}",
    "{{ s.__class__.__init__.__globals__['os'] }}",
    "{{ true.__class__.__mro__ }}",
    "{{ none.__class__ }}",
    "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ ''['\\u005f\\u005fclass\\u005f\\u005f'] }}",
    "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ m['__class__'] }}",
    "{{ items.__len__() }}",
    # objects that should not be here at all
    "{{ opaque.secret }}",
    "{{ opaque.method() }}",
    "{{ opaque['secret'] }}",
    "{{ opaque ~ '' }}",
    "a{{ opaque }}",
    "{{ opaque | string }}",
    "{{ opaque | tojson }}",
    "{{ [opaque] | join }}",
    "{{ klass() }}",
    "{{ klass.secret }}",
    "{{ klass['secret'] }}",
    "{{ function(s) }}",
    "{{ function.__self__ }}",
    "{{ function.__globals__ }}",
    "{{ function.func_globals }}",
    "{{ gen.gi_frame.f_globals }}",
    "{{ gen.gi_code }}",
    "{{ gen | list }}",
    "{{ gen.cr_frame }}",
    # Jinja's own globals and context
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ cycler('a').next() }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ joiner(', ') }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ namespace().__class__ }}",
    "{{ dict.__base__ }}",
    "{{ range.__class__ }}",
    "{{ self }}",
    "{{ self._TemplateReference__context }}",
    "{{ self.__init__.__globals__.__builtins__ }}",
    "{{ caller() }}",
    "{{ super() }}",
    "{{ config }}",
    "{{ config.items() }}",
    "{{ request.application.__globals__ }}",
    "{{ request['__cl' + 'ass__'] }}",
    "{{ url_for.__globals__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ g.pop.__globals__ }}",
    "{{ __builtins__ }}",
    "{{ __import__('os').system('id') }}",
    "{{ eval('1') }}",
    "{{ open('/etc/passwd') }}",
    "{{ getattr(x, '__class__') }}",
    "{{ context }}",
    "{{ environment }}",
    # format strings: CVE-2016-10745, CVE-2019-10906, CVE-2024-56326, CVE-2025-27516
    "{{ '{0.__class__}'.format(x) }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(opaque) }}",
    "{{ '{0[__class__]}'.format(m) }}",
    "{{ '{a.secret}'.format(a=opaque) }}",
    "{{ evil.format(x) }}",
    "{{ '{0!r}'.format(opaque) }}",
    "{{ '{0:{1}}'.format(x, '>10') }}",
    "{{ '{0}'.format(opaque) }}",
    "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{{ s.format_map(m) }}",
    "{{ ['{0.__class__}'] | map('format', opaque) | first | attr('x') }}",
    "{{ [evil] | map(attribute='format') | list }}",
    "{{ '{0.__class__}' | attr('format') }}",
    "{{ ('{0.__class__}' | attr('format'))(x) }}",
    "{{ '%s' | format(opaque) }}",
    "{{ '%s' % opaque }}",
    "{{ '%(a)s' % {'a': opaque} }}",
    "{{ '%r' % (opaque,) }}",
    "{% set f = ''.format %}{{ f }}",
    "{% set f = '{0.__class__}'.format %}{{ f(x) }}",
    "{{ (s.upper)() if false else s.upper }}",
    # attr, and attribute access through filters
    "{{ '' | attr('__class__') }}",
    "{{ x | attr('real') }}",
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ [opaque] | map(attribute='secret') | list }}",
    "{{ [''] | map('attr', '__class__') | list }}",
    "{{ [opaque] | sum(attribute='secret') }}",
    "{{ [opaque] | groupby('secret') }}",
    "{{ [opaque] | sort(attribute='secret') }}",
    "{{ [opaque] | join(attribute='method') }}",
    "{{ items | map('__class__') | list }}",
    "{{ items | select('__class__') | list }}",
    "{{ x | pprint }}",
    "{{ m | xmlattr }}",
    "{{ items | random }}",
    # changing data
    "{{ items.append(3) }}",
    "{{ items.pop() }}",
    "{{ items.clear() }}",
    "{{ items.__setitem__(0, 9) }}",
    "{{ items.sort() }}",
    "{{ m.update({'b': 2}) }}",
    "{{ m.clear() }}",
    "{{ m.pop('a') }}",
    "{{ m.setdefault('z', 1) }}",
    "{% set m.a = 2 %}",
    "{% set x.y = 2 %}",
    "{% do items.append(1) %}",
    # statements that load or define
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% from 'os' import system %}",
    "{% extends 'x' %}",
    "{% macro f() %}{{ caller.__globals__ }}{% endmacro %}{{ f() }}",
    "{% call f() %}{% endcall %}",
    "{% block a %}{% endblock %}",
    "{% autoescape true %}{% endautoescape %}",
    "{% debug %}",
    # CVE-2024-56201: names that end up in generated code
    "{{ f'{x}' }}",
    "{% set __class__.x = 1 %}",
    "{{ x[__class__] }}",
    "{% for x in items recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for i in items %}{{ loop.__class__ }}{% endfor %}",
    "{% for i in items %}{{ loop }}{% endfor %}",
    "{% for i in items %}{{ loop.items }}{% endfor %}",
    "{% set ns = namespace() %}{{ ns.fields }}",
    "{% set ns = namespace() %}{{ ns.__init__ }}",
    "{{ range(3).__class__ }}",
    "{{ dict(**m) }}",
    "{{ range(*items) }}",
]

HARMLESS = [
    ("{{ template }}", "{{ 7 * 7 }}"),
    ("a{{ template }}", "a{{ 7 * 7 }}"),
    ("{{ evil }}", "{0.__class__.__init__.__globals__}"),
    ("{{ evil | upper }}", "{0.__CLASS__.__INIT__.__GLOBALS__}"),
    ("{{ {'__class__': 1}.__class__ }}", 1),
    ("{{ {'__class__': 1}['__class__'] }}", 1),
    ("{{ ''.__class__ | default('none') }}", "none"),
    ("{{ ''.__class__ is defined }}", False),
    ("{{ '{}'.format('{0.__class__}') }}", "{0.__class__}"),
    ("{{ ['{0.__class__}'] | map('format') | list }}", ["{0.__class__}"]),
    ("{{ '%s' % '{0.__class__}' }}", "{0.__class__}"),
    ("{{ dict(__class__=1) }}", {"__class__": 1}),
    ("{{ namespace(a=1) }}", {"a": 1}),
    ("{% set ns = namespace(a=1) %}{{ ns }}", "{'a': 1}"),
    ("{{ m.items is defined }}", False),
    ("{{ s.upper is defined }}", False),
    ("{{ [''.__class__, 1] | select('defined') | list }}", [1]),
    ("{{ m | items | list }}", [("a", 1), ("nested", {"b": [1]})]),
]


@for_each("source", RAISES)
def test_escape_is_refused(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(source).evaluate(SCOPE)
    told = str(caught.value) + str(caught.value.hint)
    assert "s3cr3t" not in told
    assert "object at 0x" not in told
    assert "<class" not in told


@pytest.mark.parametrize(("source", "expected"), HARMLESS)
def test_payload_yields_plain_data(source: str, expected: Any) -> None:
    value = parse(source).evaluate(SCOPE)
    assert value == expected
    json.dumps(value)


def test_no_payload_changed_the_scope() -> None:
    assert SCOPE["items"] == [1, 2]
    assert SCOPE["m"] == {"a": 1, "nested": {"b": [1]}}
