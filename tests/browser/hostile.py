"""A run whose every text tries to break the page."""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.modes.stage import Client, until

MARKUP = "</script></style><script>alert('script')</script><img src=x onerror=\"alert('image')\"><b>bold</b>"
LINK = "javascript:alert('link') http://example.invalid/<img> data:text/html,<script>alert('data')</script>"
BIDI = "\u202egnirts desrever\u202c \u2066isolate\u2069 \u200b\ufeff e\u0301\u0301\u0301\u0301"
ANSI = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://example.invalid\x07link\x1b]8;;\x07 "
    "\x1b[2J\x1b[1A\x07\x08\x1b[38;2;9;9;9mgrey\x1b[m"
)
QUOTES = "'\"`${7*7}{{7*7}}<%= 7*7 %>\\ & &amp; &#60; %3Cb%3E __proto__ constructor"
TEXTS = {
    "markup": MARKUP,
    "link": LINK,
    "bidi": BIDI,
    "ansi": ANSI,
    "quotes": QUOTES,
    MARKUP: MARKUP,
    "__proto__": BIDI,
}
LONG_LINE = 1_000_000
DEPTH = 60

CODE = f"""\
import json, sys
for text in texts.values():
    print(text)
    print(text, file=sys.stderr)
print("x" * {LONG_LINE})
print("<b>" * 1000)
deep = "bottom"
for _ in range({DEPTH}):
    deep = {{"</b><i>": [deep]}}
result = {{"texts": texts, "deep": deep, "long": "word " * 4000, "wide": {{f"key {{n}} <b>": n for n in range(500)}}}}
"""
FAILS = f"raise ValueError(texts['markup'] + texts['bidi'] + texts['ansi'] + 'y' * 3000)\n# {MARKUP}\n"


def playbook() -> str:
    """JSON is YAML."""
    tool = {"kind": "python", "args": {"texts": "{{ workload.texts }}"}}
    ignored = {"policy": {"rules": [{"else": {"then": {"do": "continue", "set_ctx": {"outcome": "{{ outcome }}"}}}}]}}
    guard = {
        "step": "ask",
        "when": f"{{{{ workload.texts.markup != {json.dumps(QUOTES)} }}}}",
        "args": {"texts": TEXTS},
    }
    loop = {"in": "{{ workload.texts.values() | list }}", "iterator": "text", "spec": {"on_error": "continue"}}
    wait = {"kind": "wait", "signal": "{{ workload.texts.markup }}"}
    return json.dumps(
        {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": f"{MARKUP} {BIDI}", "path": "hostile/run", "description": MARKUP + ANSI + BIDI},
            "workload": {"texts": TEXTS},
            "workflow": [
                {"step": "start", "desc": MARKUP, "tool": [{"say": tool | {"code": CODE}}], "next": {"arcs": [guard]}},
                {"step": "ask", "desc": BIDI, "tool": [{"wait": wait}], "next": {"arcs": [{"step": "each"}]}},
                {
                    "step": "each",
                    "loop": loop,
                    "tool": [{"fail": tool | {"code": FAILS}}],
                    "next": {"arcs": [{"step": "end"}]},
                },
                {
                    "step": "end",
                    "tool": [{"first": tool | {"code": FAILS, "spec": ignored}}, {"last": tool | {"code": FAILS}}],
                },
            ],
        }
    )


def start_hostile_run(client: Client) -> str:
    """A failed run with hostile names, args, results, errors, output and signals."""
    execution = client.start({"playbook": playbook(), "payload": {"note": MARKUP}})
    until(lambda: client.show(execution)["waits"])
    payload: dict[str, Any] = {"ship": MARKUP, **TEXTS}
    client.ask("POST", f"/executions/{execution}/signals", {"name": MARKUP, "payload": payload})
    assert client.ended(execution)["status"] == "failed"
    return execution
