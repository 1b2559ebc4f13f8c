"""Flags win over the environment, and the environment over defaults."""

from __future__ import annotations

import re

import pytest

from noetl.errors import UsageError
from noetl.settings import (
    is_this_machine,
    log_settings,
    nats_settings,
    nats_variables,
    retention,
    server_address,
    state_folder,
    trusted_proxies,
)

DAY = 86_400.0
NO_ADDRESSES = ["http://", "http://[", "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://127.0.0.1:8082/?a=1"]


def test_executions_are_kept_for_thirty_days_unless_something_else_is_said() -> None:
    assert retention(None, {}) == 30 * DAY
    assert retention(None, {"NOETL_RETENTION": "12h"}) == DAY / 2
    assert retention("7d", {"NOETL_RETENTION": "12h"}) == 7 * DAY


@pytest.mark.parametrize("word", ["0", "off"])
def test_retention_can_be_switched_off(word: str) -> None:
    assert retention(word, {}) is None
    assert retention(None, {"NOETL_RETENTION": word}) is None


@pytest.mark.parametrize("word", ["30", "soon", "-1d", "0d", "30 days"])
def test_an_age_that_is_no_duration_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--retention is"):
        retention(word, {})
    with pytest.raises(UsageError, match="NOETL_RETENTION is"):
        retention(None, {"NOETL_RETENTION": word})


def test_proxies_are_addresses_or_networks() -> None:
    assert trusted_proxies((), {}) == ()
    assert trusted_proxies((), {"NOETL_TRUSTED_PROXIES": "10.0.0.7, fd00::/8"}) == ("10.0.0.7", "fd00::/8")
    assert trusted_proxies(("10.0.0.0/8",), {"NOETL_TRUSTED_PROXIES": "::1"}) == ("10.0.0.0/8",)
    for word in ("*", "proxy.example", "10.0.0.1/8"):
        with pytest.raises(UsageError, match="--trusted-proxy must be"):
            trusted_proxies((word,), {})
        with pytest.raises(UsageError, match="NOETL_TRUSTED_PROXIES must be"):
            trusted_proxies((), {"NOETL_TRUSTED_PROXIES": word})


def test_lines_are_text_on_a_terminal_and_json_elsewhere() -> None:
    assert log_settings(True, environment={}) == ("text", "info")
    assert log_settings(False, environment={}) == ("json", "info")
    said = {"NOETL_LOG_FORMAT": "text", "NOETL_LOG_LEVEL": "debug"}
    assert log_settings(False, environment=said) == ("text", "debug")
    assert log_settings(False, "json", "error", said) == ("json", "error")


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_a_url_without_a_host_or_with_a_wrong_port_is_no_server(url: str) -> None:
    with pytest.raises(UsageError, match=f"must be an address such as .* \\(got '{re.escape(url)}'\\)"):
        server_address(url, None, {})


@pytest.mark.parametrize("url", ["http://ada:h0rse-radish@127.0.0.1:1", "http://h0rse-radish@[", "http://a@192.0.2.1"])
def test_a_password_in_the_url_of_a_server_is_refused_and_not_printed(url: str) -> None:
    with pytest.raises(UsageError, match=r"must not contain a user or a password: .* NOETL_TOKEN") as refused:
        server_address(url, None, {}, insecure=True)
    assert "radish" not in str(refused.value)


@pytest.mark.parametrize("name", ["NOETL_LOG_FORMAT", "NOETL_LOG_LEVEL"])
def test_a_format_or_level_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is 'loud'"):
        log_settings(False, environment={name: "loud"})


HERE = ["http://127.0.0.1:8082", "http://127.8.9.1", "http://[::1]:1", "http://localhost", "http://a.localhost:1"]
ELSEWHERE = [
    "http://noetl:8082",
    "http://192.0.2.1",
    "http://localhost.example.org",
    "http://[2001:db8::1]",
    "http://0.0.0.0",
]


@pytest.mark.parametrize("url", HERE)
def test_a_token_may_go_to_this_machine_as_it_is(url: str) -> None:
    result = server_address(url, "t", {})
    assert (result and result.url, is_this_machine(url)) == (url, True)


@pytest.mark.parametrize("url", ELSEWHERE)
def test_a_token_goes_to_another_machine_only_encrypted(url: str) -> None:
    """M16: workers and verbs sent tokens, and got opened credentials, in the clear."""
    with pytest.raises(UsageError, match=r"is not encrypted: .*--insecure, or NOETL_INSECURE=1"):
        server_address(url, "t", {})
    with pytest.raises(UsageError, match="is not encrypted"):
        server_address(None, None, {"NOETL_SERVER": url, "NOETL_TOKEN": "t", "NOETL_INSECURE": "0"})
    for found in (
        server_address(url, "t", {}, insecure=True),
        server_address(url, "t", {"NOETL_INSECURE": "1"}),
        server_address(url.replace("http:", "https:"), "t", {}),
        server_address(url, None, {}),
    ):
        assert found is not None


def test_settings_of_nats_can_be_handed_on() -> None:
    creds = "-----BEGIN NATS USER JWT-----"
    given = {"NOETL_NATS_USER": "u", "NOETL_NATS_PASSWORD": "p", "NOETL_NATS_TOKEN": "t", "NOETL_NATS_CREDS": creds}
    handed = nats_variables("nats://a:1, nats://b:2", given)
    assert nats_settings(None, handed) == nats_settings("nats://a:1, nats://b:2", given)
    assert nats_variables(None, given) == {}


def test_the_state_of_a_server_has_a_folder_unless_its_user_has_no_home() -> None:
    assert state_folder({"NOETL_STATE": "/state", "XDG_STATE_HOME": "/other"}) == "/state"
    assert state_folder({"XDG_STATE_HOME": "/other"}) == "/other/noetl"
    assert state_folder({"XDG_STATE_HOME": "~nobody-of-this-name/state"}) is None
