"""Escapes control characters in untrusted text for a terminal: task output, API responses, playbook names.

A terminal interprets control characters. Escape sequences set its title, write its clipboard or clear the screen, a
carriage return or a backspace overwrites earlier text, and bidirectional controls reorder text. So every such character
is printed as an escape, such as `\\x1b` or `\\u202e`.
"""

from __future__ import annotations

import re

COMMANDS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""DEL, C1 controls, bidirectional controls, line separators, and lone surrogates, which have no encoding."""
UNSAFE = re.compile(f"[\x00-\x08\x0a-\x1f{COMMANDS}]")
UNSAFE_BUT_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{COMMANDS}]")
IN_JSON = re.compile(f"[{COMMANDS}]")


def printable(text: str, *, lines: bool = False) -> str:
    """The text with control characters escaped: on one line, or with its line breaks if `lines` is set."""
    if text.isprintable():
        return text
    return (UNSAFE_BUT_LINES if lines else UNSAFE).sub(_escape, text)


def printable_json(text: str) -> str:
    """Equivalent JSON with control characters escaped: encoders leave everything above 0x7e as it is."""
    if text.isascii() and "\x7f" not in text:
        return text
    return IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


PASSWORDS = re.compile(
    r"(://[^\s:@/'\"]*:|\bpassword\s*=\s*|(?<![^\s'\"/])[\w.+-]+:(?!//))('[^']*'|(?!\d{1,5}/)[^\s'\"{}?]+(?=@)|(?<==)[^\s'\"&{}]+)"
)
"""In connection strings: `postgresql://ada:PASSWORD@host`, `host=... password=PASSWORD`, `ada:PASSWORD@host`."""

_SECRET = (
    r"auth|cookie|token|secret|api.?key|passw|passphrase|pwd|credential|session|signature|(?<![a-z])sig(?![a-z])"
    r"|bearer|private.?key|access.?key(?!.?id)"
)
SECRET_NAME = re.compile(f"(?i){_SECRET}")
"""In names of headers and query parameters whose values are secret."""
_VALUE = r"(?:\{\{[^{}]*\}\}|[^\s'\"&#{}])+"
_WORD = r"(?:\{\{[^{}]*\}\}|[^\s'\";])+"
TOKENS = re.compile(
    rf"(?i)(\bhttps?://|\bhooks\.slack\.com/services/|\bdiscord\.com/api/webhooks/)"
    rf"((?<=://)[^\s:/@'\"?#{{}}]+(?=@)|(?<=s/){_VALUE})"
    rf"|([?&#;](?=[\w.%~-]*(?:{_SECRET})|key=)[\w.%~-]+=|\bauthorization['\"]?\s*[:=]\s*['\"]?[a-z]+\s+)({_VALUE})"
)
"""In URLs and headers: `https://TOKEN@host`, `?api_key=TOKEN`, webhooks of chats, `Authorization: Bearer TOKEN`."""
_NOT_SECRET = (
    r"(?:(?:\w*_)?auth|author(?!iz)\w*|credentials?|max_tokens|\w*_(?:type|ur[il]|endpoint|file|name))(?![\w-])"
)
_KEY = rf"(?<![\w.:/?&#;-])(?!{_NOT_SECRET})(?=[\w-]*(?:{_SECRET}))[\w-]+\\?['\"]?\]?"
_SCHEME = r"(?:(?:basic|bearer|digest|token)\s+)?+"
_PLAIN = r"(?![|>&*\[]|(?:str|int|float|bool|bytes|dict|list|Any|None|null|true|false)\b)"
_OPTION = rf"(?<![\w-])--(?=[\w-]*(?:{_SECRET}))[\w-]+['\"]?[ =,]+['\"]?"
_VARIABLE = rf"(?:\bexport |^[\s-]*|[;&] *)(?=\w*(?:{_SECRET}))\w+=|(?<!\w)(?=\w*(?:{_SECRET}))(?-i:[A-Z]\w*)=(?!=)"
FIELDS = (
    rf"({_KEY}\s*[:=]\s*+\\?+(['\"]){_SCHEME})((?:(?!\2).)+)",
    rf"(^[\s-]*{_KEY}:\s++{_SCHEME}){_PLAIN}([^\s'\"{{].*)",
    rf"({_KEY}:(?!//)\s*+{_SCHEME}){_PLAIN}((?:\{{\{{[^{{}}]*\}}\}}|[^'\",{{}}\[\]\\])+)",
    rf"({_OPTION}|{_VARIABLE})({_WORD})",
    r"(\b(?:password|secret|identified by) +(['\"]))((?:(?!\2).)+)",
    rf"(\b(?:sshpass|login|mysql\w*)\b[^|;&]{{0,80}} -p *)({_WORD})",
    rf"(?<!\S)((?:-u|--user)[ =]?['\"]?[^\s:'\"]+:)(?!\d+(?!\S))({_WORD})",
)
"""Keys, options and variables with secret names, and what follows: `{api_key: TOKEN}`, `-H 'X-Api-Key: TOKEN'`,
`PGPASSWORD=TOKEN`, `WITH PASSWORD 'TOKEN'`, `-u ada:TOKEN`."""
RAW_PASSWORD = "write special characters of the password as %XX, such as %40 for @, %2F for /, %3F for ? and %23 for #"
_AUTHORITY = re.compile("([^@/?#]*)(@?)([^/?#]*)")
_TEMPLATE = re.compile(r"(\{\{[^{}]*\}\})")


def without_passwords(source: str) -> str:
    """The line of a playbook with the passwords and tokens in its URLs, connection strings, headers and fields masked;
    columns do not shift."""
    source = PASSWORDS.sub(lambda match: match[1] + "*" * len(match[2]), source)
    source = TOKENS.sub(lambda match: (match[1] or match[3]) + _masked(match[2] or match[4]), source)
    for fields in FIELDS:
        source = re.sub(fields, lambda match: match[1] + _masked(match[match.lastindex or 0]), source, flags=re.I)
    return source


def has_raw_password(url: str) -> bool:
    """Whether the password in the URL of a database has one of `@/?#` that is not written as %XX. libpq would take what
    follows for the name of the host, and print it."""
    rest = url.partition("://")[2]
    authority = _AUTHORITY.match(rest)
    assert authority is not None
    first, at, host = authority.groups()
    if at:
        return "@" in host
    _, colon, port = first.rpartition("]")[2].rpartition(":")
    return "@" in rest and bool(colon) and not port.isdigit()


def _masked(value: str) -> str:
    """The value with asterisks for all characters outside of templates."""
    return "".join(part if number % 2 else "*" * len(part) for number, part in enumerate(_TEMPLATE.split(value)))


def is_printable(text: str) -> bool:
    """Whether a text of several lines needs no escapes."""
    return UNSAFE_BUT_LINES.search(text) is None


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
