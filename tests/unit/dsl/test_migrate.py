"""noetl migrate: the same playbook in the canonical dialect, with its comments, or a list of what has no spelling."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from textwrap import dedent, indent

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.cli import migrate as verb
from noetl.dsl.compile import load
from noetl.dsl.layout import Layout
from noetl.dsl.migrate import Migration, migrate
from noetl.tools.registry import KINDS

GOLDEN = Path(__file__).parents[2] / "migrate"

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sample, path: tests/sample}
"""


def playbook(steps: str, *, root: str = "", ends: str = "a b c") -> str:
    """A whole playbook around the steps of a fragment; `ends` names steps that are only there to be arrived at."""
    text = dedent(steps) + "".join(f"- step: {name}\n  tool: {{kind: noop}}\n" for name in ends.split())
    return f"{HEAD}{dedent(root)}workflow:\n{indent(text, '  ')}"


def comments(text: str) -> list[str]:
    """Every comment of a text, in the order of the alphabet."""
    layout = Layout(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    return sorted(layout.behind(offset).strip() for offset in layout.comments.values())


def migrated(text: str) -> str:
    """The new text, which is canonical, means the same, has every comment, and is not changed a second time."""
    before = load("p.yaml", text, KINDS)
    assert before.playbook is not None, before.problems
    assert before.dialect == "classic"
    found = migrate("p.yaml", text, KINDS)
    assert not found.leftovers
    assert found.changed
    after = load("p.yaml", found.text, KINDS)
    assert after.dialect == "canonical"
    assert after.playbook is not None, [found.text, after.problems]
    assert after.playbook.digest == before.playbook.digest
    assert all(step.tail is None for step in after.playbook.steps)
    assert not set(comments(text)) - set(comments(found.text))
    assert set(re.findall(r"&\w+", found.text)) <= set(re.findall(r"&\w+", text))
    assert migrate("p.yaml", found.text, KINDS) == Migration(found.text, False, after.problems, [])
    return found.text


HTTP = "tool: {kind: http, url: http://x}"
PYTHON = 'tool: {kind: python, code: "result = 1"}'

STEPS = {
    "args": f"- step: s\n  args: {{x: 1, y: '{{{{ workload.z }}}}'}}\n  {HTTP}\n",
    "args below the task's own": "- step: s\n  args: {x: 1, y: 2}\n  tool: {kind: http, url: u, args: {y: 3}}\n",
    "retry": f"- step: s\n  retry: {{max_attempts: 4}}\n  {HTTP}\n",
    "retry with nothing": f"- step: s\n  retry: {{}}\n  {HTTP}\n",
    "retry with a delay": f"- step: s\n  retry: {{initial_delay: 0.5, backoff_multiplier: 1}}\n  {HTTP}\n",
    "retry that doubles": f"- step: s\n  retry: {{initial_delay: 2, backoff_multiplier: 2}}\n  {HTTP}\n",
    "retry that grows": f"- step: s\n  retry: {{initial_delay: 2, backoff_multiplier: 1.5}}\n  {HTTP}\n",
    "retry_when": f"- step: s\n  retry: {{retry_when: '{{{{ status_code >= 500 and attempt < 2 }}}}'}}\n  {HTTP}\n",
    "stop_when": f"- step: s\n  retry: {{stop_when: '{{{{ result.ready }}}}', max_attempts: 9}}\n  {HTTP}\n",
    "both predicates": f"""
        - step: s
          retry:
            retry_when: "{{{{- success or error == 'slow' -}}}}"
            stop_when: "{{{{ data.done or attempt == max_attempts }}}}"
          {HTTP}
        """,
    "retry_when over lines": f"""
        - step: s
          retry:
            retry_when: |
              {{{{ status_code == 500
                 or status_code == 503 }}}}
          {HTTP}
        """,
    "backoff": f"""
        - step: s
          retry:
            max_attempts: 3
            backoff: {{type: exponential, delay_seconds: 1, max_delay_seconds: 60, jitter: true}}
          {HTTP}
        """,
    "fixed backoff": f"- step: s\n  retry: {{backoff: {{delay_seconds: 3}}}}\n  {HTTP}\n",
    "linear backoff": f"- step: s\n  retry: {{scope: tool, backoff: {{type: linear}}}}\n  {HTTP}\n",
    "retry of the tool": "- step: s\n  args: {}\n  tool: {kind: http, url: u, retry: {max_attempts: 2, on: error}}\n",
    "vars": f"- step: s\n  {HTTP}\n  vars: {{id: '{{{{ result.id }}}}', all: '{{{{ response.headers }}}}'}}\n",
    "vars and retry": f"- step: s\n  {HTTP}\n  vars: {{id: '{{{{ result.id }}}}'}}\n  retry: {{max_attempts: 2}}\n",
    "vars without a tool": "- step: s\n  vars: {id: 1}\n",
    "vars read": """
        - step: s
          tool: {kind: http, url: "{{ vars.base }}/{{ loop_index }}"}
          vars: {base: "{{ vars.base }}x"}
          next:
            - step: a
              args: {base: "{{ vars.base }}", body: "{{ result.id }}"}
        """,
    "sink with columns": f"""
        - step: s
          {PYTHON}
          sink:
            tool: {{kind: postgres, table: t}}
            args: {{id: "{{{{ result.id }}}}", raw: "{{{{ this.data }}}}"}}
        """,
    "sink with rows": f"- step: s\n  {PYTHON}\n  sink: {{tool: {{kind: postgres}}, table: t, args: [{{a: 1}}, {{a: 2}}]}}\n",
    "sink of the result": f"- step: s\n  {PYTHON}\n  sink: {{tool: {{kind: postgres, table: t, auth: db}}}}\n",
    "sink by http": f"- step: s\n  {HTTP}\n  sink: {{tool: {{kind: http, method: POST, url: u}}, args: {{a: 1}}}}\n",
    "sink with a condition": f"""
        - step: s
          {HTTP}
          sink:
            tool: {{kind: duckdb, table: t}}
            when: "{{{{ result.rows and response.status_code == 200 }}}}"
            retry: {{max_attempts: 2}}
        """,
    "sink by python": f"""
        - step: s
          {HTTP}
          sink:
            tool: {{kind: python, code: "print(a)", args: {{b: 2}}}}
            args: {{a: "{{{{ result }}}}"}}
        """,
    "sink without a tool": "- step: s\n  sink: {tool: {kind: postgres, table: t}, args: {a: 1}}\n",
    "sink behind a list of tasks": """
        - step: s
          tool:
            - {name: call-it, kind: http, url: u}
            - {name: sink, kind: noop}
            - {name: last-one, kind: postgres, query: "select 1"}
          sink: {tool: {kind: postgres, table: t}}
        """,
    "next": f"- step: s\n  {HTTP}\n  next: a\n",
    "next as a list": f"- step: s\n  {HTTP}\n  next: [a, b]\n",
    "next with args": f"- step: s\n  {HTTP}\n  next:\n    - step: a\n      args: {{x: '{{{{ workload.x }}}}'}}\n",
    "loop": f"- step: s\n  loop: {{collection: '{{{{ workload.items }}}}', element: item}}\n  {HTTP}\n",
    "loop mode": f"- step: s\n  loop: {{in: [1], iterator: item, mode: async}}\n  {HTTP}\n",
    "sequential loop": f"- step: s\n  loop: {{in: [1], iterator: item, mode: sequential}}\n  {HTTP}\n",
    "loop in batches": f"""
        - step: s
          loop:
            spec: {{mode: parallel, batch_size: 7, on_error: continue}}
            collection: [1, 2]
            element: item
          {HTTP}
          next: a
        """,
    "on_error: fail": f"- step: s\n  spec: {{on_error: fail}}\n  {HTTP}\n",
    "on_error: ignore": f"- step: s\n  spec: {{on_error: ignore, timeout: 5m}}\n  {HTTP}\n",
    "on_error: retry": f"- step: s\n  spec: {{on_error: retry}}\n  {HTTP}\n",
    "on_error of a pipeline": "- step: s\n  spec: {on_error: ignore}\n  tool: [{kind: http, url: u}, {kind: http, url: v}]\n",
    "case with maps": f"""
        - step: s
          {HTTP}
          case:
            - when: "{{{{ event.name == 'call.done' and response.status_code == 200 }}}}"
              then:
                next: [{{step: a, args: {{id: "{{{{ result.id }}}}"}}}}]
            - when: "{{{{ event.name == 'call.error' }}}}"
              then: {{next: b}}
            - when: true
              then: {{next: c}}
          next: a
        """,
    "case with lists": f"""
        - step: s
          {HTTP}
          case:
            - when: "{{{{ result.ok }}}}"
              then:
                - next: {{to: [{{step: a}}]}}
            - else:
                - next: {{to: [{{step: b}}]}}
        """,
    "case at the exit": f"""
        - step: s
          {HTTP}
          case:
            - when: "{{{{ event.name == 'step.exit' or event.name == 'call.done' }}}}"
              then: {{next: a}}
            - when: "{{{{ event.name == 'call.done' and this.status == 'ok' }}}}"
              then: {{next: b}}
        """,
    "chain": f"""
        - step: s
          spec: {{pool: big, http: {{follow_redirects: false}}, case_mode: exclusive, next_policy: end_step}}
          args: {{x: 1}}
          retry: {{max_attempts: 2}}
          {HTTP}
          case:
            - when: "{{{{ result.ok }}}}"
              retry: {{max_attempts: 4}}
              then:
                - first:
                    tool: {{kind: http, url: "{{{{ result.url }}}}", args: {{y: 2}}}}
                    args: {{x: 3, z: "{{{{ this.error }}}}"}}
                    retry: {{retry_when: "{{{{ result.again }}}}"}}
                - set: {{seen: "{{{{ first.status }}}}"}}
                - set: {{twice: "{{{{ result.n }}}}"}}
                - second:
                    tool: {{kind: python, code: "{{{{ result }}}}", args: {{code: "{{{{ result.n }}}}"}}}}
                - next:
                    spec: {{delay: 5s}}
                    to: [{{step: a}}, b]
            - else:
                - sink: {{tool: {{kind: postgres, table: t}}, args: {{v: "{{{{ result }}}}"}}}}
          next: [b, c]
        """,
    "chain as a map": f"""
        - step: s
          {HTTP}
          case:
            - when: "{{{{ result.ok }}}}"
              then:
                sink: {{tool: {{kind: http, url: u}}}}
                set: {{n: 1}}
                retry: {{max_attempts: 2}}
                next: a
            - when: "{{{{ result.maybe }}}}"
              then: {{set: {{n: 2}}}}
        """,
    "several targets": f"""
        - step: s
          {HTTP}
          case:
            - when: "{{{{ result.ok }}}}"
              then: {{next: [a, b]}}
          next: [b, c]
        """,
    "priority": f"""
        - step: s
          spec: {{branch_order: priority}}
          {HTTP}
          case:
            - {{when: "{{{{ result.a }}}}", then: {{next: a}}, priority: 1}}
            - {{when: "{{{{ result.b }}}}", then: {{next: b}}, priority: 5}}
            - {{when: "{{{{ result.c }}}}", then: {{next: c}}}}
        """,
    "loop with a case": f"""
        - step: s
          loop: {{in: [1], iterator: item, mode: parallel}}
          {HTTP}
          case:
            - when: "{{{{ event.name == 'call.done' and result | length > 1 }}}}"
              then:
                - send: {{tool: {{kind: http, url: u, body: "{{{{ result }}}}"}}}}
                - next: a
        """,
    "case without a tool": "- step: s\n  case: [{when: '{{ workload.x }}', then: {next: a}}, {else: {next: b}}]\n",
    "names that are taken": f"""
        - step: s
          {HTTP}
          sink: {{tool: {{kind: postgres, table: t}}}}
          case:
            - when: "{{{{ result }}}}"
              then: {{set: {{n: 1}}, next: call}}
        - step: s_case_0
          {HTTP}
          next: sink
        - step: call
          {HTTP}
          next: s_case_0
        - step: sink
          {HTTP}
        """,
    "names with dashes": f"""
        - step: s-1.x
          tool: [{{name: do-it, kind: http, url: u}}]
          vars: {{n: "{{{{ result.n }}}}"}}
          sink: {{tool: {{kind: http, url: u}}}}
          case:
            - {{when: "{{{{ result.a }}}}", then: {{next: a}}}}
        """,
    "postgres without auth": "- step: s\n  tool: {kind: postgres, query: select 1}\n  next: a\n",
    "postgres with a dsn": "- step: s\n  tool: {kind: postgres, auth: 'postgresql://u@h/db', query: select 1}\n  next: a\n",
    "auth with dashes": "- step: s\n  tool: {kind: postgres, auth: my-db, query: select 1}\n  next: a\n",
    "postgres inside an iterator": """
        - step: s
          tool:
            kind: iterator
            in: [1]
            iterator: x
            tool: [{kind: postgres, query: "select {{ x }}"}, {kind: http, url: u, retry: {max_attempts: 2}}]
          next: a
        """,
    "an anchor whose node changes": """
        - step: s
          args: {x: 1}
          tool: &call
            kind: http
            url: u
            headers: &headers {a: "{{ vars.a }}"}
          next: t
        - step: t
          args: {y: 2}
          tool: *call
          vars: {a: 1}
          next: u
        - step: u
          tool: {kind: http, url: v, headers: *headers}
        """,
    "a merge key whose map changes": """
        - step: s
          tool: &call
            kind: http
            url: u
          retry: &twice {max_attempts: 2}
          next: t
        - step: t
          tool:
            <<: *call
            method: POST
          retry:
            <<: *twice
            initial_delay: 3
        """,
}

ROOTS = {
    "workbook sink": (
        "- step: s\n  tool: {kind: workbook, name: get}\n  next: a\n",
        """
        workbook:
          # the list form
          - name: get
            tool: {kind: http, url: "{{ vars.u | default('x') }}"}
            sink: {tool: {kind: postgres, table: t}, args: {id: "{{ result.id }}"}}
        """,
    ),
    "workbook sink in a chain": (
        """
        - step: s
          tool: {kind: noop}
          case:
            - when: true
              then: [{get: {tool: {kind: workbook, name: get}}}, {next: a}]
        """,
        """
        workbook:
          - name: get
            tool: {kind: http, url: u}
            sink: {tool: {kind: postgres, table: t}}
        """,
    ),
    "workbook map": (
        "- step: s\n  tool: {kind: workbook, name: get}\n  retry: {max_attempts: 2}\n",
        "workbook:\n  tasks:\n    get: {kind: postgres, query: select 1}\n",
    ),
    "keychain that is there": (
        "- step: s\n  tool: {kind: http, url: u, auth: api}\n  next: t\n- step: t\n  tool: {kind: postgres, query: select 1}\n",
        "keychain:\n  - {name: api, kind: bearer}  # ours\n",
    ),
    "credential of the executor": (
        "- step: s\n  tool: {kind: postgres, query: select 1}\n  next: a\n",
        "executor: {spec: {postgres: {auth: 'host=db user=me'}}}\n",
    ),
    "workload is left alone": (
        "- step: s\n  tool: {kind: noop}\n  next: a\n",
        "workload: {vars: 1, x: '{{ vars }}', d: 2024-01-01, n: 0o17, e: ~, f: 1.50}\n",
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_construct_is_rewritten(name: str) -> None:
    migrated(playbook(STEPS[name]))


@pytest.mark.parametrize("name", ROOTS)
def test_a_construct_that_touches_the_root_is_rewritten(name: str) -> None:
    steps, root = ROOTS[name]
    migrated(playbook(steps, root=root))


def commented(text: str) -> str:
    """The text with a comment above and beside every line that can have one."""
    layout, found, offset = Layout(text), [], 0
    for number, line in enumerate(text.split("\n")):
        free = not layout.in_scalar(offset) or line.startswith(("apiVersion", "kind", "metadata", "workflow"))
        if free and line.strip():
            margin = " " * (len(line) - len(line.lstrip(" ")))
            found += [f"{margin}# above {number}", f"{line}  # beside {number}"]
        else:
            found.append(line)
        offset += len(line) + 1
    return "\n".join(found)


@pytest.mark.parametrize("name", STEPS)
def test_comments_survive_on_every_line(name: str) -> None:
    text = commented(playbook(STEPS[name]))
    assert len(comments(text)) > 15
    after = migrated(text)
    assert comments(after) == comments(text)


@pytest.mark.parametrize("before", sorted(GOLDEN.glob("*.before.yaml")), ids=lambda path: path.name)
def test_golden(before: Path) -> None:
    after = before.with_name(before.name.replace(".before.", ".after."))
    assert migrated(before.read_text()) == after.read_text()


def test_a_canonical_playbook_comes_back_byte_for_byte() -> None:
    text = f"\ufeff---\r\n{HEAD}workflow:   # odd   layout\r\n-   step:   a\r\n    tool: {{kind:   noop}}"
    found = migrate("p.yaml", text.encode(), KINDS)
    assert (found.text, found.changed, found.failed) == (text, False, False)


def test_an_invalid_playbook_is_not_rewritten() -> None:
    text = playbook("- step: s\n  tool: {kind: nope}\n  next: a\n")
    found = migrate("p.yaml", text, KINDS)
    assert found.failed
    assert found.text == text
    assert [problem.code for problem in found.problems if problem.severity == "error"] == ["NTL202"]
    assert migrate("p.yaml", b"\xff", KINDS).failed


def test_what_does_not_change_stays_as_it_was_written() -> None:
    text = playbook(
        """
        - step:   s   # odd
          desc:  >
              folded
              text
          tool: {  kind:   http, url: 'u',
                   body: [1,2,   3] }
          next: a
        -   step: t
            tool:
                  kind: python
                  code: |2
                     indented
                  libs: &l [ os ]
            next:
            - step: b
        - step: u
          tool: {kind: python, code: x, libs: *l}
        """,
        root="workload: { when: 2024-01-01,  on: yes, n: 0o17, f: 1.50, nothing: ~, empty: }\n",
    )
    after = migrated(text)
    for part in (
        "workload: { when: 2024-01-01,  on: yes, n: 0o17, f: 1.50, nothing: ~, empty: }\n",
        "  - step:   s   # odd\n    desc:  >\n        folded\n        text\n    tool: {  kind:   http, url: 'u',\n",
        "    tool:\n          kind: python\n          code: |2\n             indented\n          libs: &l [ os ]\n",
        "  - step: u\n    tool: {kind: python, code: x, libs: *l}\n",
    ):
        assert part in after


def test_anchors_stay_where_nothing_in_them_changed() -> None:
    text = playbook(
        """
        - step: s
          tool: &call
            kind: http
            url: u
            params: &params {a: 1}
          next: t
        - step: t
          tool:
            <<: *call
            method: POST
          next: u
        - step: u
          tool: {kind: http, url: v, params: *params}
          retry: {max_attempts: 2}
        """
    )
    after = migrated(text)
    assert "tool: &call\n" in after
    assert "    tool:\n      <<: *call\n      method: POST\n" in after
    assert "params: *params\n" in after


def test_line_ends_marks_and_markers_are_kept() -> None:
    text = playbook("- step: s\n  tool: {kind: noop}\n  next: a\n")
    for variant in (
        "\ufeff# first\n---\n" + text + "# last\n...\n",
        text.rstrip("\n"),
        text.replace("\n", "\r\n"),
        "%YAML 1.2\n--- # start\n" + text + "\n\n",
    ):
        after = migrated(variant)
        head, tail = variant.split("apiVersion")[0], variant.split("kind: noop}")[-1]
        assert after.startswith(head + "apiVersion")
        assert after.endswith(tail)


def test_lists_keep_the_indentation_of_the_source() -> None:
    flat = HEAD + "workflow:\n- step: s\n  tool: {kind: noop}\n  next: a\n- step: a\n  tool: {kind: noop}\n"
    assert migrated(flat).endswith(
        "- step: s\n  tool: {kind: noop}\n  next:\n    arcs:\n    - step: a\n- step: a\n  tool: {kind: noop}\n"
    )


def test_json_is_written_in_block_style() -> None:
    text = (
        '{"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "j", "path": "j"},\n'
        ' "workflow": [{"step": "s", "tool": {"kind":"noop"}, "next": "a"}, {"step": "a", "tool": {"kind": "noop"}}]}\n'
    )
    after = migrated(text)
    assert '- "step": "s"\n    "tool": {"kind":"noop"}\n    "next":\n      arcs:\n        - step: a\n' in after


LEFTOVERS = {
    "inclusive": (f"- step: s\n  spec: {{case_mode: inclusive}}\n  {HTTP}\n  case: [{{when: true, then: {{next: a}}}}]\n", "case_mode"),
    "on_event": ("- step: s\n  spec: {eval_mode: on_event}\n  case: [{when: true, then: {next: a}}]\n", "eval_mode"),
    "defer": (f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: {{next: {{to: [a], policy: defer}}}}\n", "policy"),
    "poll": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: [{{x: {{{HTTP}, poll: {{until: '{{{{ result }}}}'}}}}}}]\n",
        "poll",
    ),
    "computed target": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: {{next: [{{step: '{{{{ result }}}}'}}]}}\n",
        "step: '{{ result",
    ),
    "computed name": (f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: {{next: '{{{{ result }}}}'}}\n", "next"),
    "computed item": (f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: {{next: ['{{{{ result }}}}']}}\n", "'{{ result"),
    "chain scope": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      retry: {{scope: chain}}\n      then: [{{x: {{{HTTP}}}}}]\n",
        "scope",
    ),
    "next before the end": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: [{{next: a}}, {{x: {{{HTTP}}}}}]\n",
        "next",
    ),
    "loop and vars": (f"- step: s\n  loop: {{in: [1], iterator: i}}\n  {HTTP}\n  vars: {{x: 1}}\n", "vars"),
    "loop and sink": (f"- step: s\n  loop: {{in: [1], iterator: i}}\n  {HTTP}\n  sink: {{{HTTP}}}\n", "sink"),
    "this.meta": (f"- step: s\n  {HTTP}\n  case:\n    - when: '{{{{ this.meta.x }}}}'\n      then: {{next: a}}\n", "when"),
    "other events": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: \"{{{{ event.name in ['call.done'] }}}}\"\n      then: {{next: a}}\n",
        "when",
    ),
    "event in a chain": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then: {{set: {{n: '{{{{ event.name }}}}'}}}}\n",
        "n: '{{ event",
    ),
    "item in a chain": (
        "- step: s\n  loop: {in: [1], iterator: item}\n  args: {x: '{{ item }}'}\n  tool: {kind: noop}\n"
        "  case:\n    - when: true\n      then: [{send: {tool: {kind: http, url: '{{ item }}'}}}]\n",
        "url",
    ),
    "args in a condition": (
        f"- step: s\n  args: {{x: 1}}\n  {HTTP}\n  case:\n    - when: '{{{{ x == 1 }}}}'\n      then: {{next: a}}\n",
        "when",
    ),
    "a task of the chain in its next": (
        f"- step: s\n  {HTTP}\n  case:\n    - when: true\n      then:\n        - send: {{{HTTP}}}\n"
        "        - next: [{step: a, args: {id: '{{ send.result }}'}}]\n",
        "id: '{{ send",
    ),
    "unknown credential": ("- step: s\n  tool: {kind: http, url: u, auth: token}\n  next: a\n", "auth"),
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_what_has_no_spelling_is_listed_with_its_place(name: str) -> None:
    steps, mark = LEFTOVERS[name]
    text = playbook(steps)
    loaded = load("p.yaml", text, KINDS)
    assert loaded.playbook is not None, loaded.problems
    found = migrate("p.yaml", text, KINDS)
    assert (found.text, found.changed) == (text, False)
    places = {(problem.line, problem.column) for problem in found.leftovers}
    lines = text.split("\n")
    assert any(lines[line - 1][column - 1 :].startswith(mark) for line, column in places), found.leftovers
    for problem in found.leftovers:
        assert (problem.code, problem.severity) == ("NTL601", "warning")
        assert "has no canonical spelling" in problem.message
        assert problem.hint
        assert problem.source == lines[problem.line - 1]


def test_all_leftovers_of_all_steps_are_listed() -> None:
    text = playbook(
        f"""
        - step: s
          spec: {{case_mode: inclusive, eval_mode: on_event}}
          {HTTP}
          case:
            - when: true
              then:
                - x: {{{HTTP}, poll: {{until: true}}}}
          next: t
        - step: t
          loop: {{in: [1], iterator: i}}
          {HTTP}
          vars: {{x: 1}}
          sink: {{{HTTP}}}
        """
    )
    found = [problem.message.split("`")[1] for problem in migrate("p.yaml", text, KINDS).leftovers]
    assert found == ["case_mode: inclusive", "eval_mode: on_event", "poll", "vars", "sink"]


# -- the command ----------------------------------------------------------------------------------------------------


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(verb.command, args, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_the_new_text_goes_to_stdout_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    text = playbook(STEPS["next"])
    path.write_text(text)
    code, out, err = run(str(path))
    assert (code, out) == (0, migrated(text))
    assert "rewritten" in err
    assert path.read_text() == text


def test_write_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path, link = tmp_path / "p.yaml", tmp_path / "link.yaml"
    path.write_text(playbook(STEPS["next"]))
    path.chmod(0o640)
    link.symlink_to(path)
    inode = path.stat().st_ino
    code, out, _ = run(str(link), "--write")
    assert (code, out) == (0, "")
    assert path.read_text() == migrated(playbook(STEPS["next"]))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.stat().st_ino != inode
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "p.yaml"]
    written = path.stat().st_mtime_ns
    assert run(str(path), "--write")[0] == 0
    assert path.stat().st_mtime_ns == written


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(playbook(STEPS["next"]))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verb.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run(str(path), "--write")
    assert path.read_text() == playbook(STEPS["next"])
    assert os.listdir(tmp_path) == ["p.yaml"]


@pytest.mark.parametrize("text", [playbook(LEFTOVERS["poll"][0]), "workflow: [", playbook("- step: s\n  tool: {kind: x}\n")])
def test_leftovers_and_errors_exit_with_3_and_write_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    code, out, err = run(str(path), "--write")
    assert (code, out) == (3, "")
    assert f"{path}:" in err
    assert path.read_text() == text


# -- any combination ------------------------------------------------------------------------------------------------

EXPRESSIONS = st.sampled_from(
    ["result.id", "response.status_code == 200", "vars.x", "this.error", "workload.n > 1", "result | length", "event.name", "item"]
)
GUARDS = st.one_of(
    st.booleans(),
    EXPRESSIONS.map(lambda text: f"{{{{ {text} }}}}"),
    st.sampled_from(["call.done", "call.error", "step.exit"]).flatmap(
        lambda event: EXPRESSIONS.map(lambda text: f"{{{{ event.name == '{event}' and {text} }}}}")
    ),
)
VALUES = st.one_of(st.integers(-3, 3), st.just("a: b # c"), st.just("l1\nl2\n"), EXPRESSIONS.map(lambda text: f"{{{{ {text} }}}}"))
NAMES = st.sampled_from(["a", "b", "c"])
RETRIES = st.fixed_dictionaries(
    {},
    optional={
        "max_attempts": st.integers(1, 5),
        "initial_delay": st.sampled_from([0, 1, 2.5]),
        "backoff_multiplier": st.sampled_from([1, 2, 3, 1.5]),
        "retry_when": st.sampled_from(["{{ status_code == 500 }}", "{{ error }}", True]),
        "stop_when": st.sampled_from(["{{ result.done }}", "{{ attempt > 2 }}"]),
        "scope": st.sampled_from(["tool", "step", "chain"]),
    },
)
CALLS = st.sampled_from(
    [
        {"kind": "noop"},
        {"kind": "http", "url": "http://x", "headers": {"a": "{{ workload.n }}"}},
        {"kind": "python", "code": "# {{ result }}\nresult = 1\n"},
        {"kind": "postgres", "query": "select {{ vars.x }}"},
        {"kind": "http", "url": "http://x", "retry": {"max_attempts": 2}},
    ]
)
SINKS = st.fixed_dictionaries(
    {"tool": st.sampled_from([{"kind": "postgres", "table": "t"}, {"kind": "http", "url": "http://x"}])},
    optional={
        "args": st.one_of(st.dictionaries(NAMES, VALUES, max_size=2), st.lists(st.dictionaries(NAMES, VALUES), max_size=2)),
        "when": GUARDS,
        "retry": RETRIES,
    },
)


def targets(names: list[str]) -> st.SearchStrategy[object]:
    name = st.sampled_from(names)
    target = st.one_of(name, st.fixed_dictionaries({"step": name}, optional={"args": st.dictionaries(NAMES, VALUES, max_size=2)}))
    return st.one_of(name, st.lists(target, min_size=1, max_size=3))


def branches(names: list[str]) -> st.SearchStrategy[object]:
    goto = st.one_of(
        targets(names),
        st.fixed_dictionaries(
            {"to": st.lists(st.sampled_from(names), min_size=1, max_size=2)},
            optional={"spec": st.just({"delay": "5s"}), "policy": st.sampled_from(["end_step", "defer"])},
        ),
    )
    call = st.fixed_dictionaries(
        {"tool": CALLS}, optional={"args": st.dictionaries(NAMES, VALUES, max_size=2), "retry": RETRIES}
    )
    tasks = st.dictionaries(st.sampled_from(["send", "check", "call"]), call, max_size=2).map(
        lambda found: [{name: body} for name, body in found.items()]
    )
    sets = st.lists(st.dictionaries(NAMES, VALUES, min_size=1, max_size=2).map(lambda found: {"set": found}), max_size=2)
    ends = st.one_of(st.just([]), goto.map(lambda found: [{"next": found}]))
    chain = st.one_of(
        st.tuples(tasks, sets, ends).map(lambda parts: [item for part in parts for item in part]),
        st.fixed_dictionaries({}, optional={"next": goto, "set": st.dictionaries(NAMES, VALUES), "sink": SINKS}),
    )
    return st.fixed_dictionaries(
        {"when": GUARDS, "then": chain}, optional={"priority": st.integers(0, 3), "retry": RETRIES}
    )


@st.composite
def documents(draw: st.DrawFn) -> str:
    import yaml

    names = [f"s{i}" for i in range(draw(st.integers(1, 4)))]
    steps = []
    for name in names:
        optional = {
            "desc": st.just("Says: something"),
            "args": st.dictionaries(NAMES, st.integers(), min_size=1, max_size=2),
            "spec": st.fixed_dictionaries(
                {},
                optional={
                    "on_error": st.sampled_from(["fail", "ignore", "retry"]),
                    "branch_order": st.sampled_from(["source", "priority"]),
                    "case_mode": st.sampled_from(["exclusive", "exclusive", "exclusive", "inclusive"]),
                    "timeout": st.just("5m"),
                    "pool": st.just("big"),
                },
            ),
            "retry": RETRIES,
            "loop": st.fixed_dictionaries(
                {"collection": st.just("{{ workload.n }}"), "element": st.just("item")},
                optional={"mode": st.sampled_from(["async", "parallel", "sequential"]), "spec": st.just({"batch_size": 3})},
            ),
            "vars": st.dictionaries(NAMES, VALUES, min_size=1, max_size=2),
            "case": st.lists(branches(names), min_size=1, max_size=3),
            "next": targets(names),
            "sink": SINKS,
        }
        step = draw(st.fixed_dictionaries({"tool": CALLS}, optional=optional))
        steps.append({"step": name, **dict(draw(st.permutations(list(step.items()))))})
    steps[0].setdefault("next", names[-1])
    flow = draw(st.sampled_from([None, False]))
    dumped = yaml.safe_dump(steps, sort_keys=False, default_flow_style=flow, width=200)
    lines = []
    for number, line in enumerate(dumped.split("\n")):
        bare = re.fullmatch(r"( *)(?:- )*\w+:(?: [\w.-]+)?", line)
        if bare and draw(st.integers(0, 4)) == 0:
            lines.append(f"{bare.group(1)}# above {number}")
        lines.append(f"{line} # beside {number}" if bare and draw(st.integers(0, 4)) == 0 else line)
    body = indent("\n".join(lines), draw(st.sampled_from(["", "  "])))
    return f"{HEAD}workload: {{n: [1], x: 2}}\nworkflow:\n{body}"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents())
def test_any_combination_is_rewritten_or_listed(text: str) -> None:
    loaded = load("p.yaml", text, KINDS)
    if loaded.playbook is None:
        assert migrate("p.yaml", text, KINDS).failed
    elif leftovers := migrate("p.yaml", text, KINDS).leftovers:
        named = {problem.message.split("(step ")[-1] for problem in leftovers}
        tails = {f"{step.name!r})" for step in loaded.playbook.steps if step.tail is not None}
        assert tails <= named
    else:
        migrated(text)
