"""Texts with a cursor, written as `█`."""

from __future__ import annotations

from noetl.assist import Assist, assist
from noetl.tools.registry import KINDS

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: shop/orders}
keychain: [{name: shop_api, kind: bearer}]
workload:
  since: 2026-11-01
  db: {host: localhost, port: 5432}
"""
STEPS = """\
workflow:
  - step: start
    desc: gets the orders
    tool:
      - fetch:
          kind: http
          url: "http://127.0.0.1/orders"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'ok' }}"
                  then: {do: continue, set_ctx: {total: 1, open_orders: 2}, set_iter: {page: 1}}
      - save: {kind: postgres, auth: shop_api, query: select 1}
    next:
      arcs:
        - {step: load-data, args: {region: north}}
  - step: load-data
    loop: {in: "{{ ctx.open_orders }}", iterator: order}
    tool: {kind: noop, result: "{{ iter.order }}"}
"""


def ask(marked: str, head: str = HEAD, steps: str = STEPS) -> Assist:
    text = head + marked + steps
    before, _, after = text.partition("█")
    line = before.count("\n") + 1
    return assist(before + after, line, len(before) - before.rfind("\n"), KINDS)


def ask_step(lines: str) -> Assist:
    """The cursor is in a third step."""
    return ask("", steps=f"{STEPS}  - step: third\n{lines}")


def labels(answer: Assist, kind: str = "") -> list[str]:
    return [completion.label for completion in answer.completions if kind in ("", completion.kind)]
