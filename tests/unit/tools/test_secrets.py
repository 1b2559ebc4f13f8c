"""kind: secrets: handles for secrets that are there, and never a value."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from noetl.errors import NotFound
from noetl.keychain.keychain import Keychain, StoredCredential, open_handle
from noetl.model.outcome import Failure, Outcome
from noetl.reference import Reference
from noetl.tools import secrets
from noetl.tools.base import Context

VALUE = "the-s3cret-value"
ENVIRONMENT = {"API": VALUE, "BOTH": '{"user": "me", "password": "the-s3cret-word"}', "SHORT": "abc"}


async def fetch(name: str) -> StoredCredential:
    if name != "shop":
        raise NotFound(f"credential {name!r} not found")
    return StoredCredential("shop", "bearer", {"token": VALUE})


def keychain() -> Keychain:
    return Keychain({}, fetch, "shop/orders", "default", environment=ENVIRONMENT)


def run(chain: Keychain | None, **inputs: Any) -> Outcome:
    context = Context("e", "a", 1, "step", "task", 60, {}, None, lambda stream, line: None, keychain=chain)
    try:
        return asyncio.run(secrets.run(msgspec.convert(inputs, secrets.Inputs), context))
    except Failure as failure:
        return failure.outcome


def test_a_handle_for_the_value() -> None:
    chain = keychain()
    outcome = run(chain, provider="env", key="API")
    assert outcome == Outcome(result={"value": Reference("secret", "env/API@#value", 0, "", "secret")})
    assert VALUE not in repr(outcome)
    assert chain.redactor.redact(VALUE) == "***"
    assert asyncio.run(open_handle(keychain(), outcome.result["value"])) == VALUE


def test_a_handle_for_each_field_of_the_map() -> None:
    outcome = run(keychain(), provider="env", key="BOTH", map={"word": "password", "who": "user"})
    assert list(outcome.result) == ["word", "who"]
    assert asyncio.run(open_handle(keychain(), outcome.result["word"])) == "the-s3cret-word"


def test_the_store_of_noetl_is_the_default() -> None:
    outcome = run(keychain(), key="shop", map={"value": "token"})
    assert asyncio.run(open_handle(keychain(), outcome.result["value"])) == VALUE


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        ({"key": "none"}, "auth", "secret 'none' of credential: credential 'none' not found"),
        ({"provider": "env", "key": "NONE"}, "not_found", "no environment variable NONE"),
        ({"provider": "env", "key": "SHORT"}, "auth", "shorter than 6"),
        ({"provider": "env", "key": "BOTH"}, "not_found", "has no field 'value'"),
        ({"provider": "env", "key": "API", "version": 3}, "input", "env has no versions"),
        ({"provider": "vault", "key": "x", "auth": "login"}, "auth", "the keychain has no entry 'login'"),
    ],
    ids=["store", "variable", "short", "field", "version", "auth"],
)
def test_what_is_missing(inputs: dict[str, Any], kind: str, message: str) -> None:
    error = run(keychain(), **inputs).error
    assert error is not None
    assert error.kind == kind
    assert message in error.message


def test_without_a_keychain() -> None:
    error = run(None, key="shop").error
    assert error is not None
    assert error.kind == "auth"
