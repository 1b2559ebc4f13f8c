"""Secrets are hidden in every form they can come back in, and nothing else is touched."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.servers.patience import PATIENCE_SECONDS
from tests.table import for_each

from noetl.keychain.redact import MAX_REDACTED, Redactor
from noetl.keychain.secret_forms import STRETCH
from noetl.model.outcome import Error, Outcome, failed
from noetl.reference import Reference

HARD = "p@s\"s/w\\ör d'+é%\t{"
PLAIN = "tr0ub4dor-and-3"
PEM = "-----BEGIN PRIVATE KEY-----\n" + "".join(f"{chr(65 + i) * 20}/b+c{i:039}\n" for i in range(5)) + "-----END-----"


def lower_hex(text: str) -> str:
    return "".join(c.lower() if text[i - 1 : i] == "%" or text[i - 2 : i - 1] == "%" else c for i, c in enumerate(text))


def php(text: str) -> str:
    return json.dumps(text)[1:-1].replace("/", "\\/")


def upper_json(text: str) -> str:
    """As some encoders write it: capital digits."""
    return "".join(
        c if c.isascii() else "".join(f"\\u{u:04X}" for u in units(c))
        for c in json.dumps(text, ensure_ascii=False)[1:-1]
    )


def units(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def lines(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "quote": lambda s: quote(s, safe=""),
    "quote_path": quote,
    "quote_query": lambda s: quote(s, safe="!$'()*,;:@/?~"),
    "quote_plus": quote_plus,
    "quote_lower": lambda s: lower_hex(quote(s, safe="")),
    "quote_twice": lambda s: quote(quote(s, safe=""), safe=""),
    "json": escaped,
    "form_quoted": lambda s: quote(quote_plus(s), safe=""),
    "json_quoted": lambda s: quote(escaped(s), safe=""),
    "json_quoted_plus": lambda s: quote_plus(json.dumps(s, ensure_ascii=False)[1:-1]),
    "json_quoted_twice": lambda s: quote(quote(escaped(escaped(s)), safe=""), safe=""),
    "json_unicode": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "json_capitals": upper_json,
    "json_php": php,
    "json_twice": lambda s: escaped(escaped(s)),
    "json_three_times": lambda s: escaped(escaped(escaped(s))),
    "repr": lambda s: repr(s)[1:-1],
    "ascii": lambda s: ascii(s)[1:-1],
    "repr_of_bytes": lambda s: repr(s.encode())[2:-1],
    "repr_in_json": lambda s: escaped(repr(s)[1:-1]),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64_urlsafe": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64_basic": lambda s: base64.b64encode(f"user:{s}".encode()).decode(),
    "base64_one_before": lambda s: base64.b64encode(f"x{s}yyy".encode()).decode(),
    "base64_two_before": lambda s: base64.urlsafe_b64encode(f"xx{s}y".encode()).decode(),
    "base64_of_json": lambda s: base64.b64encode(json.dumps({"a": s}).encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "hex_capitals": lambda s: s.encode().hex().upper(),
    "base64_lines": lambda s: base64.encodebytes(f"{'x' * 50}{s}{'y' * 50}".encode()).decode(),
    "base64_lines_crlf": lambda s: lines(base64.b64encode(f"{'x' * 44}{s}".encode()).decode(), 64, "\r\n"),
    "base64_lines_in_json": lambda s: escaped(base64.encodebytes(f"{'x' * 52}{s}".encode()).decode()),
    "base64_quoted": lambda s: quote(base64.b64encode(f"u:{s}".encode()).decode(), safe=""),
}


@for_each("secret", [PLAIN, HARD, "пароль-секрет", "日本語テキスト", "a🔑b🔑c🔑", "123456", "//////", "\\\\\\\\\\\\"])
@for_each("form", FORMS)
def test_every_form_is_hidden(form: str, secret: str) -> None:
    written = FORMS[form](secret)
    out = Redactor([secret]).redact(f"before {written} after")
    assert out.startswith("before ")
    assert out.endswith(" after")
    assert "***" in out
    assert not any(write(secret) in out for write in FORMS.values())
    if not form.startswith("base64"):
        assert out == "before *** after"


def test_base64_leaves_at_most_the_bits_it_shares_with_its_neighbours() -> None:
    out = Redactor([PLAIN]).redact(FORMS["base64"](PLAIN))
    assert out.rstrip("=") == "***"
    inside = Redactor([PLAIN]).redact(base64.b64encode(f"user:{PLAIN}:tail".encode()).decode())
    assert inside.startswith(base64.b64encode(b"user:").decode()[:6])
    assert "***" in inside


def test_a_secret_inside_of_base64_is_found_at_every_place() -> None:
    redactor = Redactor([PLAIN])
    for before in range(12):
        for after in range(6):
            text = base64.b64encode(b"\xfb" * before + PLAIN.encode() + b"\xfb" * after).decode()
            assert "***" in redactor.redact(text), (before, after)


@pytest.mark.parametrize("secret", [PLAIN, HARD, PEM, "123456", "-/-/-/"])
def test_base64_is_found_wherever_its_lines_end(secret: str) -> None:
    redactor = Redactor([secret])
    for before in range(80):
        whole = base64.b64encode(b"\xfb" * before + secret.encode() + b"\xfb" * 9).decode()
        hidden = redactor.redact(whole)
        for width in (60, 64, 76):
            for end in ("\n", "\r\n", "\\n", "\\\\r\\\\n"):
                out = redactor.redact(f"{lines(whole, width, end)}\n")
                assert "".join(out.replace(end, "\n").split()) == hidden, (before, width, end)


def test_lines_of_a_key_are_hidden_one_by_one() -> None:
    redactor = Redactor([PEM])
    lines = PEM.splitlines()
    assert redactor.redact(PEM) == "***"
    assert redactor.redact(f"a {lines[2]} b") == "a *** b"
    assert redactor.redact(lines[0]) is lines[0]  # says nothing
    assert not any(line in redactor.redact(repr({"key": PEM})) for line in lines[1:-1])
    assert lines[1] not in redactor.redact("\r\n".join(lines))


def test_overlapping_secrets_are_hidden_as_a_whole() -> None:
    redactor = Redactor(["foobar1", "bar1baz", "bar1"[:4] + "bazqux"])
    assert redactor.redact("xfoobar1bazquxy") == "x***y"


def test_what_holds_no_secret_is_the_same_object() -> None:
    redactor = Redactor([PLAIN, HARD, PEM])
    values: list[Any] = ["text", b"bytes", {"a": [1, 2.5, None, True, {"b": "c"}]}, [], (1, "x"), 5, None, 1e300]
    values += [msgspec.Raw(b'{"a": 1}'), Outcome(result={"a": "b"}), failed("sql", "no", code=1), "\ud800 alone"]
    values += [Reference("db", "0" * 64, 1, "sha256:" + "0" * 64)]
    for value in values:
        assert redactor.redact(value) is value


def test_only_what_changes_is_copied() -> None:
    value = {"same": [1, 2], "other": [PLAIN]}
    out = Redactor([PLAIN]).redact(value)
    assert out == {"same": [1, 2], "other": ["***"]}
    assert out["same"] is value["same"]
    assert value["other"] == [PLAIN]


def test_every_kind_of_value() -> None:
    redact = Redactor([PLAIN]).redact
    reference = Reference("db", "0" * 64, 1, "sha256:" + "0" * 64)
    assert redact({PLAIN: 1, f"a{PLAIN}": {"b": PLAIN}}) == {"***": 1, "a***": {"b": "***"}}
    assert redact([PLAIN, (PLAIN, 1), None]) == ["***", ("***", 1), None]
    assert redact(f"x{PLAIN}".encode() + b"\xff") == b"x***\xff"
    assert redact({"raw": b"\x00" + PLAIN.encode(), "ref": reference}) == {"raw": b"\x00***", "ref": reference}
    error = failed("sql", f"no {PLAIN}", extra={"pg": {"hint": PLAIN}}, dsn=[PLAIN])
    assert redact(error) == failed("sql", "no ***", extra={"pg": {"hint": "***"}}, dsn=["***"])
    assert redact(error.error) == Error("sql", "no ***", False, {"dsn": ["***"]})
    assert redact(Outcome(result=PLAIN)) == Outcome(result="***")


@pytest.mark.parametrize("secret", [PLAIN, HARD, "n" + PLAIN, "end\\ing\\", "u00e9abcd", "123456", 'q"uote"', PEM])
def test_json_that_nobody_decoded_stays_json(secret: str) -> None:
    data = {
        "a": secret,
        "b": [f"x\n{secret}", f'"{secret}"', f"\\{secret}\\"],
        secret: {"c": json.dumps({"d": secret})},
    }
    raw = msgspec.Raw(msgspec.json.encode(data))
    out = Redactor([secret]).redact(raw)
    assert isinstance(out, msgspec.Raw)
    value = msgspec.json.decode(bytes(out))
    assert value["a"] == "***"
    assert "***" in value
    assert not any(write(secret) in bytes(out).decode() for write in FORMS.values())


def test_half_an_escape_is_no_secret() -> None:
    raw = msgspec.Raw(b'{"a": "line\\ntr0ub4dor", "b": "\\u00e9e9e9"}')
    out = Redactor(["ntr0ub4dor", "00e9e9e9"]).redact(raw)
    assert msgspec.json.decode(bytes(out)) == {"a": "line\ntr0ub4dor", "b": "\u00e9e9e9"}


def test_what_cannot_be_taken_apart_is_hidden_as_a_whole() -> None:
    redact = Redactor([PLAIN, "987654"]).redact
    deep: Any = [PLAIN]
    for _ in range(5000):
        deep = [deep]
    assert redact(deep) == "***"
    error = redact(Outcome(result=deep)).error
    assert error is not None
    assert error.kind == "input"
    assert bytes(redact(msgspec.Raw(b'{"a": 987654, "b"'))) == b'"***"'


def test_numbers_that_are_secrets() -> None:
    redact = Redactor(["987654"]).redact
    assert redact({"pin": 987654, "id": 1, "on": True}) == {"pin": "***", "id": 1, "on": True}
    assert msgspec.json.decode(redact(msgspec.Raw(b'{"pin": 987654, "n": 1}'))) == {"pin": "***", "n": 1}
    assert Redactor(["secret-word"]).redact([987654]) == [987654]


@pytest.mark.parametrize("secret", ["12345", "", "12345     ", "\n" * 10])
def test_short_secrets_are_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 6 characters"):
        Redactor().add(secret)


def test_the_space_around_a_secret_is_no_part_of_it() -> None:
    assert Redactor([f"{PLAIN}\n"]).redact(f"({PLAIN})") == "(***)"


def test_a_redactor_without_secrets_does_nothing() -> None:
    value = {"a": PLAIN}
    assert Redactor().redact(value) is value


secrets = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="*"), min_size=6, max_size=60)
likely = st.text("abAB01+/=-_%&\"'\\ \n\té日🔑", min_size=6, max_size=20)
around = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)


@settings(deadline=None)
@given(secret=secrets | likely, before=around, after=around, form=st.sampled_from(sorted(FORMS)))
def test_no_form_survives(secret: str, before: str, after: str, form: str) -> None:
    assume(len(secret.strip()) >= 6)
    redactor = Redactor([secret])
    written = FORMS[form](secret)
    text = f"{before}{written}{after}"
    out = redactor.redact(text)
    assert secret not in out
    assert out != text
    if not form.startswith("base64"):
        assert written not in out
    assert redactor.redact(out) == out


@settings(deadline=None)
@given(secret=secrets | likely, before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_no_place_in_base64_survives(secret: str, before: bytes, after: bytes) -> None:
    assume(len(secret.strip()) >= 6)
    redactor = Redactor([secret])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert "***" in redactor.redact(encode(before + secret.encode() + after).decode())


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | around | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(around, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_unrelated_values_are_untouched(value: Any) -> None:
    redactor = Redactor(["an-unrelated-Secret-0815", 'and "another" één\\'])
    assert redactor.redact(value) is value


@settings(deadline=None)
@given(st.lists(secrets | likely, min_size=1, max_size=4), st.data())
def test_values_of_any_shape_lose_their_secrets(known: list[str], data: st.DataObject) -> None:
    assume(all(len(secret.strip()) >= 6 for secret in known))
    redactor = Redactor(known)
    words = st.sampled_from(known)
    leaf = words | st.tuples(around, words, around).map("".join)
    value = data.draw(
        st.recursive(leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(leaf, inner, max_size=3))
    )
    out = redactor.redact(value)
    assert not any(secret in text for text in texts(out) for secret in known)
    assert redactor.redact(out) == out


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else [value]


def test_hostile_texts_end() -> None:
    """No time is measured: a pattern that goes astray would not end within the limit of the whole run."""
    hostile = ["\\" * 40 + "x", 'é"é"é"é', "/" * 30, "a" * 40 + "b", "y" + " \n" * 10 + "z", "%%%%%%%%", "$-$-$-$-$"]
    redactor = Redactor(hostile)
    for unit in ("\\", "a", "/", "%25", "%5C", "\\u00e9\\", " \n", 'é"é', "\\\\\\n", "$", "-", "\\-", "Ly8v\n"):
        text = unit * (1_000_000 // len(unit))
        redactor.redact(text)
        redactor.redact(msgspec.Raw(msgspec.json.encode(text)))


# -- written by others ------------------------------------------------------------------------------------------------

QUOTES = "it's a \"very\" 'quoted'' secret"


@pytest.mark.parametrize("secret", [QUOTES, "p'a'sswd", 'p"a"sswd', "''''''", "O'Brien-Пароль"])
@pytest.mark.parametrize(
    "write",
    [
        lambda s: s.replace("'", "''"),
        lambda s: s.replace('"', '""'),
        lambda s: s.replace("'", "'\"'\"'"),
        lambda s: s.replace("'", "'\\''"),
        shlex.quote,
        lambda s: json.dumps(s.replace("'", "''")),
        lambda s: json.dumps(shlex.quote(s)),
    ],
    ids=["sql", "csv", "shlex", "bash", "shlex whole", "sql in json", "shlex in json"],
)
def test_doubled_and_shell_quotes_hide_nothing(secret: str, write: Callable[[str], str]) -> None:
    out = Redactor([secret]).redact(f"before {write(secret)} after")
    assert out.startswith("before ")
    assert out.endswith(" after")
    assert "***" in out
    letters = "".join(c for c in secret if c.isalnum())
    assert not letters or letters not in "".join(c for c in out if c.isalnum())


@pytest.mark.parametrize("shell", [name for name in ("dash", "bash") if shutil.which(name)])
@pytest.mark.parametrize("secret", [QUOTES, "p'a''ss'wd", "'leading-quote", "p$a`s\\s'word"])
def test_what_a_shell_prints_of_its_variables_is_hidden(shell: str, secret: str) -> None:
    printed = subprocess.run(
        [shell, "-c", "set; env; export -p; printf '%s' \"$NOETL_AUTH_X\""],
        env={"NOETL_AUTH_X": secret, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    ).stdout
    out = Redactor([secret]).redact(printed)
    assert "NOETL_AUTH_X" in out
    tail = [line for line in out.splitlines() if line.removeprefix("export ").startswith("NOETL_AUTH_X")]
    assert all("***" in line and not any(c.isalpha() for c in line.partition("=")[2]) for line in tail), tail


def test_a_secret_is_hidden_in_small_letters_too() -> None:
    out = Redactor(["Tr0ub4dor-And-3"]).redact("http://tr0ub4dor-and-3.example/ Tr0ub4dor-And-3")
    assert out == "http://***.example/ ***"


def test_a_number_is_hidden_however_it_is_printed() -> None:
    redactor = Redactor(["4815162342"])
    given = [
        4815162342,
        4815162342.0,
        "4815162342",
        "4,815,162,342",
        "4.815162342e+09",
        "4.815162342E9",
        4.815162342e25,
    ]
    out = redactor.redact({"given": given, "other": 4815162343})
    assert out["other"] == 4815162343
    assert all("***" in str(one) and "15162342" not in str(one).replace(",", "") for one in out["given"]), out


# -- how long ---------------------------------------------------------------------------------------------------------


def test_a_secret_that_is_too_long_is_refused() -> None:
    Redactor(["x" * MAX_REDACTED])
    with pytest.raises(ValueError, match="longer than 16,384"):
        Redactor(["x" * (MAX_REDACTED + 1)])


def test_a_large_value_is_looked_through_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor([PLAIN])
    where: list[bool] = []
    whole = Redactor.redact

    def noted(self: Redactor, value: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return whole(self, value)

    monkeypatch.setattr(Redactor, "redact", noted)
    large = Outcome(result={"rows": [{"a": "x" * 500, "b": PLAIN}] * 2_000})
    assert asyncio.run(redactor.redact_apart(large)).result["rows"][-1]["b"] == "***"
    assert asyncio.run(redactor.redact_apart(f"small {PLAIN}")) == "small ***"
    assert where == [False, True]


@pytest.mark.parametrize("place", [0, 1, STRETCH - 20, STRETCH - 1, STRETCH, STRETCH + 1, 2 * STRETCH - 5])
def test_a_secret_across_two_stretches_is_found(place: int) -> None:
    core = "tr0ub4dor"
    text = f"{core}-" * (3 * STRETCH // 10)
    text = text[:place] + " " + HARD + PLAIN + " " + text[place:]
    out = Redactor([PLAIN, HARD]).redact(text)
    assert PLAIN not in out
    assert out.count("***") == 1
