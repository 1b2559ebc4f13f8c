"""The front end: how long an author waits for an answer."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from bench.measure import Figure, best_command, best_seconds
from noetl.dsl.compile import load
from noetl.expression import parse
from noetl.tools.registry import KINDS

STEPS = 50
NOETL = str(Path(sys.executable).with_name("noetl"))

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bench, path: bench/language}
workload:
  api_url: http://127.0.0.1:8080
workflow:
"""
FETCH = """\
  - step: step_{i}
    desc: Fetch orders, remember the last one
    tool:
      - fetch_{i}:
          kind: http
          url: "{{{{ workload.api_url }}}}/orders/{i}"
          params:
            since: "{{{{ ctx.seen_{i} | default(0) }}}}"
          spec:
            timeout: {{connect: 5, read: 15}}
            policy:
              rules:
                - when: "{{{{ outcome.status == 'error' and outcome.http.status in [429, 503, {i}] }}}}"
                  then: {{do: retry, attempts: 5, backoff: exponential, delay: 2.0}}
                - when: "{{{{ outcome.status == 'error' }}}}"
                  then: {{do: fail}}
                - else:
                    then: {{do: continue, set_ctx: {{seen_{i}: "{{{{ outcome.result.data.last_{i} }}}}"}}}}
    next:
      arcs:
        - step: step_{next}
          args: {{orders_{i}: "{{{{ steps.step_{i}.result.data.orders }}}}"}}
"""
KEEP = """\
  - step: step_{i}
    desc: Keep the large ones
    tool:
      - keep_{i}:
          kind: python
          args: {{orders: "{{{{ args.orders_{before} }}}}"}}
          code: |
            result = [order for order in orders if order["total"] > {i}]
    next:
      arcs:
        - step: step_{next}
          when: "{{{{ steps.step_{i}.result | length > 0 }}}}"
"""
DECIDE = """\
  - step: step_{i}
    desc: Go on, or stop here
    tool:
      - count_{i}:
          kind: noop
          result: "{{{{ steps.step_{before}.result | length }}}}"
    next:
      arcs:
        - step: step_{next}
          when: "{{{{ steps.step_{i}.result < 1000 + {i} }}}}"
"""


def playbook_text(steps: int = STEPS, first: int = 0) -> str:
    """A chain of steps that fetch with a policy, run some code, or decide: 14 lines and 4 templates a step.

    Another `first` gives a text with other names, so that nothing of it has been seen before.
    """
    parts = (FETCH, KEEP, DECIDE)
    body = "".join(parts[i % 3].format(i=i, next=i + 1, before=i - 1) for i in range(first, first + steps))
    return HEAD + body + f"  - step: step_{first + steps}\n    tool: {{kind: noop}}\n"


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

    fresh = count(start=999, step=999)

    def compile_once() -> None:
        assert load("bench.yaml", playbook_text(first=next(fresh)), KINDS).playbook is not None

    rate = STEPS / best_seconds(compile_once, 5)
    yield Figure("read, checked and compiled in-process", f"{rate:,.0f} steps/s", "at least 500", rate >= 500)
    guard = parse("{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503, 504] }}")
    scope = {"outcome": {"status": "error", "http": {"status": 503}}}
    loops = 20_000
    each = best_seconds(lambda: [guard.test(scope) for _ in range(loops)], 5) / loops
    yield Figure("one guard", f"{each * 1e6:.2f} us")
