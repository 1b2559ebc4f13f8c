"""OAuth 2.0 client credentials against a token endpoint that checks the client as RFC 6749 says."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import msgspec
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from noetl.keychain import rest
from noetl.keychain.keychain import Keychain, StoredCredential
from noetl.keychain.rest import AccessToken, TokenCache
from noetl.model.outcome import Failure
from noetl.model.playbook import Credential

CLIENT, SECRET = "shop client", "s3cret:of%the client"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> TokenCache:
    """Tokens of other tests are not ours, and a proxy of the machine has no part in these tests."""
    monkeypatch.setenv("NO_PROXY", "*")
    tokens = TokenCache()
    monkeypatch.setattr(rest, "TOKENS", tokens)
    return tokens


class Endpoint:
    """A token endpoint. It gives `token-1`, `token-2` ... to the client it knows."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = server.url_for("/token")
        self.forms: list[dict[str, list[str]]] = []
        self.answer: Response | None = None
        self.more: dict[str, Any] = {"expires_in": 3600}
        server.expect_request("/token", method="POST").respond_with_handler(self.handle)

    def handle(self, request: Request) -> Response:
        form = parse_qs(request.get_data(as_text=True))
        self.forms.append(form)
        if self.answer is not None:
            return self.answer
        if self.client(request, form) != (CLIENT, SECRET) or form["grant_type"] != ["client_credentials"]:
            return reply(401, {"error": "invalid_client", "error_description": f"no {SECRET}"})
        return reply(200, {"access_token": f"token-{len(self.forms)}", "token_type": "Bearer"} | self.more)

    def client(self, request: Request, form: dict[str, list[str]]) -> tuple[str, str]:
        header = request.headers.get("Authorization", "")
        if not header.startswith("Basic "):
            return form["client_id"][0], form["client_secret"][0]
        assert "client_secret" not in form
        name, _, secret = b64decode(header.removeprefix("Basic ")).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)


def reply(status: int, data: Any) -> Response:
    return Response(msgspec.json.encode(data), status, content_type="application/json")


@pytest.fixture
def endpoint(httpserver: HTTPServer) -> Endpoint:
    return Endpoint(httpserver)


def keychain(url: str, **more: str) -> Keychain:
    fields = {"token_url": url, "client_id": CLIENT, "client_secret": SECRET} | more

    async def fetch(name: str) -> StoredCredential:
        return StoredCredential(name, "oauth2_client_credentials", fields)

    entries = {"api": Credential("api", "oauth2_client_credentials")}
    return Keychain(entries, fetch, "p", "default", environment={})


def fields(url: str, **more: str) -> dict[str, Any]:
    return asyncio.run(keychain(url, **more).fields("api"))


def failure(url: str, **more: str) -> Any:
    with pytest.raises(Failure) as caught:
        fields(url, **more)
    error = caught.value.outcome.error
    assert error is not None
    assert SECRET not in error.message
    return error


def test_a_token_takes_the_place_of_the_secret(endpoint: Endpoint) -> None:
    result = fields(endpoint.url, scope="read write")
    assert result == {
        "kind": "oauth2_client_credentials",
        "token_url": endpoint.url,
        "client_id": CLIENT,
        "scope": "read write",
        "token": "token-1",
    }
    assert endpoint.forms == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]


def test_the_client_may_be_in_the_body(endpoint: Endpoint) -> None:
    assert fields(endpoint.url, client_auth="body", audience="https://api")["token"] == "token-1"
    assert endpoint.forms[0]["audience"] == ["https://api"]


def test_token_and_secret_are_hidden(endpoint: Endpoint) -> None:
    one = keychain(endpoint.url)
    asyncio.run(one.fields("api"))
    assert one.redactor.redact(f"token-1 {SECRET} {CLIENT}") == f"*** *** {CLIENT}"


