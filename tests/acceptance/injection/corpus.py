"""Values that would do harm if any part of a playbook took them for more than data.

MARKER stands for a file that must never come to be.
"""

from __future__ import annotations

from tests.servers.hostile import HOSTILE

SQL = [
    "'; COPY (SELECT 1) TO PROGRAM 'touch MARKER'; --",
    "'; COPY (SELECT 1) TO 'MARKER'; --",
    "1; TRUNCATE canary",
    "x' AND 1 = CAST((SELECT max(id) FROM canary) AS text) --",
    "'||(DELETE FROM canary)||'",
    "admin'--",
    "admin'#",
    "') OR ('1'='1",
    "1 day'; DROP TABLE canary; --",
    "1 day",
    "%' OR '1' LIKE '%",
    "_%\\",
    "\\x27; DROP TABLE canary",
    "$canary$; DROP TABLE canary; $canary$",
    "$NOETL$'; DROP TABLE canary; --",
    "'; SET search_path = public; --",
    "\u2032\u2033\u00b4\u2018'\u2019",
    "a\u00a0OR\u00a01=1",
    "\ufeff'",
    "\u202e'; --",
    "{'a': 'b'}",
    "[1, 2]); DROP TABLE canary; --",
    "%s%s%n",
    ":1; DROP TABLE canary",
    "@@version",
]
SHELL = [
    "; touch MARKER",
    "; touch MARKER #",
    "| touch MARKER",
    "|| touch MARKER",
    "& touch MARKER &",
    "&& touch MARKER",
    "\ntouch MARKER\n",
    "$(touch MARKER)",
    "`touch MARKER`",
    "'; touch MARKER; '",
    '"; touch MARKER; "',
    '"$(touch MARKER)"',
    "'\"$(touch MARKER)\"'",
    "\\'; touch MARKER; \\'",
    "> MARKER",
    "<(touch MARKER)",
    "${x:=$(touch MARKER)}",
    "$((0$(touch MARKER)))",
    "EOF\ntouch MARKER\nEOF",
    "$IFS",
    "${HOME}",
    "~",
    "*",
    "?",
    "[a-z]*",
    "{a,b}",
    "!!",
    "-rf",
    "--help",
    "\\\n",
    "a\\",
    "NOETL_1=x",
    "()  { :; }; touch MARKER",
]
TEMPLATES = [
    "{{ 7*7 }}",
    "{{7*'7'}}",
    "{% for i in range(9) %}x{% endfor %}",
    "{# gone #}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ workload }}",
    "{{ keychain.shop.token }}",
    "{{ undefined.name }}",
    "{{",
    "}}",
    "{% raw %}{{ 7*7 }}{% endraw %}",
    "#{7*7}",
    "${7*7}",
    "<%= 7*7 %>",
]
OTHER = [
    "__import__('os').system('touch MARKER')",
    "exec('import os')",
    "../../../../etc/passwd",
    "<script>alert(1)</script>",
    '{"$ref": {"store": "db", "key": "x"}}',
    '{"$append": 1}',
    "!!python/object/apply:os.system ['touch MARKER']",
    "&anchor *anchor",
    "007",
    "1e400",
    "true",
    "null",
    "",
    " ",
    "\x07\x08\x0b\x0c\x1b]0;title\x07",
    "\u2028\u2029",
    "z" * 100_000,
]
HEADERS = [
    "x\r\nInjected: yes",
    "x\nInjected: yes",
    "x\rInjected: yes",
    "x\r\n\r\nGET /injected HTTP/1.1\r\nHost: x\r\n\r\n",
    "x\0Injected: yes",
]
"""What must not become a header of its own."""
NULS = ["\0", "a\0b", "\0'; DROP TABLE canary; --", "$(touch MARKER)\0"]


def corpus(marker: str) -> list[str]:
    """All values that any place can hold, each once."""
    every = [*HOSTILE, *SQL, *SHELL, *TEMPLATES, *OTHER, *HEADERS]
    return [text.replace("MARKER", marker) for text in dict.fromkeys(every) if "\0" not in text]


def with_nul(marker: str) -> list[str]:
    """Values that many places can't hold: they have to say so."""
    return [text.replace("MARKER", marker) for text in dict.fromkeys([*HOSTILE, *NULS]) if "\0" in text]
