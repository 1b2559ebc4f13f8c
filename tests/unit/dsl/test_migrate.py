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

from noetl.classic.writer import YamlLayout
from noetl.cli import playbook as verb
from noetl.dsl.compile import load
from noetl.dsl.migrate import Migration, migrate
from noetl.testing import run_playbook
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
    layout = YamlLayout(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    return sorted(layout.behind(offset).strip() for offset in layout.comments.values())


def migrated(text: str) -> str:
    """The new text, which is canonical, means the same, has every comment, and is not changed a second time."""
    before = load("p.yaml", text, KINDS)
    assert before.playbook is not None, before.problems
    assert before.dialect == "classic"
    migration = migrate("p.yaml", text, KINDS)
    assert not migration.leftovers
    assert migration.changed
    after = load("p.yaml", migration.text, KINDS)
    assert after.dialect == "canonical"
    assert after.playbook is not None, [migration.text, after.problems]
    assert all(step.after_call is None for step in after.playbook.steps)
    assert comments(migration.text) == comments(text)
    assert set(re.findall(r"&\w+", migration.text)) <= set(re.findall(r"&\w+", text))
    assert migrate("p.yaml", migration.text, KINDS) == Migration(migration.text, False, after.problems, [], [])
    return migration.text


STEPS = {
    "args": """
        - step: s
          args: {x: 1, y: '{{ workload.z }}'}
          tool: {kind: http, url: http://x}
        """,
    "args below the task's own": """
        - step: s
          args: {x: 1, y: 2}
          tool: {kind: http, url: http://u, args: {y: 3}}
        """,
    "retry": """
        - step: s
          retry: {max_attempts: 4}
          tool: {kind: http, url: http://x}
        """,
    "retry with nothing": """
        - step: s
          retry: {}
          tool: {kind: http, url: http://x}
        """,
    "retry with a delay": """
        - step: s
          retry: {initial_delay: 0.5, backoff_multiplier: 1}
          tool: {kind: http, url: http://x}
        """,
    "retry that doubles": """
        - step: s
          retry: {initial_delay: 2, backoff_multiplier: 2}
          tool: {kind: http, url: http://x}
        """,
    "retry that grows": """
        - step: s
          retry: {initial_delay: 2, backoff_multiplier: 1.5}
          tool: {kind: http, url: http://x}
        """,
    "retry_when": """
        - step: s
          retry: {retry_when: '{{ status_code >= 500 and attempt < 2 }}'}
          tool: {kind: http, url: http://x}
        """,
    "stop_when": """
        - step: s
          retry: {stop_when: '{{ result.ready }}', max_attempts: 9}
          tool: {kind: http, url: http://x}
        """,
    "both predicates": """
        - step: s
          retry:
            retry_when: "{{- success or error == 'slow' -}}"
            stop_when: "{{ data.done or attempt == max_attempts }}"
          tool: {kind: http, url: http://x}
        """,
    "retry_when over lines": """
        - step: s
          retry:
            retry_when: |
              {{ status_code == 500
                 or status_code == 503 }}
          tool: {kind: http, url: http://x}
        """,
    "backoff": """
        - step: s
          retry:
            max_attempts: 3
            backoff: {type: exponential, delay_seconds: 1, max_delay_seconds: 60, jitter: true}
          tool: {kind: http, url: http://x}
        """,
    "fixed backoff": """
        - step: s
          retry: {backoff: {delay_seconds: 3}}
          tool: {kind: http, url: http://x}
        """,
    "linear backoff": """
        - step: s
          retry: {scope: tool, backoff: {type: linear}}
          tool: {kind: http, url: http://x}
        """,
    "retry of the tool": """
        - step: s
          args: {}
          tool: {kind: http, url: http://u, retry: {max_attempts: 2, on: error}}
        """,
    "vars": """
        - step: s
          tool: {kind: http, url: http://x}
          vars: {id: '{{ result.id }}', all: '{{ response.headers }}'}
        """,
    "vars and retry": """
        - step: s
          tool: {kind: http, url: http://x}
          vars: {id: '{{ result.id }}'}
          retry: {max_attempts: 2}
        """,
    "vars without a tool": """
        - step: s
          vars: {id: 1}
        """,
    "vars read": """
        - step: s
          tool: {kind: http, url: "{{ vars.base }}/{{ loop_index }}"}
          vars: {base: "{{ vars.base }}x"}
          next:
            - step: a
              args: {base: "{{ vars.base }}", body: "{{ result.id }}"}
        """,
    "sink with columns": """
        - step: s
          tool: {kind: python, code: "result = 1"}
          sink:
            tool: {kind: postgres, table: t}
            args: {id: "{{ result.id }}", raw: "{{ this.data }}"}
        """,
    "sink with rows": """
        - step: s
          tool: {kind: python, code: "result = 1"}
          sink: {tool: {kind: postgres}, table: t, args: [{a: 1}, {a: 2}]}
        """,
    "sink of the result": """
        - step: s
          tool: {kind: python, code: "result = 1"}
          sink: {tool: {kind: postgres, table: t, auth: db}}
        """,
    "sink by http": """
        - step: s
          tool: {kind: http, url: http://x}
          sink: {tool: {kind: http, method: POST, url: http://u}, args: {a: 1}}
        """,
    "sink with a condition": """
        - step: s
          tool: {kind: http, url: http://x}
          sink:
            tool: {kind: duckdb, table: t}
            when: "{{ result.rows and response.status_code == 200 }}"
            retry: {max_attempts: 2}
        """,
    "sink of an item": """
        - step: s
          loop: {in: [1, 2], iterator: n}
          tool: {kind: http, url: http://x}
          sink: {tool: {kind: postgres, table: t}, args: {n: "{{ n }}", place: "{{ loop_index }}", v: "{{ result }}"}}
        """,
    "sink by python": """
        - step: s
          tool: {kind: http, url: http://x}
          sink:
            tool: {kind: python, code: "print(a)", args: {b: 2}}
            args: {a: "{{ result }}"}
        """,
    "sink without a tool": """
        - step: s
          sink: {tool: {kind: postgres, table: t}, args: {a: 1}}
        """,
    "sink behind a list of tasks": """
        - step: s
          tool:
            - {name: call-it, kind: http, url: http://u}
            - {name: sink, kind: noop}
            - {name: last-one, kind: postgres, query: "select 1"}
          sink: {tool: {kind: postgres, table: t}}
        """,
    "next": """
        - step: s
          tool: {kind: http, url: http://x}
          next: a
        """,
    "next as a list": """
        - step: s
          tool: {kind: http, url: http://x}
          next: [a, b]
        """,
    "next with args": """
        - step: s
          tool: {kind: http, url: http://x}
          next:
            - step: a
              args: {x: '{{ workload.x }}'}
        """,
    "loop": """
        - step: s
          loop: {collection: '{{ workload.items }}', element: item}
          tool: {kind: http, url: http://x}
        """,
    "loop mode": """
        - step: s
          loop: {in: [1], iterator: item, mode: async}
          tool: {kind: http, url: http://x}
        """,
    "sequential loop": """
        - step: s
          loop: {in: [1], iterator: item, mode: sequential}
          tool: {kind: http, url: http://x}
        """,
    "loop in batches": """
        - step: s
          loop:
            spec: {mode: parallel, batch_size: 7, on_error: continue}
            collection: [1, 2]
            element: item
          tool: {kind: http, url: http://x}
          next: a
        """,
    "on_error: fail": """
        - step: s
          spec: {on_error: fail}
          tool: {kind: http, url: http://x}
        """,
    "on_error: ignore": """
        - step: s
          spec: {on_error: ignore, timeout: 5m}
          tool: {kind: http, url: http://x}
        """,
    "on_error: retry": """
        - step: s
          spec: {on_error: retry}
          tool: {kind: http, url: http://x}
        """,
    "on_error: ignore after retries": """
        - step: s
          spec: {on_error: ignore}
          retry: {max_attempts: 2}
          tool: {kind: http, url: http://x}
        """,
    "on_error of a pipeline": """
        - step: s
          spec: {on_error: ignore}
          tool: [{kind: http, url: http://u}, {kind: http, url: http://v}]
        """,
    "case with maps": """
        - step: s
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ event.name == 'call.done' and response.status_code == 200 }}"
              then:
                next: [{step: a, args: {id: "{{ result.id }}"}}]
            - when: "{{ event.name == 'call.error' }}"
              then: {next: b}
            - when: true
              then: {next: c}
          next: a
        """,
    "case with lists": """
        - step: s
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ result.ok }}"
              then:
                - next: {to: [{step: a}]}
            - else:
                - next: {to: [{step: b}]}
        """,
    "case at the exit": """
        - step: s
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ event.name == 'step.exit' or event.name == 'call.done' }}"
              then: {next: a}
            - when: "{{ event.name == 'call.done' and this.status == 'ok' }}"
              then: {next: b}
        """,
    "chain": """
        - step: s
          spec: {pool: big, http: {follow_redirects: false}, case_mode: exclusive, next_policy: end_step}
          args: {x: 1}
          retry: {max_attempts: 2}
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ result.ok }}"
              retry: {max_attempts: 4}
              then:
                - first:
                    tool: {kind: http, url: "{{ result.url }}", args: {y: 2}}
                    args: {x: 3, z: "{{ this.error }}"}
                    retry: {retry_when: "{{ result.again }}"}
                - set: {seen: "{{ first.status }}"}
                - set: {twice: "{{ result.n }}"}
                - second:
                    tool: {kind: python, code: "{{ result }}", args: {code: "{{ result.n }}"}}
                - next:
                    spec: {delay: 5s}
                    to: [{step: a}, b]
            - else:
                - sink: {tool: {kind: postgres, table: t}, args: {v: "{{ result }}"}}
          next: [b, c]
        """,
    "chain as a map": """
        - step: s
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ result.ok }}"
              then:
                sink: {tool: {kind: http, url: http://u}}
                set: {n: 1}
                retry: {max_attempts: 2}
                next: a
            - when: "{{ result.maybe }}"
              then: {set: {n: 2}}
        """,
    "several targets": """
        - step: s
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ result.ok }}"
              then: {next: [a, b]}
          next: [b, c]
        """,
    "priority": """
        - step: s
          spec: {branch_order: priority}
          tool: {kind: http, url: http://x}
          case:
            - {when: "{{ result.a }}", then: {next: a}, priority: 1}
            - {when: "{{ result.b }}", then: {next: b}, priority: 5}
            - {when: "{{ result.c }}", then: {next: c}}
        """,
    "loop with a case": """
        - step: s
          loop: {in: [1], iterator: item, mode: parallel}
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ event.name == 'call.done' and result | length > 1 }}"
              then:
                - send: {tool: {kind: http, url: http://u, body: "{{ result }}"}}
                - next: a
        """,
    "case without a tool": """
        - step: s
          case: [{when: '{{ workload.x }}', then: {next: a}}, {else: {next: b}}]
        """,
    "names that are taken": """
        - step: s
          tool: {kind: http, url: http://x}
          case:
            - when: "{{ result }}"
              then: {set: {n: 1}, next: call}
        - step: s_case_0
          tool: {kind: http, url: http://x}
          sink: {tool: {kind: postgres, table: t}}
          next: sink
        - step: call
          tool: {kind: http, url: http://x}
          next: s_case_0
        - step: sink
          tool: {kind: http, url: http://x}
        """,
    "names with dashes": """
        - step: s-1.x
          tool: [{name: do-it, kind: http, url: http://u}]
          vars: {n: "{{ result.n }}"}
          sink: {tool: {kind: http, url: http://u}}
          case:
            - {when: "{{ result.a }}", then: {next: a}}
        """,
    "postgres without auth": """
        - step: s
          tool: {kind: postgres, query: select 1}
          next: a
        """,
    "postgres with a dsn": """
        - step: s
          tool: {kind: postgres, auth: 'postgresql://u@h/db', query: select 1}
          next: a
        """,
    "auth with dashes": """
        - step: s
          tool: {kind: postgres, auth: my-db, query: select 1}
          next: a
        """,
    "postgres inside an iterator": """
        - step: s
          tool:
            kind: iterator
            in: [1]
            iterator: x
            tool: [{kind: postgres, query: "select {{ x }}"}, {kind: http, url: http://u, retry: {max_attempts: 2}}]
          next: a
        """,
    "an anchor whose node changes": """
        - step: s
          args: {x: 1}
          tool: &call
            kind: http
            url: http://u
            headers: &headers {a: "{{ vars.a }}"}
          next: t
        - step: t
          args: {y: 2}
          tool: *call
          vars: {a: 1}
          next: u
        - step: u
          tool: {kind: http, url: http://v, headers: *headers}
        """,
    "a merge key whose map changes": """
        - step: s
          tool: &call
            kind: http
            url: http://u
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
        """
            - step: s
              tool: {kind: workbook, name: get}
              next: a
            """,
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
                tool: {kind: http, url: http://u}
                sink: {tool: {kind: postgres, table: t}}
            """,
    ),
    "workbook map": (
        """
            - step: s
              tool: {kind: workbook, name: get}
              retry: {max_attempts: 2}
            """,
        """
            workbook:
              tasks:
                get: {kind: postgres, query: select 1}
            """,
    ),
    "keychain that is there": (
        """
            - step: s
              tool: {kind: http, url: http://u, auth: api}
              next: t
            - step: t
              tool: {kind: postgres, query: select 1}
            """,
        """
            keychain:
              - {name: api, kind: bearer}  # ours
            """,
    ),
    "credential of the executor": (
        """
            - step: s
              tool: {kind: postgres, query: select 1}
              next: a
            """,
        """
            executor: {spec: {postgres: {auth: 'host=db user=me'}}}
            """,
    ),
    "workload is left alone": (
        """
            - step: s
              tool: {kind: noop}
              next: a
            """,
        """
            workload: {vars: 1, x: '{{ vars }}', d: 2024-01-01, n: 0o17, e: ~, f: 1.50}
            """,
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
    layout, result, offset = YamlLayout(text), [], 0
    for number, line in enumerate(text.split("\n")):
        free = not layout.in_scalar(offset) or line.startswith(("apiVersion", "kind", "metadata", "workflow"))
        if free and line.strip():
            margin = " " * (len(line) - len(line.lstrip(" ")))
            result += [f"{margin}# above {number}", f"{line}  # beside {number}"]
        else:
            result.append(line)
        offset += len(line) + 1
    return "\n".join(result)


@pytest.mark.parametrize("name", STEPS)
def test_comments_survive_on_every_line(name: str) -> None:
    text = commented(playbook(STEPS[name]))
    assert len(comments(text)) > 15
    migrated(text)


@pytest.mark.parametrize("before", sorted(GOLDEN.glob("*.before.yaml")), ids=lambda path: path.name)
def test_golden(before: Path) -> None:
    after = before.with_name(before.name.replace(".before.", ".after."))
    assert migrated(before.read_text()) == after.read_text()


def test_a_canonical_playbook_comes_back_byte_for_byte() -> None:
    text = f"\ufeff---\r\n{HEAD}workflow:   # odd   layout\r\n-   step:   a\r\n    tool: {{kind:   noop}}"
    migration = migrate("p.yaml", text.encode(), KINDS)
    assert (migration.text, migration.changed, migration.failed) == (text, False, False)


def test_an_invalid_playbook_is_not_rewritten() -> None:
    text = playbook("- step: s\n  tool: {kind: nope}\n  next: a\n")
    migration = migrate("p.yaml", text, KINDS)
    assert migration.failed
    assert migration.text == text
    assert [problem.code for problem in migration.problems if problem.severity == "error"] == ["NTL202"]
    assert migrate("p.yaml", b"\xff", KINDS).failed


def test_what_does_not_change_stays_as_it_was_written() -> None:
    text = playbook(
        """
        - step:   s   # odd
          desc:  >
              folded
              text
          tool: {  kind:   http, url: 'http://u',
                   body: [1,2,   3] }
          next: a
        -   step: t
            tool:
                  kind: python
                  code: |2
                     # indented
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
        "  - step:   s   # odd\n    desc:  >\n        folded\n        text\n    tool: {  kind:   http, url: 'http://u',\n",
        "    tool:\n          kind: python\n          code: |2\n             # indented\n          libs: &l [ os ]\n",
        "  - step: u\n    tool: {kind: python, code: x, libs: *l}\n",
    ):
        assert part in after


def test_anchors_stay_where_nothing_in_them_changed() -> None:
    text = playbook(
        """
        - step: s
          tool: &call
            kind: http
            url: http://u
            params: &params {a: 1}
          next: t
        - step: t
          tool:
            <<: *call
            method: POST
          next: u
        - step: u
          tool: {kind: http, url: http://v, params: *params}
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
    "inclusive": (
        """
            - step: s
              spec: {case_mode: inclusive}
              tool: {kind: http, url: http://x}
              case: [{when: true, then: {next: a}}]
            """,
        "case_mode",
    ),
    "on_event": (
        """
            - step: s
              spec: {eval_mode: on_event}
              case: [{when: true, then: {next: a}}]
            """,
        "eval_mode",
    ),
    "defer": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: {next: {to: [a], policy: defer}}
            """,
        "policy",
    ),
    "poll": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: [{x: {tool: {kind: http, url: http://x}, poll: {until: '{{ result }}'}}}]
            """,
        "poll",
    ),
    "computed target": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: {next: [{step: '{{ result }}'}]}
            """,
        "step: '{{ result",
    ),
    "computed name": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: {next: '{{ result }}'}
            """,
        "next",
    ),
    "computed item": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: {next: ['{{ result }}']}
            """,
        "'{{ result",
    ),
    "chain scope": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  retry: {scope: chain}
                  then: [{x: {tool: {kind: http, url: http://x}}}]
            """,
        "scope",
    ),
    "next before the end": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: [{next: a}, {x: {tool: {kind: http, url: http://x}}}]
            """,
        "next",
    ),
    "loop and vars": (
        """
            - step: s
              loop: {in: [1], iterator: i}
              tool: {kind: http, url: http://x}
              vars: {x: 1}
            """,
        "vars",
    ),
    "loop and sink": (
        """
            - step: s
              loop: {in: [1], iterator: i}
              tool: {kind: http, url: http://x}
              sink: {tool: {kind: http, url: http://x}}
            """,
        "sink",
    ),
    "this.meta": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: '{{ this.meta.x }}'
                  then: {next: a}
            """,
        "when",
    ),
    "other events": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: "{{ event.name in ['call.done', 'other'] }}"
                  then: {next: a}
            """,
        "when",
    ),
    "event in a chain": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then: {set: {n: '{{ event.name }}'}}
            """,
        "n: '{{ event",
    ),
    "item in a chain": (
        """
            - step: s
              loop: {in: [1], iterator: item}
              args: {x: '{{ item }}'}
              tool: {kind: noop}
              case:
                - when: true
                  then: [{send: {tool: {kind: http, url: "{{ item | default('http://x') }}"}}}]
            """,
        "url",
    ),
    "args in a condition": (
        """
            - step: s
              args: {x: 1}
              tool: {kind: http, url: http://x}
              case:
                - when: '{{ x == 1 }}'
                  then: {next: a}
            """,
        "when",
    ),
    "a task of the chain in its next": (
        """
            - step: s
              tool: {kind: http, url: http://x}
              case:
                - when: true
                  then:
                    - send: {tool: {kind: http, url: http://x}}
                    - next: [{step: a, args: {id: '{{ send.result }}'}}]
            """,
        "id: '{{ send",
    ),
    "unknown credential": (
        """
            - step: s
              tool: {kind: http, url: http://u, auth: token}
              next: a
            """,
        "auth",
    ),
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_what_has_no_spelling_is_listed_with_its_place(name: str) -> None:
    steps, mark = LEFTOVERS[name]
    text = playbook(steps)
    loaded = load("p.yaml", text, KINDS)
    assert loaded.playbook is not None, loaded.problems
    migration = migrate("p.yaml", text, KINDS)
    assert (migration.text, migration.changed) == (text, False)
    places = {(problem.line, problem.column) for problem in migration.leftovers}
    lines = text.split("\n")
    assert any(lines[line - 1][column - 1 :].startswith(mark) for line, column in places), migration.leftovers
    for problem in migration.leftovers:
        assert (problem.code, problem.severity) == ("NTL601", "warning")
        assert "has no canonical form" in problem.message
        assert problem.hint
        assert problem.source == lines[problem.line - 1]


@pytest.mark.parametrize(
    "condition",
    [
        "event.name != 'call.error'",
        "event.name != 'call.done'",
        "event.name != 'step.exit' and result == 5",
        "'call.done' == event.name",
        "'call.error' != event.name",
        "event.name in ['call.done', 'call.error']",
        "event.name not in ['call.error', 'step.exit']",
        "event.name in ['step.exit', \"call.done\"] and workload.zero == 1",
        "event.name != 'call.done' and this.status == 'error'",
        "event.name != 'call.done' or workload.zero == 1",
        "not (event.name != 'call.error')",
        "event.name != 'task.done'",
    ],
)
@pytest.mark.parametrize("zero", [0, 1])
def test_a_condition_on_events_leads_to_the_same_step_when_it_is_rewritten(condition: str, zero: int) -> None:
    """The call succeeds, or fails by a division by zero."""
    steps = f"""
        - step: start
          tool: {{kind: noop, result: "{{{{ (5 / workload.zero) | int }}}}"}}
          case:
            - when: {{{{ {condition} }}}}
              then: {{next: a}}
            - when: "{{{{ event.name == 'step.exit' }}}}"
              then: {{next: b}}
        """.replace("when: {{", "when: >-\n                {{")
    text = playbook(steps, root="workload: {zero: 1}\n", ends="a b")
    ends = [run_playbook(version, {"zero": zero}) for version in (text, migrated(text))]
    reached = [(end.status, "a" in end.steps, "b" in end.steps) for end in ends]
    assert reached[0] == reached[1]


@pytest.mark.parametrize(
    ("condition", "construct"),
    [
        ("event.name != 'loop.done'", "a condition on the event 'loop.done'"),
        ("event.name in ['call.done', 'other']", "a condition on the event 'other'"),
        ("event.name != workload.x", "`event.name` in a condition"),
        ("event.data.result == 5", "`event.data.result` in a condition"),
    ],
)
def test_a_condition_on_events_that_arcs_do_not_know_is_named(condition: str, construct: str) -> None:
    steps = f"""
        - step: start
          tool: {{kind: noop}}
          case: [{{when: "{{{{ {condition} }}}}", then: {{next: a}}}}]
        """
    (leftover,) = migrate("p.yaml", playbook(steps, root="workload: {x: 1}\n"), KINDS).leftovers
    assert leftover.message == f"{construct} has no canonical form (step 'start')"


def test_all_leftovers_of_all_steps_are_listed() -> None:
    text = playbook(
        """
        - step: s
          spec: {case_mode: inclusive, eval_mode: on_event}
          tool: {kind: http, url: http://u}
          case:
            - when: true
              then:
                - x: {tool: {kind: http, url: http://u}, poll: {until: true}}
          next: t
        - step: t
          loop: {in: [1], iterator: i}
          tool: {kind: http, url: http://u}
          vars: {x: 1}
          sink: {tool: {kind: http, url: http://u}}
        """
    )
    result = [problem.message.split("`")[1] for problem in migrate("p.yaml", text, KINDS).leftovers]
    assert result == ["case_mode: inclusive", "eval_mode: on_event", "poll", "vars", "sink"]


def test_a_sink_behind_chains_stays_with_its_step() -> None:
    text = playbook(
        """\
        - step: s
          tool: {kind: noop}
          sink: {tool: {kind: http, url: http://u}}
          case: [{when: "{{ true }}", then: {set: {n: 1}, next: a}}]
        """
    )
    result = [problem.message.split("`")[1] for problem in migrate("p.yaml", text, KINDS).leftovers]
    assert result == ["sink"]


def test_vars_that_read_the_event_stay_with_the_step() -> None:
    text = playbook("- step: s\n  tool: {kind: noop}\n  vars: {n: '{{ event.name }}'}\n  next: a\n")
    step = load("p.yaml", text, KINDS).require().step("s")
    assert step.after_call is not None
    assert step.after_call.vars is not None
    assert step.tasks[0].policy is None
    assert migrate("p.yaml", text, KINDS).leftovers


# -- the command ----------------------------------------------------------------------------------------------------


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(verb.migrate_command, args, catch_exceptions=False)
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


@pytest.mark.parametrize(
    "text", [playbook(LEFTOVERS["poll"][0]), "workflow: [", playbook("- step: s\n  tool: {kind: x}\n")]
)
def test_leftovers_and_errors_exit_with_3_and_write_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    code, out, err = run(str(path), "--write")
    assert (code, out) == (3, "")
    assert f"{path}:" in err
    assert path.read_text() == text


# -- any combination ------------------------------------------------------------------------------------------------

EXPRESSIONS = st.sampled_from(
    [
        "result.id",
        "response.status_code == 200",
        "vars.x",
        "this.error",
        "workload.n > 1",
        "result | length",
        "event.name",
        "item",
    ]
)
GUARDS = st.one_of(
    st.booleans(),
    EXPRESSIONS.map(lambda text: f"{{{{ {text} }}}}"),
    st.sampled_from(["call.done", "call.error", "step.exit"]).flatmap(
        lambda event: EXPRESSIONS.map(lambda text: f"{{{{ event.name == '{event}' and {text} }}}}")
    ),
)
VALUES = st.one_of(
    st.integers(-3, 3), st.just("a: b # c"), st.just("l1\nl2\n"), EXPRESSIONS.map(lambda text: f"{{{{ {text} }}}}")
)
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
        "args": st.one_of(
            st.dictionaries(NAMES, VALUES, max_size=2), st.lists(st.dictionaries(NAMES, VALUES), max_size=2)
        ),
        "when": GUARDS,
        "retry": RETRIES,
    },
)


def targets(names: list[str]) -> st.SearchStrategy[object]:
    name = st.sampled_from(names)
    target = st.one_of(
        name, st.fixed_dictionaries({"step": name}, optional={"args": st.dictionaries(NAMES, VALUES, max_size=2)})
    )
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
    sets = st.lists(
        st.dictionaries(NAMES, VALUES, min_size=1, max_size=2).map(lambda found: {"set": found}), max_size=2
    )
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
            "args": st.dictionaries(NAMES, st.integers(0, 9), min_size=1, max_size=2),
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
                optional={
                    "mode": st.sampled_from(["async", "parallel", "sequential"]),
                    "spec": st.just({"batch_size": 3}),
                },
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
        assert named <= {f"{step.name!r})" for step in loaded.playbook.steps}
    else:
        migrated(text)
