"""Where NATS is, and how to sign in: flags, variables and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.errors import UsageError
from noetl.settings import NatsSettings, nats_settings

URL = "nats://127.0.0.1:4222"
CREDS = "-----BEGIN NATS USER JWT-----\nx\n"


def test_without_a_word_there_is_none() -> None:
    assert nats_settings(None, {}) is None
    assert nats_settings(None, {"NOETL_NATS": "", "NOETL_NATS_USER": "ada"}) is None


def test_a_flag_wins_over_the_variable() -> None:
    result = nats_settings("tls://a:1, nats://b:2/", {"NOETL_NATS": URL})
    assert result == NatsSettings(("tls://a:1", "nats://b:2"))


def test_secrets_come_from_variables_or_files(tmp_path: Path) -> None:
    for name, text in (("url", URL), ("word", "s3cret\n"), ("creds", CREDS)):
        (tmp_path / name).write_text(text)
    given = {"NOETL_NATS_FILE": str(tmp_path / "url"), "NOETL_NATS_USER": "ada"}
    assert nats_settings(None, {**given, "NOETL_NATS_PASSWORD_FILE": str(tmp_path / "word")}) == NatsSettings(
        (URL,), "ada", "s3cret"
    )
    assert nats_settings(URL, {"NOETL_NATS_TOKEN_FILE": str(tmp_path / "word")}) == NatsSettings((URL,), token="s3cret")
    assert nats_settings(URL, {"NOETL_NATS_TOKEN": "t"}) == NatsSettings((URL,), token="t")
    assert nats_settings(URL, {"NOETL_NATS_CREDS_FILE": str(tmp_path / "creds")}) == NatsSettings(
        (URL,), creds=CREDS.strip()
    )


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("localhost:4222", {}, "nats://HOST:4222"),
        ("nats://a b", {}, "nats://HOST:4222"),
        ("nats://a,", {}, "nats://HOST:4222"),
        (URL, {"NOETL_NATS_CREDS": "/path/to/file.creds"}, "NOETL_NATS_CREDS_FILE names one"),
        (URL, {"NOETL_NATS_TOKEN_FILE": "/nowhere/at/all"}, "cannot read /nowhere/at/all"),
    ],
)
def test_what_makes_no_sense_is_told_without_the_address(url: str, more: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        nats_settings(url, more)
    assert said in str(caught.value)
    assert url not in str(caught.value)
