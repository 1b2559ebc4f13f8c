"""The targets of the fuzzers. A target returns for any input; an exception is a defect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2

from noetl.assist import assist
from noetl.client import http
from noetl.dsl.compile import load
from noetl.engine.events import EVENTS
from noetl.errors import NoetlError, TemplateError, Unreadable, Unstorable
from noetl.expression import Budget, Template
from noetl.expression.budget import Allowance
from noetl.keychain.keychain import StoredCredential
from noetl.printable import UNSAFE, printable
from noetl.server.app import host_name, path_params, path_pattern
from noetl.server.problems import Refused
from noetl.server.roles import ALLOWED
from noetl.shell_text import prepare_shell
from noetl.sql import prepare_sql
from noetl.sql.lexing import tokens
from noetl.sql.statements import Sql, write
from noetl.store.codec import decode, encode
from noetl.tools.registry import KINDS
from noetl.triggers.hooks import deliveries, fits, is_plausible, payload_of, signature_of
from noetl.worker import server_client, wire

Target = Callable[[bytes], None]
ROOT = Path(__file__).parents[2]
SECRET = "a-secret-of-the-hook"
NOW = 1_760_000_000.0
MARKER = "7V7"
SCOPE: dict[str, Any] = {"a": 1, "b": {"c": MARKER}, "l": [1, 2, 3], "s": MARKER, "n": None, "v": MARKER}
EVENT_NAMES = sorted(EVENTS)
ROUTES = {path: path_pattern(path) for _, path in ALLOWED}
SECONDS = 0.05  # CPU time of one template


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def reader(data: bytes) -> None:
    """A text is a playbook or has errors, each with a place inside it."""
    loaded = load("a.yaml", data, KINDS)
    assert (loaded.playbook is None) == any(problem.severity == "error" for problem in loaded.problems)
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    for problem in loaded.problems:
        assert 1 <= problem.line <= len(lines), problem
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem


def assistant(data: bytes) -> None:
    """Every position of a text has an answer."""
    text = data.decode("utf-8", "replace")
    assist(text, text.count("\n", 0, len(text) // 2) + 1, len(data) % 40 + 1, KINDS)


def template(data: bytes) -> None:
    """A template fails as one, or gives plain data."""
    try:
        value = Template(text_of(data)).evaluate(SCOPE, budget=Budget(Allowance(SECONDS)))
        json.dumps(value, allow_nan=True)
    except TemplateError as error:
        assert 0 <= error.offset <= len(error.source)  # noqa: PT017  # this is no test


def _shape(sql: Sql) -> list[Any]:
    text = write(sql, lambda value: "?")
    return [
        token.kind if token.kind in ("string", "name") else text[token.start : token.end]
        for token in tokens(text, sql.dialect)
        if not token.insignificant
    ]


def statement(data: bytes) -> None:
    """The value does not change a statement: the bytes are the statement, a zero and the value."""
    source, _, value = text_of(data).partition("\0")
    try:
        bind = prepare_sql(source)
        plain, hostile = ({**SCOPE, "v": text, "s": text} for text in ("x", value or "'"))
        if not re.search(r"raw_sql|%}|ident", source):
            assert _shape(bind(plain)) == _shape(bind(hostile))
    except TemplateError:
        return


def command(data: bytes) -> None:
    """No value is a part of the text that a shell reads."""
    source = text_of(data)
    if MARKER in source:
        return
    try:
        prepared = prepare_shell(source)(SCOPE)
    except TemplateError:
        return
    assert MARKER not in prepared.text


def event(data: bytes) -> None:
    """A stored event is read or refused; one that is read is written and read again as itself."""
    name = EVENT_NAMES[data[0] % len(EVENT_NAMES)] if data else EVENT_NAMES[0]
    try:
        first = decode(name, data[1:])
    except Unreadable:
        return
    try:
        stored = encode(first)
    except Unstorable:
        return
    assert encode(decode(name, stored)) == stored


def report(data: bytes) -> None:
    """The report of a worker is read or refused."""
    try:
        received = wire.report_of(wire.decode_as(wire.ReportRequest, data))
        for fact in received.facts:
            list(wire.references_in(fact))
    except (wire.BadMessage, NoetlError):
        return


def response(data: bytes) -> None:
    """The response of a proxy instead of a server is an error of noetl."""
    for kind in (wire.HeartbeatReply, StoredCredential, list[wire.Verdicts]):
        with suppress(wire.BadMessage):
            wire.decode_as(kind, data)
    with suppress(wire.BadMessage):
        wire.decode_works(data)
    answer = httpx2.Response(502, content=data, request=httpx2.Request("GET", "http://127.0.0.1/"))
    for error_of in (server_client.rejection_of, http.error_of):
        assert isinstance(error_of(answer), NoetlError)


def signature(data: bytes) -> None:
    """Only the signature of time and body under the secret is accepted: the bytes are both headers and the body."""
    time, _, rest = data.partition(b"\n")
    header, _, body = rest.partition(b"\n")
    sent, signed = time.decode("latin-1"), header.decode("latin-1")
    expected = signature_of(SECRET, sent, body)
    assert fits(expected, signed) == (signed.strip().lower() == f"sha256={expected.hexdigest()}")
    is_plausible(sent, signed, NOW)
    assert len(deliveries(signed, sent, body)) <= 2
    try:
        assert isinstance(payload_of(body), dict)
    except ValueError:  # it is no JSON
        return


def target(data: bytes) -> None:
    """The path of a request names one thing: a part of it holds no slash, no dots and nothing invisible."""
    sent = data.decode("latin-1")
    for path, pattern in ROUTES.items():
        match = pattern.fullmatch(sent)
        if match is None:
            continue
        assert sent.startswith(path.partition("{")[0])
        try:
            params = path_params(match)
        except Refused:
            continue
        for name, value in params.items():
            for segment in value.split("/"):
                assert segment.isprintable()
                assert segment not in ("", ".", "..")
            assert unquote(match[name]) == value


def host(data: bytes) -> None:
    """A host header is a name or an address."""
    name = host_name(data.decode("latin-1"))
    assert name is None or re.fullmatch(r"[0-9a-z_.:-]+", name)


def terminal(data: bytes) -> None:
    """Untrusted text commands no terminal."""
    assert not UNSAFE.search(printable(text_of(data)))
    assert not UNSAFE.search(printable(text_of(data), lines=True).replace("\n", ""))


TARGETS: dict[str, Target] = {
    function.__name__: function
    for function in (
        reader,
        assistant,
        template,
        statement,
        command,
        event,
        report,
        response,
        signature,
        target,
        host,
        terminal,
    )
}

JSON = '{ } [ ] : , " null true 1e999 -1 9223372036854775808 \\ud800 \udcff $ref $$ref'
WORDS = {
    "reader": "step: tool: kind: noop next: arcs: when: {{ }} {% %} & * << : - [ ] { } | > ' \" # \t \n loop: policy:",
    "template": "{{ }} {% %} {# #} for in if else endfor endif set a b.c l s n | ~ ** // 'x' [0] (1) format map",
    "statement": "SELECT FROM {{ v }} '{{ v }}' \"{{ v }}\" $$ $a$ -- /* */ E' ; ( ) IN | ident | raw_sql \0 \\ '",
    "command": "echo {{ v }} '{{ v }}' \"{{ v }}\" $( ) ` $(( )) <<E \nE\n ; && | > >& eval sh -c # \\ ${ } [ ]",
    "event": f"{JSON} run_id result error",
    "report": f'{JSON} execution_id fence facts first claim blobs lines step.paused task.done ""',
    "response": f"{JSON} detail title held works",
    "signature": '1760000000 \n sha256= a 0 { } [ ] " \x00 \xff',
    "target": "/ // . .. %2e %2f %00 %ff api v1 executions playbooks hooks worker tokens ; ? # \\ livez",
    "host": "localhost 127.0.0.1 [::1] : . @ % 80 evil.example [ ]",
    "terminal": "\x1b [ ] 31m \x07 \x9b \u202e \r \x08 \n",
}
"""Words that mean something to a target."""


def words_of(name: str) -> list[bytes]:
    text = WORDS.get("reader" if name == "assistant" else name, "")
    return [word.encode("utf-8", "surrogateescape") for word in text.split(" ") if word]


def seeds_of(name: str) -> Iterator[bytes]:
    """Inputs to begin with: sound ones, and those that were defects."""
    if name in ("reader", "assistant"):
        for file in sorted([*ROOT.glob("tests/checks/*.good.yaml"), *ROOT.glob("examples/*.yaml")]):
            yield file.read_bytes()
    elif name == "event":
        for number, kind in enumerate(EVENT_NAMES):
            fields = dict.fromkeys(EVENTS[kind].__struct_fields__[:4], "a")
            yield bytes([number]) + json.dumps(fields).encode()
    elif name == "report":
        yield b'{"execution_id": "a", "fence": 1, "facts": [["task.done", {}]], "first": 0, "blobs": [["k", "YQ=="]]}'
    elif name == "response":
        yield b'{"title": "Bad Gateway", "detail": "a", "held": [true], "works": [{}]}'
        yield b'[{"held": true, "works": []}]'
    elif name == "signature":
        yield b"1760000000\nsha256=" + signature_of(SECRET, "1760000000", b"{}").hexdigest().encode() + b"\n{}"
    elif name == "target":
        yield from (re.sub(r"\{\w+\}", "a", path).encode() for _, path in ALLOWED)
    yield from words_of(name)
    yield from (file.read_bytes() for file in crashes_of(name))


CRASHES = Path(__file__).parent / "crashes"


def crashes_of(name: str) -> list[Path]:
    return sorted(CRASHES.glob(f"{name}-*"))