def test_callers_that_come_together_cause_one_request(endpoint: Endpoint) -> None:
    async def story() -> list[dict[str, Any]]:
        chains = [keychain(endpoint.url) for _ in range(8)]
        return await asyncio.gather(*(chain.fields("api") for chain in chains for _ in range(2)))

    assert {found["token"] for found in asyncio.run(story())} == {"token-1"}
    assert len(endpoint.forms) == 1
    assert fields(endpoint.url)["token"] == "token-1"  # also of another event loop
    assert fields(endpoint.url, scope="other")["token"] == "token-2"


def test_a_token_is_renewed_before_it_ends(endpoint: Endpoint, fresh: TokenCache) -> None:
    now = 1000.0
    fresh.now = lambda: now
    one = keychain(endpoint.url)
    assert asyncio.run(one.fields("api"))["token"] == "token-1"
    now += 3539
    assert asyncio.run(one.fields("api"))["token"] == "token-1"
    now += 2
    assert asyncio.run(one.fields("api"))["token"] == "token-2"


@pytest.mark.parametrize(("said", "life"), [({"expires_in": "100"}, 90), ({}, 270), ({"expires_in": -5}, 270)])
def test_how_long_a_token_is_used(endpoint: Endpoint, fresh: TokenCache, said: dict[str, Any], life: float) -> None:
    now = 0.0
    fresh.now = lambda: now
    endpoint.more = said
    assert fields(endpoint.url)["token"] == "token-1"
    now = life - 1
    assert fields(endpoint.url)["token"] == "token-1"
    now = life + 1
    assert fields(endpoint.url)["token"] == "token-2"


def test_a_client_that_is_not_known(endpoint: Endpoint) -> None:
    error = failure(endpoint.url, client_secret="wrong-s3cret")
    assert (error.kind, error.retryable) == ("auth", False)
    assert error.message == "keychain entry 'api': the token endpoint returned 401 invalid_client"


@pytest.mark.parametrize(
    ("answer", "retryable", "message"),
    [
        (lambda: Response("busy", 503), True, "returned 503; try again later"),
        (lambda: Response("slow down", 429), True, "returned 429; try again later"),
        (lambda: Response("<html>", 200), False, "returned an unexpected response"),
        (lambda: reply(200, {"access_token": ""}), False, "returned an unexpected response"),
        (lambda: reply(200, ["access_token"]), False, "returned an unexpected response"),
        (lambda: Response("", 302, {"Location": "http://127.0.0.1:9/"}), False, "returned 302"),
        (lambda: reply(400, {"error": "a" * 100}), False, "returned 400"),
        (lambda: Response("x" * (2**20 + 1), 200), False, "returned an unexpected response"),
    ],
    ids=["503", "429", "html", "empty", "list", "redirect", "long", "large"],
)
def test_an_endpoint_in_trouble(endpoint: Endpoint, answer: Any, retryable: bool, message: str) -> None:
    endpoint.answer = answer()
    error = failure(endpoint.url)
    assert (error.kind, error.retryable) == ("auth", retryable)
    assert message in error.message
    endpoint.answer = None
    assert fields(endpoint.url)["token"] == "token-2"  # nothing of it was kept


def test_an_endpoint_that_is_missing() -> None:
    error = failure("http://127.0.0.1:9/token")
    assert (error.kind, error.retryable) == ("connect", True)


@pytest.mark.parametrize("url", ["not an address", "ftp://127.0.0.1/token", "http://[::bad"])
def test_an_address_that_is_none(url: str) -> None:
    assert failure(url).kind == "auth"


def test_tokens_that_have_ended_are_forgotten() -> None:
    now = 0.0
    tokens = TokenCache(lambda: now)

    async def story() -> None:
        nonlocal now
        for number in range(5):
            await tokens.get(number, given)
            now += 1000

    async def given() -> AccessToken:
        return AccessToken("value", 100)

    asyncio.run(story())
    assert len(tokens._tokens) == 1
