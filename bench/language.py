"""The front end: how long an author waits for an answer."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figure, best_command, best_seconds
from noetl.dsl.compile import load
from noetl.expression import parse
from noetl.expression.template import clear_cache
from noetl.tools.registry import KINDS

STEPS = 50
NOETL = str(Path(sys.executable).with_name("noetl"))

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bench, path: bench/language}
keychain:
  - {name: warehouse, kind: postgres_credential}
workload:
  api_url: http://127.0.0.1:8080
  endpoints: [{path: /a, size: 10}, {path: /b, size: 20}]
workflow:
"""
STEP = """\
  - step: step_{i}
    desc: Fetch pages, store them, decide
    spec:
      policy:
        admit:
          rules:
            - when: "{{{{ ctx.open_{i} | default(true) }}}}"
              then: {{allow: true}}
            - else: {{then: {{allow: false}}}}
    loop:
      in: "{{{{ workload.endpoints }}}}"
      iterator: endpoint_{i}
      spec: {{mode: sequential}}
    tool:
      - init_{i}:
          kind: noop
          spec:
            policy:
              rules:
                - else: {{then: {{do: continue, set_iter: {{page: 1, more: true}}}}}}
      - fetch_{i}:
          kind: http
          method: GET
          url: "{{{{ workload.api_url }}}}{{{{ iter.endpoint_{i}.path }}}}"
          params: {{page: "{{{{ iter.page }}}}", size: "{{{{ iter.endpoint_{i}.size }}}}"}}
          spec:
            timeout: {{connect: 5, read: 15}}
            policy:
              rules:
                - when: "{{{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 50{i}] }}}}"
                  then: {{do: retry, attempts: 5, backoff: exponential, delay: 2.0}}
                - when: "{{{{ outcome.status == 'error' }}}}"
                  then: {{do: fail}}
                - else:
                    then:
                      do: continue
                      set_iter: {{more: "{{{{ outcome.result.data.more_{i} | default(false) }}}}"}}
      - save_{i}:
          kind: postgres
          auth: warehouse
          command: "INSERT INTO pages_{i} (body) VALUES ({{{{ _prev.data }}}})"
      - paginate_{i}:
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{{{ iter.more == true }}}}"
                  then: {{do: jump, to: fetch_{i}, set_iter: {{page: "{{{{ (iter.page | int) + 1 }}}}"}}}}
                - else: {{then: {{do: break, set_ctx: {{open_{i}: false}}}}}}
    next:
      arcs:
        - {{step: step_{next}, when: "{{{{ event.name == 'loop.done' and event.data.failed == 0 }}}}"}}
"""


def playbook_text(steps: int = STEPS) -> str:
    """A playbook of paging steps in the manner of the specification, about 35 lines and 10 templates a step."""
    body = "".join(STEP.format(i=i, next=i + 1) for i in range(steps))
    return HEAD + body + f"  - step: step_{steps}\n    tool: {{kind: noop}}\n"


def figures() -> Iterator[Figure]:
    text = playbook_text()
    bare = best_command(sys.executable, "-c", "pass")
    yield Figure("bare Python start", f"{bare * 1000:.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.yaml"
        file.write_text(text)
        validate = best_command(NOETL, "validate", str(file))
    ratio = validate / bare
    yield Figure(f"noetl validate, {STEPS} steps", f"{validate * 1000:.1f} ms")
    yield Figure("  times bare Python start", f"{ratio:.1f}", "at most 15", ratio <= 15)
    yield Figure("noetl --help, times bare Python start", f"{best_command(NOETL, '--help') / bare:.1f}")

    def compile_once() -> None:
        clear_cache()
        assert load("bench.yaml", text, KINDS).playbook is not None

    seconds = best_seconds(compile_once, 5)
    rate = STEPS / seconds
    yield Figure("read, checked and compiled in-process", f"{rate:,.0f} steps/s", "at least 500", rate >= 500)
    guard = parse("{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503, 504] }}")
    scope = {"outcome": {"status": "error", "http": {"status": 503}}}
    loops = 20_000
    each = best_seconds(lambda: [guard.test(scope) for _ in range(loops)], 5) / loops
    yield Figure("one guard", f"{each * 1e6:.2f} us")
