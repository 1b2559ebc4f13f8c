"""Kinds of credentials: their fields, and which of them are secret."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.dsl.document import CREDENTIAL, PLUGIN_KIND
from noetl.dsl.shape import Choice
from noetl.keychain.kinds import PLUGIN, SHAPES, faults, fields_of, is_known, password_of, secrets_in

ACCOUNT = {
    "type": "service_account",
    "project_id": "shop",
    "client_email": "a@shop",
    "private_key": "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n",
}
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("postgres_credential", {"dsn": "postgresql://u:s3cret-pw@db/shop"}),
    ("postgres_credential", {"dsn": "postgresql://u:s3cret%40pw@[::1]:5432/shop?application_name=a@b"}),
    ("postgres_credential", {"dsn": "postgresql://db:5432/shop?user=u&password=s3cret@pw"}),
    ("postgres_credential", {"dsn": "postgresql://a,b/shop"}),
    ("postgres_credential", {"dsn": "host=db user=u password='s3cret@p:w/'"}),
    ("postgres_credential", {"host": "h", "port": 5432, "user": "u", "password": "s3cret", "database": "d"}),
    ("bearer", {"token": "abcdefgh"}),
    ("basic", {"username": "me", "password": "abcdefgh"}),
    ("api_key", {"value": "abcdefgh", "header": "X-Key"}),
    ("api_key", {"value": "abcdefgh", "query": "key"}),
    ("oauth2_client_credentials", {"token_url": "https://a/t", "client_id": "me", "client_secret": "abcdef"}),
    ("snowflake_credential", {"account": "a", "user": "u", "password": "abcdef", "warehouse": "w"}),
    ("snowflake_credential", {"account": "a", "user": "u", "private_key": "abcdef"}),
    ("gcs_credential", ACCOUNT),
    ("gcs_credential", {"service_account": ACCOUNT}),
    ("s3_credential", {"access_key_id": "AK", "secret_access_key": "abcdef", "region": "eu-west-1"}),
    ("secret_manager", {"anything": "abcdef"}),
    ("acme.login", {"anything": "abcdef", "host": "h"}),
]


@pytest.mark.parametrize(("kind", "fields"), GOOD, ids=[f"{i}-{kind}" for i, (kind, _) in enumerate(GOOD)])
def test_fields_that_fit(kind: str, fields: dict[str, Any]) -> None:
    assert is_known(kind)
    assert list(faults(kind, fields)) == []


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("postgres_credential", {"host": "h"}, "it needs {dsn} or {host, user, database}"),
        ("postgres_credential", {"dsn": "postgresql://u:pw@h/d"}, "dsn is shorter than 6"),
        ("postgres_credential", {"dsn": "postgresql://u:s3cret@pw@h/d"}, "%40 for @"),
        ("postgres_credential", {"dsn": "postgresql://u:s3cret/pw@h/d"}, "%2F for /"),
        ("secret_manager", {"dsn": "postgres://u:s3cret#pw@h/d"}, "%23 for #"),
        ("basic", {"username": "me", "password": ""}, "it needs {username, password}"),
        ("api_key", {"value": "abcdefgh"}, "it needs {value, header} or {value, query}"),
        ("bearer", {"token": "abcdefgh", "tokn": "abcdefgh"}, "'tokn' is not a field of this kind, which has token"),
        ("secret_manager", {}, "it has no fields"),
        ("secret_manager", {"pin": "1234"}, "pin is shorter than 6 characters"),
        ("acme.login", {"deep": {"pin": ["1234"]}}, "deep is shorter than 6 characters"),
    ],
)
def test_fields_that_do_not_fit(kind: str, fields: dict[str, Any], message: str) -> None:
    assert message in "; ".join(faults(kind, fields))


def test_an_unknown_field_has_one_fault_only() -> None:
    fields = {"host": "h", "user": "u", "database": "d", "hst": "x"}
    (fault,) = faults("postgres_credential", fields)
    assert fault.startswith("'hst' is not a field of this kind, which has application_name")


def test_the_document_knows_the_same_kinds() -> None:
    shape = CREDENTIAL.fields["kind"].shape
    assert isinstance(shape, Choice)
    assert set(shape.choices) | {"webhook"} == set(SHAPES)  # hooks of a server sign with that one, and no playbook does
    assert PLUGIN_KIND == PLUGIN


def test_only_secret_fields_are_secrets() -> None:
    postgres = {
        "host": "database-host",
        "port": 5432,
        "user": "app-user",
        "password": "s3cret-pw",
        "database": "orders",
    }
    assert list(secrets_in(postgres)) == ["s3cret-pw"]
    assert set(secrets_in(ACCOUNT)) == {ACCOUNT["private_key"]}
    assert set(secrets_in({"service_account": ACCOUNT})) == {ACCOUNT["private_key"]}
    assert list(secrets_in({"mystery": "abcdef", "region": "eu-west-1", "n": 5, "list": ["ghijkl"]})) == [
        "abcdef",
        "ghijkl",
    ]


def test_secrets_inside_of_texts() -> None:
    dsn = "postgresql://u:s3cret%2Fpw@db/shop"
    assert set(secrets_in({"dsn": dsn})) == {dsn, "s3cret/pw"}
    assert set(secrets_in({"url": "nats://u:s3cret-pw@h:4222"})) == {"s3cret-pw"}
    text = '{"type": "service_account", "private_key": "abc\\ndefgh", "client_email": "a@shop"}'
    assert set(secrets_in({"service_account": text})) == {text, "abc\ndefgh"}


@pytest.mark.parametrize(
    ("dsn", "password"),
    [
        ("postgresql://u:p%40ss@h:1/d?sslmode=require", "p@ss"),
        ("postgres://h/d?user=u&password=p%20w", "p w"),
        ("host=h password=plain user=u", "plain"),
        (r"host=h password='it\'s here' user=u", "it's here"),
        ("postgresql://h/d", None),
        ("host=h user=u", None),
        ("postgresql://[broken", None),
    ],
)
def test_the_password_of_a_connection_string(dsn: str, password: str | None) -> None:
    assert password_of(dsn) == password


@pytest.mark.parametrize(
    ("kind", "text", "fields"),
    [
        ("bearer", "abcdef", {"token": "abcdef"}),
        ("bearer", '{"token": "abcdef"}', {"token": "abcdef"}),
        ("api_key", "abcdef", {"value": "abcdef", "header": "X-API-Key"}),
        ("secret_manager", '"abcdef"', {"value": '"abcdef"'}),
        ("secret_manager", "{not json", {"value": "{not json"}),
        ("acme.login", "abcdef", {"value": "abcdef"}),
        ("basic", "abcdef", None),
    ],
)
def test_what_a_text_is(kind: str, text: str, fields: dict[str, str] | None) -> None:
    assert fields_of(kind, text) == fields


def test_numbers_are_secrets_from_six_digits_on() -> None:
    result = set(secrets_in({"pin": 4815162342, "rate": 1234567.0, "port": 54321987, "tries": 3, "on": True}))
    assert result == {"4815162342", "1234567.0", "1234567"}
    assert set(secrets_in({"deep": {"pins": [481516, 2342]}})) == {"481516"}
    assert "481516234" in set(secrets_in({"text": '{"pin": 481516234}'}))
    assert list(faults("secret_manager", {"pin": 4815162342, "tries": 3})) == []


def test_a_secret_that_would_take_long_to_hide_is_refused() -> None:
    assert "token is longer than 16,384 characters" in "; ".join(faults("bearer", {"token": "x" * 16_385}))
    assert list(faults("bearer", {"token": "x" * 16_384})) == []
