"""Documents that are as expensive to judge as their size allows, each by what it stresses.

Most were written to find work that grows faster than the text: a problem for each name with a guess for each, nets in
which all leads to all, templates of one operator, schemas that refer to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from noetl.dsl.reader import MAX_BYTES

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: a}\n"
LAST = "workflow: [{step: s, tool: {kind: noop}}]\n"
TASKS = f"{HEAD}workflow:\n- step: s\n  tool:\n"
CODE = f"{TASKS}    kind: python\n    code: |\n"
SQL = f"{TASKS}    kind: postgres\n    auth: a\n    command: "
SHELL = f"{TASKS}    kind: shell\n    command: "
FULL = 1 << 30  # as many lines as fit


class Size(NamedTuple):
    """How large a document is: `1` is all that the reader accepts."""

    share: float = 1.0

    def __call__(self, count: int) -> int:
        return max(2, round(count * self.share))

    def side(self, count: int) -> int:
        """For a net in which the arcs are the square of this."""
        return max(2, round(count * self.share**0.5))

    @property
    def bytes(self) -> int:
        return round(MAX_BYTES * self.share)


def filled(n: Size, head: str, line: Callable[[int], str], tail: str = "", most: int = FULL) -> str:
    """As many lines between head and tail as fit into a document, or `most`."""
    lines: list[str] = []
    room = n.bytes - len(head.encode()) - len(tail.encode())
    while len(lines) < most and (room := room - len((text := line(len(lines))).encode())) >= 0:
        lines.append(text)
    return head + "".join(lines) + tail


def repeated(n: Size, head: str, part: str, tail: str = "", most: int = FULL) -> str:
    room = n.bytes - len(head.encode()) - len(tail.encode())
    return head + part * min(most, room // len(part.encode())) + tail


def template(n: Size, part: str, most: int = FULL, before: str = "", after: str = "") -> str:
    """One template that repeats a part."""
    return repeated(n, f"{TASKS}    kind: noop\n    result: '{before}", part, f"{after}'\n", most)


def workflow(lines: Iterable[str]) -> str:
    return f"{HEAD}workflow:\n{''.join(lines)}"


def arcs(*steps: str) -> str:
    return f"arcs: [{','.join(f'{{step: {step}}}' for step in steps)}]"


def fork(name: str, *steps: str) -> str:
    return f"- {{step: {name}, next: {{spec: {{mode: inclusive}}, {arcs(*steps)}}}}}\n"


def link(name: str, *steps: str) -> str:
    return f"- {{step: {name}, next: {{{arcs(*steps)}}}}}\n"


def writer(name: str, *keys: str, to: Iterable[str] = ()) -> str:
    patch = ", ".join(f"{key}: 1" for key in keys)
    rules = f"rules: [{{else: {{then: {{do: continue, set_ctx: {{{patch}}}}}}}}}]"
    after = f", next: {{spec: {{mode: inclusive}}, {arcs(*to)}}}" if to else ""
    return f"- {{step: {name}, tool: {{kind: noop, spec: {{policy: {{{rules}}}}}}}{after}}}\n"


def layers(width: int, depth: int, kind: Callable[..., str] = fork) -> str:
    """Each step of a layer leads to each of the next one."""
    lines = [kind("s", *(f"l0_{i}" for i in range(width)))]
    for layer in range(depth):
        targets = [f"l{layer + 1}_{i}" for i in range(width)] if layer < depth - 1 else ["e"]
        lines += [kind(f"l{layer}_{i}", *targets) for i in range(width)]
    return workflow([*lines, "- {step: e}\n"])


def random_net(steps: int, degree: int, kind: Callable[..., str] = fork) -> str:
    random = Random(1)
    lines = [kind(f"s{i}", *(f"s{random.randrange(steps)}" for _ in range(degree))) for i in range(1, steps)]
    return workflow([kind("s0", "s1"), *lines])


def ordered_net(steps: int, degree: int, reach: int, step: Callable[..., str] = fork) -> str:
    """A random net without circles: arcs lead at most `reach` steps on."""
    random = Random(1)
    lines = [
        step(f"s{i}", *(f"s{min(steps, i + 1 + random.randrange(reach))}" for _ in range(degree))) for i in range(steps)
    ]
    return workflow([*lines, f"- {{step: s{steps}}}\n"])


def writer_of(keys: int) -> Callable[..., str]:
    return lambda name, *to: writer(name, *(f"k{i}" for i in range(keys)), to=to)


SCHEMA = f"{HEAD}{LAST}executor: {{spec: {{schema: {{workload: "


def schema(text: str, value: str = "1") -> str:
    return f"{SCHEMA}{text}}}}}}}\nworkload: {{a: {value}}}\n"


DOCUMENTS: dict[str, Callable[[Size], str]] = {
    # -- reading
    "one long scalar": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: ", "x", "}\n"),
    "one long quoted scalar with escapes": lambda n: repeated(n, f'{HEAD}{LAST}workload: {{a: "', "\\u0041", '"}\n'),
    "one long comment": lambda n: repeated(n, HEAD + LAST + "#", "x"),
    "comments": lambda n: repeated(n, HEAD + LAST, "#\n"),
    "line breaks": lambda n: repeated(n, HEAD + LAST, "\n"),
    "line breaks of another kind": lambda n: repeated(n, HEAD + LAST, "\u2028"),
    "bidirectional controls": lambda n: repeated(n, HEAD + LAST, "#\u202e\n"),
    "bidirectional controls on one line": lambda n: repeated(n, HEAD + LAST + "#", "\u202e"),
    "emoji": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: '", "😀", "'}\n"),
    "a quote that is never closed": lambda n: repeated(n, HEAD + "a: '", "x\n"),
    "a flow list that is never closed": lambda n: repeated(n, HEAD + "a: [", "1,"),
    "a flow map that is never closed": lambda n: repeated(n, HEAD + "a: ", "{a: "),
    "bare templates": lambda n: repeated(n, HEAD, "a: {{ b }}\n"),
    "bare templates with other keys": lambda n: filled(n, HEAD, lambda i: f"a{i}: {{{{ b }}}}\n"),
    "question marks": lambda n: repeated(n, HEAD + LAST, "? "),
    "a long plain scalar over many lines": lambda n: repeated(n, HEAD + "a:\n", "  b\n", LAST),
    "a literal block": lambda n: repeated(n, HEAD + "a: |\n", "  b\n", LAST),
    "a folded block": lambda n: repeated(n, HEAD + "a: >\n", "  b\n", LAST),
    "integers": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: [", "1,", "]}\n", n(49_970)),
    "an integer of a million digits": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: ", "1", "}\n"),
    "integers of 4,000 digits": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: [", "1" * 4000 + ",", "]}\n"),
    "a float of a million digits": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: 0.", "1", "}\n"),
    "hexadecimals of 900,000 digits": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: 0x", "f", "}\n"),
    "anchors": lambda n: filled(n, f"{HEAD}{LAST}workload: {{a: [", lambda i: f"&a{i} 1,", "]}\n", n(49_970)),
    "aliases": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{b: &b 1, a: [", "*b,", "]}\n", n(49_970)),
    "an unknown anchor among many": lambda n: filled(
        n, f"{HEAD}{LAST}workload: {{a: [", lambda i: f"&a{i} 1,", "*b]}\n", 49_970
    ),
    "aliases of one large map": lambda n: (
        f"{HEAD}{LAST}workload:\n  a: &a {{"
        + ",".join(f"k{i}: 1" for i in range(n(110)))
        + "}\n  b: ["
        + "*a," * n(218)
        + "]\n"
    ),
    "merges of one large map": lambda n: (
        f"{HEAD}{LAST}workload:\n  a: &a {{"
        + ",".join(f"k{i}: 1" for i in range(n(220)))
        + "}\n  b: ["
        + "{<<: *a}," * n(110)
        + "]\n"
    ),
    "merges in one map": lambda n: (
        f"{HEAD}{LAST}workload:\n  a: &a {{"
        + ",".join(f"k{i}: 1" for i in range(n(100)))
        + "}\n  b: {<<: ["
        + "*a," * n(240)
        + "]}\n"
    ),
    "duplicate keys": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{", "a: 1,", "}\n", n(24_900)),
    "duplicate keys of 20 characters": lambda n: repeated(
        n, f"{HEAD}{LAST}workload: {{", "a2345678901234567890: 1,", "}\n", n(24_900)
    ),
    "tags": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: [", "!!str 1,", "]}\n", n(49_970)),
    "foreign tags": lambda n: repeated(n, f"{HEAD}{LAST}workload: {{a: [", "!x 1,", "]}\n", n(49_970)),
    "maps of 60 levels": lambda n: repeated(
        n, f"{HEAD}{LAST}workload: {{a: [", "{a: " * 55 + "1" + "}" * 55 + ",", "]}\n", 440
    ),
    "long keys": lambda n: filled(n, f"{HEAD}{LAST}workload:\n", lambda i: f"  {'k' * 1000}{i}: 1\n"),
    "a long unknown key": lambda n: repeated(n, f"{HEAD}{LAST}", "k", ": 1\n"),
    "no spaces": lambda n: repeated(n, "", "a"),
    "colons": lambda n: repeated(n, "", ":"),
    "dashes": lambda n: repeated(n, "", "- "),
    "braces": lambda n: repeated(n, "", "{"),
    "quotes": lambda n: repeated(n, "", "'"),
    "tabs": lambda n: repeated(n, "", "\t"),
    "documents": lambda n: repeated(n, "", "---\n"),
    "directives": lambda n: repeated(n, "", "%YAML 1.2\n"),
    # -- the document and its keys
    "unknown keys at the root": lambda n: filled(n, f"{HEAD}{LAST}", lambda i: f"key_{i}: 1\n", most=n(24_900)),
    "unknown long keys at the root": lambda n: filled(n, f"{HEAD}{LAST}", lambda i: f"{'k' * 60}_{i}: 1\n"),
    "unknown keys of steps": lambda n: filled(
        n, f"{HEAD}workflow:\n", lambda i: f"- {{step: s{i}, tol: 1, nxt: 2, spc: 3}}\n", most=n(5500)
    ),
    "unknown keys of one step": lambda n: filled(
        n, f"{HEAD}workflow:\n- step: s\n", lambda i: f"  toool_{i}: 1\n", most=n(24_900)
    ),
    "unknown kinds": lambda n: filled(
        n, f"{HEAD}workflow:\n", lambda i: f"- {{step: s{i}, tool: {{kind: pyhton_{i}}}}}\n", most=n(8_000)
    ),
    "unknown inputs of one tool": lambda n: filled(
        n, f"{TASKS}    kind: http\n    url: http://a\n", lambda i: f"    metod_{i}: 1\n", most=n(24_900)
    ),
    "steps of 100,000": lambda n: filled(n, f"{HEAD}workflow:\n", lambda i: f"- {{step: s{i}}}\n", most=n(100_000)),
    "as many steps as there may be": lambda n: filled(
        n, f"{HEAD}workflow:\n", lambda i: f"- {{step: s{i}}}\n", most=n(16_600)
    ),
    "steps without names": lambda n: repeated(n, f"{HEAD}workflow:\n", "- {tool: {kind: noop}}\n", most=n(9_900)),
    "steps of one name": lambda n: repeated(
        n, f"{HEAD}workflow:\n", "- {step: s, tool: {kind: noop}}\n", most=n(7_000)
    ),
    "steps that are numbers": lambda n: repeated(n, f"{HEAD}workflow:\n", "- 1\n", most=n(49_000)),
    "steps with bad names": lambda n: filled(
        n, f"{HEAD}workflow:\n", lambda i: f"- {{step: 'a b {i}'}}\n", most=n(16_000)
    ),
    "targets that do not exist": lambda n: filled(
        n, f"{HEAD}workflow:\n", lambda i: f"- {{step: step_{i}, next: stop_{i}}}\n", most=n(9_900)
    ),
    "targets with long names that do not exist": lambda n: filled(
        n, f"{HEAD}workflow:\n", lambda i: f"- {{step: {'s' * 60}_{i}, next: {'t' * 60}_{i}}}\n"
    ),
    "one step with arcs that do not exist": lambda n: filled(
        n, f"{HEAD}workflow:\n- step: s\n  next:\n    arcs:\n", lambda i: f"    - {{step: s{i}}}\n", most=n(16_000)
    ),
    "tasks": lambda n: filled(n, TASKS, lambda i: f"  - t{i}: {{kind: noop}}\n", most=n(9_900)),
    "tasks of one label": lambda n: repeated(n, TASKS, "  - t: {kind: noop}\n", most=n(9_900)),
    "jumps to labels that do not exist": lambda n: filled(
        n,
        TASKS,
        lambda i: (
            f"  - task_{i}: {{kind: noop, spec: {{policy: {{rules: "
            f"[{{else: {{then: {{do: jump, to: tesk_{i}}}}}}}]}}}}}}\n"
        ),
        most=n(2_300),
    ),
    "rules of one task": lambda n: filled(
        n,
        f"{TASKS}    kind: noop\n    spec:\n      policy:\n        rules:\n",
        lambda i: f"        - {{when: '{{{{ outcome.x == {i} }}}}', then: {{do: continue}}}}\n",
        most=n(6_900),
    ),
    "keychain entries": lambda n: filled(
        n, f"{HEAD}{LAST}keychain:\n", lambda i: f"- {{name: k{i}, kind: bearer}}\n", most=n(9_000)
    ),
    "credentials that do not exist": lambda n: filled(
        n,
        f"{HEAD}keychain: [{{name: key, kind: bearer}}]\nworkflow:\n- step: s\n  tool:\n",
        lambda i: f"  - {{kind: http, url: 'http://a', auth: kay_{i}}}\n",
        most=n(6_000),
    ),
    "credentials that do not exist beside many": lambda n: filled(
        n,
        f"{HEAD}keychain:\n"
        + "".join(f"- {{name: key_{i}, kind: bearer}}\n" for i in range(n(5000)))
        + "workflow:\n- step: s\n  tool:\n",
        lambda i: f"  - {{kind: http, url: 'http://a', auth: kay_{i}}}\n",
        most=n(2_900),
    ),
    "python code of a mebibyte": lambda n: repeated(n, CODE, "      x = 1\n"),
    "one python expression of a mebibyte": lambda n: repeated(n, f"{CODE}      x = 1", "+1", "\n"),
    "python code that nests": lambda n: repeated(n, f"{CODE}      x = ", "(", "\n"),
    "python code that is a list": lambda n: repeated(n, f"{CODE}      x = [", "1,", "]\n"),
    "python code with unary operators": lambda n: repeated(n, f"{CODE}      x = ", "-", "1\n"),
    "python code that does not parse": lambda n: repeated(n, CODE, "      x = 1\n", "      y = (\n"),
    "python code of powers": lambda n: CODE + "      x = 2 ** 127 ** 2 ** 3\n" * n(30_000),
    "python functions": lambda n: filled(n, CODE, lambda i: f"      def f{i}(): return f{i}()\n"),
    "many small pieces of python": lambda n: filled(
        n, TASKS, lambda i: f"  - {{kind: python, code: 'result = f({i})'}}\n", most=n(8_000)
    ),
    "warnings of python code": lambda n: filled(n, CODE, lambda i: f"      x = '\\d{i}'\n"),
    # -- templates
    "one template of many parts": lambda n: template(n, "{{1}} "),
    "a template above its own limit": lambda n: template(n, "x{{1}}", n(100_000)),
    "many templates": lambda n: filled(
        n, TASKS, lambda i: f"  - {{kind: noop, result: '{{{{ workload.a + {i} }}}}'}}\n", most=n(8_000)
    ),
    "many long templates": lambda n: filled(
        n, TASKS, lambda i: f"  - {{kind: noop, result: '{{{{ [{'1,' * n(30_000)}] }}}}'}}\n"
    ),
    "a template that opens only": lambda n: template(n, "{{"),
    "a template that opens blocks only": lambda n: template(n, "{% if a %}"),
    "a template of parentheses": lambda n: template(n, "(", before="{{ "),
    "a template of brackets": lambda n: template(n, "[", before="{{ ", after="}}"),
    "a template of nots": lambda n: template(n, "not ", before="{{ ", after="a }}"),
    "a template of minus signs": lambda n: template(n, "-", before="{{ ", after="1 }}"),
    "a template of filters": lambda n: template(n, "|upper", before="{{ a", after=" }}"),
    "a template of attributes": lambda n: template(n, ".a", before="{{ ctx", after=" }}"),
    "a template of additions": lambda n: template(n, "+1", before="{{ 1", after=" }}"),
    "a template of ifs": lambda n: template(n, "a if b else ", before="{{ ", after="c }}"),
    "a template of powers": lambda n: template(n, "9**", before="{{ ", after="9 }}"),
    "constant templates": lambda n: filled(
        n,
        TASKS,
        lambda i: f"  - {{kind: noop, result: '{{{{ range(n(99999)) | map(\"string\") | list | length + {i} }}}}'}}\n",
        most=n(8_000),
    ),
    "names that do not exist beside many": lambda n: (
        f"{HEAD}workload:\n"
        + "".join(f"  name_{i}: 1\n" for i in range(n(8000)))
        + "workflow:\n- step: s\n  tool:\n"
        + "".join(f"  - {{kind: noop, result: '{{{{ nume_{i} }}}}'}}\n" for i in range(n(6000)))
    ),
    "workload names that do not exist": lambda n: (
        f"{HEAD}workload:\n"
        + "".join(f"  name_{i}: 1\n" for i in range(n(8000)))
        + "workflow:\n- step: s\n  tool:\n"
        + "".join(f"  - {{kind: noop, result: '{{{{ workload.nume_{i} }}}}'}}\n" for i in range(n(6000)))
    ),
    "steps that templates name and that do not exist": lambda n: filled(
        n,
        f"{HEAD}workflow:\n",
        lambda i: f"- {{step: s{i}, tool: {{kind: noop, result: '{{{{ steps.z{i}.result }}}}'}}, next: s{i + 1}}}\n",
        most=n(4_400),
    ),
    "steps that name the one before": lambda n: filled(
        n,
        f"{HEAD}workflow:\n",
        lambda i: (
            f"- {{step: s{i}, tool: {{kind: noop, result: '{{{{ steps.s{max(0, i - 1)}.result }}}}'}}, "
            f"next: s{i + 1}}}\n"
        ),
        f"- {{step: s{n(4_400)}}}\n",
        most=n(4_400),
    ),
    "filters that do not exist": lambda n: template(n, "{{ a | uper }}"),
    "templates in a workload": lambda n: filled(
        n, f"{HEAD}{LAST}workload:\n", lambda i: f"  a{i}: '{{{{ a{i + 1} }}}}'\n", most=n(24_000)
    ),
    "templates in a workload that read all": lambda n: filled(
        n,
        f"{HEAD}{LAST}workload:\n",
        lambda i: f"  a{i}: '{{{{ workload.a{i + 1} ~ workload.a{i + 2} }}}}'\n",
        most=n(20_000),
    ),
    "a for of fors": lambda n: template(n, "{% for a in b %}", 60, before="", after="{% endfor %}" * 60),
    "many fors": lambda n: template(n, "{% for a in b %}{{ a }}{% endfor %}"),
    "a for of many targets": lambda n: template(n, "a,", before="{% for ", after="a in b %}{% endfor %}"),
    "sets": lambda n: template(n, "{% set a = 1 %}"),
    "raw blocks": lambda n: template(n, "{% raw %}{% endraw %}"),
    "comments in a template": lambda n: template(n, "{# a #}"),
    "a set comparison of many names": lambda n: filled(
        n, f"{HEAD}workflow:\n- step: s\n  tool: {{kind: noop, result: '{{{{ [", lambda i: f"a{i},", "] }}'}\n"
    ),
    "a map of many keys in a template": lambda n: filled(
        n, f'{HEAD}workflow:\n- step: s\n  tool: {{kind: noop, result: "{{{{ {{', lambda i: f"'a{i}':1,", '} }}"}\n'
    ),
    # -- SQL and shells
    "SQL of a mebibyte": lambda n: repeated(n, f"{SQL}|\n", "      SELECT 1;\n"),
    "SQL with templates": lambda n: repeated(n, f"{SQL}|\n", "      SELECT {{ a }};\n", most=n(60_000)),
    "SQL of open comments": lambda n: repeated(n, f"{SQL}'SELECT {{{{ a }}}} ", "/*", "'\n"),
    "SQL of dollar quotes": lambda n: filled(n, f"{SQL}'SELECT {{{{ a }}}} ", lambda i: f"$a{i}$ ", "'\n"),
    "SQL of parentheses": lambda n: repeated(n, f"{SQL}'SELECT {{{{ a }}}} ", "(", "'\n"),
    "SQL of quotes": lambda n: repeated(n, f'{TASKS}    kind: duckdb\n    command: "SELECT {{{{ a }}}} ', "'a'", '"\n'),
    "many SQL commands": lambda n: filled(
        n, TASKS, lambda i: f"  - {{kind: duckdb, command: 'SELECT {{{{ workload.a }}}} + {i}'}}\n", most=n(8_000)
    ),
    "a shell command of a mebibyte": lambda n: repeated(n, f"{SHELL}|\n", "      echo {{ workload.a }}\n"),
    "a shell command of subshells": lambda n: repeated(n, f"{SHELL}'echo {{{{ a }}}} ", "$(", "'\n"),
    "a shell command of backticks": lambda n: repeated(n, f"{SHELL}'echo {{{{ a }}}} ", "`", "'\n"),
    "a shell command of here documents": lambda n: filled(
        n, f"{SHELL}|\n      echo {{{{ a }}}}", lambda i: f" <<E{i}", "\n      x\n"
    ),
    "a shell command of here documents that never end": lambda n: filled(
        n, f"{SHELL}|\n", lambda i: f"      cat <<E{i} {{{{ a }}}}\n"
    ),
    "a shell command of braces": lambda n: repeated(n, f"{SHELL}'echo {{{{ a }}}} ", "${a:-", "'\n"),
    "a shell command of double quotes": lambda n: repeated(n, f"{SHELL}'echo {{{{ a }}}} ", '"', "'\n"),
    "a shell command of ands": lambda n: repeated(n, f"{SHELL}'echo {{{{ a }}}} ", "&& a ", "'\n"),
    "a command of many words": lambda n: repeated(n, f"{SHELL}[sh, -c, ", "'{{ a }}',", "]\n", most=n(49_000)),
    "many shell commands": lambda n: filled(
        n, TASKS, lambda i: f"  - {{kind: shell, command: 'echo {{{{ workload.a }}}} {i}'}}\n", most=n(8_000)
    ),
    # -- the net
    "a chain": lambda n: workflow(
        [*(link(f"s{i}", f"s{i + 1}") for i in range(n(4900))), f"- {{step: s{n(4_900)}}}\n"]
    ),
    "one circle": lambda n: workflow(link(f"s{i}", f"s{(i + 1) % n(4_900)}") for i in range(n(4900))),
    "each to each, 120": lambda n: workflow(
        fork(f"s{i}", *(f"s{j}" for j in range(n.side(120)))) for i in range(n.side(120))
    ),
    "each to each, exclusive, 120": lambda n: workflow(
        link(f"s{i}", *(f"s{j}" for j in range(n.side(120)))) for i in range(n.side(120))
    ),
    "each to each later one, 160": lambda n: workflow(
        [
            *(fork(f"s{i}", *(f"s{j}" for j in range(i + 1, n.side(160) + 1))) for i in range(n.side(160))),
            f"- {{step: s{n.side(160)}}}\n",
        ]
    ),
    "two layers of 120": lambda n: layers(n.side(115), 2),
    "ten layers of 38": lambda n: layers(38, n(10)),
    "40 layers of 18": lambda n: layers(18, n(40)),
    "200 layers of 8": lambda n: layers(8, n(200)),
    "1,000 layers of 3": lambda n: layers(3, n(1_000)),
    "exclusive layers": lambda n: layers(18, n(40), link),
    "a random net, 3,000 steps": lambda n: random_net(n(3_000), 3),
    "a random net, 1,000 steps": lambda n: random_net(n(1_000), 12),
    "a random exclusive net": lambda n: random_net(n(3_000), 3, link),
    "a random ordered net": lambda n: ordered_net(n(2_500), 3, 50),
    "a random ordered net, far": lambda n: ordered_net(n(2_500), 3, n(2_500)),
    "a random ordered net, near": lambda n: ordered_net(n(2_500), 3, 4),
    "a random ordered net of many arcs": lambda n: ordered_net(n.side(400), n.side(38), n.side(400)),
    "writers": lambda n: ordered_net(n(1_100), 2, 30, writer_of(1)),
    "writers of many keys": lambda n: ordered_net(n(300), 3, 30, writer_of(60)),
    "writers of one key": lambda n: workflow(
        [fork("s", *(f"w{i}" for i in range(n(2000)))), *(writer(f"w{i}", "k") for i in range(n(2000)))]
    ),
    "arcs into a chain": lambda n: workflow(
        [
            fork("s", *(f"c{i}" for i in range(n(3_000)))),
            *(link(f"c{i}", f"c{i + 1}") for i in range(n(3_000) - 1)),
            f"- {{step: c{n(3_000) - 1}}}\n",
        ]
    ),
    "combs": lambda n: workflow(
        [
            *(fork(f"f{i}", f"a{i}", f"f{i + 1}") + f"- {{step: a{i}}}\n" for i in range(n(1700))),
            f"- {{step: f{n(1700)}}}\n",
        ]
    ),
    "one join of all": lambda n: workflow(
        [
            fork("s", *(f"c{i}" for i in range(n(4_000)))),
            *(f"- {{step: c{i}, next: e}}\n" for i in range(n(4_000))),
            "- {step: e}\n",
        ]
    ),
    "args that pile up": lambda n: workflow(
        [
            *(
                f"- {{step: s{i}, next: {{arcs: [{{step: s{i + 1}, args: {{a{i}: 1}}}}]}}}}\n"
                for i in reversed(range(n(3500)))
            ),
            f"- {{step: s{n(3500)}, tool: {{kind: noop, result: '{{{{ a1 }}}}'}}}}\n",
        ]
    ),
    "classic cases": lambda n: (
        f"{HEAD}workflow:\n- step: s\n  tool: {{kind: noop}}\n  next: e\n  case:\n"
        + "".join(
            f"  - {{when: '{{{{ result == {i} }}}}', then: [{{c: {{tool: {{kind: noop}}}}}}]}}\n"
            for i in range(n(2500))
        )
        + "- {step: e}\n"
    ),
    # -- schemas of the workload
    "a schema of many properties": lambda n: schema(
        "{type: object, properties: {" + ",".join(f"p{i}: {{type: string}}" for i in range(n(12_000))) + "}}"
    ),
    "a schema of anyOf": lambda n: schema("{anyOf: [" + "{type: object, required: [b]}," * n(7_000) + "]}"),
    "a schema that nests": lambda n: schema("{properties: {a: " * 25 + "{}" + "}}" * 25),
    "a schema of a long pattern": lambda n: repeated(
        n, f"{SCHEMA}{{properties: {{a: {{pattern: '", "(a?)*", f"'}}}}}}}}}}}}\nworkload: {{a: {'a' * 100}}}\n"
    ),
    "a schema of patterns": lambda n: filled(
        n, f"{SCHEMA}{{allOf: [", lambda i: f"{{pattern: '(a+)+{i}$'}},", "]}}}}\nworkload: {a: 1}\n", n(12_000)
    ),
    "a schema with a catastrophic pattern": lambda n: schema("{properties: {a: {pattern: '^(a+)+$b'}}}", "a" * 100),
    "a schema of enums": lambda n: schema("{properties: {a: {enum: [" + ",".join(map(str, range(n(48_000)))) + "]}}}"),
    "a schema of equal enums": lambda n: schema("{properties: {a: {enum: [" + "{a: 1}," * n(16_000) + "]}}}"),
    "a schema of references": lambda n: schema(
        "{'$defs': {"
        + ",".join(f"d{i}: {{'$ref': '#/$defs/d{i + 1}'}}" for i in range(n(8_000)))
        + ", e: {}}, '$ref': '#/$defs/d0'}"
    ),
    "a schema that doubles": lambda n: schema(
        "{'$defs': {"
        + ",".join(
            f"d{i}: {{allOf: [{{'$ref': '#/$defs/d{i + 1}'}}, {{'$ref': '#/$defs/d{i + 1}'}}]}}" for i in range(n(60))
        )
        + ", e: {}}, '$ref': '#/$defs/d0'}"
    ),
    "a schema that refers to itself": lambda n: schema("{'$ref': '#'}"),
    "a schema of unique items": lambda n: schema(
        "{properties: {a: {uniqueItems: true}}}", f"[{','.join(f'{{a: {i}}}' for i in range(n(15_000)))}]"
    ),
    "a schema of unknown keywords": lambda n: schema(
        "{" + ",".join(f"propertiez{i}: 1" for i in range(n(20_000))) + "}"
    ),
    "a schema of required names": lambda n: schema("{required: [" + ",".join(f"r{i}" for i in range(n(40_000))) + "]}"),
}
